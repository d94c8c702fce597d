//! Looks at the machine for anything of a lab that should be gone.
//!
//! Invariant: reads only; every line says what is left and where.

use std::fs;

use anyhow::{Context, Result};

use crate::{cgroups::Cgroups, host::Host, layout::Layout, loops, network, procfs, slot::Slot};

/// Everything of the lab that is still on the machine outside `.lab/`, one line each.
///
/// # Errors
/// When the machine's interfaces, loop devices or mounts cannot be read.
pub fn find(layout: &Layout, slots: &[Slot], hosts: &[Host]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut pids = Vec::new();
    for slot in slots {
        let cgroups = Cgroups::of_slot(slot.number())?;
        pids.extend(cgroups.processes());
        found.extend(
            cgroups
                .folders()
                .iter()
                .map(|path| format!("cgroup {}", path.display())),
        );
        let interfaces = network::interfaces(*slot)?;
        found.extend(interfaces.iter().map(|name| format!("interface {name}")));
    }
    for host in hosts {
        pids.extend(in_namespace(host));
        pids.extend(
            [&host.init, &host.keeper]
                .iter()
                .filter(|p| p.is_alive())
                .map(|p| p.pid),
        );
    }
    pids.sort_unstable();
    pids.dedup();
    found.extend(
        pids.iter()
            .map(|pid| format!("process {pid} {}", procfs::command_line(*pid))),
    );
    let devices = loops::of(layout)?;
    found.extend(
        devices
            .iter()
            .map(|device| format!("loop device {}", device.display())),
    );
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("no mountinfo")?;
    let root = layout.root().to_string_lossy().into_owned();
    found.extend(mounts_of(&mounts, &root).map(|point| format!("mount {point}")));
    Ok(found)
}

/// Processes in a host's PID namespace. The kernel may give a dead namespace's number to another
/// one, so those of another boot count for nothing.
#[must_use]
pub fn in_namespace(host: &Host) -> Vec<i32> {
    if host.init.boot_id != procfs::boot_id() {
        return Vec::new();
    }
    let inside = |pid: &i32| procfs::pid_namespace(*pid).as_ref() == Some(&host.pid_namespace);
    procfs::all_pids().into_iter().filter(inside).collect()
}

/// Mount points below `root`, and mounts of something below it elsewhere.
fn mounts_of<'a>(mountinfo: &'a str, root: &'a str) -> impl Iterator<Item = &'a str> {
    mountinfo.lines().filter_map(move |line| {
        let mut fields = line.split(' ');
        let (source, point) = (fields.nth(3)?, fields.next()?);
        let below = |path: &str| {
            path.strip_prefix(root)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let of_layer = line.split(['=', ',', ':']).any(|part| below(part.trim()));
        (below(source) || below(point) || of_layer).then_some(point)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
20 1 8:1 / / rw - ext4 /dev/vda rw
21 20 8:1 /home/me/covey/.lab/kubelet /var/lib/kubelet rw - ext4 /dev/vda rw
22 20 0:40 / /home/me/covey/.lab/run rw - tmpfs tmpfs rw
23 20 0:41 / /etc rw - overlay overlay rw,lowerdir=/etc,upperdir=/home/me/covey/.lab/up,workdir=/w
24 20 0:42 / /home/me/covey/.labelled rw - tmpfs tmpfs rw
";

    #[test]
    fn binds_mount_points_and_overlay_layers_are_found_and_nothing_else() {
        let found: Vec<_> = mounts_of(MOUNTS, "/home/me/covey/.lab").collect();
        assert_eq!(
            found,
            ["/var/lib/kubelet", "/home/me/covey/.lab/run", "/etc"]
        );
    }
}
