//! Why a command failed, with its exit code; and files and the standard output, whose failures are the most frequent.
//!
//! Invariant: what is read is bounded.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Most bytes of a key, certificate or credential.
const MOST_FILE: u64 = 256 * 1024;
/// Anything else.
pub(super) const FAILED: u8 = 1;
/// Another backup of the same tenant cluster runs.
pub(super) const ANOTHER: u8 = 3;
/// A restore that cannot be had.
pub(super) const NOT_TO_BE_HAD: u8 = 4;
/// What was restored is not what was backed up.
pub(super) const DIFFERS: u8 = 5;

/// What ended it, with the exit code.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure(pub(super) u8, pub(super) String);

impl Failure {
    /// The process' exit code.
    #[must_use]
    pub fn code(&self) -> u8 {
        self.0
    }

    /// What it is, for people.
    #[must_use]
    pub fn said(&self) -> &str {
        &self.1
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut said = error.to_string();
        let mut next = error.source();
        while let Some(source) = next {
            said = format!("{said}: {source}");
            next = source.source();
        }
        Self(FAILED, said)
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> Failure {
    move |error| Failure(FAILED, format!("{}: {error}", path.display()))
}

/// Reads a small file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    read_up_to(path, MOST_FILE)
}

/// Reads so many bytes of a file at most.
pub(super) fn read_up_to(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let (mut bytes, file) = (Vec::new(), File::open(path).map_err(failed(path))?);
    let read = file.take(most).read_to_end(&mut bytes);
    read.map_err(failed(path))?;
    Ok(bytes)
}

/// Makes a file that its owner alone can read; one that is there stays as it is.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(failed(path))
}

/// Writes a line to the standard output.
pub(super) fn say(line: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{line}").map_err(Into::into)
}
