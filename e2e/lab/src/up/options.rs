//! What a lab shall have.
//!
//! Invariant: by itself it has what the suites of a default run need.

use crate::{
    binaries,
    cargo::Build,
    programs::{KubernetesVersion, Program, kubevirt::Release},
};

/// What a lab shall have.
#[derive(Clone, Debug)]
pub struct UpOptions {
    /// Kubernetes versions of tenants: their images are made and loaded.
    pub tenant_versions: Vec<KubernetesVersion>,
    /// Goes on with the objects of the lab before, instead of an empty management cluster.
    pub keep: bool,
    /// Installs KubeVirt, so that tenants can have nodes. `up` does not wait for it:
    /// [`crate::kubevirt::wait`] does.
    pub kubevirt: Option<Release>,
    /// Without KubeVirt: virtual machines are played by hosts, see [`crate::machines`].
    pub player: bool,
    /// Block storage, so that nodes can have volumes, and the stock sidecars of CSI for tenants. Without
    /// KubeVirt it counts for nothing.
    pub storage: bool,
    /// How `lab-agent` is built.
    pub build: Build,
}

impl Default for UpOptions {
    fn default() -> Self {
        Self {
            tenant_versions: KubernetesVersion::NEIGHBOURS.to_vec(),
            keep: false,
            kubevirt: Some(Release::default()),
            player: false,
            storage: true,
            build: Build::Dev,
        }
    }
}

impl UpOptions {
    /// The programs that such a lab runs.
    pub(crate) fn programs(&self) -> Vec<Program> {
        let storage = self.has_storage();
        let mut programs = binaries::wanted(&self.tenant_versions, self.kubevirt, storage);
        if self.player && self.kubevirt.is_none() {
            programs.extend(Program::WORKERS);
        }
        programs
    }

    /// Whether there is block storage: nothing but a virtual machine can have its volumes.
    pub(crate) fn has_storage(&self) -> bool {
        self.kubevirt.is_some() && self.storage
    }
}
