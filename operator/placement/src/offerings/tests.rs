//! The order of tries, and how long refusals last.
//!
//! Invariant: whatever is refused, each offering is asked no more than once at a time.

use proptest::prelude::*;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn catalog(types: &[&str], zones: &[&str]) -> Catalog {
    let type_ = |name: &&str| Type {
        name: (*name).to_owned(),
        family: name.split('.').next().unwrap_or_default().to_owned(),
    };
    Catalog {
        types: types.iter().map(type_).collect(),
        zones: zones.iter().map(|z| (*z).to_owned()).collect(),
        market: Market::OnDemand,
    }
}

fn small() -> Catalog {
    catalog(&["m.large", "m.small", "c.large"], &["a", "b"])
}

fn taken(choice: Choice) -> Offering {
    match choice {
        Choice::Take(offering) => offering,
        other => panic!("{other:?}"),
    }
}

fn short(offering: &Offering) -> String {
    format!("{}@{}", offering.type_, offering.zone)
}

#[test]
fn types_as_listed_then_zones_then_nothing() {
    let (catalog, mut offerings) = (small(), Offerings::default());
    let mut asked = Vec::new();
    let end = loop {
        match offerings.choose(&catalog, "b", &[], at(0)) {
            Choice::Take(offering) => {
                asked.push(short(&offering));
                offerings.on_refused(&offering, Refusal::Capacity, at(0));
            }
            other => break other,
        }
    };
    let order = [
        "m.large@b",
        "m.small@b",
        "c.large@b",
        "m.large@a",
        "m.small@a",
        "c.large@a",
    ];
    assert_eq!(asked, order);
    let (until, why) = (Some(at(180)), Exhaustion::Refused(Refusal::Capacity));
    assert_eq!(end, Choice::Exhausted { until, why });
}

#[test]
fn one_try_until_it_is_known_to_be_good_then_ten_at_once() {
    let (catalog, mut offerings) = (small(), Offerings::default());
    let first = taken(offerings.choose(&catalog, "a", &[], at(0)));
    assert_eq!(
        offerings.choose(&catalog, "a", std::slice::from_ref(&first), at(0)),
        Choice::Wait
    );
    offerings.on_made(&first, at(0));
    let flying = vec![first.clone(); 9];
    assert_eq!(
        offerings.choose(&catalog, "a", &flying, at(0)),
        Choice::Take(first.clone())
    );
    let flying = vec![first; 10];
    assert_eq!(
        offerings.choose(&catalog, "a", &flying, at(0)),
        Choice::Wait
    );
}

#[test]
fn capacity_is_asked_again_after_three_minutes_and_ever_more_rarely() {
    let (catalog, mut offerings) = (catalog(&["m.large"], &[""]), Offerings::default());
    let mut now = 0;
    for wait in [3, 6, 12, 24, 30, 30] {
        let offering = taken(offerings.choose(&catalog, "", &[], at(now)));
        offerings.on_refused(&offering, Refusal::Capacity, at(now));
        let until = Some(at(now + wait * 60));
        let why = Exhaustion::Refused(Refusal::Capacity);
        let choice = offerings.choose(&catalog, "", &[], at(now + wait * 60 - 1));
        assert_eq!(choice, Choice::Exhausted { until, why });
        now += wait * 60;
        let canary = taken(offerings.choose(&catalog, "", &[], at(now)));
        assert_eq!(
            offerings.choose(&catalog, "", &[canary], at(now)),
            Choice::Wait
        );
    }
    // One that is made ends that: the next refusal is the first again.
    let offering = taken(offerings.choose(&catalog, "", &[], at(now)));
    offerings.on_made(&offering, at(now));
    offerings.on_refused(&offering, Refusal::Capacity, at(now));
    let _canary = taken(offerings.choose(&catalog, "", &[], at(now + 180)));
}

#[test]
fn late_refusals_of_tries_that_went_together_double_nothing() {
    let (catalog, mut offerings) = (catalog(&["m.large"], &[""]), Offerings::default());
    let offering = taken(offerings.choose(&catalog, "", &[], at(0)));
    offerings.on_made(&offering, at(0));
    (0..5).for_each(|n| offerings.on_refused(&offering, Refusal::Capacity, at(n)));
    // Nor does one that was made at the same time end it.
    offerings.on_made(&offering, at(5));
    let choice = offerings.choose(&catalog, "", &[], at(6));
    assert!(matches!(choice, Choice::Exhausted { .. }));
    let _canary = taken(offerings.choose(&catalog, "", &[], at(4 + 180)));
}

#[test]
fn a_quota_is_of_all_types_that_it_counts_in_all_zones() {
    let (catalog, mut offerings) = (small(), Offerings::default());
    for (refusal, seconds) in [(Refusal::Quota, 600), (Refusal::ZeroQuota, 3600)] {
        let offering = taken(offerings.choose(&catalog, "a", &[], at(0)));
        assert_eq!(offering.family, "m");
        offerings.on_refused(&offering, refusal, at(0));
        let next = taken(offerings.choose(&catalog, "a", &[], at(seconds - 1)));
        assert_eq!(short(&next), "c.large@a");
        let canary = taken(offerings.choose(&catalog, "a", &[], at(seconds)));
        assert_eq!(short(&canary), "m.large@a");
        // One canary for the whole family.
        assert_eq!(
            offerings.choose(&catalog, "a", std::slice::from_ref(&canary), at(seconds)),
            Choice::Wait
        );
        offerings.on_made(&canary, at(seconds));
    }
}

#[test]
fn a_forbidden_type_is_left_alone_for_a_day_but_for_an_hour() {
    let (catalog, mut offerings) = (catalog(&["m.large"], &["a"]), Offerings::default());
    let offering = taken(offerings.choose(&catalog, "a", &[], at(0)));
    offerings.on_refused(&offering, Refusal::Forbidden, at(0));
    let choice = offerings.choose(&catalog, "a", &[], at(23 * 3600 - 1));
    assert!(matches!(choice, Choice::Exhausted { .. }));
    let _again = taken(offerings.choose(&catalog, "a", &[], at(23 * 3600)));
}

#[test]
fn two_that_never_join_stop_the_location_until_a_canary_joins() {
    let (catalog, mut offerings) = (small(), Offerings::default());
    offerings.on_never_joined(at(0));
    let first = taken(offerings.choose(&catalog, "a", &[], at(0)));
    offerings.on_joined();
    offerings.on_never_joined(at(0));
    offerings.on_never_joined(at(0));
    let exhausted = |until, times| Choice::Exhausted {
        until: Some(at(until)),
        why: Exhaustion::NeverJoined(times),
    };
    assert_eq!(
        offerings.choose(&catalog, "a", &[], at(1799)),
        exhausted(1800, 2)
    );
    let _canary = taken(offerings.choose(&catalog, "a", &[], at(1800)));
    assert_eq!(
        offerings.choose(&catalog, "a", &[first], at(1800)),
        Choice::Wait
    );
    offerings.on_never_joined(at(1800));
    assert_eq!(
        offerings.choose(&catalog, "a", &[], at(1801)),
        exhausted(1800 + 3600, 3)
    );
    offerings.on_joined();
    let _free = taken(offerings.choose(&catalog, "a", &[], at(1801)));
}

#[test]
fn what_is_not_listed_any_more_is_forgotten() {
    let (catalog_, mut offerings) = (small(), Offerings::default());
    for refusal in [Refusal::Capacity, Refusal::Quota] {
        let offering = taken(offerings.choose(&catalog_, "a", &[], at(0)));
        offerings.on_refused(&offering, refusal, at(0));
    }
    offerings.prune(&catalog_);
    assert_eq!(offerings.entries.len(), 2);
    offerings.prune(&catalog(&["c.large"], &["a"]));
    assert_eq!(offerings, Offerings::default());
    let nothing = offerings.choose(&catalog(&[], &["a"]), "a", &[], at(0));
    let (until, why) = (None, Exhaustion::Nothing);
    assert_eq!(nothing, Choice::Exhausted { until, why });
}

#[derive(Clone, Debug)]
enum Happening {
    Want,
    Answer(prop::sample::Index, Option<Refusal>),
    Later(i64),
    Restart,
}

fn happening() -> impl Strategy<Value = Happening> {
    let refusal = prop_oneof![
        Just(Refusal::Capacity),
        Just(Refusal::Quota),
        Just(Refusal::ZeroQuota),
        Just(Refusal::Forbidden),
    ];
    prop_oneof![
        4 => Just(Happening::Want),
        4 => (any::<prop::sample::Index>(), prop::option::of(refusal))
            .prop_map(|(which, how)| Happening::Answer(which, how)),
        1 => (1..4000_i64).prop_map(Happening::Later),
        1 => Just(Happening::Restart),
    ]
}

proptest! {
    /// In any life: never more than ten in flight, never a second try of what was not known to be good, and
    /// nothing is asked before its time.
    #[test]
    fn tries_are_bounded(happenings in prop::collection::vec(happening(), 0..120)) {
        let (catalog, mut offerings, mut flying, mut now) =
            (small(), Offerings::default(), Vec::<Offering>::new(), 0);
        let mut good = std::collections::BTreeSet::new();
        for happening in happenings {
            match happening {
                Happening::Want => {
                    if let Choice::Take(offering) = offerings.choose(&catalog, "a", &flying, at(now)) {
                        prop_assert!(good.contains(&offering) || !flying.contains(&offering));
                        flying.push(offering);
                        prop_assert!(flying.len() <= MOST_IN_FLIGHT as usize);
                    }
                }
                Happening::Answer(which, how) if !flying.is_empty() => {
                    let offering = flying.swap_remove(which.index(flying.len()));
                    match how {
                        None => {
                            offerings.on_made(&offering, at(now));
                            good.insert(offering);
                        }
                        Some(refusal) => {
                            offerings.on_refused(&offering, refusal, at(now));
                            if matches!(refusal, Refusal::Capacity | Refusal::Forbidden) {
                                good.remove(&offering);
                            }
                            let again = offerings.choose(&catalog, &offering.zone, &[], at(now));
                            prop_assert_ne!(again, Choice::Take(offering));
                        }
                    }
                }
                Happening::Answer(..) => {}
                Happening::Later(seconds) => now += seconds,
                Happening::Restart => {
                    let stored = serde_json::to_string(&offerings).unwrap();
                    let read: Offerings = serde_json::from_str(&stored).unwrap();
                    prop_assert_eq!(&read, &offerings);
                    offerings = read;
                }
            }
        }
    }
}
