//! T1: the half of the driver that runs on nodes, called by the generated client, with real
//! filesystems on real devices. Disks are loop devices, and a folder says which serial numbers they
//! have; everything else is the kernel's.
//!
//! Each test runs this program anew, in a mount namespace of its own, which is gone with all that it
//! mounted when the test ends in whatever way. They need root, util-linux, e2fsprogs and xfsprogs.
//! Invariant: nothing is waited for by sleeping.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

mod disks;
mod failed;
mod life;
mod refusals;
mod registration;
mod support;
