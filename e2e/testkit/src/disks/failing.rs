//! A file that answers as a disk does that fails: with EIO; or as one that is slow to have what was written. It lies on a filesystem of the test's own (FUSE),
//! which a loop device makes a disk of.
//!
//! Invariant: what was written before the failure is there after it.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

/// Nothing is remembered of it for longer.
const FRESH: Duration = Duration::ZERO;
/// Its name, and its number.
const NAME: &str = "disk";
const NUMBER: INodeNo = INodeNo(2);

/// A file whose reads and writes can be made to fail, and whose flushes can be made slow.
pub struct FailingFile {
    path: PathBuf,
    fails: Arc<AtomicBool>,
    slow_ms: Arc<AtomicU64>,
    // Dropped last: ends the filesystem.
    _session: BackgroundSession,
}

impl FailingFile {
    /// An empty one of this many bytes, below a folder that is empty. It is well until it is told to fail.
    ///
    /// # Errors
    /// Where no filesystem can be mounted.
    pub fn new(folder: &Path, bytes: u64) -> Result<Self> {
        let data = tempfile::tempfile()?;
        data.set_len(bytes)?;
        let fails = Arc::new(AtomicBool::new(false));
        let slow_ms = Arc::new(AtomicU64::new(0));
        let served = Served {
            data,
            bytes,
            fails: Arc::clone(&fails),
            slow_ms: Arc::clone(&slow_ms),
        };
        let session = fuser::spawn_mount(served, folder, &Config::default());
        Ok(Self {
            path: folder.join(NAME),
            fails,
            slow_ms,
            _session: session.context("a filesystem of the test's own cannot be mounted")?,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on every read and write of it fails, or none.
    pub fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    /// From now on who wants to have on it what was written waits so long, in whole milliseconds, each time.
    pub fn slow(&self, flush: Duration) {
        let millis = u64::try_from(flush.as_millis()).unwrap_or(u64::MAX);
        self.slow_ms.store(millis, Ordering::SeqCst);
    }
}

struct Served {
    data: File,
    bytes: u64,
    fails: Arc<AtomicBool>,
    slow_ms: Arc<AtomicU64>,
}

impl Served {
    fn attributes(&self, number: INodeNo) -> FileAttr {
        let is_folder = number == INodeNo::ROOT;
        FileAttr {
            ino: number,
            size: if is_folder { 0 } else { self.bytes },
            blocks: self.bytes / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: match is_folder {
                true => FileType::Directory,
                false => FileType::RegularFile,
            },
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn well(&self) -> Result<(), Errno> {
        match self.fails.load(Ordering::SeqCst) {
            true => Err(Errno::EIO),
            false => Ok(()),
        }
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match parent == INodeNo::ROOT && name == NAME {
            true => reply.entry(&FRESH, &self.attributes(NUMBER), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FRESH, &self.attributes(number));
    }

    /// It keeps its size and everything else: a disk does not change.
    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&FRESH, &self.attributes(number));
    }

    /// Past the page cache, which would answer in the place of a disk that fails.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
        let read = self.well().and_then(|()| {
            let read = self.data.read_at(&mut bytes, offset);
            read.map_err(|_| Errno::EIO)
        });
        match read {
            Ok(read) => reply.data(bytes.get(..read).unwrap_or_default()),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.well().and_then(|()| {
            let written = self.data.write_all_at(data, offset);
            written.map_err(|_| Errno::EIO)
        });
        match written {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        thread::sleep(Duration::from_millis(self.slow_ms.load(Ordering::SeqCst)));
        match self.well() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }
}
