//! Why a command failed, with its exit code; and files and the standard output, whose failures are the most frequent.
//!
//! Invariant: what is read is bounded.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// Most bytes of a key, certificate or credential.
const MOST_FILE: u64 = 256 * 1024;
/// Anything else.
pub(super) const FAILED: u8 = 1;
/// Another backup of the same tenant cluster runs.
pub(super) const ANOTHER: u8 = 3;
/// A restore that cannot be had.
pub(super) const NOT_TO_BE_HAD: u8 = 4;

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

/// Reads a small file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error: io::Error| Failure(FAILED, format!("{}: {error}", path.display()));
    let (mut bytes, file) = (Vec::new(), File::open(path).map_err(failed)?);
    file.take(MOST_FILE)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}

/// Writes a line to the standard output.
pub(super) fn say(line: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{line}").map_err(Into::into)
}
