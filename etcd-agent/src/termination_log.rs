//! The file in which the kubelet finds what becomes part of a pod's status
//! (kubernetes.io/docs, "Determine the Reason for Pod Failure").
//!
//! Invariant: the kubelet makes it; elsewhere it is not made.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// A text as one line of at most so many bytes.
pub(crate) fn one_line(text: &str, most_bytes: usize) -> String {
    let mut line = text.replace(char::is_control, " ");
    line.truncate(line.floor_char_boundary(most_bytes));
    line
}

/// Writes the file anew.
///
/// # Errors
/// When it is not there, or cannot be written.
pub(crate) fn write(path: &Path, said: &[u8]) -> io::Result<()> {
    let file = File::options().write(true).truncate(true).open(path);
    file.and_then(|mut file| file.write_all(said))
}
