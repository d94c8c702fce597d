//! The kubelet as a process of the machine.
//!
//! It is ended and not restarted: whatever looks after it (systemd with kubeadm's unit, OpenRC's supervisor) starts it anew, and
//! in its own cgroup and namespaces, which this pod is not in.
//! Invariant: only a process that is called so and is in the mount namespace of the machine's first process is the kubelet; a
//! pod's is never ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// What it is called (`/proc/<pid>/comm`).
const NAME: &str = "kubelet";
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// The kubelet of a machine, and time.
pub trait Kubelet {
    /// The one that runs; none where none does.
    ///
    /// # Errors
    /// When that cannot be found out, or several do.
    fn running(&mut self) -> Result<Option<i32>>;

    /// Ends it.
    ///
    /// # Errors
    /// When it may not.
    fn end(&mut self, process: i32) -> Result<()>;

    /// Waits a moment; false once the time is over.
    fn pause(&mut self) -> bool;
}

/// Those of a machine.
#[derive(Clone, Debug)]
pub struct Processes {
    proc: PathBuf,
    until: Instant,
}

impl Processes {
    /// As they are seen there; time is over after `patience`.
    #[must_use]
    pub fn new(proc: &Path, patience: Duration) -> Self {
        Self {
            proc: proc.to_owned(),
            until: Instant::now() + patience,
        }
    }

    fn namespace(&self, process: i32) -> Option<PathBuf> {
        fs::read_link(self.proc.join(process.to_string()).join("ns/mnt")).ok()
    }
}

impl Kubelet for Processes {
    fn running(&mut self) -> Result<Option<i32>> {
        let Some(machine) = self.namespace(1) else {
            bail!(
                "the machine's first process cannot be looked at: the pod needs hostPID and privileged"
            );
        };
        let named = || format!("list {}", self.proc.display());
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.proc).with_context(named)? {
            let entry = entry.with_context(named)?;
            let Some(process) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            // One that ended meanwhile is none.
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            if name.trim_end() == NAME && self.namespace(process).as_ref() == Some(&machine) {
                found.push(process);
            }
        }
        match found.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(*one)),
            several => bail!("several kubelets run on the machine: {several:?}"),
        }
    }

    fn end(&mut self, process: i32) -> Result<()> {
        let pid = Pid::from_raw(process).context("a process has a number")?;
        kill_process(pid, Signal::TERM).context("end the kubelet")
    }

    fn pause(&mut self) -> bool {
        thread::sleep(PAUSE);
        Instant::now() < self.until
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn process(proc: &Path, number: i32, name: &str, namespace: &str) {
        let folder = proc.join(number.to_string());
        fs::create_dir_all(folder.join("ns")).unwrap();
        fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
        symlink(namespace, folder.join("ns/mnt")).unwrap();
    }

    #[test]
    fn kubelet_is_the_one_beside_the_first_process_and_not_one_in_a_pod() {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path();
        let mut seen = Processes::new(proc, Duration::ZERO);
        assert!(seen.running().is_err(), "nothing can be looked at");
        process(proc, 1, "init", "mnt:[1]");
        process(proc, 7, "kubelet", "mnt:[7]");
        process(proc, 8, "kubelet-shim", "mnt:[1]");
        fs::create_dir(proc.join("self")).unwrap();
        assert_eq!(seen.running().unwrap(), None);
        process(proc, 9, "kubelet", "mnt:[1]");
        assert_eq!(seen.running().unwrap(), Some(9));
        process(proc, 10, "kubelet", "mnt:[1]");
        assert!(seen.running().is_err());
    }
}
