//! Identifiers that nobody guesses: 32 bytes of the system's randomness, and their digests.
//!
//! Invariant: what is compared with a secret is compared by digests, so that no time tells how much of it was right.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};

/// SHA-256 of an identifier.
pub type Digest = [u8; 32];

/// The system gave no randomness.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the system gives no randomness")]
pub struct NoRandomness;

/// A new identifier: 43 characters of the alphabet of URLs.
///
/// # Errors
/// [`NoRandomness`].
pub fn identifier() -> Result<String, NoRandomness> {
    let mut bytes = [0; 32];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| NoRandomness)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// The digest of what somebody sent.
#[must_use]
pub fn of(text: &str) -> Digest {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_differ_and_are_fit_for_cookies_and_forms() {
        let (one, other) = (identifier().unwrap(), identifier().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), 43);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        assert!(one.chars().all(is_plain), "{one}");
        assert_eq!(of(&one), of(&one));
        assert_ne!(of(&one), of(&other));
    }
}
