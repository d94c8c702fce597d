//! The CSI driver of one tenant cluster. `csi-proxy controller` runs in the tenant namespace of the
//! management cluster, next to the stock sidecars: what the tenant cluster takes for a volume is a
//! PersistentVolumeClaim there, and what it takes for attaching is a hot-plugged disk of a virtual
//! machine. `csi-proxy node` runs on every node of the tenant cluster and mounts those disks.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`mapping`] | pure: from a request to a claim, an answer, or a refusal |
//! | [`attach`] | pure: who may have a volume, and one write per virtual machine; and who does it |
//! | [`controller`], [`identity`] | the gRPC services |
//! | [`node`] | the half that runs on nodes |
//! | [`model`] | what is remembered of claims, virtual machines and instances |
//! | [`world`], [`watch`] | everything that the watches told |
//! | [`context`] | handles that calls and controllers share |
//! | [`store`] | requests to the management cluster's API |
//! | [`in_flight`] | one call per volume at a time |
//! | [`names`], [`settings`], [`args`] | names, and what can be configured |
//! | [`refusal`], [`error`] | why something was not done: for the tenant, and for us |
//! | [`rights`] | the rights that all of this needs |
//! | [`run`] | the wiring |
//!
//! Invariant: a volume that one machine may still hold is never given to another; nothing that another
//! component made in the tenant namespace is ever changed or deleted; and what is on a disk stays.

pub mod args;
pub mod attach;
pub mod capacity;
pub mod context;
pub mod controller;
pub mod error;
pub mod identity;
pub mod in_flight;
pub mod mapping;
pub mod model;
pub mod names;
pub mod node;
pub mod refusal;
pub mod rights;
pub mod run;
pub mod settings;
pub mod store;
pub mod watch;
pub mod world;
