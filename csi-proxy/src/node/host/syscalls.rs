//! System calls about mounts.
//!
//! Invariant: each does one thing, and decides nothing.

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::Path;

use rustix::mount::MountFlags;

use super::error::{Result, Tried as _};
use crate::node::mounts::{Flag, Options};
use crate::node::superblock::Filesystem;

/// Shows a path at another one, too.
pub(super) fn bind(from: &Path, to: &Path) -> Result<()> {
    rustix::mount::mount_bind(from, to)
        .tried(|| format!("show {} at {}", from.display(), to.display()))
}

/// Mounts a device with the options of its volume.
pub(super) fn mount(
    device: &Path,
    at: &Path,
    filesystem: Filesystem,
    read_only: bool,
    options: &Options,
) -> Result<()> {
    let mut flags = MountFlags::empty();
    for flag in &options.flags {
        flags |= match flag {
            Flag::ReadOnly => MountFlags::RDONLY,
            Flag::NoSuid => MountFlags::NOSUID,
            Flag::NoDev => MountFlags::NODEV,
            Flag::NoExec => MountFlags::NOEXEC,
            Flag::NoAtime => MountFlags::NOATIME,
            Flag::NoDirAtime => MountFlags::NODIRATIME,
            Flag::RelAtime => MountFlags::RELATIME,
            Flag::StrictAtime => MountFlags::STRICTATIME,
            Flag::LazyTime => MountFlags::LAZYTIME,
            Flag::Sync => MountFlags::SYNCHRONOUS,
            Flag::DirSync => MountFlags::DIRSYNC,
        };
    }
    if read_only {
        flags |= MountFlags::RDONLY;
    }
    let mut data = options.data.clone();
    if filesystem == Filesystem::Xfs {
        // A clone beside its original has the same UUID, which XFS refuses otherwise.
        let comma = if data.is_empty() { "" } else { "," };
        data = format!("nouuid{comma}{data}");
    }
    let what = || format!("mount {} at {}", device.display(), at.display());
    let data = CString::new(data).map_err(io::Error::from).tried(what)?;
    rustix::mount::mount(device, at, filesystem.name(), flags, data.as_c_str()).tried(what)
}

/// Writes out what a filesystem has in memory, so that an error is told while somebody listens.
pub(super) fn flush(at: &Path) -> Result<()> {
    let what = || {
        format!(
            "write out {}; what was not written is lost, and the next call unmounts it all the same",
            at.display()
        )
    };
    let folder = fs::File::open(at).tried(what)?;
    rustix::fs::syncfs(&folder).tried(what)
}
