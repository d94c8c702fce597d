//! T1: the real program on nodes of three sites, with real packets between network namespaces, and a real
//! kube-apiserver. Two sites have the same private range, each behind an address translation.
//!
//! Invariant: each test has namespaces of its own, which go with it, also when it is killed. Needs root, `ip`,
//! `nft` and `/dev/net/tun`; says so and passes where these are missing, but not with `COVEY_TEST_REQUIRE=1`.
#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

mod access;
mod cluster;
mod keys;
mod sites;
mod traffic;
