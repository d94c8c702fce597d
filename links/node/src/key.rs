//! A WireGuard public key: 32 bytes, written as base64.
//!
//! Invariant: one key has one text, so two texts that differ are two keys.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// Bytes of a key (RFC 7748, Curve25519).
pub const LENGTH: usize = 32;
/// Characters of its text.
const TEXT: usize = 44;

/// A public key.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey(pub [u8; LENGTH]);

/// What is no key.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a public key is 44 characters of base64, and not all zero")]
pub struct NoKey;

impl FromStr for PublicKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        if text.len() != TEXT {
            return Err(NoKey);
        }
        let bytes = STANDARD.decode(text).map_err(|_| NoKey)?;
        let bytes = <[u8; LENGTH]>::try_from(bytes).map_err(|_| NoKey)?;
        // WireGuard takes zeros for "no key".
        if bytes == [0; LENGTH] {
            return Err(NoKey);
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for PublicKey {
    type Error = NoKey;

    fn try_from(text: String) -> Result<Self, NoKey> {
        text.parse()
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written() {
        let key = PublicKey([7; LENGTH]);
        assert_eq!(key.to_string().parse(), Ok(key));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let long = STANDARD.encode([7; LENGTH + 1]);
        let zero = STANDARD.encode([0; LENGTH]);
        // The last character carries bits that no byte has: a second text for one key.
        let mut second = PublicKey([7; LENGTH]).to_string();
        second.replace_range(42..43, "d");
        for text in ["", "key", &long, &zero, &second, &"=".repeat(TEXT)] {
            assert_eq!(text.parse::<PublicKey>(), Err(NoKey), "{text}");
        }
    }
}
