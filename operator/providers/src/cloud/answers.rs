//! Whether the API of each account answers, as the calls tell that are made anyway.
//!
//! Invariant: a refusal is an answer, and what we did not send says nothing; nobody is asked because of this.

use std::collections::BTreeMap;
use std::sync::Mutex;

use jiff::Timestamp;
use placement::circuit::{Admission, Circuit, Fault};

use super::clients::{Key, held};
use crate::fault::FaultKind;
use crate::http_client::BUDGET;
use crate::refused::Refused;

/// Of all accounts that were called.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<BTreeMap<Key, Circuit>>);

impl Answers {
    /// A call ended; `refused`: none where it succeeded.
    pub(super) fn take(&self, key: &Key, refused: Option<&Refused>, now: Timestamp) {
        if refused.is_some_and(|refused| refused.code == BUDGET) {
            return;
        }
        let is_silent = refused.is_some_and(|refused| refused.kind == FaultKind::Unavailable);
        let mut all = held(&self.0);
        let circuit = all.entry(key.clone());
        let circuit = circuit.or_insert_with(|| Circuit::new(now));
        if circuit.admission(now) == Admission::Probe {
            circuit.begin_probe(now);
        }
        circuit.record(is_silent.then_some(Fault::Unavailable), now);
    }

    /// None: nobody called.
    pub(super) fn of(&self, namespace: &str, name: &str) -> Option<bool> {
        let all = held(&self.0);
        let circuit = all.get(&(namespace.to_owned(), name.to_owned()));
        circuit.map(Circuit::is_closed)
    }

    pub(super) fn forget(&self, namespace: &str, name: &str) {
        held(&self.0).remove(&(namespace.to_owned(), name.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(kind: FaultKind, code: &str) -> Refused {
        let of = ("read", "a machine".to_owned());
        Refused::own("hetzner", of, kind, code, "as the test says")
    }

    fn said(calls: &[Option<Refused>]) -> Option<bool> {
        let answers = Answers::default();
        let key = ("team-a".to_owned(), "h".to_owned());
        for (n, call) in (0..).zip(calls) {
            let now = Timestamp::from_second(1_700_000_000 + n * 10).unwrap();
            answers.take(&key, call.as_ref(), now);
        }
        answers.of("team-a", "h")
    }

    #[test]
    fn an_api_that_gives_no_answer_is_told_from_one_that_refuses() {
        assert_eq!(said(&[]), None);
        let silent = || Some(refused(FaultKind::Unavailable, "no_answer"));
        assert_eq!(said(&[silent(), silent()]), Some(true));
        let five: Vec<_> = (0..5).map(|_| silent()).collect();
        assert_eq!(said(&five), Some(false));
        let refusals: Vec<_> = (0..9)
            .map(|_| Some(refused(FaultKind::Auth, "forbidden")))
            .collect();
        assert_eq!(said(&refusals), Some(true));
    }

    #[test]
    fn it_answers_again_once_a_call_after_a_while_is_answered() {
        let mut calls: Vec<_> = (0..5)
            .map(|_| Some(refused(FaultKind::Unavailable, "no_answer")))
            .collect();
        calls.extend([None, None, None]);
        assert_eq!(said(&calls), Some(true));
    }

    #[test]
    fn what_was_not_sent_says_nothing() {
        let kind = FaultKind::Throttled { after: None };
        assert_eq!(said(&[Some(refused(kind, BUDGET))]), None);
    }
}
