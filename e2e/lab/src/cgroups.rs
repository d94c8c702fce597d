//! The lab's control groups: `/covey-lab-<slot>` in every hierarchy of the machine.
//!
//! Below it, `programs` holds the lab's own processes and the kubelet makes `kubepods`. Works with
//! cgroup v1, hybrid and v2 machines. Invariant: nothing outside `/covey-lab-<slot>` is written,
//! except that a v2 machine's root delegates the controllers that the kubelet needs. Hosts that are
//! reached by SSH have theirs below it (`hosts/<name>`), as the top of a namespace of their own.

use std::{
    ffi::CString,
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::mount::{MountFlags, mount};

use crate::procfs;

/// Child group of the lab's own processes. On v2 a group with children may hold none itself.
const PROGRAMS: &str = "programs";

/// Controllers that the kubelet wants on a v2 machine; a missing one is its to report.
const V2_CONTROLLERS: [&str; 6] = ["cpu", "cpuset", "hugetlb", "io", "memory", "pids"];

/// Where they are mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// Where a host with groups of its own has its processes.
const INIT: &str = "init";

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    mount: PathBuf,
    v2: bool,
    /// Which one it is, as mount(2) is told: `cpu,cpuacct`, `none,name=systemd`; empty on v2.
    which: String,
}

/// The control groups of one lab.
#[derive(Clone, Debug)]
pub struct Cgroups {
    hierarchies: Vec<Hierarchy>,
    name: String,
    /// Child that processes join; empty: the group itself.
    joined: &'static str,
}

impl Cgroups {
    /// Those of the lab in `slot`, whether they exist or not.
    ///
    /// # Errors
    /// When the machine's mounts cannot be read.
    pub fn of_slot(slot: u8) -> Result<Self> {
        Ok(Self {
            hierarchies: hierarchies()?,
            name: format!("covey-lab-{slot}"),
            joined: PROGRAMS,
        })
    }

    /// Those of the host `host` that is reached by SSH. They are below the lab's own, so whoever removes
    /// these removes them, too.
    ///
    /// # Errors
    /// When the machine's mounts cannot be read.
    pub fn of_host(slot: u8, host: &str) -> Result<Self> {
        Ok(Self {
            hierarchies: hierarchies()?,
            name: format!("covey-lab-{slot}/hosts/{host}"),
            joined: "",
        })
    }

    /// Those of all hosts of a lab that are reached by SSH.
    ///
    /// # Errors
    /// When the machine's mounts cannot be read.
    pub fn of_hosts(slot: u8) -> Result<Self> {
        Ok(Self {
            hierarchies: hierarchies()?,
            name: format!("covey-lab-{slot}/hosts"),
            joined: "",
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
            let mut group = hierarchy.mount.clone();
            let path = Path::new(&self.name).join(self.joined);
            for part in path.components() {
                // Before there is a process in it: a v2 group has processes or hands on controllers.
                if hierarchy.v2 {
                    delegate(&group);
                }
                group.push(part);
                make(&group)?;
            }
        }
        Ok(())
    }

    /// The `cgroup.procs` files through which a process joins.
    #[must_use]
    pub fn join_files(&self) -> Vec<PathBuf> {
        let join = |h: &Hierarchy| {
            h.mount
                .join(&self.name)
                .join(self.joined)
                .join("cgroup.procs")
        };
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

/// Whether the machine has cgroup v2 alone.
pub(crate) fn is_v2() -> bool {
    Path::new(ROOT).join("cgroup.controllers").exists()
}

fn hierarchies() -> Result<Vec<Hierarchy>> {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo")
        .context("/proc/self/mountinfo cannot be read")?;
    Ok(parse_hierarchies(&mountinfo))
}

/// Mounts the machine's hierarchies below `root`, which will be the root of a host, and gives the places that
/// they have there. Their top is the group in which the control group namespace was made.
pub(crate) fn mount_hierarchies(root: &Path) -> Result<Vec<Hierarchy>> {
    let all: Vec<_> = hierarchies()?
        .into_iter()
        .filter(|hierarchy| hierarchy.mount.starts_with(ROOT))
        .collect();
    let place = |mount: &Path| root.join(mount.strip_prefix("/").unwrap_or(mount));
    if all
        .iter()
        .all(|hierarchy| hierarchy.mount != Path::new(ROOT))
    {
        let top = place(Path::new(ROOT));
        mount(
            "tmpfs",
            &top,
            "tmpfs",
            MountFlags::NOSUID,
            Some(c"mode=755"),
        )
        .with_context(|| format!("{}: no tmpfs", top.display()))?;
    }
    for hierarchy in &all {
        let place = place(&hierarchy.mount);
        fs::create_dir_all(&place)?;
        let kind = if hierarchy.v2 { "cgroup2" } else { "cgroup" };
        let which = CString::new(&*hierarchy.which)?;
        mount(
            kind,
            &place,
            kind,
            MountFlags::NOSUID,
            Some(which.as_c_str()),
        )
        .with_context(|| format!("the control groups {:?} cannot be mounted", hierarchy.which))?;
    }
    Ok(all)
}

/// Moves this process into a group of its own below the top of each.
pub(crate) fn move_to_init(hierarchies: &[Hierarchy]) -> Result<()> {
    for hierarchy in hierarchies {
        let group = hierarchy.mount.join(INIT);
        make(&group)?;
        fs::write(group.join("cgroup.procs"), "0")
            .with_context(|| format!("{}: cannot be joined", group.display()))?;
    }
    Ok(())
}

/// Controllers and name of a v1 hierarchy among the options that mountinfo shows; the others are its first
/// mount's alone.
fn which(options: &str) -> String {
    let others = [
        "rw",
        "ro",
        "xattr",
        "noprefix",
        "clone_children",
        "cpuset_v2_mode",
        "seclabel",
    ];
    let is_ours = |option: &&str| !others.contains(option) && !option.starts_with("release_agent=");
    let found: Vec<_> = options.split(',').filter(is_ours).collect();
    match found[..] {
        [name] if name.starts_with("name=") => format!("none,{name}"),
        _ => found.join(","),
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
            let options = right.split(' ').nth(2).unwrap_or_default();
            found.push(Hierarchy {
                mount: mount.into(),
                v2,
                which: if v2 { String::new() } else { which(options) },
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
            ("/sys/fs/cgroup/cpuset", false, "cpuset"),
            ("/sys/fs/cgroup/unified", true, ""),
        ];
        let expected = expected
            .map(|(mount, v2, which)| Hierarchy {
                mount: mount.into(),
                v2,
                which: which.to_owned(),
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
            which: String::new(),
        }];
        assert_eq!(parse_hierarchies(mountinfo), expected);
    }

    #[test]
    fn a_hierarchy_is_known_by_its_controllers_or_its_name() {
        assert_eq!(which("rw,cpu,cpuacct"), "cpu,cpuacct");
        let systemd = "rw,xattr,release_agent=/usr/lib/systemd/systemd-cgroups-agent,name=systemd";
        assert_eq!(which(systemd), "none,name=systemd");
    }
}
