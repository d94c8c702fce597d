//! The objects of a control plane, part by part.
//!
//! [`tenant_namespace`] in the management cluster, in it etcd and the control plane, and [`bootstrap`]
//! inside the tenant cluster. [`crate::management_objects`] and [`crate::tenant_objects`] put them
//! together with those of [`crate::addons`].
//!
//! Invariant: nothing here names an addon but konnectivity, whose server is a container of the control
//! plane's pod.

pub mod bootstrap;
pub(crate) mod control_plane;
pub(crate) mod controllers;
pub(crate) mod etcd;
pub mod etcd_events;
pub(crate) mod pod;
pub mod services;
pub mod tenant_namespace;
