//! T1: the activator with a real kube-apiserver, whose ConfigMap it watches and whose Leases it writes, with exactly the
//! rights of [`activator::rbac`].
//!
//! Invariant: no test sleeps; what has to be waited for is watched.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

mod wakes;
