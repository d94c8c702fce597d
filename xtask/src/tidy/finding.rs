//! What a rule says when it is broken.
//!
//! Invariant: the message says how to mend it.

use std::fmt;

/// A rule that is broken, and how to mend it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Finding {
    /// From the top of the repository.
    pub(super) path: String,
    /// From 1; 0 means the whole file.
    pub(super) line: usize,
    pub(super) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            message,
        } = self;
        match line {
            0 => write!(f, "{path}: {message}"),
            line => write!(f, "{path}:{line}: {message}"),
        }
    }
}
