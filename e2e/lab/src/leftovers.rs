//! Looks at the machine for anything of a lab that should be gone.
//!
//! Invariant: reads only; every line says what is left and where.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use crate::{
    cgroups::Cgroups, host::Host, layout::Layout, loops, network, procfs, slot::Slot,
    ssh_host::SshHost,
};

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
    hosts.iter().for_each(|host| pids.extend(processes(host)));
    found.extend(shown(pids));
    let devices = loops::of(layout)?;
    found.extend(
        devices
            .iter()
            .map(|device| format!("loop device {}", device.display())),
    );
    found.extend(mounts_below(&layout.root())?);
    Ok(found)
}

/// Everything of one host that is reached by SSH, one line each; `host` is what is remembered of it.
///
/// # Errors
/// When the machine's interfaces or mounts cannot be read.
pub fn of_host(
    layout: &Layout,
    slot: Slot,
    name: &str,
    host: Option<&SshHost>,
) -> Result<Vec<String>> {
    let cgroups = Cgroups::of_host(slot.number(), name)?;
    let folders = cgroups.folders().into_iter();
    let mut found: Vec<_> = folders
        .map(|path| format!("cgroup {}", path.display()))
        .collect();
    let mut pids = cgroups.processes();
    if let Some(host) = host {
        let cable = slot.cable(host.place.number);
        if !host.place.is_private() && network::interfaces(slot)?.contains(&cable) {
            found.push(format!("interface {cable}"));
        }
        pids.extend(processes(&host.host));
    }
    found.extend(shown(pids));
    found.extend(mounts_below(&layout.host(name))?);
    Ok(found)
}

fn processes(host: &Host) -> Vec<i32> {
    let outside = [&host.init, &host.keeper].into_iter();
    let outside = outside.filter(|process| process.is_alive());
    let mut pids = in_namespace(host);
    pids.extend(outside.map(|process| process.pid));
    pids
}

fn shown(mut pids: Vec<i32>) -> impl Iterator<Item = String> {
    pids.sort_unstable();
    pids.dedup();
    let pids = pids.into_iter();
    pids.map(|pid| format!("process {pid} {}", procfs::command_line(pid)))
}

fn mounts_below(folder: &Path) -> Result<Vec<String>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("no mountinfo")?;
    let folder = folder.to_string_lossy().into_owned();
    let points = mounts_of(&mounts, &folder);
    Ok(points.map(|point| format!("mount {point}")).collect())
}

/// Processes in a host's PID namespace. The kernel gives a dead namespace's number to another one soon, perhaps a
/// host of another lab; it ends all others in a namespace before the first process is gone (pid_namespaces(7)), so
/// without that one nobody is in there.
#[must_use]
pub fn in_namespace(host: &Host) -> Vec<i32> {
    if !host.init.is_there() {
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
    fn nobody_is_in_the_namespace_of_a_host_whose_first_process_is_gone() -> Result<()> {
        let own = procfs::ProcessId::own()?;
        let pid_namespace = procfs::pid_namespace(own.pid).context("it has one")?;
        let of = |init: procfs::ProcessId| Host {
            folder: "/nowhere".into(),
            keeper: init.clone(),
            init,
            pid_namespace: pid_namespace.clone(),
        };
        assert!(in_namespace(&of(own.clone())).contains(&own.pid));
        // Its number was given to another process, and that of its namespace to ours.
        let gone = procfs::ProcessId {
            start_ticks: own.start_ticks + 1,
            ..own
        };
        assert_eq!(in_namespace(&of(gone)), Vec::<i32>::new());
        Ok(())
    }

    #[test]
    fn binds_mount_points_and_overlay_layers_are_found_and_nothing_else() {
        let found: Vec<_> = mounts_of(MOUNTS, "/home/me/covey/.lab").collect();
        assert_eq!(
            found,
            ["/var/lib/kubelet", "/home/me/covey/.lab/run", "/etc"]
        );
    }
}
