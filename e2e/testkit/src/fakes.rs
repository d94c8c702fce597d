//! Stand-ins for what a management API without kubelets lacks: each plays one real part.
//!
//! Invariant: a fake writes only what its original would write, only in its [`crate::Scope`] or
//! namespace, and nothing where the world is already right; so it comes to rest. It is told of its
//! own objects alone, whoever else is on the server.

mod cache;
pub mod kubelet;
pub mod kubevirt;
pub mod storage;
pub mod tenant_api;
