//! gRPC interfaces of others that Covey speaks: messages, servers and clients, generated from the
//! `.proto` files beside this folder.
//!
//! Invariant: nobody edits what is below `generated/`; `tests/regenerate.rs` compares it with the
//! `.proto` files, and writes it when `COVEY_UPDATE_GENERATED` is set.

pub mod code;

/// What every message can do: be encoded and decoded.
pub use prost::Message;
/// A length of time, and a point in time, as gRPC writes them.
pub use prost_types::{Duration, Timestamp};

/// What the Cluster Autoscaler asks a cloud provider, in both generations of its fields.
#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all)] // generated
pub mod autoscaler {
    include!("generated/clusterautoscaler.cloudprovider.v1.externalgrpc.rs");
}

/// The Container Storage Interface, version 1.
#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all)] // generated
pub mod csi {
    include!("generated/csi.v1.rs");
}

/// What etcd answers its clients, as far as Covey asks.
#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all)] // generated
pub mod etcd {
    include!("generated/etcdserverpb.rs");
}

/// A Node of Kubernetes, as far as a template of one needs it.
#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all)] // generated
pub mod kubernetes {
    include!("generated/k8s.io.api.core.v1.rs");
}

/// How a kubelet learns of a plugin, version 1.
#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all)] // generated
pub mod pluginregistration {
    include!("generated/pluginregistration.rs");
}
