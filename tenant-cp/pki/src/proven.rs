//! What cryptography said before.
//!
//! A plan looks at every certificate of a tenant cluster, and whether a key belongs to one, or an authority signed it, is
//! the same for the same bytes at all times: asked anew each time, it was a quarter of what a plan cost.
//! Invariant: an answer is that of the same bytes; what is remembered is a digest, never a key.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use ring::digest::{Context, SHA256};

/// Answers that are remembered at most, some 50 bytes each: those of 300 tenant clusters. When there are more, all are
/// forgotten.
const MOST: usize = 16_384;

type Digest = [u8; 32];

/// Answers to one question.
pub(crate) struct Proven {
    answers: LazyLock<Mutex<HashMap<Digest, Option<bool>>>>,
}

impl Proven {
    /// Nothing was asked yet.
    pub(crate) const fn new() -> Self {
        Self {
            answers: LazyLock::new(Mutex::default),
        }
    }

    /// The answer for this, which `prove` gives where it is not known.
    pub(crate) fn or_prove(
        &self,
        of: [&str; 2],
        prove: impl FnOnce() -> Option<bool>,
    ) -> Option<bool> {
        let Some(digest) = digest(of) else {
            return prove();
        };
        let known = self.with(|answers| answers.get(&digest).copied());
        known.unwrap_or_else(|| {
            let answer = prove();
            self.with(|answers| {
                if answers.len() >= MOST {
                    answers.clear();
                }
                answers.insert(digest, answer);
            });
            answer
        })
    }

    fn with<T>(&self, use_them: impl FnOnce(&mut HashMap<Digest, Option<bool>>) -> T) -> T {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        use_them(&mut answers)
    }
}

fn digest(of: [&str; 2]) -> Option<Digest> {
    let mut context = Context::new(&SHA256);
    for part in of {
        // Its length, so that nothing of one part can pass for the other.
        context.update(&u64::try_from(part.len()).ok()?.to_be_bytes());
        context.update(part.as_bytes());
    }
    context.finish().as_ref().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_asked_once_and_no_other_is_taken_for_it() {
        let proven = Proven::new();
        let never = || panic!("asked again");
        assert_eq!(proven.or_prove(["a", "b"], || Some(true)), Some(true));
        assert_eq!(proven.or_prove(["a", "b"], never), Some(true));
        assert_eq!(proven.or_prove(["ab", ""], || Some(false)), Some(false));
        assert_eq!(proven.or_prove(["", "ab"], || None), None);
        assert_eq!(proven.or_prove(["", "ab"], never), None);
    }

    #[test]
    fn it_has_an_end() {
        let proven = Proven::new();
        for number in 0..=MOST {
            proven.or_prove([&number.to_string(), ""], || None);
        }
        assert_eq!(proven.with(|answers| answers.len()), 1);
    }
}
