//! Builds a host's view of the file system, from inside its new mount namespace.
//!
//! Order matters: private copies first, then what must stay visible through them, then /proc.
//! Invariant: every mount is made after the namespace was cut off, so the machine sees none.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change,
};

use super::{overlay, spec::HostSpec};

/// Mounts everything that `spec` asks for.
pub(super) fn set_up(spec: &HostSpec) -> Result<()> {
    // Pods with mount propagation and the kubelet's own checks want a shared tree; its peers are
    // in this namespace only.
    mount_change(
        "/",
        MountPropagationFlags::SHARED | MountPropagationFlags::REC,
    )
    .context("the mount tree cannot be made shared")?;

    // Opened before anything is covered: their descriptors lead to them all the same.
    let covered = covered(spec);
    let mut kept = Vec::new();
    for path in spec
        .keep
        .iter()
        .filter(|path| covered.iter().any(|by| path.starts_with(by)))
    {
        let open = File::open(path).with_context(|| format!("{}: not there", path.display()))?;
        kept.push((path, open));
    }
    let mut sources = Vec::new();
    for (source, target) in &spec.binds {
        fs::create_dir_all(source)?;
        sources.push((File::open(source)?, target));
    }

    for path in &spec.in_memory {
        in_memory(path)?;
    }
    for path in &spec.copy_on_write {
        copy_on_write(spec, path)?;
    }
    for (source, target) in &sources {
        bind(source, target)?;
    }
    for (path, open) in &kept {
        bind(open, path)?;
    }

    mount("proc", "/proc", "proc", MountFlags::empty(), None).context("/proc cannot be mounted")?;
    pretend(&spec.folder.join("sysctl"), &spec.pretended_sysctls)
}

fn covered(spec: &HostSpec) -> Vec<&Path> {
    let targets = spec.binds.iter().map(|(_, target)| target);
    spec.copy_on_write
        .iter()
        .chain(&spec.in_memory)
        .chain(targets)
        .map(PathBuf::as_path)
        .collect()
}

/// Shows an open folder at `target`, through the descriptor: its path may be covered by now.
fn bind(open: &File, target: &Path) -> Result<()> {
    fs::create_dir_all(target).with_context(|| format!("{}: no folder", target.display()))?;
    mount_bind_recursive(format!("/proc/self/fd/{}", open.as_raw_fd()), target)
        .with_context(|| format!("{}: cannot be bound", target.display()))
}

pub(super) fn in_memory(path: &Path) -> Result<()> {
    mount(
        "tmpfs",
        path,
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        Some(c"mode=755"),
    )
    .with_context(|| format!("{}: no tmpfs", path.display()))
}

/// The written layer lies on the checkout's disk; in memory where that cannot be: a checkout below
/// the folder itself (/var, /opt), or on a disk that allows no overlay (a container's).
fn copy_on_write(spec: &HostSpec, path: &Path) -> Result<()> {
    let name = path
        .to_string_lossy()
        .trim_start_matches('/')
        .replace('/', "-");
    let on_disk = spec.folder.join("overlay").join(&name);
    if !spec.folder.starts_with(path) && overlay(path, &on_disk).is_ok() {
        return Ok(());
    }
    overlay(path, &Path::new("/run/overlay").join(name))
}

fn overlay(path: &Path, layers: &Path) -> Result<()> {
    overlay::mount_on(&[path.to_path_buf()], layers, path)
        .with_context(|| format!("{}: cannot be made copy-on-write", path.display()))
}

/// Covers files below /proc/sys by plain ones, which lie in `folder`.
pub(super) fn pretend(folder: &Path, sysctls: &BTreeMap<String, String>) -> Result<()> {
    for (name, value) in sysctls {
        let real = Path::new("/proc/sys").join(name);
        if !real.exists() {
            continue;
        }
        fs::create_dir_all(folder)?;
        let shown = folder.join(name.replace('/', "."));
        fs::write(&shown, format!("{value}\n"))?;
        mount_bind(&shown, &real)
            .with_context(|| format!("{}: cannot be covered", real.display()))?;
    }
    Ok(())
}
