//! Identifiers of etcd clusters and members, written as etcd writes them: hexadecimal, no zeros in
//! front.
//!
//! Invariant: zero, which etcd takes for "none", is no identifier.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A cluster or a member.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Id(NonZeroU64);

/// Whose a data directory is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MemberIds {
    /// The cluster.
    #[serde(rename = "clusterID")]
    pub cluster: Id,
    /// The member in it.
    #[serde(rename = "memberID")]
    pub member: Id,
}

/// A text that is no identifier.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} is not an identifier of etcd: 1 to 16 hexadecimal digits, not all of them 0")]
pub struct NotAnId(String);

impl Id {
    /// None for zero.
    #[must_use]
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// As a number, which is never zero.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl FromStr for Id {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let digits = (1..=16).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
        let number = digits.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        let id = number.and_then(Self::new);
        id.ok_or_else(|| NotAnId(text.chars().take(32).collect()))
    }
}

impl TryFrom<String> for Id {
    type Error = NotAnId;

    fn try_from(text: String) -> Result<Self, NotAnId> {
        text.parse()
    }
}

impl From<Id> for String {
    fn from(id: Id) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_read_and_written_as_etcd_does() {
        for text in ["cdf818194e3a8c32", "1", "8e9e05c52164694d"] {
            assert_eq!(text.parse::<Id>().unwrap().to_string(), text);
        }
        assert_eq!("00ff".parse(), Ok(Id::new(255).unwrap()));
    }

    #[test]
    fn what_is_no_identifier_is_refused() {
        for text in ["", "0", "0000", "x", "+1", "-1", " 1", "11111111111111111"] {
            assert!(text.parse::<Id>().is_err(), "{text:?}");
        }
    }
}
