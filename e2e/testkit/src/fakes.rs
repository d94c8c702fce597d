//! Stand-ins for what a management API without kubelets lacks: each plays one real part.
//!
//! Invariant: a fake writes only what its original would write, only in its [`crate::Scope`], and
//! nothing where the world is already right; so it comes to rest.

pub mod kubelet;
pub mod tenant_api;
