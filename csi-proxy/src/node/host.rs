//! Host: the one place where the node's kernel and programs are used. Disks are found and read,
//! filesystems made, mounted, and let go of.
//!
//! Invariant: nothing is decided here but what the kernel decides; no program is told to go on
//! against its own judgement, and nothing is removed that is not empty.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags, major, minor};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::mounts::{self, Mount, Options, top};
use super::plan::{Action, Disk, Place};
use super::superblock::{self, Content, Filesystem, Image};
use crate::names;
use crate::status::Status;

pub mod error;
mod syscalls;

use self::error::{Error, Result, Tried as _};
use self::syscalls::{bind, flush, mount};

/// Where things are on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folders {
    /// The kernel's list of disks: `/sys/block`.
    pub disks: PathBuf,
    /// Devices: `/dev`.
    pub devices: PathBuf,
    /// The kubelet's, in which all paths of calls are: `/var/lib/kubelet`.
    pub kubelet: PathBuf,
    /// What is written down of each volume.
    pub records: PathBuf,
}

/// What an action is about.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// Identifier of the volume.
    pub volume: &'a str,
    /// Serial number of its disk.
    pub serial: &'a str,
    /// The disk, if there is one.
    pub disk: Option<&'a Disk>,
    /// Where it is staged.
    pub staging: &'a Path,
    /// Options of its mount.
    pub options: &'a Options,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Host {
    folders: Folders,
    /// Volumes of which it was told that they cannot be written out; shared by all clones.
    told: Arc<Mutex<BTreeSet<String>>>,
}

impl Host {
    /// The node with these folders.
    #[must_use]
    pub fn new(folders: Folders) -> Self {
        Self {
            folders,
            told: Arc::default(),
        }
    }

    /// The disk with this serial number. The kernel knows it as soon as it knows the disk, which
    /// udev's links do not promise.
    ///
    /// # Errors
    /// When there are two.
    pub fn disk(&self, serial: &str) -> Result<Option<Disk>> {
        let folder = &self.folders.disks;
        let entries = fs::read_dir(folder).tried(|| format!("list {}", folder.display()))?;
        let mut found: Option<Disk> = None;
        for entry in entries.filter_map(io::Result::ok) {
            if self::serial(&entry.path()).as_deref() != Some(serial) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(first) = found {
                return Err(Error::Twice(first.name, name));
            }
            found = self.read(name);
        }
        Ok(found)
    }

    /// The disk with these numbers.
    #[must_use]
    pub fn numbered(&self, number: mounts::Number) -> Option<Disk> {
        let entries = fs::read_dir(&self.folders.disks).ok()?;
        let names = entries
            .filter_map(io::Result::ok)
            .map(|entry| entry.file_name());
        names
            .filter_map(|name| self.read(name.to_string_lossy().into_owned()))
            .find(|disk| disk.number == number)
    }

    /// How many disks the machine has that are no volumes of this driver: its root, for example. What
    /// is no disk of the machine, but one that the kernel makes of others, has no device behind it.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn others(&self) -> Result<usize> {
        let folder = &self.folders.disks;
        let entries = fs::read_dir(folder).tried(|| format!("list {}", folder.display()))?;
        let disks = entries.filter_map(io::Result::ok).map(|entry| entry.path());
        let other = |disk: &PathBuf| {
            let serial = serial(disk).unwrap_or_default();
            disk.join("device").exists() && !names::is_serial(&serial)
        };
        Ok(disks.filter(other).count())
    }

    /// A disk as it is now; none when it is gone.
    #[must_use]
    pub fn read(&self, name: String) -> Option<Disk> {
        /// What the kernel counts sizes in, whatever the disk does.
        const SECTOR: u64 = 512;
        let folder = self.folders.disks.join(&name);
        let text = |file: &str| fs::read_to_string(folder.join(file)).ok();
        Some(Disk {
            number: mounts::number(&text("dev")?)?,
            bytes: text("size")?.trim().parse::<u64>().ok()? * SECTOR,
            read_only: text("ro")?.trim() == "1",
            name,
        })
    }

    /// Has the kernel ask a disk for its size again; disks that cannot be asked say so by themselves.
    pub fn rescan(&self, disk: &Disk) {
        let ask = self.folders.disks.join(&disk.name).join("device/rescan");
        if let Err(error) = fs::write(&ask, "1")
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(disk = %disk.name, %error, "cannot ask disk {} for its size", disk.name);
        }
    }

    /// What is on a disk, read twice past the page cache.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn probe(&self, disk: &Disk) -> Result<[Content; 2]> {
        Ok([self.probe_once(disk)?, self.probe_once(disk)?])
    }

    fn probe_once(&self, disk: &Disk) -> Result<Content> {
        let path = self.device(disk);
        let what = || format!("read {}", path.display());
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = rustix::fs::open(&path, flags, Mode::empty()).tried(what)?;
        let file = fs::File::from(file);
        let mut parts = Vec::new();
        for (at, length) in superblock::places(disk.bytes) {
            let bytes = read_aligned(&file, at, length).tried(what)?;
            parts.push((at, bytes));
        }
        Ok(superblock::content(&Image {
            size: disk.bytes,
            parts,
        }))
    }

    /// Whether something has a disk for itself: a mount in any namespace, or a device above it.
    ///
    /// # Errors
    /// When it cannot be opened for another reason.
    pub fn is_busy(&self, disk: &Disk) -> Result<bool> {
        let path = self.device(disk);
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(_) => Ok(false),
            Err(Errno::BUSY) => Ok(true),
            // It was detached meanwhile.
            Err(Errno::NOENT | Errno::NXIO | Errno::NODEV) => Ok(false),
            Err(error) => Err(error).tried(|| format!("open {}", path.display())),
        }
    }

    fn device(&self, disk: &Disk) -> PathBuf {
        self.folders.devices.join(&disk.name)
    }

    /// Everything that is mounted in this namespace.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn mounts(&self) -> Result<Vec<Mount>> {
        const FILE: &str = "/proc/self/mountinfo";
        let text = fs::read(FILE).tried(|| format!("read {FILE}"))?;
        Ok(mounts::parse(&String::from_utf8_lossy(&text)))
    }

    /// A path of a call as the kernel calls it: below the kubelet's folder, with no link on the way.
    /// None when there is no such folder to have it.
    ///
    /// # Errors
    /// When it leads elsewhere.
    pub fn path(&self, path: &str) -> std::result::Result<Option<PathBuf>, Status> {
        let given = Path::new(path);
        let elsewhere = || {
            Status::invalid_argument(format!(
                "{path} is not below {}, where the kubelet keeps volumes",
                self.folders.kubelet.display()
            ))
        };
        let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        if !given.is_absolute() || !given.components().all(plain) {
            return Err(elsewhere());
        }
        let (Some(folder), Some(name)) = (given.parent(), given.file_name()) else {
            return Err(elsewhere());
        };
        let Ok(kubelet) = fs::canonicalize(&self.folders.kubelet) else {
            return Err(elsewhere());
        };
        match fs::canonicalize(folder) {
            Ok(folder) if folder.starts_with(&kubelet) => Ok(Some(folder.join(name))),
            Ok(_) => Err(elsewhere()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Status::internal(format!("look at {path}: {error}"))),
        }
    }

    /// What is at a path.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub fn place(&self, path: &Path) -> Result<Place> {
        let meta = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Place::Nothing),
            meta => meta.tried(|| format!("look at {}", path.display()))?,
        };
        let kind = meta.file_type();
        Ok(if kind.is_dir() {
            Place::Folder
        } else if kind.is_block_device() {
            Place::Device((major(meta.rdev()), minor(meta.rdev())))
        } else if kind.is_file() && meta.len() == 0 {
            Place::File
        } else {
            Place::Other
        })
    }

    /// Serial number of the disk that a volume has, as far as it is written down.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn remembered(&self, volume: &str) -> Result<Option<String>> {
        let path = self.folders.records.join(volume);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).tried(|| format!("read {}", path.display())),
        }
    }

    /// Does one thing.
    ///
    /// # Errors
    /// When it cannot be done.
    pub fn act(&self, action: &Action, scene: &Scene<'_>) -> Result<()> {
        let device = || {
            let disk = scene
                .disk
                .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
            disk.map(|disk| self.device(disk))
                .tried(|| format!("find the disk of volume {}", scene.volume))
        };
        let record = self.folders.records.join(scene.volume);
        match action {
            Action::Remember => {
                let what = || format!("write {}", record.display());
                fs::create_dir_all(&self.folders.records).tried(what)?;
                // A new name at the end, so that half a record is never read.
                let half = self.folders.records.join(format!(".{}", scene.volume));
                fs::write(&half, scene.serial).tried(what)?;
                fs::rename(&half, &record).tried(what)
            }
            Action::Forget => {
                fs::remove_file(&record).tried(|| format!("remove {}", record.display()))
            }
            Action::Format(filesystem) => {
                let program = match filesystem {
                    Filesystem::Ext4 => "mkfs.ext4",
                    Filesystem::Xfs => "mkfs.xfs",
                };
                let device = device()?;
                tracing::info!(
                    volume.id = scene.volume, device = %device.display(),
                    "volume {} is empty; makes a filesystem {}", scene.volume, filesystem.name()
                );
                // All of it is the volume's: nothing is kept back for root.
                let args: &[&str] = match filesystem {
                    Filesystem::Ext4 => &["-q", "-m", "0"],
                    Filesystem::Xfs => &["-q"],
                };
                run(program, args, &device, 0)
            }
            // XFS repairs itself when it is mounted. 1 is "errors were corrected" (e2fsck(8)).
            Action::Check(Filesystem::Xfs) => Ok(()),
            Action::Check(Filesystem::Ext4) => run("e2fsck", &["-p"], &device()?, 1),
            Action::Mount(filesystem, read_only) => mount(
                &device()?,
                scene.staging,
                *filesystem,
                *read_only,
                scene.options,
            ),
            Action::Grow(Filesystem::Ext4, _) => run("resize2fs", &[], &device()?, 0),
            Action::Grow(Filesystem::Xfs, at) => run("xfs_growfs", &[], at, 0),
            Action::MakeFolder(at) => {
                fs::create_dir(at).tried(|| format!("make folder {}", at.display()))
            }
            Action::MakeFile(at) => fs::File::create_new(at)
                .map(drop)
                .tried(|| format!("make file {}", at.display())),
            Action::Bind(from, to) => bind(from, to),
            Action::BindDisk(to) => bind(&device()?, to),
            Action::MakeReadOnly(at) => {
                let flags = MountFlags::BIND | MountFlags::RDONLY;
                rustix::mount::mount_remount(at, flags, c"")
                    .tried(|| format!("make {} read-only", at.display()))
            }
            Action::Unmount(at) => {
                let dead = at == scene.staging && self.is_dead(at, scene)?;
                let unmount = |flags: UnmountFlags| {
                    rustix::mount::unmount(at, flags | UnmountFlags::NOFOLLOW)
                };
                let done = match unmount(UnmountFlags::empty()) {
                    // Whoever has files open there reads and writes nothing any more.
                    Err(_) if dead => unmount(UnmountFlags::DETACH),
                    done => done,
                };
                done.tried(|| format!("unmount {}", at.display()))?;
                self.told().remove(scene.volume);
                Ok(())
            }
            Action::RemoveFolder(at) => {
                fs::remove_dir(at).tried(|| format!("remove folder {}", at.display()))
            }
            Action::RemoveFile(at) => {
                fs::remove_file(at).tried(|| format!("remove file {}", at.display()))
            }
        }
    }

    /// Writes out what is staged there. Whether that is lost: because its disk is another one now, or
    /// gone, or because it cannot be written out, of which the first call tells and is broken off.
    fn is_dead(&self, at: &Path, scene: &Scene<'_>) -> Result<bool> {
        let mounts = self.mounts()?;
        let number = top(&mounts, at).map(|mount| mount.number);
        let gone = scene.disk.is_none_or(|disk| Some(disk.number) != number);
        let Err(error) = flush(at) else {
            return Ok(gone);
        };
        if self.told().insert(scene.volume.to_owned()) {
            return Err(error);
        }
        tracing::warn!(
            volume.id = scene.volume,
            error = kit_client::errors::chain(&error),
            "volume {} is unmounted although it cannot be written out; what was not written is lost",
            scene.volume
        );
        Ok(true)
    }

    fn told(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serial number of a disk: virtio has a file for it, SCSI the page 0x80 of vital product data, which
/// begins with four bytes about itself (SPC-4, 7.8.15).
fn serial(disk: &Path) -> Option<String> {
    if let Ok(text) = fs::read_to_string(disk.join("serial")) {
        return Some(text.trim().to_owned());
    }
    let page = fs::read(disk.join("device/vpd_pg80")).ok()?;
    let text = String::from_utf8_lossy(page.get(4..)?);
    Some(
        text.trim_matches(|c: char| c == '\0' || c.is_whitespace())
            .to_owned(),
    )
}

/// Reads to an address that the disk can write to: what goes past the page cache needs one.
fn read_aligned(file: &fs::File, at: u64, length: u64) -> io::Result<Vec<u8>> {
    let too_large = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let length = usize::try_from(length).map_err(too_large)?;
    let step = usize::try_from(superblock::STEP).map_err(too_large)?;
    let mut room = vec![0; length + step];
    let from = room.as_ptr().align_offset(step).min(step);
    file.read_exact_at(&mut room[from..from + length], at)?;
    room.drain(..from);
    room.truncate(length);
    Ok(room)
}

/// Runs a program on a device or folder. It has nobody to ask, and is never told to go on anyway.
fn run(program: &'static str, args: &[&str], on: &Path, most: i32) -> Result<()> {
    let mut command = Command::new(program);
    command.args(args).arg(on).stdin(Stdio::null());
    let output = command.output().tried(|| format!("run {program}"))?;
    if output
        .status
        .code()
        .is_some_and(|code| (0..=most).contains(&code))
    {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<_> = said
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let says = match lines.len() {
        0 => output.status.to_string(),
        many => lines[many.saturating_sub(3)..].join("; "),
    };
    Err(Error::Program { program, says })
}
