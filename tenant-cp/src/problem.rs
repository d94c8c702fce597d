//! One thing that is wrong with an object or with a configuration.
//!
//! Invariant: the message says what is wrong and how to mend it, so that whoever reads it needs
//! nothing else; the reason is one of the catalogue.

use std::fmt;

use api::Reason;

/// One thing that is wrong, for admission, a condition and an Event alike.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Problem {
    /// Path of the field. Example: `spec.network.podCIDR`.
    pub field: String,
    /// Reason of a condition. Example: `CIDROverlap`.
    pub reason: Reason,
    /// What is wrong and how to mend it: lower case, no full stop.
    pub message: String,
}

impl Problem {
    /// A problem with one field.
    pub fn new(field: impl Into<String>, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            reason,
            message: message.into(),
        }
    }

    /// The same below another field: what was found at, or below, `from` is at, or below, `to`. Of any other field
    /// it stays where it is.
    #[must_use]
    pub fn moved(mut self, from: &str, to: &str) -> Self {
        if let Some(rest) = self.field.strip_prefix(from) {
            self.field = format!("{to}{rest}");
        }
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}
