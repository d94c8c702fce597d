//! The overlay among the nodes of one tenant cluster: each has a WireGuard tunnel to every other, so that
//! nodes of several sites reach each other at addresses that are unique in the tenant cluster.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`settings`], [`key`] | what everything else needs |
//! | [`entries`], [`listing`], [`cache`] | what the API says of nodes: read, watched, kept |
//! | [`plan`] | what follows from it: peers, ranges, routes, sizes; and the steps there |
//! | [`tunnels`], [`ranges`] | sessions with peers, without I/O |
//! | [`device`], [`netlink`] | who carries packets, and which ones come to it |
//! | [`overlay`] | makes all of it what the plan wants |
//! | [`renew`] | tells the kubelet of a rotation in place, once, in a pod of its own |
//! | [`args`], [`run`], [`key_file`], [`metrics`] | the process |
//!
//! Invariant: a private key never leaves its machine, and what a node says counts for that node alone.

pub mod args;
pub mod cache;
pub mod device;
pub mod entries;
pub mod key;
pub mod key_file;
pub mod listing;
pub mod metrics;
pub mod netlink;
pub mod overlay;
pub mod plan;
pub mod ranges;
pub mod renew;
pub mod run;
pub mod settings;
pub mod tunnels;
