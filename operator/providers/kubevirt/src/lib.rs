//! Virtual machines of the management cluster's KubeVirt, in the tenant namespace.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`provider`] | the calls, and the rights that they need |
//! | [`resolve`] | what a node pool leaves out, filled in (pure) |
//! | [`virtual_machine`] | the VirtualMachine of a Machine (pure) |
//! | [`needs`] | what one virtual machine takes of the management cluster (pure) |
//! | [`describe`] | what VirtualMachine and instance say about it (pure) |
//! | [`launcher`] | which addresses the pod around it has (pure) |
//! | [`template`] | the node that a virtual machine would become (pure) |
//! | [`release`] | whether a release of KubeVirt has published holes (pure) |
//!
//! Invariant: everything that is made is named after its Machine and carries the Machine's UID; nothing else
//! is changed or deleted.

pub mod describe;
mod identity;
pub mod launcher;
pub mod needs;
pub mod provider;
pub mod release;
pub mod resolve;
pub mod template;
pub mod virtual_machine;
