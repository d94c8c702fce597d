//! What was seen of each machine, and when it was looked for and not found.
//!
//! Invariant: this is only remembered so that an absence is proven sooner. Without it, after a crash, a machine that
//! is there is seen again, and one that is not is looked for twice more.

use jiff::Timestamp;

use crate::absence::{Evidence, Miss, Proof, SETTLE, prove};
use crate::by_uid::ByUid;
use crate::subject::{Asked, Subject};

/// Misses of one machine: the first, which is the oldest that counts, and the last ones.
const MOST_MISSES: usize = 4;

/// What is remembered.
#[derive(Clone, Debug, Default)]
pub struct Looks {
    by_uid: ByUid<Known>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    seen: Option<Timestamp>,
    misses: Vec<Miss>,
}

impl Looks {
    /// It was seen.
    pub fn sees(&mut self, uid: &str, now: Timestamp) {
        let known = self.by_uid.known(uid);
        known.seen = Some(now);
        known.misses.clear();
    }

    /// It was looked for, everywhere, and not found. Gives a proof that it is gone, if that is one.
    pub fn misses(&mut self, subject: &Subject, now: Timestamp) -> Option<Proof> {
        let known = self.by_uid.known(&subject.owner.uid);
        let miss = Miss {
            at: now,
            complete: true,
            same_account: true,
        };
        if known.misses.len() >= MOST_MISSES {
            known.misses.remove(1);
        }
        known.misses.push(miss);
        let created = match subject.asked {
            Asked::Never => None,
            // While it is asked for, now; afterwards, until the Machine was deleted.
            Asked::Pending { deleted } => Some(deleted.unwrap_or(now)),
            Asked::Seen => None,
        };
        // Misses of before it would have been seen count for nothing, so what is left of them must not be all.
        if let Some(created) = created {
            let settled = created.saturating_add(SETTLE);
            let settled = settled.unwrap_or(Timestamp::MAX);
            known
                .misses
                .retain(|miss| miss.at >= settled || known.seen.is_some());
        }
        let evidence = Evidence {
            terminated: false,
            created,
            seen: known.seen,
            node_ready: subject.node_ready,
            misses: known.misses.clone(),
        };
        let proof = prove(&evidence)?;
        Some(proof)
    }

    /// Nobody asks for it any more.
    pub fn forgets(&mut self, uid: &str) {
        self.by_uid.forgets(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Owner;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn subject(asked: Asked) -> Subject {
        Subject {
            owner: Owner {
                uid: "u".to_owned(),
                ..Owner::default()
            },
            asked,
            instance: None,
            is_going: true,
            node_ready: None,
        }
    }

    #[test]
    fn two_misses_that_are_apart_prove_an_end_of_what_was_seen() {
        let mut looks = Looks::default();
        let gone = subject(Asked::Seen);
        assert_eq!(looks.misses(&gone, at(0)), None);
        assert_eq!(looks.misses(&gone, at(5)), None);
        assert_eq!(looks.misses(&gone, at(10)), Some(Proof::Missed));
        looks.sees("u", at(11));
        assert_eq!(looks.misses(&gone, at(30)), None, "it was there meanwhile");
        assert_eq!(looks.misses(&gone, at(40)), Some(Proof::Missed));
    }

    #[test]
    fn what_was_asked_for_without_an_answer_settles_first() {
        let mut looks = Looks::default();
        let gone = subject(Asked::Pending {
            deleted: Some(at(0)),
        });
        for seconds in (0..300).step_by(10) {
            assert_eq!(looks.misses(&gone, at(seconds)), None, "{seconds}");
        }
        assert_eq!(looks.misses(&gone, at(300)), None);
        assert_eq!(looks.misses(&gone, at(310)), Some(Proof::Missed));
    }

    #[test]
    fn what_is_still_asked_for_is_never_gone() {
        let mut looks = Looks::default();
        let wanted = subject(Asked::Pending { deleted: None });
        for seconds in (0..3600).step_by(10) {
            assert_eq!(looks.misses(&wanted, at(seconds)), None, "{seconds}");
        }
    }

    #[test]
    fn a_node_that_is_ready_keeps_its_machine() {
        let mut looks = Looks::default();
        let ready = Subject {
            node_ready: Some(true),
            ..subject(Asked::Seen)
        };
        assert_eq!(looks.misses(&ready, at(0)), None);
        assert_eq!(looks.misses(&ready, at(100)), None);
    }
}
