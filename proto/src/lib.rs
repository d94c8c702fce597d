//! gRPC interfaces of others that Covey speaks: messages, servers and clients, generated from the
//! `.proto` files beside this folder.
//!
//! Invariant: nobody edits what is below `generated/`; `tests/regenerate.rs` compares it with the
//! `.proto` files, and writes it when `COVEY_UPDATE_GENERATED` is set.

/// A point in time, as gRPC writes it.
pub use prost_types::Timestamp;

/// The Container Storage Interface, version 1.
#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all)] // generated
pub mod csi {
    include!("generated/csi.v1.rs");
}

/// How a kubelet learns of a plugin, version 1.
#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all)] // generated
pub mod pluginregistration {
    include!("generated/pluginregistration.rs");
}
