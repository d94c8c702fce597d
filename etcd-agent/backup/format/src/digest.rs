//! SHA-256 sums.

use std::fmt;

use ring::digest::{Context, SHA256};

/// A SHA-256 sum.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Bytes of a sum.
    pub const BYTES: usize = 32;

    /// The sum of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(bytes);
        hasher.finish()
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// None unless there are 32 bytes.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Computes the sum of what comes in pieces.
#[derive(Clone)]
pub struct Hasher(Context);

impl Hasher {
    /// Of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    /// Adds a piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The sum of all pieces.
    #[must_use]
    pub fn finish(self) -> Digest {
        let mut sum = [0; Digest::BYTES];
        sum.copy_from_slice(self.0.finish().as_ref());
        Digest(sum)
    }
}

impl Default for Hasher {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher")
    }
}
