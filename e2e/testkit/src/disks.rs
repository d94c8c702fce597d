//! Real devices and mounts for tests: loop devices, and a mount namespace that is gone with the test.
//!
//! Invariant: what a test mounted is never seen by anybody else, and ends with its process.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::programs::or_skip;

pub mod failing;

/// Set inside of the namespace.
const INSIDE: &str = "COVEY_OWN_MOUNTS";
/// What tests of filesystems call.
const PROGRAMS: [&str; 8] = [
    "blockdev",
    "e2fsck",
    "losetup",
    "mkfs.ext4",
    "mkfs.xfs",
    "resize2fs",
    "unshare",
    "xfs_growfs",
];

/// Runs a test in a mount namespace of its own: the test program starts itself again there, with
/// this one test, whose full name has to be given. Skipped, loudly, where that cannot be done.
///
/// # Errors
/// Those of the test.
pub fn alone(name: &str, body: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        return runtime.block_on(body());
    }
    if or_skip(able())?.is_none() {
        return Ok(());
    }
    let mut child = Command::new("unshare");
    child
        .args(["--mount", "--propagation", "private"])
        .arg(std::env::current_exe()?)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1");
    let output = child.output().context("unshare cannot be run")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    // A name that is none would run nothing, and succeed.
    ensure!(
        output.status.success() && said.contains("1 passed"),
        "{name} in a namespace of its own: {said}{complained}"
    );
    for line in complained.lines() {
        match line.starts_with("SKIPPED ") {
            // `eprintln!` would be captured: nobody would see it.
            true => writeln!(std::io::stderr(), "{line}")?,
            false => eprintln!("{line}"),
        }
    }
    Ok(())
}

/// Whether this machine can do it.
fn able() -> Result<()> {
    ensure!(
        fs::metadata("/proc/self")?.uid() == 0,
        "only root can mount"
    );
    ensure!(
        Path::new("/dev/loop-control").exists(),
        "there are no loop devices"
    );
    let folders = std::env::var_os("PATH").unwrap_or_default();
    for program in PROGRAMS {
        let found = std::env::split_paths(&folders).any(|folder| folder.join(program).exists());
        ensure!(
            found,
            "{program} is missing; install util-linux, e2fsprogs and xfsprogs"
        );
    }
    Ok(())
}

/// What a program said.
///
/// # Errors
/// When it cannot be run, or failed.
pub fn tell(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).output();
    let output = output.with_context(|| format!("{program} cannot be run"))?;
    if !output.status.success() {
        bail!(
            "{program} {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A file as a block device; one that is dropped is given back, at the latest when nothing is
/// mounted from it any more.
#[derive(Debug)]
pub struct LoopDevice {
    file: PathBuf,
    device: String,
    is_attached: bool,
}

impl LoopDevice {
    /// A device of this many bytes; what is in the file already is on it.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(file: &Path, bytes: u64) -> Result<Self> {
        let opened = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(file)?;
        opened.set_len(bytes)?;
        let path = file.display().to_string();
        let made = Self {
            file: file.to_owned(),
            device: tell("losetup", &["--find", "--show", &path])?,
            is_attached: true,
        };
        // One that somebody made read-only before stays so.
        tell("blockdev", &["--setrw", &made.device])?;
        Ok(made)
    }

    /// Its path, for example `/dev/loop0`.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Its name, for example `loop0`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.device.trim_start_matches("/dev/")
    }

    /// The file behind it.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Makes it larger.
    ///
    /// # Errors
    /// When that fails.
    pub fn enlarge(&self, bytes: u64) -> Result<()> {
        let file = fs::OpenOptions::new().write(true).open(&self.file)?;
        file.set_len(bytes)?;
        tell("losetup", &["--set-capacity", &self.device]).map(drop)
    }

    /// Takes the file away from it: at once, or when nothing is mounted from it any more. Its name may be another
    /// one's from then on.
    ///
    /// # Errors
    /// When that fails.
    pub fn detach(&mut self) -> Result<()> {
        self.is_attached = false;
        tell("losetup", &["--detach", &self.device]).map(drop)
    }

    /// Shows it in a folder that looks like `/sys/block`, with a serial number, which loop devices
    /// have none of; all else is the kernel's.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn show(&self, disks: &Path, serial: &str) -> Result<()> {
        let real = Path::new("/sys/block").join(self.name());
        let shown = disks.join(self.name());
        fs::create_dir(&shown)?;
        for file in ["dev", "size", "ro"] {
            symlink(real.join(file), shown.join(file))?;
        }
        fs::write(shown.join("serial"), serial)?;
        Ok(())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if !self.is_attached {
            return;
        }
        // What says so survives the detaching, and the next one to use the device would read only.
        let _ = tell("blockdev", &["--setrw", &self.device]);
        let _ = tell("losetup", &["--detach", &self.device]);
    }
}
