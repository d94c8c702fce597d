//! Tenant clusters that this process has not reconciled yet.
//!
//! What the process before it was rolling out is known once each was looked at; until then nothing more of
//! the fleet begins, or two operators in a row would roll out twice as many as they may.
//! Invariant: who was seen once is seen; who is created later is nobody's rollout.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Who is left.
#[derive(Debug, Default)]
pub struct Unseen(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    seen: BTreeSet<String>,
    is_over: bool,
}

impl Unseen {
    /// Notes one; true when all of `all` (UIDs) were seen now, once.
    pub fn note(&self, uid: &str, all: impl FnOnce() -> Vec<String>) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_over || !state.seen.insert(uid.to_owned()) {
            return false;
        }
        state.is_over = all().iter().all(|uid| state.seen.contains(uid));
        if state.is_over {
            state.seen.clear();
        }
        state.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_over_once_and_late_comers_change_nothing() {
        let unseen = Unseen::default();
        let all = || vec!["a".to_owned(), "b".to_owned()];
        assert!(!unseen.note("a", all));
        assert!(!unseen.note("a", all));
        assert!(unseen.note("b", all));
        assert!(!unseen.note("c", || vec!["c".to_owned(), "d".to_owned()]));
    }
}
