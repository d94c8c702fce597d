//! What silence and a try say of an endpoint.
//!
//! Invariant: the locations are those of the verdict's own tests, in short.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::verdict::{self, Api, Finding, Machine, Signals};

const OURS: &str = "published";

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Machines that were quiet for so many seconds.
fn location(name: &str, endpoint: &str, quiet: &[u64]) -> Signals {
    let machine = |quiet: &u64| Machine {
        zone: String::new(),
        unchanged_for: Some(s(*quiet)),
        is_proven_dead: false,
    };
    Signals {
        name: name.to_owned(),
        endpoint: endpoint.to_owned(),
        api: Api::Answers,
        zones: [String::new()].into(),
        machines: quiet.iter().map(machine).collect(),
    }
}

fn observed(is_trusted: bool, locations: Vec<Signals>) -> Observation {
    Observation {
        after: s(25),
        is_trusted,
        locations,
        endpoints: BTreeMap::new(),
    }
}

fn stands(observation: &Observation, probe: Probe, serves: bool) -> Standing {
    judge(
        observation,
        &verdict::judge(observation),
        OURS,
        probe,
        serves,
    )
}

const PROBES: [Probe; 3] = [Probe::Unknown, Probe::Answers, Probe::Fails];

#[test]
fn silence_of_all_who_come_by_it_is_said_whatever_the_operator_finds() {
    let all = observed(
        true,
        vec![
            location("a", OURS, &[40, 40]),
            location("b", OURS, &[40, 40]),
            location("k", "inside", &[1, 2]),
        ],
    );
    for probe in PROBES {
        assert_eq!(stands(&all, probe, true), Standing::Unreachable);
        // And it takes nothing out: the way may be one from within.
        let places = verdict::judge(&all).places;
        assert!(places.values().all(|f| !matches!(f, Finding::Outage(_))));
    }
}

#[test]
fn who_is_heard_by_it_speaks_for_it() {
    let one = observed(
        true,
        vec![location("a", OURS, &[40, 40]), location("b", OURS, &[1, 1])],
    );
    for probe in PROBES {
        assert_eq!(stands(&one, probe, true), Standing::Fine);
    }
}

#[test]
fn where_everybody_is_silent_only_a_try_that_fails_speaks_against_it() {
    let all = |is_trusted| observed(is_trusted, vec![location("a", OURS, &[40, 40, 40])]);
    for is_trusted in [false, true] {
        let all = all(is_trusted);
        assert_eq!(stands(&all, Probe::Fails, true), Standing::Unreachable);
        // The control plane is down, and with it whatever leads there.
        assert_eq!(stands(&all, Probe::Fails, false), Standing::Unknown);
        assert_eq!(stands(&all, Probe::Answers, true), Standing::Unknown);
        assert_eq!(stands(&all, Probe::Unknown, true), Standing::Unknown);
    }
    // They come another way.
    let inside = observed(false, vec![location("k", "inside", &[40, 40])]);
    assert_eq!(stands(&inside, Probe::Fails, true), Standing::Unknown);
}

#[test]
fn whoever_did_not_listen_says_nothing_new() {
    let deaf = observed(
        false,
        vec![location("a", OURS, &[3, 3]), location("k", "inside", &[1])],
    );
    for probe in PROBES {
        assert_eq!(stands(&deaf, probe, true), Standing::Unknown);
    }
}

#[test]
fn it_is_tried_while_all_are_silent_and_no_more_often_than_every_thirty_seconds() {
    let due = |quiet: &[Option<u64>], tried: Option<u64>| {
        let quiet: Vec<_> = quiet.iter().map(|quiet| quiet.map(s)).collect();
        is_probe_due(&quiet, s(25), tried.map(s))
    };
    assert!(due(&[Some(25), Some(300)], None));
    assert!(due(&[Some(25), Some(300), None], Some(30)));
    assert!(!due(&[Some(25), Some(300)], Some(29)));
    for quiet in [
        &[][..],
        &[None, None],
        &[Some(300)],
        &[Some(300), None],
        &[Some(300), Some(300), Some(24)],
    ] {
        assert!(!due(quiet, None), "{quiet:?}");
    }
}

proptest! {
    #[test]
    fn nothing_is_said_against_an_endpoint_by_which_half_of_a_location_is_heard(
        quiet in prop::collection::vec(0_u64..60, 0..4),
        others in prop::collection::vec((any::<bool>(), prop::collection::vec(0_u64..60, 0..4)), 0..4),
        is_trusted in any::<bool>(), serves in any::<bool>(), probe in prop::sample::select(PROBES.to_vec()),
    ) {
        let mut all = vec![location("fresh", OURS, &[vec![1_u64], quiet.iter().map(|_| 1).collect()].concat())];
        let rest = others.iter().enumerate().map(|(n, (ours, quiet))| {
            location(&format!("l{n}"), if *ours { OURS } else { "inside" }, quiet)
        });
        all.extend(rest);
        let standing = stands(&observed(is_trusted, all), probe, serves);
        prop_assert_ne!(standing, Standing::Unreachable);
    }

    /// A try that answers never makes it worse than one that nobody made, and takes nothing out.
    #[test]
    fn an_answer_is_no_worse_than_nothing(
        all in prop::collection::vec((any::<bool>(), prop::collection::vec(0_u64..60, 0..4)), 0..5),
        is_trusted in any::<bool>(), serves in any::<bool>(),
    ) {
        let all = all.iter().enumerate().map(|(n, (ours, quiet))| {
            location(&format!("l{n}"), if *ours { OURS } else { "inside" }, quiet)
        });
        let observation = observed(is_trusted, all.collect());
        prop_assert_eq!(
            stands(&observation, Probe::Answers, serves),
            stands(&observation, Probe::Unknown, serves)
        );
    }
}
