//! T1: the adapter between two real kube-apiservers, called as the Cluster Autoscaler calls, in both
//! generations of its fields. The tests play the operator: machines follow their pools.
//!
//! Tests share a management API and, unless they are about nodes' annotations or counts of writes, a
//! tenant API; each has a user namespace of its own. Invariant: no test sleeps; what has to be waited
//! for is watched, or asked for again and again as the Cluster Autoscaler does.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

mod bounds;
mod crash;
mod killed;
mod outage;
mod process;
mod quiet;
mod refusals;
mod rollout;
mod scripts;
mod support;
mod templates;
mod tls;
