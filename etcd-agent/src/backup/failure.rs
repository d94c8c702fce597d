//! Why a command failed, with its exit code; and files, whose failure is the most frequent one.
//!
//! Invariant: what is read is bounded.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read as _};
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
pub(super) struct Failure(pub(super) u8, pub(super) String);

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
