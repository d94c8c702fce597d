//! Renders every configuration file and command line of the lab's programs. Pure.
//!
//! Invariant: the same [`Cluster`] gives the same bytes, so a changed configuration is found by
//! comparing fingerprints.

mod control_plane;
mod kubeconfig;
mod node;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use sha2::{Digest as _, Sha256};

use crate::{
    host::Program,
    layout::{Layout, MANAGEMENT_HOST},
    slot::Slot,
};

pub(crate) use node::{BLOCK_SOCKET, CONTAINERD_SOCKET, FULL_PERCENT, binds};

/// Image of the pod sandbox, by its public name.
pub const PAUSE_IMAGE: &str = "registry.k8s.io/pause:3.10.1";

/// Where the programs are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramPaths {
    /// Program name → binary.
    pub binaries: BTreeMap<String, PathBuf>,
    /// Folder of the CNI plugins.
    pub cni: PathBuf,
}

impl ProgramPaths {
    fn get(&self, name: &str) -> String {
        self.binaries
            .get(name)
            .map_or_else(|| name.to_owned(), |path| text(path))
    }

    /// Folder of a binary, for programs that look for their helpers in PATH.
    fn folder(&self, name: &str) -> String {
        let parent = self.binaries.get(name).and_then(|path| path.parent());
        parent.map(text).unwrap_or_default()
    }
}

/// All that configuration depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The paths of the checkout.
    pub layout: Layout,
    /// Names and addresses.
    pub slot: Slot,
}

impl Cluster {
    /// Every configuration file, by its path.
    #[must_use]
    pub fn files(&self, paths: &ProgramPaths) -> BTreeMap<PathBuf, String> {
        let config = self.layout.config();
        let mut files = BTreeMap::new();
        for (name, identity) in [
            ("controller-manager", "controller-manager"),
            ("scheduler", "scheduler"),
            ("proxy", "proxy"),
            ("kubelet", "kubelet"),
            ("lab-agent", "lab-agent"),
        ] {
            files.insert(
                config.join(format!("{name}.kubeconfig")),
                self.kubeconfig(identity),
            );
        }
        files.insert(self.layout.kubeconfig(), self.kubeconfig("admin"));
        files.insert(
            config.join("audit.yaml"),
            control_plane::AUDIT_POLICY.to_owned(),
        );
        files.insert(config.join("kubelet.json"), node::kubelet(self));
        files.insert(config.join("kube-proxy.json"), node::kube_proxy(self));
        files.insert(
            config.join("containerd.toml"),
            node::containerd(self, paths, true),
        );
        files.insert(
            config.join("containerd-clean.toml"),
            node::containerd(self, paths, false),
        );
        files.insert(
            config.join("certs.d/_default/hosts.toml"),
            node::hosts_toml(self),
        );
        files.insert(config.join("cni/10-lab.conflist"), node::cni(self));
        files
    }

    /// Every program of the management host by name, in the order of their start.
    #[must_use]
    pub fn programs(&self, paths: &ProgramPaths) -> Vec<Program> {
        let mut programs = control_plane::programs(self, paths);
        programs.extend(node::programs(self, paths));
        programs
    }

    /// What `up` compares to tell whether a running lab has another configuration: one
    /// fingerprint per file and program. Certificates are embedded in none of them.
    #[must_use]
    pub fn fingerprints(&self, paths: &ProgramPaths) -> BTreeMap<String, String> {
        let mut prints = BTreeMap::new();
        for (file, content) in self.files(paths) {
            prints.insert(name_of(&file), fingerprint(content.as_bytes()));
        }
        for program in self.programs(paths) {
            let command = program.argv.join("\n");
            prints.insert(program.name, fingerprint(command.as_bytes()));
        }
        prints
    }

    pub(crate) fn config_file(&self, name: &str) -> String {
        text(&self.layout.config().join(name))
    }

    pub(crate) fn pki_file(&self, name: &str) -> String {
        text(&self.layout.pki().join(name))
    }

    pub(crate) fn program(&self, name: &str, argv: Vec<String>) -> Program {
        let log = self.layout.logs().join(format!("{name}.log"));
        Program {
            name: name.to_owned(),
            argv,
            env: BTreeMap::new(),
            log,
        }
    }

    pub(crate) fn host_folder(&self) -> PathBuf {
        self.layout.host(MANAGEMENT_HOST)
    }
}

/// Writes rendered files, their folders included.
///
/// # Errors
/// When a file cannot be written.
pub fn write(files: &BTreeMap<PathBuf, String>) -> Result<()> {
    for (path, content) in files {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, content).with_context(|| format!("{}: not writable", path.display()))?;
    }
    Ok(())
}

pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn fingerprint(bytes: &[u8]) -> String {
    hex::encode(&Sha256::digest(bytes)[..8])
}

#[cfg(test)]
mod tests;
