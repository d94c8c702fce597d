//! Pools with a budget: what is made within it, what is said where it is reached, and that nothing goes because of it.

use placement::budget::{Micros, Price};

use super::*;
use crate::cloud_limits::costs::Cost;

fn euro(micros: u64) -> Cost {
    Cost::Known(Price {
        hourly: Micros(micros),
        currency: "EUR".to_owned(),
    })
}

/// A pool in two locations, each of whose machines costs half a euro.
fn world(replicas: i32, hourly: &str) -> World {
    let at = |name: &str| json!({ "name": name, "weight": 1, "provider": { "kubevirt": {} } });
    let spec = json!({
        "provider": null, "locations": [at("a"), at("b")],
        "placement": { "budget": { "hourly": hourly, "currency": "EUR" } },
    });
    let mut world = World::new(replicas, &spec);
    for location in ["a", "b"] {
        world.cost.insert(location.to_owned(), euro(500_000));
    }
    world
}

fn up(world: &mut World) {
    world.settle();
    world.all_ready();
    world.settle();
}

fn message(world: &World) -> String {
    let conditions = world
        .pool
        .status
        .iter()
        .flat_map(|status| &status.conditions);
    let mut all = conditions.filter(|c| c.type_ == "Budget");
    all.next().unwrap().message.clone()
}

fn set(world: &mut World, hourly: &str) {
    let budget = world.pool.spec.placement.budget.as_mut().unwrap();
    hourly.clone_into(&mut budget.hourly);
}

#[test]
fn as_many_are_made_as_the_budget_pays_for_and_the_rest_is_told_at_once() {
    let mut world = world(6, "2.0");
    up(&mut world);
    assert_eq!(world.live().len(), 4);
    assert!(is(world.condition("Budget"), "False", "LimitReached"));
    let sum =
        "machines cost 2.00 EUR an hour, one more in location a costs 0.50, and 2.00 is allowed";
    assert!(message(&world).contains(sum), "{}", message(&world));
    let writes = world.writes;
    world.settle();
    assert_eq!(world.writes, writes, "nothing is written again");
    set(&mut world, "3.00");
    up(&mut world);
    assert_eq!(world.live().len(), 6);
    assert!(is(world.condition("Budget"), "True", "WithinLimits"));
    world.pool.spec.placement.budget = None;
    world.settle();
    let status = world.pool.status.clone().unwrap();
    assert!(status.conditions.iter().all(|c| c.type_ != "Budget"));
}

/// Each location alone could have it.
#[test]
fn two_locations_do_not_spend_the_same() {
    let mut world = world(2, "1.0");
    up(&mut world);
    world.pool.spec.replicas = 6;
    set(&mut world, "1.5");
    up(&mut world);
    assert_eq!(world.live().len(), 3);
    world.cost.insert("b".to_owned(), euro(100_000));
    set(&mut world, "1.2");
    up(&mut world);
    assert!(world.live().len() <= 6 && world.going().is_empty());
}

#[test]
fn nothing_goes_because_of_a_budget_that_is_lowered_or_of_which_nobody_knows() {
    let mut world = world(4, "2.0");
    up(&mut world);
    let before = world.live();
    set(&mut world, "0.10");
    up(&mut world);
    assert_eq!(world.live(), before);
    assert!(
        is(world.condition("Budget"), "True", "WithinLimits"),
        "none waits"
    );
    world.cost.insert("a".to_owned(), Cost::Unknown);
    world.pool.spec.replicas = 5;
    set(&mut world, "100");
    up(&mut world);
    assert_eq!(world.live(), before);
    assert!(is(world.condition("Budget"), "False", "PriceUnknown"));
    assert!(
        message(&world).contains("spec.currency"),
        "{}",
        message(&world)
    );
}

#[test]
fn another_currency_is_not_converted_and_what_is_not_billed_needs_no_price() {
    let mut world = world(2, "100");
    let dollars = Price {
        hourly: Micros(1),
        currency: "USD".to_owned(),
    };
    for location in ["a", "b"] {
        world
            .cost
            .insert(location.to_owned(), Cost::Known(dollars.clone()));
    }
    up(&mut world);
    assert!(world.live().is_empty());
    assert!(is(world.condition("Budget"), "False", "PriceUnknown"));
    assert!(message(&world).contains("USD"), "{}", message(&world));
    world.cost.insert("b".to_owned(), Cost::NotBilled);
    up(&mut world);
    assert_eq!(world.live().len(), 2, "all where nobody bills them");
}
