//! T1: the controller on a real Unix socket and a real kube-apiserver, called by the generated
//! client. The tests play the sidecars, the storage of the management cluster and KubeVirt (with
//! DeclarativeHotplugVolumes; subresources cannot be served by a definition, `attach/hotplug/tests.rs`
//! plays those).
//!
//! Each test has a tenant namespace of its own in a management API that they share. Invariant: no
//! test sleeps or polls; what has to be waited for is watched.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

mod adopt;
mod attach;
mod crash;
mod flood;
mod limits;
mod provisioner;
mod refusals;
mod refused;
mod sanity;
mod silent;
mod support;
mod tenants;
mod volumes;
