//! What a host consists of, as its first process is told.
//!
//! Invariant: it says everything; the first process asks nobody else.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// What a host's first process has to set up before it starts programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSpec {
    /// Host name inside.
    pub hostname: String,
    /// Folder below `.lab/hosts/`, for the host's private files and the supervisor's own.
    pub folder: PathBuf,
    /// Folders of the machine that the host may change for itself only (overlayfs).
    pub copy_on_write: Vec<PathBuf>,
    /// Folders that start empty and live in memory.
    pub in_memory: Vec<PathBuf>,
    /// Folders of the machine shown at other places, in this order: (what, where).
    pub binds: Vec<(PathBuf, PathBuf)>,
    /// Folders that stay visible and writable at their own path whatever covers them.
    pub keep: Vec<PathBuf>,
    /// Machine-wide kernel settings (below /proc/sys) shown with these values. The kubelet
    /// insists on some of them; shown so, it does not write them.
    pub pretended_sysctls: BTreeMap<String, String>,
    /// Settings of the host's own network namespace, below /proc/sys/net.
    pub network_sysctls: BTreeMap<String, String>,
    /// `cgroup.procs` files to join.
    pub cgroup_join: Vec<PathBuf>,
}

impl HostSpec {
    pub(super) fn file(folder: &Path) -> PathBuf {
        folder.join("spec.json")
    }
}
