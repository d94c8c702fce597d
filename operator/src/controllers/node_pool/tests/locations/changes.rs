//! Pools whose locations change, or that cannot have all that they want.
//!
//! Invariant: nobody goes whom the spec wants, whatever form it has.

use api::node_pool::NodeTemplate;
use tenant_cp::problem::Problem;

use super::*;

/// Those of a location that stay.
fn of(world: &World, location: &str) -> Vec<String> {
    let here = |m: &&Machine| {
        m.metadata.deletion_timestamp.is_none() && m.spec.location.as_deref() == Some(location)
    };
    let here = world.machines.iter().filter(here);
    here.map(ResourceExt::name_any).collect()
}

fn told(all: &[(&str, i32)]) -> Vec<(String, i32, i32, i32)> {
    let one = |(name, n): &(&str, i32)| ((*name).to_owned(), *n, *n, *n);
    all.iter().map(one).collect()
}

#[test]
fn changing_the_form_replaces_nobody_whose_provider_is_the_same() {
    let mut world = World::running(4, &json!({}));
    let before = world.live();
    assert_eq!(world.told(), told(&[("default", 4)]));
    let provider = world.pool.spec.provider.take();
    world.set(&spread(&[("a", 1, None)]));
    world.comes_to_rest();
    assert_eq!(world.live(), before);
    assert_eq!(world.told(), told(&[("a", 4)]));

    // Of two with that provider they are in one, whatever the order of the list, and new ones in the other.
    world.set(&spread(&[("b", 1, None), ("a", 1, None)]));
    world.pool.spec.replicas = 8;
    world.comes_to_rest();
    assert_eq!(world.told(), told(&[("b", 4), ("a", 4)]));
    assert_eq!(world.found(), counts(&[("", 4), ("b", 4)]));
    assert!(before.iter().all(|name| world.live().contains(name)));

    let before = world.live();
    world.pool.spec.locations.clear();
    world.pool.spec.provider = provider;
    world.comes_to_rest();
    assert_eq!(world.live(), before);
    assert_eq!(world.told(), told(&[("default", 8)]));

    // Nobody has what this one asks for.
    world.pool.spec.provider = None;
    world.set(&json!({ "locations": [{ "name": "b", "provider": { "kubevirt": { "cpu": 8 } } }] }));
    world.comes_to_rest();
    assert!(before.iter().all(|name| !world.live().contains(name)));
    assert_eq!(world.told(), told(&[("b", 8)]));
}

#[test]
fn machines_of_a_location_that_is_gone_are_rolled_out_and_no_others() {
    let mut world = World::running(6, &even([1, 1, 1]));
    let (gone, stay) = (of(&world, "a"), [of(&world, "b"), of(&world, "c")].concat());
    assert_eq!((gone.len(), stay.len()), (2, 4));
    world.set(&spread(&[("b", 1, None), ("c", 1, None)]));
    for _ in 0..16 {
        world.settle();
        let (all, ready) = (world.machines.len(), world.ready());
        assert!(all <= 7 && ready >= 6, "{ready} of {all}");
        world.bury();
        world.all_ready();
    }
    world.comes_to_rest();
    assert_eq!(world.found(), counts(&[("b", 3), ("c", 3)]));
    assert!(stay.iter().all(|name| world.live().contains(name)));
    assert!(gone.iter().all(|name| !world.live().contains(name)));
}

#[test]
fn rollout_brings_no_location_further_above_its_max_than_the_surge() {
    // The machines of b are older, so all of them go before those of a do.
    let mut world = World::running(2, &spread(&[("a", 0, None), ("b", 1, Some(2))]));
    world.later(1);
    world.set(&spread(&[("a", 1, Some(2)), ("b", 1, Some(2))]));
    world.pool.spec.replicas = 4;
    world.comes_to_rest();
    assert_eq!(world.found(), counts(&[("a", 2), ("b", 2)]));
    world.pool.spec.version = Some("1.34.4".into());
    for _ in 0..16 {
        world.settle();
        for name in ["a", "b"] {
            let here = |m: &&Machine| m.spec.location.as_deref() == Some(name);
            let here = world.machines.iter().filter(here).count();
            assert!(here <= 3, "{here} in {name}");
        }
        world.bury();
        world.all_ready();
    }
    assert_eq!(world.found(), counts(&[("a", 2), ("b", 2)]));
    assert!(world.machines.iter().all(|m| m.spec.version == "1.34.4"));
}

#[test]
fn lost_machine_of_a_pool_that_is_full_is_replaced() {
    let mut world = World::running(9, &spread(&[("a", 1, Some(2)), ("b", 1, Some(2))]));
    let lost = of(&world, "b").remove(0);
    world.says(&lost, MachinePhase::Failed, Some(false));
    world.settle();
    assert_eq!(world.going(), [lost]);
    world.comes_to_rest();
    assert_eq!(world.found(), counts(&[("a", 2), ("b", 2)]));
    assert!(is(world.condition("Degraded"), "True", "LocationsFull"));
}

#[test]
fn who_is_above_a_lower_max_stays_and_nothing_is_missing() {
    let mut world = World::running(4, &spread(&[("a", 1, None)]));
    let before = world.live();
    world.set(&spread(&[("a", 1, Some(2))]));
    world.comes_to_rest();
    assert_eq!(world.live(), before);
    assert!(is(world.condition("Degraded"), "False", "AsExpected"));
    assert!(is(world.condition("Ready"), "True", "NodesReady"));
    assert!(is(world.condition("Progressing"), "False", "AsDesired"));
    world.pool.spec.replicas = 5;
    world.comes_to_rest();
    assert_eq!(world.live(), before);
    assert!(is(world.condition("Degraded"), "True", "LocationsFull"));
}

#[test]
fn the_next_one_is_moved_only_once_one_that_was_lost_on_its_way_is_gone() {
    let mut spec = spread(&[("a", 1, None), ("b", 0, None)]);
    spec["placement"] = json!({ "rebalance": "Gradual" });
    let mut world = World::running(4, &spec);
    world.set(&spread(&[("a", 1, None), ("b", 1, None)]));
    world.settle();
    let new = of(&world, "b");
    assert_eq!((new.len(), world.live().len()), (1, 5));
    world.says(&new[0], MachinePhase::Failed, Some(false));
    world.settle();
    assert_eq!((world.going(), world.live().len()), (new, 4));
    world.bury();
    world.settle();
    assert_eq!((of(&world, "b").len(), world.live().len()), (1, 5));
}

/// Four in `a`, two of which belong to `b`.
fn about_to_move() -> World {
    let mut spec = spread(&[("a", 1, None), ("b", 0, None)]);
    spec["placement"] = json!({ "rebalance": "Gradual" });
    let mut world = World::running(4, &spec);
    world.set(&spread(&[("a", 1, None), ("b", 1, None)]));
    world
}

fn api_answers(world: &mut World, answers: bool) {
    let now = Time(world.now);
    let status = world.cluster.as_mut().unwrap().status.as_mut().unwrap();
    let reason = match answers {
        true => Reason::Answering,
        false => Reason::ApiUnreachable,
    };
    let (list, type_) = (&mut status.conditions, ConditionType::Ready);
    set_condition(list, type_, answers.into(), reason, "", None, now);
}

#[test]
fn none_is_moved_while_nobody_knows_who_is_ready() {
    let mut world = about_to_move();
    api_answers(&mut world, false);
    world.settle();
    assert_eq!(world.found(), counts(&[("a", 4)]));
}

#[test]
fn the_old_one_stays_until_it_is_known_that_the_new_one_is_ready() {
    let mut world = about_to_move();
    world.settle();
    world.all_ready();
    api_answers(&mut world, false);
    world.settle();
    assert_eq!(world.found(), counts(&[("a", 4), ("b", 1)]));
    api_answers(&mut world, true);
    world.settle();
    assert_eq!(world.found(), counts(&[("a", 3), ("b", 1)]));
}

#[test]
fn who_is_silent_for_a_while_does_not_go_because_another_one_comes() {
    let mut world = about_to_move();
    world.settle();
    let silent = of(&world, "a").remove(0);
    world.says(&silent, MachinePhase::Running, Some(false));
    world.settle();
    assert_eq!(world.found(), counts(&[("a", 4), ("b", 1)]));
    // One that does not come back is the one that goes.
    let new = of(&world, "b").remove(0);
    world.says(&new, MachinePhase::Running, Some(true));
    world.settle();
    assert_eq!(world.going(), [""; 0]);
    world.later(11);
    world.settle();
    assert_eq!(world.going(), [silent]);
    assert_eq!(world.found(), counts(&[("a", 3), ("b", 1)]));
}

#[test]
fn none_goes_for_a_new_one_while_all_nodes_are_silent() {
    let mut world = about_to_move();
    world.settle();
    world.all_ready();
    for name in world.live() {
        world.says(&name, MachinePhase::Running, Some(false));
    }
    world.later(11);
    world.settle();
    assert!(is(world.condition("Degraded"), "True", "AllNodesSilent"));
    assert_eq!(world.going(), [""; 0]);
}

#[test]
fn free_place_is_filled_although_others_stand_above_theirs() {
    let mut world = World::running(5, &spread(&[("a", 2, None), ("b", 3, None)]));
    assert_eq!(world.found(), counts(&[("a", 2), ("b", 3)]));
    world.set(&spread(&[("a", 2, Some(2)), ("b", 0, None)]));
    let lost = of(&world, "a").remove(0);
    world.says(&lost, MachinePhase::Failed, Some(false));
    world.comes_to_rest();
    assert!(!world.live().contains(&lost));
    assert_eq!(world.found(), counts(&[("a", 2), ("b", 3)]));
    assert!(is(world.condition("Degraded"), "False", "AsExpected"));
    world.pool.spec.replicas = 7;
    world.comes_to_rest();
    let status = world.pool.status.clone().unwrap();
    let mut said = status.conditions.iter();
    let said = said.find(|c| c.reason == "LocationsFull").unwrap();
    let wanted = "2 of 7 machines have no place (a: its max is 2; b: its weight is 0)";
    assert!(said.message.starts_with(wanted), "{}", said.message);
}

/// A definition of before `locations` takes them off what is stored.
#[test]
fn pool_that_names_no_provider_keeps_what_it_has() {
    let mut world = World::running(3, &even([1, 1, 1]));
    let before = world.live();
    world.set(&json!({ "locations": [] }));
    world.pool.spec.provider = None;
    world.pool.spec.version = Some("1.34.4".into());
    world.settle();
    assert_eq!((world.live(), world.going().len()), (before, 0));
    assert!(is(world.condition("Degraded"), "True", "ProviderMissing"));
}

/// A pool that an operator of before `status.locations` looked at last, and that is refused since.
#[test]
fn what_a_node_offers_is_told_of_a_pool_that_is_refused_too() {
    let mut world = World::running(2, &json!({}));
    world.pool.status.as_mut().unwrap().locations.clear();
    let message = "TenantQuota team-a allows 1 machine";
    world.quotas = vec![Problem::new("spec", Reason::QuotaExceeded, message)];
    world.settle();
    let at = world.pool.status.clone().unwrap().locations.remove(0);
    assert_eq!((&*at.name, at.machines, at.ready), ("default", 2, 2));
    assert!(at.template.is_some());
    let writes = world.writes;
    world.settle();
    assert_eq!(world.writes, writes);
}

/// A cloud that is read first once the pool is there, and of which an operator that starts anew knows nothing at first.
#[test]
fn what_a_node_of_a_cloud_offers_is_told_once_it_is_known_and_stays_told_of_the_same_pool() {
    let cloud = json!({ "hetzner": { "configName": "h", "types": ["cx22"] } });
    let mut world = World::new(0, &json!({ "provider": cloud }));
    world.settle();
    let told = |world: &World| {
        world
            .pool
            .status
            .clone()
            .unwrap()
            .locations
            .remove(0)
            .template
    };
    assert_eq!(told(&world), None);
    let node = NodeTemplate {
        cpu: 2,
        ..NodeTemplate::default()
    };
    world.templates = [("default".to_owned(), node.clone())].into();
    world.settle();
    assert_eq!(told(&world).as_ref(), Some(&node));
    let writes = world.writes;
    world.templates.clear();
    world.settle();
    assert_eq!(told(&world).as_ref(), Some(&node));
    assert_eq!(world.writes, writes);
    // Of another pool nobody knows.
    *world.pool.metadata.generation.as_mut().unwrap() += 1;
    world.settle();
    assert_eq!(told(&world), None);
}

#[test]
fn crash_after_any_write_ends_with_as_many_machines_in_each_location() {
    for cut in 0..8 {
        let mut world = World::new(4, &even([1, 1, 1]));
        let _ = world.reconcile(&mut cut.clone());
        world.comes_to_rest();
        assert_eq!(world.found(), counts(&[("a", 2), ("b", 1), ("c", 1)]));
        world.pool.spec.version = Some("1.34.4".into());
        world.pool.spec.replicas = 3;
        let _ = world.reconcile(&mut cut.clone());
        world.comes_to_rest();
        assert_eq!(world.found(), counts(&[("a", 1), ("b", 1), ("c", 1)]));
        assert_eq!(world.told(), told(&[("a", 1), ("b", 1), ("c", 1)]));
    }
}
