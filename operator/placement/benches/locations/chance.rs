//! Numbers that look random, and are the same with the same seed.
//!
//! Invariant: nothing but the seed decides them. The generator is `SplitMix64`.

pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// One of `0..n`.
    pub(crate) fn below(&mut self, n: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let n = u64::try_from(n.max(1)).unwrap_or(1);
        i64::try_from((z ^ (z >> 31)) % n).unwrap_or_default()
    }

    pub(crate) fn between(&mut self, least: i64, most: i64) -> i64 {
        least + self.below(most - least + 1)
    }
}
