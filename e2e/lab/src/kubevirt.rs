//! KubeVirt in the lab: real virtual machines, under software emulation where there is no KVM.
//!
//! What runs is one of KubeVirt's own releases, built from its module: its operator installs the rest. The
//! lab makes the images, applies the operator's manifest with a `KubeVirt` object, and leaves the
//! rest to the cluster. Invariant: applying again what is there already changes nothing.

mod images;
pub(crate) mod install;
mod objects;
mod system;
mod testmachine;

use anyhow::Result;

use crate::{programs::Bins, run};

pub(crate) use images::all as images;
pub use install::wait;
pub(crate) use install::{apply, summary};
pub(crate) use system::TREE;
pub(crate) use testmachine::testmachine;

/// Where all of it is installed.
pub const NAMESPACE: &str = "kubevirt";

/// The definition of one of KubeVirt's kinds, as its operator installs it, in YAML. `plural` is one
/// of `kubevirts`, `virtualmachines`, `virtualmachineinstances` and
/// `virtualmachineinstancemigrations`.
///
/// # Errors
/// `bins` lacks KubeVirt, or there is no such kind.
pub fn definition(bins: &Bins, plural: &str) -> Result<String> {
    run::output(&mut run::command(bins.path("manifests")?, ["crd", plural]))
}
