//! The lab's control groups: `/covey-lab-<slot>` in every hierarchy of the machine.
//!
//! Below it, `programs` holds the lab's own processes and the kubelet makes `kubepods`. Works with
//! cgroup v1, hybrid and v2 machines. Invariant: nothing outside `/covey-lab-<slot>` is written,
//! except that a v2 machine's root delegates the controllers that the kubelet needs.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::procfs;

/// Child group of the lab's own processes. On v2 a group with children may hold none itself.
const PROGRAMS: &str = "programs";

/// Controllers that the kubelet wants on a v2 machine; a missing one is its to report.
const V2_CONTROLLERS: [&str; 6] = ["cpu", "cpuset", "hugetlb", "io", "memory", "pids"];

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    mount: PathBuf,
    v2: bool,
}

/// The control groups of one lab.
#[derive(Clone, Debug)]
pub struct Cgroups {
    hierarchies: Vec<Hierarchy>,
    name: String,
}

impl Cgroups {
    /// Those of the lab in `slot`, whether they exist or not.
    ///
    /// # Errors
    /// When the machine's mounts cannot be read.
    pub fn of_slot(slot: u8) -> Result<Self> {
        let mountinfo = fs::read_to_string("/proc/self/mountinfo")
            .context("/proc/self/mountinfo cannot be read")?;
        Ok(Self {
            hierarchies: parse_hierarchies(&mountinfo),
            name: format!("covey-lab-{slot}"),
        })
    }

    /// The kubelet's `cgroupRoot`.
    #[must_use]
    pub fn kubelet_root(slot: u8) -> String {
        format!("/covey-lab-{slot}")
    }

    /// Makes the groups in every hierarchy.
    ///
    /// # Errors
    /// When there is no hierarchy, or one refuses.
    pub fn create(&self) -> Result<()> {
        if self.hierarchies.is_empty() {
            bail!("no cgroup hierarchy is mounted: mount one at /sys/fs/cgroup")
        }
        for hierarchy in &self.hierarchies {
            let root = hierarchy.mount.join(&self.name);
            let programs = root.join(PROGRAMS);
            if hierarchy.v2 {
                delegate(&hierarchy.mount);
            }
            make(&root)?;
            if hierarchy.v2 {
                delegate(&root);
            }
            make(&programs)?;
        }
        Ok(())
    }

    /// The `cgroup.procs` files through which a process joins `programs`.
    #[must_use]
    pub fn join_files(&self) -> Vec<PathBuf> {
        let join = |h: &Hierarchy| h.mount.join(&self.name).join(PROGRAMS).join("cgroup.procs");
        self.hierarchies.iter().map(join).collect()
    }

    /// Every process in any of the groups, once.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        let mut pids = Vec::new();
        for folder in self.folders() {
            let procs = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            pids.extend(procs.lines().filter_map(|line| line.parse::<i32>().ok()));
        }
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Kills what is in the groups and removes them; gives up after `patience`.
    pub fn kill_and_remove(&self, patience: Duration) {
        let end = Instant::now() + patience;
        loop {
            for pid in self.processes() {
                procfs::kill(pid);
            }
            for folder in self.folders() {
                // Busy while a killed process has not been reaped; the next round finds it.
                let _ = fs::remove_dir(folder);
            }
            if self.folders().is_empty() || Instant::now() > end {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Existing groups, children before their owners.
    #[must_use]
    pub fn folders(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for hierarchy in &self.hierarchies {
            collect(&hierarchy.mount.join(&self.name), &mut found);
        }
        found
    }
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), found);
        }
    }
    found.push(folder.to_path_buf());
}

fn make(group: &Path) -> Result<()> {
    match fs::create_dir(group) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("{}: cannot be made", group.display()));
        }
        _ => {}
    }
    // v1's cpuset starts empty and then refuses every process.
    let parent = group.parent().unwrap_or(group);
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let (from, to) = (parent.join(file), group.join(file));
        let is_v1 = !parent.join("cgroup.controllers").exists();
        if is_v1 && let Ok(value) = fs::read_to_string(&from) {
            fs::write(&to, value.trim())
                .with_context(|| format!("{}: cannot be written", to.display()))?;
        }
    }
    Ok(())
}

/// Hands the controllers to the children of `group`, each by itself: one may be unavailable.
fn delegate(group: &Path) {
    for controller in V2_CONTROLLERS {
        let _ = fs::write(
            group.join("cgroup.subtree_control"),
            format!("+{controller}"),
        );
    }
}

fn parse_hierarchies(mountinfo: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let v2 = match right.split(' ').next() {
            Some("cgroup") => false,
            Some("cgroup2") => true,
            _ => continue,
        };
        let Some(mount) = left.split(' ').nth(4) else {
            continue;
        };
        if !found.iter().any(|known| known.mount == Path::new(mount)) {
            found.push(Hierarchy {
                mount: mount.into(),
                v2,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hybrid_machines_have_v1_and_v2_hierarchies() {
        let mountinfo = "\
30 20 0:25 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs rw,mode=755
31 30 0:26 / /sys/fs/cgroup/cpuset rw shared:10 - cgroup cgroup rw,cpuset
32 30 0:27 / /sys/fs/cgroup/unified rw shared:11 - cgroup2 cgroup2 rw
33 30 0:26 / /sys/fs/cgroup/cpuset rw shared:10 - cgroup cgroup rw,cpuset
";
        let expected = [
            ("/sys/fs/cgroup/cpuset", false),
            ("/sys/fs/cgroup/unified", true),
        ];
        let expected = expected
            .map(|(mount, v2)| Hierarchy {
                mount: mount.into(),
                v2,
            })
            .to_vec();
        assert_eq!(parse_hierarchies(mountinfo), expected);
    }

    #[test]
    fn a_pure_v2_machine_has_one_hierarchy() {
        let mountinfo = "30 20 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let expected = vec![Hierarchy {
            mount: "/sys/fs/cgroup".into(),
            v2: true,
        }];
        assert_eq!(parse_hierarchies(mountinfo), expected);
    }
}
