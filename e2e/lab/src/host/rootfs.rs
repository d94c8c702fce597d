//! Gives a host a root of its own, from inside its new namespaces: a machine with its own disk.
//!
//! Invariant: when this is done no path of its tree leads to the machine's files but through what was asked
//! to be shown, and the machine sees no mount of it. That keeps programs from meeting the machine by
//! accident. Root in it is the machine's root, and finds a way out: device nodes of its own, or the host's
//! folder that its first process holds open (`/proc/1/fd`), from which `..` leads up.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::Path,
};

use anyhow::{Context, Result};
use rustix::{
    mount::{
        MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive,
        mount_change, unmount,
    },
    process::{chdir, pivot_root},
};

use super::{mounts, overlay, spec::HostSpec};
use crate::cgroups;

/// Devices of the machine that it has; one that the machine lacks is left out.
const DEVICES: [&str; 9] = [
    "fuse", "full", "kmsg", "net/tun", "null", "random", "tty", "urandom", "zero",
];
/// What libraries expect below /dev, and where it leads.
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Mounts everything that `spec` asks for, and leaves the machine's root.
pub(super) fn set_up(spec: &HostSpec) -> Result<()> {
    let layers = spec.folder.join("root");
    let root = layers.join("merged");
    fs::create_dir_all(&root)?;
    overlay::mount_on(&spec.root, &layers, &root).context(
        "a host's root needs a checkout on a disk that overlayfs can write on: ext4 and xfs are some",
    )?;
    let inside = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    for path in &spec.in_memory {
        let path = inside(path);
        fs::create_dir_all(&path)?;
        mounts::in_memory(&path)?;
    }
    devices(&inside(Path::new("/dev")))?;
    let sys = inside(Path::new("/sys"));
    fs::create_dir_all(&sys)?;
    // A new one: it shows the interfaces of this network namespace.
    mount("sysfs", &sys, "sysfs", MountFlags::empty(), None).context("/sys cannot be mounted")?;
    let groups = cgroups::mount_hierarchies(&root)?;
    for (source, target) in &spec.binds {
        let target = inside(target);
        fs::create_dir_all(source)?;
        fs::create_dir_all(&target)?;
        mount_bind_recursive(source, &target)
            .with_context(|| format!("{}: cannot be shown", source.display()))?;
    }
    fs::create_dir_all(root.join("proc"))?;
    enter(&root)?;
    // Pods with mount propagation and the kubelet's own checks want a shared tree.
    mount_change(
        "/",
        MountPropagationFlags::SHARED | MountPropagationFlags::REC,
    )
    .context("the mount tree cannot be made shared")?;
    mount("proc", "/proc", "proc", MountFlags::empty(), None).context("/proc cannot be mounted")?;
    // The top group is for the groups below it; on v2 it may hold no process beside them.
    cgroups::move_to_init(&groups)?;
    mounts::pretend(Path::new("/run/lab/sysctl"), &spec.pretended_sysctls)
}

/// Makes `root` the root. The old one is taken away with all that is mounted in it.
fn enter(root: &Path) -> Result<()> {
    chdir(root)?;
    // pivot_root(2), "pivot_root(".", ".")": the old root lies on the new one for a moment.
    pivot_root(".", ".").with_context(|| format!("{}: cannot become the root", root.display()))?;
    unmount(".", UnmountFlags::DETACH).context("the machine's root cannot be left")?;
    Ok(chdir("/")?)
}

fn devices(dev: &Path) -> Result<()> {
    fs::create_dir_all(dev)?;
    let tmpfs = |place: &Path, mode| {
        fs::create_dir_all(place)?;
        mount("tmpfs", place, "tmpfs", MountFlags::NOSUID, Some(mode))
            .with_context(|| format!("{}: no tmpfs", place.display()))
    };
    tmpfs(dev, c"mode=755")?;
    tmpfs(&dev.join("shm"), c"mode=1777")?;
    for name in DEVICES {
        let (real, shown) = (Path::new("/dev").join(name), dev.join(name));
        if !real.exists() {
            continue;
        }
        if let Some(folder) = shown.parent() {
            fs::create_dir_all(folder)?;
        }
        File::create(&shown)?;
        mount_bind(&real, &shown)
            .with_context(|| format!("{}: cannot be shown", real.display()))?;
    }
    let terminals = dev.join("pts");
    fs::create_dir(&terminals)?;
    mount(
        "devpts",
        &terminals,
        "devpts",
        MountFlags::NOSUID | MountFlags::NOEXEC,
        Some(c"newinstance,ptmxmode=0666,mode=0620,gid=5"),
    )
    .context("/dev/pts cannot be mounted")?;
    for (name, target) in LINKS {
        symlink(target, dev.join(name))?;
    }
    Ok(())
}
