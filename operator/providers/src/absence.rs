//! When a machine is known to be gone.
//!
//! Invariant: not being found proves nothing by itself. A cloud answers "not found" for a while after it has made
//! a machine, and for everything when it is asked in another account or region; a list that misses a page misses
//! machines. So no answer, a partial list and a machine that was just asked for never prove an absence.

use jiff::{SignedDuration, Timestamp};

/// How long after a creation was asked for, answered or not, a machine that is not found may still appear.
pub const SETTLE: SignedDuration = SignedDuration::from_mins(5);
/// How far apart two looks have to be.
pub const APART: SignedDuration = SignedDuration::from_secs(10);

/// Why a machine is known to be gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Proof {
    /// Whoever answered is the one store of what there is, and was asked for the newest state by name.
    Authoritative,
    /// The provider says by its ID that it has ended.
    Terminated,
    /// Two complete looks did not find it, long enough after it was asked for.
    Missed,
    /// It was not seen since it was asked for, if it was, and is not found. It may appear; asking for it again, under
    /// the key that is its own, makes no second. Of a Machine that is wanted, then it is asked for again and nothing
    /// else follows, and of one that nothing was ever asked for.
    NotSeenYet,
    /// It may be there, and it may run. Its inventory keeps it from everybody until it is proven that nothing of this
    /// Machine is left on it, so nobody has to wait for that. Only of a Machine that goes.
    Quarantined,
}

/// One look that did not find the machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Miss {
    /// When.
    pub at: Timestamp,
    /// Every page was read, of every zone.
    pub complete: bool,
    /// It was the account, project or subscription that the machine was made in.
    pub same_account: bool,
}

/// What is known of a machine that was not found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Evidence {
    /// The provider says by its ID that it has ended.
    pub terminated: bool,
    /// When its creation was last asked for, answered or not; none: never.
    pub created: Option<Timestamp>,
    /// When it was last seen.
    pub seen: Option<Timestamp>,
    /// Its node is Ready; none: not known. One that is not known is not Ready.
    pub node_ready: Option<bool>,
    /// Looks that did not find it, in any order.
    pub misses: Vec<Miss>,
}

/// Why the machine is known to be gone; none: it may be there.
#[must_use]
pub fn prove(evidence: &Evidence) -> Option<Proof> {
    if evidence.terminated {
        return Some(Proof::Terminated);
    }
    if evidence.node_ready == Some(true) {
        return None;
    }
    let after = |miss: &&Miss| {
        miss.complete
            && miss.same_account
            && evidence.seen.is_none_or(|seen| miss.at > seen)
            && settled(evidence, miss.at)
    };
    let misses = || evidence.misses.iter().filter(after).map(|miss| miss.at);
    let (first, last) = (misses().min()?, misses().max()?);
    (last.duration_since(first) >= APART).then_some(Proof::Missed)
}

/// Whether what was asked for would be seen by now: it was seen since then, or that is long ago.
fn settled(evidence: &Evidence, at: Timestamp) -> bool {
    let Some(created) = evidence.created else {
        return true;
    };
    evidence.seen.is_some_and(|seen| seen > created) || at.duration_since(created) >= SETTLE
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn miss(seconds: i64) -> Miss {
        Miss {
            at: at(seconds),
            complete: true,
            same_account: true,
        }
    }

    fn missed(misses: &[i64]) -> Evidence {
        Evidence {
            created: Some(at(0)),
            misses: misses.iter().copied().map(miss).collect(),
            ..Evidence::default()
        }
    }

    #[test]
    fn it_takes_two_looks_that_are_apart_once_it_would_be_seen() {
        let proof = |misses: &[i64]| prove(&missed(misses));
        assert_eq!(proof(&[]), None);
        assert_eq!(proof(&[400]), None);
        assert_eq!(proof(&[400, 409]), None);
        assert_eq!(proof(&[400, 410]), Some(Proof::Missed));
        assert_eq!(proof(&[290, 299]), None);
        assert_eq!(proof(&[290, 300]), None, "one of them was too early");
        assert_eq!(proof(&[300, 310]), Some(Proof::Missed));
    }

    #[test]
    fn what_was_seen_since_it_was_asked_for_need_not_settle() {
        let mut evidence = missed(&[20, 30]);
        assert_eq!(prove(&evidence), None);
        evidence.seen = Some(at(10));
        assert_eq!(prove(&evidence), Some(Proof::Missed));
        evidence.seen = Some(at(25));
        assert_eq!(prove(&evidence), None, "it was seen after the first look");
    }

    #[test]
    fn an_end_that_is_told_proves_at_once() {
        let evidence = Evidence {
            terminated: true,
            created: Some(at(0)),
            ..Evidence::default()
        };
        assert_eq!(prove(&evidence), Some(Proof::Terminated));
    }

    fn evidence() -> impl Strategy<Value = Evidence> {
        let time = || proptest::option::of((0..1000_i64).prop_map(at));
        let look = (0..1000_i64, any::<bool>(), any::<bool>());
        let look = look.prop_map(|(seconds, complete, same_account)| Miss {
            complete,
            same_account,
            ..miss(seconds)
        });
        let looks = proptest::collection::vec(look, 0..8);
        let ready = proptest::option::of(any::<bool>());
        (time(), time(), ready, looks).prop_map(|(created, seen, node_ready, misses)| Evidence {
            terminated: false,
            created,
            seen,
            node_ready,
            misses,
        })
    }

    proptest! {
        #[test]
        fn partial_lists_and_other_accounts_prove_nothing(
            mut evidence in evidence(),
            account in any::<bool>(),
        ) {
            for miss in &mut evidence.misses {
                match account {
                    true => miss.same_account = false,
                    false => miss.complete = false,
                }
            }
            prop_assert_eq!(prove(&evidence), None);
        }

        #[test]
        fn a_node_that_is_ready_is_there(mut evidence in evidence()) {
            evidence.node_ready = Some(true);
            prop_assert_eq!(prove(&evidence), None);
        }

        #[test]
        fn nothing_is_gone_within_the_settle_time_unless_it_was_seen(mut evidence in evidence()) {
            evidence.seen = None;
            evidence.created = Some(at(1000));
            prop_assert_eq!(prove(&evidence), None);
        }

        #[test]
        fn order_makes_no_difference_and_a_look_that_proves_nothing_changes_nothing(
            evidence in evidence(),
            turn in any::<prop::sample::Index>(),
        ) {
            let mut turned = evidence.clone();
            if !turned.misses.is_empty() {
                let by = turn.index(turned.misses.len());
                turned.misses.rotate_left(by);
            }
            turned.misses.push(Miss { complete: false, ..miss(2000) });
            prop_assert_eq!(prove(&turned), prove(&evidence));
        }

        #[test]
        fn whatever_is_seen_later_takes_a_proof_back(mut evidence in evidence()) {
            evidence.seen = Some(at(1000));
            prop_assert_eq!(prove(&evidence), None);
        }
    }
}
