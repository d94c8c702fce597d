//! A real management cluster on one machine: programs, images, hosts.
//!
//! `up` builds what is missing, starts one simulated host (namespaces) with etcd, the Kubernetes
//! control plane, containerd, kubelet and a registry in it, and returns when its node is Ready.
//! `down` leaves nothing behind. Invariant: nothing outside `.lab/`, the user's cache folder and
//! the slot's own namespaces, interfaces and control groups is changed.

mod adapters;
mod binaries;
mod cache;
mod cached;
mod cargo;
pub mod cgroups;
pub mod config;
pub mod debian;
mod down;
pub mod golden;
pub mod host;
mod host_root;
pub mod hosts;
pub mod images;
mod install;
mod kubectl;
pub mod kubevirt;
mod layout;
pub mod leftovers;
pub mod logs;
mod loops;
pub mod machines;
pub mod network;
pub mod packages;
mod pki;
mod prepare;
pub mod procfs;
pub mod programs;
pub mod progress;
pub mod run;
pub mod slot;
pub mod ssh_host;
pub mod state;
mod status;
mod storage;
mod up;
pub mod worker;

pub use adapters::Adapter;
pub use cache::cache_dir;
pub use cargo::Build;
pub use down::down;
pub use install::{Operator, SECOND_CLASS, install_operator};
pub use layout::{Layout, MANAGEMENT_HOST, ZONE};
pub use prepare::prepare;
pub use status::status;
pub use up::{UpOptions, up};
