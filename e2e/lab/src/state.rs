//! What `.lab/state.json` says about the lab of this checkout.
//!
//! Invariant: it is written before anything outside `.lab/` is made, so `down` always knows where
//! to look; and it is only a hint: `down` also finds a lab whose state file is lost or stale.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{
    host::Host, layout::Layout, programs::kubevirt::Release, progress::Progress, slot::Slot,
    ssh_host::SshHost,
};

/// How far `up` came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// `up` is at work, or was interrupted.
    Starting,
    /// `up` came to its end.
    Up,
    /// There is no management cluster: hosts that are reached by SSH, and their network.
    HostsAlone,
}

/// A lab that is up, or was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Its names and addresses.
    pub slot: Slot,
    /// How far `up` came.
    pub phase: Phase,
    /// Seconds since 1970 at the begin of `up`.
    pub since: u64,
    /// Its simulated hosts by name.
    pub hosts: BTreeMap<String, Host>,
    /// Its hosts that are reached by SSH, by name. A lab is up without them, too.
    #[serde(default)]
    pub ssh_hosts: BTreeMap<String, SshHost>,
    /// Fingerprints of the configuration it was started with.
    pub fingerprints: BTreeMap<String, String>,
    /// Tenant versions whose images it has, as `1.35`.
    pub tenant_versions: Vec<String>,
    /// Which KubeVirt was asked for, so that virtual machines can be made soon.
    #[serde(default)]
    pub kubevirt: Option<Release>,
    /// Whether virtual machines are played by hosts, see [`crate::machines`].
    #[serde(default)]
    pub player: bool,
    /// Whether it has block storage.
    #[serde(default)]
    pub storage: bool,
}

impl State {
    /// A lab that begins now.
    #[must_use]
    pub fn starting(slot: Slot) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            slot,
            phase: Phase::Starting,
            since: since.map(|since| since.as_secs()).unwrap_or_default(),
            hosts: BTreeMap::new(),
            ssh_hosts: BTreeMap::new(),
            fingerprints: BTreeMap::new(),
            tenant_versions: Vec::new(),
            kubevirt: None,
            player: false,
            storage: false,
        }
    }

    /// The state of this checkout's lab. None without one; an unreadable file counts as none.
    #[must_use]
    pub fn read(layout: &Layout) -> Option<Self> {
        serde_json::from_slice(&fs::read(layout.state_file()).ok()?).ok()
    }

    /// Replaces the state file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, layout: &Layout) -> Result<()> {
        let file = layout.state_file();
        let new = file.with_extension("new");
        fs::write(&new, serde_json::to_vec_pretty(self)?)
            .and_then(|()| fs::rename(&new, &file))
            .with_context(|| format!("{}: cannot be written", file.display()))
    }

    /// Forgets the lab.
    ///
    /// # Errors
    /// When the file is there and cannot be removed.
    pub fn remove(layout: &Layout) -> Result<()> {
        match fs::remove_file(layout.state_file()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).context("the lab's state file cannot be removed")
            }
            _ => Ok(()),
        }
    }

    /// Everything that runs in namespaces of its own, by name.
    pub fn all_hosts(&self) -> impl Iterator<Item = (&str, &Host)> {
        let ours = self.hosts.iter().map(|(name, host)| (&**name, host));
        let by_ssh = self.ssh_hosts.iter();
        ours.chain(by_ssh.map(|(name, host)| (&**name, &host.host)))
    }

    /// Whether every host of the lab lives and `up` came to its end.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.phase == Phase::Up && !self.hosts.is_empty() && self.hosts.values().all(Host::is_alive)
    }
}

/// Waits until no other `up` or `down` of this checkout is at work; held until dropped.
///
/// # Errors
/// When the lock file cannot be made, or this is not root.
pub fn lock(layout: &Layout, progress: &Progress) -> Result<File> {
    if !rustix::process::geteuid().is_root() {
        bail!("the lab makes namespaces, mounts and control groups: run it as root")
    }
    fs::create_dir_all(layout.root())
        .with_context(|| format!("{}: cannot be made", layout.root().display()))?;
    let path = layout.lock_file();
    let file = File::create(&path).with_context(|| format!("{}: not writable", path.display()))?;
    if file.try_lock().is_err() {
        progress.note("waiting for another `lab up` or `lab down` of this checkout");
        file.lock()
            .with_context(|| format!("{}: cannot be locked", path.display()))?;
    }
    Ok(file)
}
