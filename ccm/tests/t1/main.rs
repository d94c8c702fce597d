//! T1: the cloud controller manager between two real kube-apiservers, without kubelets, KubeVirt and
//! load balancers, which the tests play.
//!
//! Each test has a tenant API that nobody else uses meanwhile and a tenant namespace of its own in a
//! management API that all share. Invariant: no test sleeps or polls; what has to be waited for is watched.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

mod allocator;
mod crash;
mod differential;
mod flood;
mod limits;
mod moving;
mod mutated;
mod nodes;
mod orphans;
mod outage;
mod played;
mod process;
mod published;
mod quiet;
mod rbac;
mod refused;
mod silent;
mod support;
mod tenants;
mod traffic;
mod unsupported;
