//! Calls an external gRPC cloud provider as the stock Cluster Autoscaler does, for tests and benches.
//!
//! | Module | What it does |
//! |---|---|
//! | `channel` | one connection: gRPC over TLS |
//! | `credentials` | what a client shows and trusts |
//! | [`protocol`] | one method per RPC, with the stock client's caches, its time limit and its two generations of fields |
//! | [`observe`] | the calls of one loop, in their order, and what the stock client makes of each error |
//! | [`cluster`] | nodes and pods, as far as they matter to sizes |
//! | [`plan`] | what a loop does with what it saw. Pure |
//! | [`tenant`] | reads a tenant cluster, and carries a plan out in it |
//!
//! Invariant: it knows the protocol and Kubernetes, and nothing of Covey.

mod channel;
pub mod cluster;
mod credentials;
pub mod observe;
pub mod plan;
pub mod protocol;
pub mod tenant;

pub use credentials::Credentials;
pub use observe::{Group, Loop};
pub use protocol::{Generation, Protocol};
