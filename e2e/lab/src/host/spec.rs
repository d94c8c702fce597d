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
    /// Trees of which its root is made, the uppermost first; it writes on top of them (overlayfs, below
    /// `root/` of its folder). Empty: it has the machine's root, and sees all of it. With a root of its own
    /// it sees nothing of the machine but what `binds` shows, has a control group namespace, and
    /// `copy_on_write` and `keep` count for nothing.
    #[serde(default)]
    pub root: Vec<PathBuf>,
    /// The network namespace that it enters, as a file (`/proc/PID/ns/net`); none: it has one of its own.
    #[serde(default)]
    pub network: Option<PathBuf>,
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
    /// `cgroup.procs` files to join; with a root of its own these groups are the top of what it sees.
    pub cgroup_join: Vec<PathBuf>,
}

impl HostSpec {
    /// Whether it sees a root of its own instead of the machine's.
    #[must_use]
    pub fn has_own_root(&self) -> bool {
        !self.root.is_empty()
    }

    pub(super) fn file(folder: &Path) -> PathBuf {
        folder.join("spec.json")
    }
}

/// What a kubelet insists on (pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables), for
/// [`HostSpec::pretended_sysctls`].
#[must_use]
pub fn kubelet_sysctls() -> BTreeMap<String, String> {
    [
        ("kernel/keys/root_maxbytes", "25000000"),
        ("kernel/keys/root_maxkeys", "1000000"),
        ("kernel/panic", "10"),
        ("kernel/panic_on_oops", "1"),
        ("vm/overcommit_memory", "1"),
        ("vm/panic_on_oom", "0"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}
