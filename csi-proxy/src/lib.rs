//! The CSI driver of one tenant cluster. `csi-proxy controller` runs in the tenant namespace of the
//! management cluster, next to the stock sidecars: what the tenant cluster takes for a volume is a
//! PersistentVolumeClaim there, and what it takes for attaching is a hot-plugged disk of a virtual
//! machine. `csi-proxy node` runs on every node of the tenant cluster and mounts those disks.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`args`], [`settings`] | the command line, and what can be configured |
//! | [`run`], [`manager`] | the processes; the parts of the controller, which tests start |
//! | [`context`] | handles that calls and controllers share |
//! | [`server`] | the gRPC services that the sidecars call |
//! | [`controllers`] | what is kept right unasked: who has which volume |
//! | [`mapping`] | pure: from a request to a claim, an answer, or a status |
//! | [`cache`] | what the watches told |
//! | [`client`] | requests to the management cluster's API |
//! | [`node`] | the program on nodes |
//! | [`adopt`] | takes volumes over from the KubeVirt CSI driver, once, by an administrator |
//! | [`complaints`] | why disks are not where they are to be, for calls that wait for them |
//! | [`metrics`] | what is shown of calls, jobs, and volumes on their way |
//! | [`in_flight`] | one call per volume at a time |
//! | [`places`] | no more volumes and snapshots than the tenant cluster may have |
//! | [`status`], [`error`] | why something was not done: for the tenant, and for us |
//! | [`refusal`] | pure: what refusals of the management cluster mean, and what the tenant is told |
//! | [`names`], [`rbac`], [`socket`] | names, the rules that all of this needs, Unix sockets |
//!
//! Invariant: a volume that one machine may still hold is never given to another; nothing that another
//! component made in the tenant namespace is ever changed or deleted; and what is on a disk stays.

pub mod adopt;
pub mod args;
pub mod cache;
pub mod client;
pub mod complaints;
pub mod context;
pub mod controllers;
pub mod error;
pub mod in_flight;
pub mod manager;
pub mod mapping;
pub mod metrics;
pub mod names;
pub mod node;
pub mod places;
pub mod rbac;
pub mod refusal;
pub mod run;
pub mod server;
pub mod settings;
pub mod socket;
pub mod status;
