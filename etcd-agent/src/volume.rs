//! Folders of a volume, opened name by name.
//!
//! Invariant: no symbolic link is followed, nothing but regular files is read, and how much is read is
//! bounded; what is written is there as a whole or not at all, and is on the disk afterwards.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Most entries of one folder. etcd's own have a dozen.
const MOST_ENTRIES: usize = 4096;

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

/// What a name stands for.
#[derive(Debug)]
pub(crate) enum Found<T> {
    /// Nothing.
    Absent,
    /// A link, or something else than was expected.
    Other,
    /// What was expected.
    There(T),
}

impl Folder {
    /// Opens the folder at `path`, which the caller vouches for.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(fs::open(path, flags, Mode::empty())?))
    }

    /// The folder called `name` in it.
    pub(crate) fn folder(&self, name: &str) -> io::Result<Found<Self>> {
        Ok(self.get(name, OFlags::DIRECTORY)?.map(Self))
    }

    /// The file called `name` in it, to be read.
    pub(crate) fn file(&self, name: &str) -> io::Result<Found<File>> {
        // A pipe without a writer must not hold us up.
        let file = match self.get(name, OFlags::NONBLOCK | OFlags::NOCTTY)? {
            Found::There(file) => file,
            Found::Absent => return Ok(Found::Absent),
            Found::Other => return Ok(Found::Other),
        };
        let kind = FileType::from_raw_mode(fs::fstat(&file)?.st_mode);
        match kind {
            FileType::RegularFile => Ok(Found::There(File::from(file))),
            _ => Ok(Found::Other),
        }
    }

    /// The first bytes of the file called `name` in it, `most` at most.
    pub(crate) fn head(&self, name: &str, most: usize) -> io::Result<Found<Vec<u8>>> {
        let file = match self.file(name)? {
            Found::There(file) => file,
            Found::Absent => return Ok(Found::Absent),
            Found::Other => return Ok(Found::Other),
        };
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let mut head = Vec::new();
        file.take(most).read_to_end(&mut head)?;
        Ok(Found::There(head))
    }

    /// All names in it, sorted. What is not UTF-8 in them is replaced: such a name is none of etcd's.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name == "." || name == ".." {
                continue;
            }
            if names.len() == MOST_ENTRIES {
                let most = format!("a folder has more than {MOST_ENTRIES} entries");
                return Err(io::Error::other(most));
            }
            names.push(name);
        }
        names.sort();
        Ok(names)
    }

    /// Puts a file called `name` there. Whatever had the name is replaced, also a link; never what it
    /// led to.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let new = format!(".{name}.new");
        // Of an attempt that was broken off.
        match fs::unlinkat(&self.0, &new, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP;
        let mut file = File::from(fs::openat(&self.0, &new, flags, mode)?);
        file.write_all(content)?;
        file.sync_all()?;
        fs::renameat(&self.0, &new, &self.0, name)?;
        Ok(fs::fsync(&self.0)?)
    }

    /// Whether something has this name, whatever it is.
    pub(crate) fn has(&self, name: &str) -> io::Result<bool> {
        match fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a folder called `name` in it.
    pub(crate) fn make(&self, name: &str) -> io::Result<()> {
        fs::mkdirat(&self.0, name, Mode::RWXU)?;
        Ok(fs::fsync(&self.0)?)
    }

    /// Gives what is called `name` here a name in another folder of the same volume. On the disk afterwards.
    pub(crate) fn rename(&self, name: &str, to: &Self, new: &str) -> io::Result<()> {
        fs::renameat(&self.0, name, &to.0, new)?;
        // Where it went to first: a name that is lost is worse than one too many.
        fs::fsync(&to.0)?;
        Ok(fs::fsync(&self.0)?)
    }

    /// Which names are in it is on the disk afterwards.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(fs::fsync(&self.0)?)
    }

    /// Everything that was written on its volume is on the disk afterwards.
    pub(crate) fn sync_volume(&self) -> io::Result<()> {
        Ok(fs::syncfs(&self.0)?)
    }

    fn get(&self, name: &str, flags: OFlags) -> io::Result<Found<OwnedFd>> {
        let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match fs::openat(&self.0, name, flags, Mode::empty()) {
            Ok(file) => Ok(Found::There(file)),
            Err(Errno::NOENT) => Ok(Found::Absent),
            // A link, a file where a folder should be, a socket.
            Err(Errno::LOOP | Errno::NOTDIR | Errno::NXIO) => Ok(Found::Other),
            Err(error) => Err(error.into()),
        }
    }
}

impl<T> Found<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Found<U> {
        match self {
            Self::Absent => Found::Absent,
            Self::Other => Found::Other,
            Self::There(found) => Found::There(change(found)),
        }
    }
}

#[cfg(test)]
mod tests;
