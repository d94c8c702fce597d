//! Who goes and where the next one is made, on small pools; the lives of pools are in `tests/simulation`.
//!
//! Invariant: each test names the rule of clouds.md that it shows.

use proptest::prelude::*;

use super::*;
use crate::budget::Micros;
use crate::targets::Zone;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn location(name: &str, weight: u32, state: State) -> Location {
    let zone = Zone {
        name: String::new(),
        state,
        since: at(0),
        is_creatable: true,
    };
    crate::targets::tests::location(name, weight, vec![zone])
}

fn pool(replicas: u32) -> Pool {
    Pool {
        replicas,
        max_extra: replicas.div_ceil(2),
        rebalance: Rebalance::Never,
        is_rolling_out: false,
        budget: None,
        canaries: Vec::new(),
    }
}

/// "a1 b2!": Ready machines in a and b; `-` coming, `~` silent, `x` going, `!` named, `r` replacement. What is
/// written later was made later.
fn machines(text: &str) -> Vec<Machine> {
    let one = |(n, word): (usize, &str)| Machine {
        name: word.to_owned(),
        place: Place::new(&word[..1], ""),
        made: at(i64::try_from(n).unwrap()),
        readiness: match word {
            w if w.contains('-') => Readiness::Coming,
            w if w.contains('~') => Readiness::Silent,
            w if w.contains('x') => Readiness::Going,
            _ => Readiness::Ready,
        },
        is_named: word.contains('!'),
        is_replacement: word.contains('r'),
    };
    text.split_whitespace().enumerate().map(one).collect()
}

fn healthy(weights: &[(&str, u32)]) -> Vec<Location> {
    let one = |(name, weight): &(&str, u32)| location(name, *weight, State::Healthy);
    weights.iter().map(one).collect()
}

fn made(step: &Step) -> Vec<(&str, Why)> {
    step.create
        .iter()
        .map(|c| (c.place.location.as_str(), c.why))
        .collect()
}

#[test]
fn new_ones_are_made_where_the_claim_is_largest() {
    let locations = healthy(&[("a", 2), ("b", 1)]);
    let step = plan(&pool(4), &locations, &machines("b1"), at(0));
    assert_eq!(
        made(&step),
        [
            ("a", Why::Replicas),
            ("a", Why::Replicas),
            ("a", Why::Replicas)
        ]
    );
    assert!(step.delete.is_empty() && step.holds.is_empty());
}

#[test]
fn an_outage_is_replaced_elsewhere_and_nothing_is_deleted_there() {
    let mut locations = healthy(&[("a", 1), ("b", 1)]);
    locations[0] = location("a", 1, State::Out);
    let step = plan(&pool(4), &locations, &machines("a1~ a2~ b1 b2"), at(0));
    assert_eq!(made(&step), [("b", Why::Outage), ("b", Why::Outage)]);
    assert!(step.delete.is_empty());
    // A node that is fresh there counts: only what was lost is replaced.
    let step = plan(&pool(4), &locations, &machines("a1~ a2 b1 b2"), at(0));
    assert_eq!(made(&step), [("b", Why::Outage)]);
}

#[test]
fn max_extra_bounds_what_an_outage_makes() {
    let mut locations = healthy(&[("a", 1), ("b", 1)]);
    locations[0] = location("a", 1, State::Out);
    let pool = Pool {
        max_extra: 1,
        ..pool(4)
    };
    let step = plan(&pool, &locations, &machines("a1~ a2~ b1 b2"), at(0));
    assert_eq!(made(&step), [("b", Why::Outage)]);
    let (wanted, allowed) = (2, 1);
    assert_eq!(step.holds, [Hold::MaxExtra { wanted, allowed }]);
}

#[test]
fn replacements_stay_until_their_place_is_healthy_then_go_one_by_one() {
    let world = machines("a1 a2 b1 b2 br3 br4");
    let recovering = [
        location("a", 1, State::Recovering),
        location("b", 1, State::Healthy),
    ];
    let step = plan(&pool(4), &recovering, &world, at(0));
    assert_eq!((step.create.len(), step.delete.len()), (0, 0));
    let locations = healthy(&[("a", 1), ("b", 1)]);
    let step = plan(&pool(4), &locations, &world, at(0));
    assert_eq!(step.delete, ["br4"]);
    assert_eq!(step.holds, [Hold::Surplus { waiting: 1 }]);
    let step = plan(
        &pool(4),
        &locations,
        &machines("a1 a2 b1 b2 br3 br4x"),
        at(0),
    );
    assert!(step.delete.is_empty());
    let step = plan(&pool(4), &locations, &machines("a1 a2 b1 b2 br3"), at(0));
    assert_eq!(step.delete, ["br3"]);
    // Never below replicas Ready.
    let step = plan(&pool(4), &locations, &machines("a1 a2~ b1 b2 br3"), at(0));
    assert_eq!(step.delete, Vec::<String>::new());
}

#[test]
fn the_largest_excess_then_the_dearest_then_the_usual_order_goes() {
    let mut locations = healthy(&[("a", 1), ("b", 1), ("c", 1)]);
    let step = plan(&pool(3), &locations, &machines("a1 b1 b2 b3 c1 c2"), at(0));
    assert_eq!(step.delete, ["b1", "c1", "b2"]);
    let price = |n| {
        let (hourly, currency) = (Micros(n), "EUR".to_owned());
        Some(crate::budget::Price { hourly, currency })
    };
    (locations[0].price, locations[1].price, locations[2].price) = (price(1), price(3), price(2));
    let step = plan(&pool(3), &locations, &machines("a1 a2 b1 b2 c1 c2"), at(0));
    assert_eq!(step.delete, ["b1", "c1", "a1"]);
    let step = plan(&pool(5), &locations, &machines("a1 a2! b1 b2 c1 c2"), at(0));
    assert_eq!(step.delete, ["a2!"]);
    let step = plan(&pool(3), &locations, &machines("a1 b1 b2- c1"), at(0));
    assert_eq!(step.delete, ["b2-"]);
}

#[test]
fn moving_needs_everything_well_and_makes_the_new_one_first() {
    let locations = healthy(&[("a", 2), ("b", 1), ("c", 0)]);
    let gradual = Pool {
        rebalance: Rebalance::Gradual,
        ..pool(9)
    };
    let world = "a1 a2 a3 b1 b2 b3 c1 c2 c3";
    assert_eq!(
        plan(&pool(9), &locations, &machines(world), at(600)).create,
        []
    );
    let step = plan(&gradual, &locations, &machines(world), at(600));
    assert_eq!(made(&step), [("a", Why::Rebalance)]);
    assert_eq!(
        plan(&gradual, &locations, &machines(world), at(599)).create,
        []
    );
    let rolling = Pool {
        is_rolling_out: true,
        ..gradual.clone()
    };
    assert_eq!(
        plan(&rolling, &locations, &machines(world), at(600)).create,
        []
    );
    for other in [
        "a1~ a2 a3 b1 b2 b3 c1 c2 c3",
        "a1 a2 a3 b1 b2 b3 c1 c2 c3 c4x",
    ] {
        assert_eq!(
            plan(&gradual, &locations, &machines(other), at(600)).create,
            []
        );
    }
    let step = plan(
        &gradual,
        &locations,
        &machines(&format!("{world} a4-")),
        at(600),
    );
    assert_eq!((step.create, step.delete), (vec![], vec![]));
    let step = plan(
        &gradual,
        &locations,
        &machines(&format!("{world} a4")),
        at(600),
    );
    assert_eq!((step.create, step.delete), (vec![], vec!["c1".to_owned()]));
}

#[test]
fn new_ones_of_a_rollout_take_the_places_of_the_targets() {
    let mut locations = healthy(&[("a", 1), ("b", 1)]);
    locations[1] = location("b", 1, State::Suspect);
    let old = machines("a1 a2 b1 b2");
    let targets = targets(4, &locations, &counted(&locations, &old));
    // None is up to date yet: b would have the same claim, but takes nothing new.
    let found = places(1, &locations, &targets, &BTreeMap::new());
    assert_eq!(found, [Place::new("a", "")]);
    // All of a is up to date: the machines of b wait, they are not moved to a.
    let new = BTreeMap::from([(Place::new("a", ""), 2)]);
    assert_eq!(places(1, &locations, &targets, &new), []);
}

#[test]
fn what_the_budget_refuses_is_said_with_the_sum_and_nothing_goes() {
    let euro = |n| {
        let (hourly, currency) = (Micros(n), "EUR".to_owned());
        crate::budget::Price { hourly, currency }
    };
    let mut locations = healthy(&[("a", 1), ("b", 1)]);
    locations.iter_mut().for_each(|l| l.price = Some(euro(3)));
    let budget = Budget {
        hourly: Micros(10),
        currency: "EUR".to_owned(),
    };
    let account = budget.account([Some(&euro(3)), Some(&euro(3))]);
    let pool = Pool {
        budget: Some((budget, account)),
        ..pool(4)
    };
    let step = plan(&pool, &locations, &machines("a1 b1"), at(0));
    assert_eq!((step.create.len(), step.delete.len()), (1, 0));
    let refusal = Refusal::OverBudget {
        spent: Micros(9),
        price: Micros(3),
        budget: Micros(10),
    };
    let location = "b".to_owned();
    assert_eq!(step.holds, [Hold::Budget { location, refusal }]);
}

#[test]
fn a_canary_counts_for_nothing_until_it_is_ready() {
    let locations = [
        location("a", 1, State::Out),
        location("b", 1, State::Healthy),
    ];
    let asking = Pool {
        canaries: vec![Place::new("a", "")],
        ..pool(2)
    };
    let step = plan(&asking, &locations, &machines("b1 b2"), at(0));
    assert_eq!(made(&step), [("a", Why::Canary)]);
    let step = plan(&pool(3), &locations, &machines("b1 b2 a1-"), at(0));
    assert_eq!(made(&step), [("b", Why::Outage)]);
}

proptest! {
    /// What is counted follows whoever goes, so all at once are the same as one after the other.
    #[test]
    fn who_goes_does_not_depend_on_how_many_go_at_once(
        words in prop::collection::vec(("[abc]", prop_oneof![Just(""), Just("~"), Just("!")]), 0..12),
        weights in prop::collection::vec(0..4_u32, 3),
        replicas in 0..8_u32,
    ) {
        let words = words.iter().enumerate();
        let words: Vec<_> = words.map(|(n, (place, how))| format!("{place}{n}{how}")).collect();
        let mut left = machines(&words.join(" "));
        let weights: Vec<_> = ["a", "b", "c"].into_iter().zip(weights).collect();
        let locations = healthy(&weights);
        let targets = targets(replicas, &locations, &counted(&locations, &left));
        let (gone, waiting) = surplus(replicas, &locations, &left, &targets);
        for name in &gone {
            let (now, _) = surplus(replicas, &locations, &left, &targets);
            prop_assert_eq!(now.first(), Some(name));
            left.retain(|m| m.name != *name);
        }
        let rest = surplus(replicas, &locations, &left, &targets);
        prop_assert_eq!(rest, (Vec::new(), waiting));
    }
}
