//! Names that no other process and no other run has.
//!
//! Invariant: a name is a DNS label if its prefix is one, and some nine characters longer than it.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Characters of names: no vowels, so no words.
const LETTERS: &[u8; 32] = b"bcdfghjklmnpqrstvwxz0123456789yu";
/// So many of them say which process it was.
const RUN: usize = 6;

/// `<prefix>-<six characters of this process><number>`.
#[must_use]
pub fn unique(prefix: &str) -> String {
    let letters: String = (0..RUN)
        .map(|at| char::from(LETTERS[(run() >> (5 * at)) as usize % LETTERS.len()]))
        .collect();
    format!("{prefix}-{letters}{}", next())
}

/// A UID in the form of those that the API server gives.
#[must_use]
pub fn uid() -> String {
    let (run, number) = (run() & 0xffff_ffff, next() & 0xffff);
    format!("0a1b2c3d-0000-4000-8000-{run:08x}{number:04x}")
}

/// Of this process; the standard library's hashers have keys from the system's random numbers.
fn run() -> u64 {
    static RUN: OnceLock<u64> = OnceLock::new();
    *RUN.get_or_init(|| {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        hasher.finish()
    })
}

fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_are_labels() {
        let (one, two) = (unique("crash"), unique("crash"));
        assert_ne!(one, two);
        assert!(one.starts_with("crash-") && one.len() <= "crash-".len() + RUN + 3);
        let is_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(one.chars().all(is_label), "{one}");
    }

    #[test]
    fn uids_differ_and_have_their_form() {
        let (one, two) = (uid(), uid());
        assert_ne!(one, two);
        let parts: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{one}");
    }
}
