//! What nodes need to join, where `default/kubernetes` leads, and who may do what inside the tenant
//! cluster.
//!
//! Invariant: the operator can neither raise its own rights nor hand out any ([`rbac`]).

pub(crate) mod endpoints;
pub mod flow_schema;
pub mod kinds;
pub(crate) mod kubeadm;
pub mod rbac;
