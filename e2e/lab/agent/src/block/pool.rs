//! Volumes and snapshots as files of one XFS, which lies in one sparse file: XFS copies a file by
//! reference and in one moment, so a snapshot of a disk that is written to is what a power cut would
//! have left.
//!
//! Invariant: a file has its name only once it is whole, and a volume that somebody has attached is
//! not removed. Nothing unmounts or detaches the pool itself: it ends with the lab (`lab down`).

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, bail};
use rustix::mount::{MountFlags, UnmountFlags};
use tonic::Code;

/// Sizes are multiples of it.
const STEP: u64 = 1 << 20;
/// Of all volumes together, as far as the disk below has room.
const ROOM: u64 = 64 << 30;

/// Why a call was refused, as CSI says it.
#[derive(Debug)]
pub struct Refusal {
    /// What the sidecars decide by.
    pub code: Code,
    /// What people read.
    pub message: String,
}

impl Refusal {
    /// One with this code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Code::Internal, format!("{error:#}"))
    }
}

type Result<T> = std::result::Result<T, Refusal>;

/// What a volume begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Zeros.
    Nothing,
    /// What this volume has now.
    Volume(String),
    /// What this snapshot has.
    Snapshot(String),
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its identifier: [`snapshot_id`].
    pub id: String,
    /// Bytes of the volume when it was cut.
    pub size: u64,
    /// Seconds since 1970.
    pub cut: u64,
}

/// The pool in one folder.
#[derive(Debug)]
pub struct Pool {
    folder: PathBuf,
    /// One change at a time: each takes milliseconds.
    busy: Mutex<()>,
}

impl Pool {
    /// The pool in this folder; nothing is made.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            busy: Mutex::new(()),
        }
    }

    /// Makes a volume of at least `least` and, unless it is 0, at most `most` bytes; says its size.
    /// One of that name is the answer when it fits.
    ///
    /// # Errors
    /// When sizes contradict each other, the origin is not there, or the kernel refuses.
    pub fn create(&self, id: &str, origin: &Origin, least: u64, most: u64) -> Result<u64> {
        let _busy = self.open()?;
        let place = self.volume(id)?;
        let from = match origin {
            Origin::Nothing => None,
            Origin::Volume(id) => Some(self.volume(id)?),
            Origin::Snapshot(id) => Some(self.snapshot(id)?),
        };
        let smallest = match &from {
            Some(from) => size(from)?
                .ok_or_else(|| Refusal::new(Code::NotFound, format!("{origin:?} is not there")))?,
            None => STEP,
        };
        let wanted = fit(least, most, smallest)?;
        if let Some(there) = size(&place)? {
            if there < least || (most > 0 && there > most) {
                let message = format!("volume {id} is there with {there} bytes");
                return Err(Refusal::new(Code::AlreadyExists, message));
            }
            return Ok(there);
        }
        self.write(&place, from.as_deref(), wanted)
            .with_context(|| format!("make volume {id}"))?;
        Ok(wanted)
    }

    /// Removes a volume; one that is not there is fine.
    ///
    /// # Errors
    /// When somebody has it attached.
    pub fn delete(&self, id: &str) -> Result<()> {
        let _busy = self.open()?;
        let place = self.volume(id)?;
        if let Some(device) = devices(&place)?.first() {
            let message = format!("volume {id} is attached as {}", device.display());
            return Err(Refusal::new(Code::FailedPrecondition, message));
        }
        Ok(remove(&place)?)
    }

    /// Gives a volume at least `least` bytes, its devices too, and says how many it has.
    ///
    /// # Errors
    /// When it is not there, or the kernel refuses.
    pub fn grow(&self, id: &str, least: u64) -> Result<u64> {
        let _busy = self.open()?;
        let place = self.existing(id)?;
        let has = size(&place)?.unwrap_or_default();
        let wanted = fit(least, 0, has)?;
        let grow = || -> anyhow::Result<()> {
            File::options().write(true).open(&place)?.set_len(wanted)?;
            for device in devices(&place)? {
                losetup(&["--set-capacity"], &[&device])?;
            }
            Ok(())
        };
        grow().with_context(|| format!("grow volume {id}"))?;
        Ok(wanted)
    }

    /// Cuts a snapshot of a volume. One of that name of that volume is the answer.
    ///
    /// # Errors
    /// When the volume is not there, or the name is another one's.
    pub fn cut(&self, volume: &str, name: &str) -> Result<Snapshot> {
        let _busy = self.open()?;
        let from = self.existing(volume)?;
        let id = snapshot_id(volume, name);
        let place = self.snapshot(&id)?;
        let others = fs::read_dir(self.snapshots()).context("list snapshots")?;
        let taken = others.flatten().any(|other| {
            let other = other.file_name().to_string_lossy().into_owned();
            other != id && split(&other).is_some_and(|(_, taken)| taken == name)
        });
        if taken {
            let message = format!("snapshot {name} is of another volume");
            return Err(Refusal::new(Code::AlreadyExists, message));
        }
        if size(&place)?.is_none() {
            let bytes = size(&from)?.unwrap_or_default();
            self.write(&place, Some(&from), bytes)
                .with_context(|| format!("cut snapshot {id}"))?;
        }
        let meta = fs::metadata(&place).context("look at the snapshot")?;
        let cut = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let cut = cut.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Snapshot {
            id,
            size: meta.len(),
            cut: cut.as_secs(),
        })
    }

    /// Removes a snapshot; one that is not there is fine.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn forget(&self, id: &str) -> Result<()> {
        let _busy = self.open()?;
        // One that could not be ours is not there.
        match self.snapshot(id) {
            Ok(place) => Ok(remove(&place)?),
            Err(_) => Ok(()),
        }
    }

    /// Attaches a volume, if it is not yet.
    ///
    /// # Errors
    /// When it is not there, or the kernel refuses.
    pub fn attach(&self, id: &str) -> Result<PathBuf> {
        let _busy = self.open()?;
        let place = self.existing(id)?;
        Ok(attach(&place, &[])?)
    }

    /// Detaches a volume, if it is attached.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn detach(&self, id: &str) -> Result<()> {
        let _busy = self.open()?;
        for device in devices(&self.volume(id)?)? {
            losetup(&["--detach"], &[&device])?;
        }
        Ok(())
    }

    /// Shows a volume's device at a path.
    ///
    /// # Errors
    /// When the volume is not attached, or something else is there.
    pub fn show(&self, id: &str, at: &Path) -> Result<()> {
        let _busy = self.open()?;
        let devices = devices(&self.existing(id)?)?;
        let Some(device) = devices.first() else {
            let message = format!("volume {id} is not staged");
            return Err(Refusal::new(Code::FailedPrecondition, message));
        };
        let bind = || -> anyhow::Result<()> {
            let ours = fs::metadata(device)?.rdev();
            match fs::symlink_metadata(at) {
                Ok(meta) if meta.file_type().is_block_device() => {
                    if meta.rdev() == ours {
                        return Ok(());
                    }
                    bail!("another device is there");
                }
                Ok(_) => {}
                Err(_) => drop(File::create(at)?),
            }
            Ok(rustix::mount::mount_bind(device, at)?)
        };
        Ok(bind().with_context(|| format!("show {} at {}", device.display(), at.display()))?)
    }

    /// Takes away what [`Pool::show`] made.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn hide(&self, at: &Path) -> Result<()> {
        let _busy = self.lock();
        let hide = || -> anyhow::Result<()> {
            while fs::symlink_metadata(at).is_ok_and(|meta| meta.file_type().is_block_device()) {
                rustix::mount::unmount(at, UnmountFlags::NOFOLLOW)?;
            }
            remove(at)
        };
        Ok(hide().with_context(|| format!("take away {}", at.display()))?)
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Mounts the pool, which is made when there is none.
    fn open(&self) -> Result<MutexGuard<'_, ()>> {
        let busy = self.lock();
        let mounted = || -> anyhow::Result<()> {
            let (image, at) = (self.folder.join("pool.img"), self.at());
            fs::create_dir_all(&at)?;
            if fs::metadata(&at)?.dev() != fs::metadata(&self.folder)?.dev() {
                return Ok(());
            }
            if !image.exists() {
                let half = self.folder.join("pool.new");
                File::create(&half)?.set_len(ROOM)?;
                run("mkfs.xfs", &["-q", "-f"], &[&half])?;
                fs::rename(&half, &image)?;
            }
            // What the volumes' files have in memory is enough.
            let device = attach(&image, &["--direct-io=on"])?;
            let options = Some(c"discard,nouuid");
            rustix::mount::mount(&device, &at, "xfs", MountFlags::empty(), options)
                .with_context(|| format!("mount {} at {}", device.display(), at.display()))?;
            fs::create_dir_all(self.volumes())?;
            Ok(fs::create_dir_all(self.snapshots())?)
        };
        mounted().context("make the pool for volumes")?;
        Ok(busy)
    }

    fn at(&self) -> PathBuf {
        self.folder.join("pool")
    }

    fn volumes(&self) -> PathBuf {
        self.at().join("volumes")
    }

    fn snapshots(&self) -> PathBuf {
        self.at().join("snapshots")
    }

    fn volume(&self, id: &str) -> Result<PathBuf> {
        match is_plain(id) {
            true => Ok(self.volumes().join(id)),
            false => Err(Refusal::new(
                Code::NotFound,
                format!("there is no volume {id:?}"),
            )),
        }
    }

    fn existing(&self, id: &str) -> Result<PathBuf> {
        let place = self.volume(id)?;
        match size(&place)? {
            Some(_) => Ok(place),
            None => Err(Refusal::new(
                Code::NotFound,
                format!("there is no volume {id}"),
            )),
        }
    }

    fn snapshot(&self, id: &str) -> Result<PathBuf> {
        match split(id) {
            Some((volume, name)) if is_plain(volume) && is_plain(name) => {
                Ok(self.snapshots().join(id))
            }
            _ => Err(Refusal::new(
                Code::NotFound,
                format!("there is no snapshot {id:?}"),
            )),
        }
    }

    /// Writes a file that is whole when it has its name.
    fn write(&self, place: &Path, from: Option<&Path>, bytes: u64) -> anyhow::Result<()> {
        let half = self.at().join("half");
        let file = File::create(&half)?;
        if let Some(from) = from {
            rustix::fs::ioctl_ficlone(&file, File::open(from)?)?;
        }
        file.set_len(bytes)?;
        fs::rename(&half, place)?;
        Ok(())
    }
}

/// What a snapshot of a volume is called: who it is of has to be known later.
#[must_use]
pub fn snapshot_id(volume: &str, name: &str) -> String {
    format!("{volume}@{name}")
}

fn split(snapshot: &str) -> Option<(&str, &str)> {
    snapshot.split_once('@')
}

/// Whether it can be the name of a file of ours.
fn is_plain(id: &str) -> bool {
    let plain = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
    !id.is_empty() && id.len() <= 120 && id.bytes().all(plain)
}

/// The size that is wanted: a multiple of [`STEP`] between the limits, not below what it is made of.
fn fit(least: u64, most: u64, smallest: u64) -> Result<u64> {
    let wanted = least.max(smallest).max(1).checked_next_multiple_of(STEP);
    match wanted {
        Some(wanted) if wanted <= ROOM && (most == 0 || wanted <= most) => Ok(wanted),
        _ => {
            let message = format!(
                "no size fits: at least {least} and {smallest}, at most {most} (0: any) and {ROOM}"
            );
            Err(Refusal::new(Code::OutOfRange, message))
        }
    }
}

/// None when there is no such file.
fn size(file: &Path) -> anyhow::Result<Option<u64>> {
    match fs::metadata(file) {
        Ok(meta) => Ok(Some(meta.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("look at {}", file.display())),
    }
}

fn remove(file: &Path) -> anyhow::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", file.display()))
        }
        _ => Ok(()),
    }
}

/// The loop device of a file, made if need be.
fn attach(file: &Path, options: &[&str]) -> anyhow::Result<PathBuf> {
    if let Some(device) = devices(file)?.pop() {
        return Ok(device);
    }
    let device = losetup(&[&["--find", "--show"][..], options].concat(), &[file])?;
    let device = PathBuf::from(device.trim());
    // A device that its last user made read-only is still so, and QEMU then refuses it.
    run("blockdev", &["--setrw"], &[&device])?;
    Ok(device)
}

/// The loop devices of a file; none of one that is not there.
fn devices(file: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if size(file)?.is_none() {
        return Ok(Vec::new());
    }
    let list = ["--list", "--noheadings", "--output", "NAME", "--associated"];
    let listed = losetup(&list, &[file])?;
    Ok(listed.split_whitespace().map(PathBuf::from).collect())
}

fn losetup(args: &[&str], paths: &[&Path]) -> anyhow::Result<String> {
    run("losetup", args, paths)
}

fn run(program: &str, args: &[&str], paths: &[&Path]) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command.args(args).args(paths).stdin(Stdio::null());
    let output = command
        .output()
        .with_context(|| format!("{program} cannot be run"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{program} {}: {}", args.join(" "), said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn sizes_are_whole_steps_between_the_limits() {
        assert_eq!(fit(0, 0, STEP).unwrap(), STEP);
        assert_eq!(fit(GIB - 1, 0, STEP).unwrap(), GIB);
        assert_eq!(fit(1, GIB, GIB).unwrap(), GIB);
        for (least, most, smallest) in [(2, 1, STEP), (0, GIB, GIB + 1), (u64::MAX, 0, STEP)] {
            let refusal = fit(least, most, smallest).unwrap_err();
            assert_eq!(refusal.code, Code::OutOfRange, "{}", refusal.message);
        }
    }

    #[test]
    fn names_stay_inside_the_pool_and_snapshots_know_their_volume() {
        let pool = Pool::new("/p".into());
        assert_eq!(
            pool.volume("pvc-0a").unwrap(),
            Path::new("/p/pool/volumes/pvc-0a")
        );
        for bad in ["", ".", "..", "a/b", "a@b", "ü"] {
            assert_eq!(pool.volume(bad).unwrap_err().code, Code::NotFound, "{bad}");
        }
        let id = snapshot_id("pvc-0a", "snapshot-1");
        assert_eq!(split(&id), Some(("pvc-0a", "snapshot-1")));
        assert!(pool.snapshot(&id).is_ok());
        for bad in ["pvc-0a", "../x@y", "x@../y", "x@y@z"] {
            assert!(pool.snapshot(bad).is_err(), "{bad}");
        }
    }
}
