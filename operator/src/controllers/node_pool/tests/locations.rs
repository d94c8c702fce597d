//! Pools over several locations: where machines are made, which go, and what never moves one.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

mod changes;

/// `name: (weight, max)`, each of KubeVirt.
fn locations(all: &[(&str, i32, Option<i32>)]) -> Value {
    let location = |(name, weight, max): &(&str, i32, Option<i32>)| {
        let mut location =
            json!({ "name": name, "weight": weight, "provider": { "kubevirt": {} } });
        if let Some(max) = max {
            location["max"] = json!(max);
        }
        location
    };
    all.iter().map(location).collect()
}

fn spread(all: &[(&str, i32, Option<i32>)]) -> Value {
    json!({ "provider": null, "locations": locations(all) })
}

fn even(weights: [i32; 3]) -> Value {
    let [a, b, c] = weights;
    spread(&[("a", a, None), ("b", b, None), ("c", c, None)])
}

impl World {
    fn set(&mut self, all: &Value) {
        self.pool.spec.locations = read(all["locations"].clone());
        *self.pool.metadata.generation.as_mut().unwrap() += 1;
    }

    /// Those that stay, by location.
    fn found(&self) -> BTreeMap<String, usize> {
        let mut found = BTreeMap::new();
        let live = self
            .machines
            .iter()
            .filter(|m| m.metadata.deletion_timestamp.is_none());
        for machine in live {
            let location = machine.spec.location.clone().unwrap_or_default();
            *found.entry(location).or_default() += 1;
        }
        found
    }

    fn told(&self) -> Vec<(String, i32, i32, i32)> {
        let status = self.pool.status.clone().unwrap();
        let told = status.locations.into_iter();
        told.map(|at| (at.name, at.desired, at.machines, at.ready))
            .collect()
    }
}

fn counts(all: &[(&str, usize)]) -> BTreeMap<String, usize> {
    all.iter()
        .map(|(name, n)| ((*name).to_owned(), *n))
        .collect()
}

#[test]
fn machines_are_divided_by_weight_and_the_status_says_how() {
    let world = World::running(9, &even([1, 1, 1]));
    assert_eq!(world.found(), counts(&[("a", 3), ("b", 3), ("c", 3)]));
    let told = |name: &str| (name.to_owned(), 3, 3, 3);
    assert_eq!(world.told(), [told("a"), told("b"), told("c")]);
    assert!(is(world.condition("Ready"), "True", "NodesReady"));
    let template = world.pool.status.unwrap().locations[0].template.clone();
    assert_eq!(
        template.unwrap().instance_type.as_deref(),
        Some("kubevirt-2cpu-4096Mi")
    );
}

/// M1 of the acceptance: never fewer Ready than replicas while machines move.
#[test]
fn with_gradual_the_machines_move_to_new_weights_and_as_many_stay_ready() {
    let mut spec = even([1, 1, 1]);
    spec["placement"] = json!({ "rebalance": "Gradual" });
    let mut world = World::running(9, &spec);
    world.set(&even([2, 1, 0]));
    let mut moves = 0;
    for _ in 0..32 {
        let before = world.live().len();
        world.settle();
        let (live, ready) = (world.live().len(), world.ready());
        assert!((9..=10).contains(&live) && ready >= 9, "{ready} of {live}");
        moves += usize::from(live > before);
        if live > 9 {
            assert!(is(world.condition("Progressing"), "True", "Rebalancing"));
        }
        world.all_ready();
        world.settle();
        assert!(world.ready() >= 9);
        world.bury();
    }
    assert_eq!(world.found(), counts(&[("a", 6), ("b", 3)]));
    assert_eq!(moves, 3, "nobody moved twice");
    assert!(is(world.condition("Progressing"), "False", "AsDesired"));
}

#[test]
fn with_never_the_machines_follow_the_weights_as_they_come_and_go() {
    let mut world = World::running(9, &even([1, 1, 1]));
    world.set(&even([2, 1, 0]));
    world.comes_to_rest();
    assert_eq!(world.found(), counts(&[("a", 3), ("b", 3), ("c", 3)]));
    world.pool.spec.replicas = 7;
    world.comes_to_rest();
    assert_eq!(world.found(), counts(&[("a", 3), ("b", 3), ("c", 1)]));
    world.pool.spec.replicas = 9;
    world.comes_to_rest();
    assert_eq!(world.found(), counts(&[("a", 5), ("b", 3), ("c", 1)]));
}

#[test]
fn price_decides_between_equals_and_moves_nobody() {
    let mut world = World::new(1, &even([1, 1, 1]));
    let prices = |all: [(&str, u64); 3]| all.map(|(name, n)| (name.to_owned(), n)).into();
    world.prices = prices([("a", 3), ("b", 1), ("c", 2)]);
    world.comes_to_rest();
    assert_eq!(world.found(), counts(&[("b", 1)]));
    world.pool.spec.placement = read(json!({ "rebalance": "Gradual" }));
    world.prices = prices([("a", 1), ("b", 9), ("c", 2)]);
    world.comes_to_rest();
    assert_eq!(world.found(), counts(&[("b", 1)]));
    world.pool.spec.replicas = 2;
    world.comes_to_rest();
    assert_eq!(world.found(), counts(&[("a", 1), ("b", 1)]));
}

#[test]
fn weight_most_and_placement_replace_nobody() {
    let mut world = World::running(6, &even([1, 1, 1]));
    let before = world.live();
    world.set(&spread(&[
        ("a", 7, Some(1)),
        ("b", 1, Some(9)),
        ("c", 0, None),
    ]));
    world.pool.spec.placement = read(json!({ "rebalance": "Never" }));
    world.comes_to_rest();
    assert_eq!(world.live(), before);
}

#[test]
fn changed_location_rolls_in_that_location_alone() {
    let mut world = World::running(6, &even([1, 1, 1]));
    let before = world.machines.clone();
    let kubevirt = world.pool.spec.locations[1].provider.kubevirt.as_mut();
    kubevirt.unwrap().cpu = 8;
    world.comes_to_rest();
    assert_eq!(world.found(), counts(&[("a", 2), ("b", 2), ("c", 2)]));
    for machine in &world.machines {
        let location = machine.spec.location.as_deref();
        let is_old = before
            .iter()
            .any(|old| old.name_any() == machine.name_any());
        assert_eq!(is_old, location != Some("b"));
    }
}

#[test]
fn what_no_location_may_have_is_missing_and_said_and_rollouts_get_on() {
    let mut world = World::new(
        9,
        &spread(&[("a", 1, Some(2)), ("b", 3, Some(2)), ("c", 0, None)]),
    );
    world.comes_to_rest();
    assert_eq!(world.found(), counts(&[("a", 2), ("b", 2)]));
    assert!(is(world.condition("Ready"), "False", "NodesNotReady"));
    assert!(is(world.condition("Degraded"), "True", "LocationsFull"));
    let status = world.pool.status.clone().unwrap();
    let said = status
        .conditions
        .iter()
        .find(|c| c.reason == "LocationsFull")
        .unwrap();
    let wanted =
        "5 of 9 machines have no place (a: its max is 2; b: its max is 2; c: its weight is 0)";
    assert!(said.message.starts_with(wanted), "{}", said.message);
    world.pool.spec.version = Some("1.34.4".into());
    world.comes_to_rest();
    assert_eq!(world.found(), counts(&[("a", 2), ("b", 2)]));
    assert!(world.machines.iter().all(|m| m.spec.version == "1.34.4"));
    world.set(&spread(&[
        ("a", 1, None),
        ("b", 3, Some(2)),
        ("c", 0, None),
    ]));
    world.comes_to_rest();
    assert_eq!(world.found(), counts(&[("a", 7), ("b", 2)]));
    assert!(is(world.condition("Degraded"), "False", "AsExpected"));
}

#[test]
fn whom_somebody_names_goes_before_whom_the_weights_would_take() {
    let mut world = World::running(6, &even([1, 1, 1]));
    let named = |world: &World| {
        let mut of_a = world
            .machines
            .iter()
            .filter(|m| m.spec.location.as_deref() == Some("a"));
        of_a.next().unwrap().name_any()
    };
    let name = named(&world);
    world.set(&even([1, 1, 0]));
    let annotations = world.pool.metadata.annotations.get_or_insert_default();
    annotations.insert(names::ANNOTATION_DELETE_MACHINE.to_owned(), name.clone());
    world.pool.spec.replicas = 5;
    world.settle();
    assert_eq!(world.going(), [name]);
    world.pool.metadata.annotations = None;
    world.comes_to_rest();
    let name = named(&world);
    let annotation = names::ANNOTATION_DELETE_MACHINE.to_owned();
    world
        .machine(&name)
        .annotations_mut()
        .insert(annotation, String::new());
    world.pool.spec.replicas = 4;
    world.settle();
    assert_eq!(world.going(), [name]);
}

#[test]
fn lost_machine_is_replaced_in_its_location() {
    let mut world = World::running(6, &even([1, 1, 1]));
    let of_b = |m: &&Machine| m.spec.location.as_deref() == Some("b");
    let lost = world.machines.iter().find(of_b).unwrap().name_any();
    world.says(&lost, MachinePhase::Failed, Some(false));
    world.comes_to_rest();
    assert!(!world.live().contains(&lost));
    assert_eq!(world.found(), counts(&[("a", 2), ("b", 2), ("c", 2)]));
}

fn weights() -> impl Strategy<Value = Vec<(i32, Option<i32>)>> {
    let max = prop_oneof![3 => Just(None), 1 => (0..6_i32).prop_map(Some)];
    proptest::collection::vec((0..6_i32, max), 1..5)
        .prop_filter("one has a weight", |all| all.iter().any(|(w, _)| *w > 0))
}

fn named(all: &[(i32, Option<i32>)]) -> Vec<(String, i32, Option<i32>)> {
    let one = |(n, (weight, max)): (usize, &(i32, Option<i32>))| (format!("l{n}"), *weight, *max);
    all.iter().enumerate().map(one).collect()
}

fn at_rest(replicas: i32, all: &[(String, i32, Option<i32>)]) -> World {
    let all: Vec<_> = all.iter().map(|(n, w, m)| (n.as_str(), *w, *m)).collect();
    let mut world = World::new(replicas, &spread(&all));
    world.comes_to_rest();
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// L1, L2, L3, L5 and L6 of the apportionment, as a user of pools meets them.
    #[test]
    fn laws_of_the_division_hold_through_the_plan(
        all in weights(), replicas in 0..12_i32, heavier in any::<prop::sample::Index>(),
    ) {
        let locations = named(&all);
        let world = at_rest(replicas, &locations);
        let found = world.found();
        let of = |found: &BTreeMap<String, usize>, name: &str| found.get(name).copied().unwrap_or(0);
        // L1: as many as replicas, or as may be.
        let caps = locations.iter().filter(|(_, w, _)| *w > 0);
        let caps = caps.map(|(_, _, max)| max.unwrap_or(i32::MAX)).fold(0, i32::saturating_add);
        let sum = i32::try_from(found.values().sum::<usize>()).unwrap();
        prop_assert_eq!(sum, replicas.min(caps));
        prop_assert_eq!(world.condition("Degraded").1 == "LocationsFull", replicas > caps);
        // L2: without a weight nothing.
        for (name, ..) in locations.iter().filter(|(_, w, _)| *w == 0) {
            prop_assert_eq!(of(&found, name), 0);
        }
        // L3: one more takes nothing away, and nobody moves.
        let mut grown = world;
        let before = grown.live();
        grown.pool.spec.replicas += 1;
        grown.comes_to_rest();
        prop_assert!(before.iter().all(|name| grown.live().contains(name)));
        for (name, ..) in &locations {
            prop_assert!(of(&grown.found(), name) >= of(&found, name));
        }
        // And back again it is as before.
        grown.pool.spec.replicas -= 1;
        grown.comes_to_rest();
        prop_assert_eq!(&grown.found(), &found);
        // L5: a larger weight of its own is never fewer there.
        let mut other = locations.clone();
        let index = heavier.index(other.len());
        other[index].1 += 1;
        let (name, more) = (other[index].0.clone(), at_rest(replicas, &other).found());
        prop_assert!(of(&more, &name) >= of(&found, &name));
        // L6: the order of the list makes no difference.
        let turned: Vec<_> = locations.iter().rev().cloned().collect();
        prop_assert_eq!(at_rest(replicas, &turned).found(), found);
    }

    /// Whatever weights were before: a pool that moves ends where one is that was made so, and one that was not
    /// moved has as many machines.
    #[test]
    fn moved_pool_ends_as_one_that_was_made_so(
        before in weights(), after in weights(), replicas in 0..9_i32, cut in 0..6_usize,
    ) {
        let (before, after) = (named(&before), named(&after));
        let open = |all: &[(String, i32, Option<i32>)]| {
            // A location that is left out is a rollout, and no move.
            let mut all: Vec<_> = all.iter().map(|(n, w, _)| (n.clone(), *w, None)).collect();
            for n in all.len()..4 {
                all.push((format!("l{n}"), 0, None));
            }
            all
        };
        let (before, after) = (open(&before), open(&after));
        let mut world = at_rest(replicas, &before);
        let all: Vec<_> = after.iter().map(|(n, w, m)| (n.as_str(), *w, *m)).collect();
        world.set(&spread(&all));
        world.pool.spec.placement = read(json!({ "rebalance": "Gradual" }));
        let _ = world.reconcile(&mut cut.clone());
        world.comes_to_rest();
        let desired: BTreeMap<_, _> = world.told().into_iter().map(|(n, d, ..)| (n, d)).collect();
        for (name, has) in world.found() {
            prop_assert_eq!(i32::try_from(has).unwrap(), desired[&name]);
        }
        prop_assert_eq!(world.live().len(), usize::try_from(replicas).unwrap());
    }
}
