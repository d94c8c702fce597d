//! Whether kube-apiservers keep Events in the etcd that has Events alone. No I/O, no clock, no chance.
//!
//! Each change is a rollout of the control plane, so it is begun late and undone late: only an etcd that has been ready for
//! half a minute is named, one is named no more after a minute without it, and after that not again for ten minutes. The
//! management cluster's own clock and conditions say since when; nothing is remembered but when it was last lost, which the
//! Deployment itself bears. Laws (`tests`): what is not known changes nothing; a decision that is carried out is not taken
//! back by the same world; it is never named twice within the pause.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// How long it may be without a pod that is ready before kube-apiservers do without it.
pub const PATIENCE: SignedDuration = SignedDuration::from_secs(60);
/// How long they do without it at least, from when it was lost.
pub const PAUSE: SignedDuration = SignedDuration::from_mins(10);

/// How the etcd of Events is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Store {
    /// It cannot be said.
    Unknown,
    /// No pod of it is ready, since then.
    Away(Timestamp),
    /// Its pod is ready, but has not been for long.
    Ready,
    /// Its pod has been ready for long enough.
    Steady,
}

/// What is seen.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Whether kube-apiservers that are made now are told of it.
    pub named: bool,
    /// How it is.
    pub store: Store,
    /// When it was last lost.
    pub lost: Option<Timestamp>,
    /// Whether nothing else is done to the tenant cluster, so that a rollout may begin.
    pub calm: bool,
    /// Now.
    pub now: Timestamp,
}

/// What is to be so.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Decision {
    /// Whether kube-apiservers are told of it.
    pub named: bool,
    /// When it was last lost.
    pub lost: Option<Timestamp>,
    /// After which time to decide again although nothing happened.
    pub again: Option<Duration>,
}

/// Decides.
#[must_use]
pub fn decide(seen: &Seen) -> Decision {
    let as_it_is = Decision {
        named: seen.named,
        lost: seen.lost,
        again: None,
    };
    let wait = |until: Timestamp| Decision {
        // A moment later, so that it is over then.
        again: Duration::try_from(until.duration_since(seen.now)).ok(),
        ..as_it_is
    };
    match (seen.named, seen.store) {
        (true, Store::Away(since)) => match after(since, PATIENCE) {
            until if until > seen.now => wait(until),
            // From the condition and not from now: it stays the same until it is carried out.
            _ => Decision {
                named: false,
                lost: Some(since),
                again: None,
            },
        },
        (false, Store::Steady) => match seen.lost.map(|lost| after(lost, PAUSE)) {
            Some(until) if until > seen.now => wait(until),
            _ => Decision {
                named: seen.calm,
                ..as_it_is
            },
        },
        _ => as_it_is,
    }
}

fn after(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn seen(named: bool, store: Store, now: i64) -> Seen {
        Seen {
            named,
            store,
            lost: None,
            calm: true,
            now: at(now),
        }
    }

    #[test]
    fn it_is_named_once_it_is_steady_and_not_any_more_after_a_minute_without_it() {
        assert!(!decide(&seen(false, Store::Ready, 0)).named);
        assert!(decide(&seen(false, Store::Steady, 0)).named);
        let away = Store::Away(at(100));
        let early = decide(&seen(true, away, 159));
        assert_eq!(
            (early.named, early.again),
            (true, Some(Duration::from_secs(1)))
        );
        let late = decide(&seen(true, away, 160));
        assert_eq!((late.named, late.lost), (false, Some(at(100))));
        // A pod that was restarted and is ready is there, although the Deployment waits for it to be steady.
        assert!(decide(&seen(true, Store::Ready, 10_000)).named);
    }

    #[test]
    fn one_that_was_lost_is_not_named_again_before_the_pause_is_over() {
        let again = |now| {
            decide(&Seen {
                lost: Some(at(0)),
                ..seen(false, Store::Steady, now)
            })
        };
        assert_eq!(again(599).again, Some(Duration::from_secs(1)));
        assert!(!again(599).named);
        assert!(again(600).named);
        let busy = Seen {
            calm: false,
            ..seen(false, Store::Steady, 0)
        };
        assert!(!decide(&busy).named);
    }

    /// Of one that is lost nobody waits for an end of what may wait for it itself: new kube-apiservers of before 1.36 do
    /// not start without it.
    #[test]
    fn one_that_is_lost_is_named_no_more_whatever_else_goes_on() {
        let busy = Seen {
            calm: false,
            ..seen(true, Store::Away(at(0)), 60)
        };
        assert!(!decide(&busy).named);
    }

    fn store() -> impl Strategy<Value = Store> {
        prop_oneof![
            Just(Store::Unknown),
            (0_i64..2000).prop_map(|since| Store::Away(at(since))),
            Just(Store::Ready),
            Just(Store::Steady),
        ]
    }

    proptest! {
        #[test]
        fn a_decision_that_is_carried_out_stays_and_what_is_not_known_changes_nothing(
            named in any::<bool>(),
            store in store(),
            lost in prop::option::of(0_i64..2000),
            calm in any::<bool>(),
            now in 0_i64..4000,
        ) {
            let seen = Seen { lost: lost.map(at), calm, ..seen(named, store, now) };
            let decided = decide(&seen);
            if store == Store::Unknown {
                prop_assert_eq!((decided.named, decided.lost), (seen.named, seen.lost));
            }
            let carried_out = Seen { named: decided.named, lost: decided.lost, ..seen };
            let again = decide(&carried_out);
            prop_assert_eq!((again.named, again.lost), (decided.named, decided.lost));
        }

        /// Whatever it does, second by second: between two rollouts that name it there is the pause.
        #[test]
        fn it_does_not_flap(lives in prop::collection::vec((1_i64..200, 1_i64..200), 1..12)) {
            let mut state = Seen { named: false, store: Store::Unknown, lost: None, calm: true, now: at(0) };
            let (mut clock, mut named_at) = (0_i64, Vec::new());
            for (up, down) in lives {
                for second in 0..up + down {
                    let ready = second < up;
                    state.now = at(clock + second);
                    state.store = match ready {
                        true if second >= 30 => Store::Steady,
                        true => Store::Ready,
                        false => Store::Away(at(clock + up)),
                    };
                    let decided = decide(&state);
                    if decided.named && !state.named {
                        named_at.push(clock + second);
                    }
                    (state.named, state.lost) = (decided.named, decided.lost);
                }
                clock += up + down;
            }
            for pair in named_at.windows(2) {
                prop_assert!(pair[1] - pair[0] >= PAUSE.as_secs(), "{named_at:?}");
            }
        }
    }
}
