//! The network of the pod around a machine, which the machine has, too: with KubeVirt's binding `bridge` a guest has
//! the address of its pod.
//!
//! Invariant: the network of no other pod, and never the management host's own.

use std::{fs, path::PathBuf};

use crate::procfs;

/// The file of the network namespace of a pod that runs here; none while none of its processes does.
#[must_use]
pub fn network(uid: &str) -> Option<PathBuf> {
    let own = namespace("self")?;
    procfs::all_pids().into_iter().find_map(|pid| {
        let pid = pid.to_string();
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let other = is_of(&groups, uid) && namespace(&pid)? != own;
        other.then(|| file(&pid))
    })
}

fn file(pid: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/ns/net"))
}

/// Its name, as `net:[4026532281]`.
fn namespace(pid: &str) -> Option<String> {
    let link = fs::read_link(file(pid)).ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// Whether a process with these control groups (proc(5), `/proc/PID/cgroup`) is of a pod: the kubelet calls the group
/// of a pod `pod<uid>` (driver cgroupfs), and its containers' are below that.
fn is_of(groups: &str, uid: &str) -> bool {
    let name = format!("pod{uid}");
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let mut parts = paths.flat_map(|path| path.split('/'));
    !uid.is_empty() && parts.any(|part| part == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: &str = "\
4:memory:/covey-lab-0/kubepods/burstable/pod0a1b2c3d-1111/3f2a
3:cpu,cpuacct:/covey-lab-0/kubepods/burstable/pod0a1b2c3d-1111/3f2a
0::/covey-lab-0/programs
";

    #[test]
    fn a_process_is_of_the_pod_whose_group_it_is_below() {
        assert!(is_of(GROUPS, "0a1b2c3d-1111"));
        for other in ["", "0a1b2c3d", "a1b2c3d-1111", "3f2a"] {
            assert!(!is_of(GROUPS, other), "{other}");
        }
    }

    #[test]
    fn nothing_is_found_of_a_pod_that_is_not_here() {
        assert_eq!(network("0a1b2c3d-1111-4222-8333-444455556666"), None);
    }
}
