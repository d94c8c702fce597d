//! A rotation as it goes on by itself, and a world of verifiers and holders that read again when they like.

use std::collections::BTreeSet;

use api::tenant_cluster::RotationPhase;
use kit_objects::known::Known;

use super::facts::Facts;
use super::plan::{Decision, MOST, Step, Wait, decide};
use super::told;

mod trust;
mod world;

const USERS: told::Subject = told::Subject {
    name: "usersCA",
    verifiers: told::SERVERS,
    holders: "the kubeconfig, to have what is signed by",
};

/// The second generation is asked for, and nothing was done.
fn asked() -> Facts {
    Facts {
        wanted: Some(2),
        hold: false,
        believed: BTreeSet::from([1]),
        dropped: BTreeSet::new(),
        signs: 1,
        verifiers: Known::Known(true),
        holders: Known::Known(true),
        outstanding: Known::Absent,
        untold: Known::Absent,
        is_spreading: false,
        busy: None,
    }
}

fn both() -> Facts {
    Facts {
        believed: BTreeSet::from([1, 2]),
        ..asked()
    }
}

#[track_caller]
fn is(facts: &Facts, phase: RotationPhase, next: Result<Step, Wait>) {
    let wanted = Decision {
        phase,
        step: next.clone().ok(),
        wait: next.err(),
        is_refused: false,
    };
    assert_eq!(decide(facts), wanted, "{facts:?}");
}

#[test]
fn phases_come_one_after_the_other_and_each_waits_for_what_it_depends_on() {
    let no = Known::Known(false);
    is(&asked(), RotationPhase::Preparing, Ok(Step::Make(2)));
    let spreads = Facts {
        verifiers: no,
        is_spreading: true,
        ..both()
    };
    is(&spreads, RotationPhase::Preparing, Err(Wait::Verifiers));
    is(&both(), RotationPhase::Preparing, Ok(Step::Sign(2)));
    let untold = Facts {
        untold: Known::Known("nodes".to_owned()),
        ..both()
    };
    is(&untold, RotationPhase::Preparing, Err(Wait::Untold));
    let switches = Facts {
        signs: 2,
        holders: no,
        ..both()
    };
    is(&switches, RotationPhase::Switching, Err(Wait::Holders));
    let switched = Facts { signs: 2, ..both() };
    let others = Step::Drop(BTreeSet::from([1]));
    is(&switched, RotationPhase::Draining, Ok(others));
    let drops = Facts {
        believed: BTreeSet::from([2]),
        dropped: BTreeSet::from([1]),
        verifiers: no,
        is_spreading: true,
        ..switched
    };
    is(&drops, RotationPhase::Dropping, Err(Wait::Verifiers));
    let over = Facts {
        verifiers: Known::Known(true),
        is_spreading: false,
        ..drops
    };
    assert_eq!(decide(&over).phase, RotationPhase::Idle);
    assert_eq!((decide(&over).step, decide(&over).wait), (None, None));
}

#[test]
fn nothing_is_dropped_while_something_is_in_use_that_it_signed() {
    let token = Facts {
        signs: 2,
        outstanding: Known::Known("a token".to_owned()),
        ..both()
    };
    is(&token, RotationPhase::Draining, Err(Wait::Outstanding));
    let told = told::status(
        USERS,
        &token,
        &decide(&token),
        None,
        jiff::Timestamp::UNIX_EPOCH,
    );
    assert_eq!(told.unwrap().waiting_for.as_deref(), Some("a token"));
    assert_eq!(
        told::progress(USERS, &token, &decide(&token)),
        None,
        "it is at rest"
    );
    let unseen = Facts {
        outstanding: Known::Unknown { why: "it is dark" },
        ..token
    };
    let waits = Err(Wait::Unknown("it is dark"));
    is(&unseen, RotationPhase::Draining, waits);
}

#[test]
fn what_cannot_be_seen_holds_the_rotation_and_is_named() {
    let dark = Known::Unknown { why: "it is dark" };
    let unseen = Facts {
        verifiers: dark,
        ..both()
    };
    let waits = Err(Wait::Unknown("it is dark"));
    is(&unseen, RotationPhase::Preparing, waits.clone());
    let unseen = Facts {
        signs: 2,
        holders: dark,
        ..both()
    };
    is(&unseen, RotationPhase::Switching, waits);
}

#[test]
fn nothing_goes_on_where_it_is_held_not_asked_for_or_something_else_does() {
    for facts in [asked(), both(), Facts { signs: 2, ..both() }] {
        let held = Facts {
            hold: true,
            ..facts.clone()
        };
        assert_eq!(
            (decide(&held).step, decide(&held).wait),
            (None, Some(Wait::Hold))
        );
        let busy = Facts {
            busy: Some("an upgrade"),
            ..facts.clone()
        };
        assert_eq!(decide(&busy).wait, Some(Wait::Busy("an upgrade")));
        let unasked = Facts {
            wanted: None,
            ..facts
        };
        assert_eq!(decide(&unasked).step, None);
        assert_eq!(
            decide(&unasked).wait.is_none(),
            unasked.believed.len() == 1,
            "only where there is one is nothing to say"
        );
    }
}

#[test]
fn until_it_is_dropped_the_one_of_before_signs_again() {
    // Before the new one signed: it goes without ever having signed.
    let back = Facts {
        wanted: Some(1),
        ..both()
    };
    let drop = |generation| Ok(Step::Drop(BTreeSet::from([generation])));
    is(&back, RotationPhase::Draining, drop(2));
    // After it signed.
    let back = Facts { signs: 2, ..back };
    is(&back, RotationPhase::Preparing, Ok(Step::Sign(1)));
    // After the drop.
    let late = Facts {
        believed: BTreeSet::from([2]),
        dropped: BTreeSet::from([1]),
        ..back
    };
    let decision = decide(&late);
    assert!(decision.is_refused && decision.step.is_none());
    assert_eq!(
        told::refusal(USERS, &late),
        "spec.rotation.usersCA.generation: 1 is believed no more; set it to 2, or to 3 for a new one"
    );
}

#[test]
fn number_that_was_dropped_or_passed_over_is_never_made_again() {
    for (wanted, may) in [(1, false), (3, false), (4, false), (5, true), (9, true)] {
        let facts = Facts {
            wanted: Some(wanted),
            believed: BTreeSet::from([2]),
            dropped: BTreeSet::from([1, 4]),
            signs: 2,
            ..asked()
        };
        let decision = decide(&facts);
        assert_eq!(decision.is_refused, !may, "{wanted}");
        assert_eq!(decision.step, may.then_some(Step::Make(wanted)), "{wanted}");
    }
}

#[test]
fn number_that_is_raised_again_and_again_makes_a_few_generations() {
    let full = Facts {
        wanted: Some(9),
        believed: (1..).take(MOST).collect(),
        ..asked()
    };
    is(&full, RotationPhase::Preparing, Err(Wait::TooMany));
    let told = told::status(
        USERS,
        &full,
        &decide(&full),
        None,
        jiff::Timestamp::UNIX_EPOCH,
    );
    let waits = told.unwrap().waiting_for.unwrap();
    assert!(
        waits.contains("set spec.rotation.usersCA.generation"),
        "{waits}"
    );
}

#[test]
fn where_nothing_was_ever_turned_nothing_is_told() {
    let never = Facts {
        wanted: None,
        ..asked()
    };
    let at = jiff::Timestamp::UNIX_EPOCH;
    assert_eq!(told::status(USERS, &never, &decide(&never), None, at), None);
    assert_eq!(told::progress(USERS, &never, &decide(&never)), None);
}

#[test]
fn time_of_a_phase_is_when_it_was_first_seen() {
    let at = |second| jiff::Timestamp::from_second(second).unwrap();
    let facts = both();
    let first = told::status(USERS, &facts, &decide(&facts), None, at(1)).unwrap();
    let again = told::status(USERS, &facts, &decide(&facts), Some(&first), at(9));
    assert_eq!(again.as_ref(), Some(&first));
    let next = Facts { signs: 2, ..both() };
    let next = told::status(USERS, &next, &decide(&next), Some(&first), at(9)).unwrap();
    assert_ne!(next.since, first.since);
}
