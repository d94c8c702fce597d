//! A tenant cluster that nobody uses falls asleep, and wakes for a request.

use api::tenant_cluster::HibernationPhase;
use jiff::SignedDuration;

use super::*;

fn unused() -> World {
    let mut world = ready(json!({
        "version": "1.35.4", "hibernation": { "idleAfter": "1h" },
    }));
    world.sleep.used = Some(7);
    // It was looked at before it said anything.
    world.sleep.look = (None, 0);
    world.sleep.activators.insert("10.0.9.1".parse().unwrap());
    world
}

fn phase(world: &World) -> Option<HibernationPhase> {
    let status = world.cluster.status.as_ref()?;
    status.hibernation.as_ref().map(|told| told.phase)
}

fn idle_since(world: &World) -> Option<jiff::Timestamp> {
    let status = world.cluster.status.as_ref()?;
    status.idle.as_ref()?.since.parse().ok()
}

/// As the operator comes to it by its own timer, for so long.
fn live(world: &mut World, minutes: i64) {
    let end = world.now + SignedDuration::from_mins(minutes);
    while world.now < end {
        step(world);
        let plan = plan(&world.observe(), &world.settings, world.now);
        let after = SignedDuration::try_from(plan.requeue_after.unwrap()).unwrap();
        world.now = (world.now + after).min(end);
    }
    step(world);
}

fn step(world: &mut World) {
    for _ in 0..3 {
        assert!(world.reconcile(&mut usize::MAX.clone()));
        world.tenant_up =
            world.runs("StatefulSet", "etcd") && world.runs("Deployment", "control-plane");
    }
}

#[test]
fn it_is_put_to_sleep_once_nobody_has_used_it_and_a_request_wakes_it() {
    let mut world = unused();
    step(&mut world);
    let begin = world.now;
    assert_eq!(idle_since(&world), None, "one look says nothing");
    live(&mut world, 20);
    assert_eq!(idle_since(&world), Some(begin));
    // At rest it is looked at, and nothing is written.
    let (writes, looks) = (world.writes, world.sleep.look.1);
    live(&mut world, 30);
    assert_eq!(world.writes, writes);
    assert!((3..=5).contains(&(world.sleep.look.1 - looks)), "{looks}");
    world.sleep.said.clear();
    live(&mut world, 9);
    assert_eq!(phase(&world), None);
    live(&mut world, 3);
    assert_eq!(phase(&world), Some(HibernationPhase::Asleep));
    let why = format!("it is put to sleep: nobody has used it since {begin}");
    assert_eq!(world.sleep.said[0].message, why);
    assert_eq!(idle_since(&world), Some(begin));
    let writes = world.writes;
    live(&mut world, 600);
    assert_eq!(world.writes, writes, "it sleeps on");
    world.sleep.asked = Some(world.now);
    live(&mut world, 2);
    assert_eq!((phase(&world), idle_since(&world)), (None, None));
    assert_eq!(world.condition("Ready").0, "True");
    live(&mut world, 40);
    assert_eq!(phase(&world), None, "it begins anew");
}

#[test]
fn who_uses_it_now_and_then_keeps_it_awake_and_costs_no_write() {
    let mut world = unused();
    step(&mut world);
    let writes = world.writes;
    for use_ in 0..40 {
        world.sleep.used = Some(8 + use_);
        live(&mut world, 9);
    }
    assert_eq!((phase(&world), idle_since(&world)), (None, None));
    assert_eq!(world.writes, writes);
}

#[test]
fn what_is_not_known_and_what_nobody_would_wake_stays_awake() {
    let mut world = unused();
    live(&mut world, 20);
    world.sleep.used = None;
    live(&mut world, 120);
    assert_eq!(phase(&world), None, "not known");
    world.sleep.used = Some(7);
    world.sleep.activators.clear();
    live(&mut world, 120);
    assert_eq!(phase(&world), None, "no activator");
    world.sleep.activators.insert("10.0.9.1".parse().unwrap());
    live(&mut world, 15);
    assert_eq!(phase(&world), Some(HibernationPhase::Asleep));
}

#[test]
fn it_sleeps_all_the_same_wherever_the_operator_is_another_one() {
    let mut world = unused();
    live(&mut world, 30);
    let since = idle_since(&world);
    world.sleep.look.0 = None;
    live(&mut world, 40);
    assert_eq!(phase(&world), Some(HibernationPhase::Asleep));
    assert_eq!(idle_since(&world), since);
    // The phase is computed again.
    let status = world.cluster.status.as_mut().unwrap();
    status.hibernation.as_mut().unwrap().phase = HibernationPhase::default();
    world.sleep.look.0 = None;
    live(&mut world, 1);
    assert_eq!(phase(&world), Some(HibernationPhase::Asleep));
    // It wakes when it is not to sleep so any more.
    world.cluster.spec.hibernation.idle_after = None;
    live(&mut world, 2);
    assert_eq!((phase(&world), idle_since(&world)), (None, None));
}

fn progressing(world: &World) -> (String, String, String) {
    let status = world.cluster.status.clone().unwrap();
    let mut conditions = status.conditions.into_iter();
    let told = conditions.find(|c| c.type_ == "Progressing").unwrap();
    (told.status, told.reason, told.message)
}

#[test]
fn who_is_kept_awake_by_a_webhook_is_told_so_steadily_and_without_writes() {
    let mut world = unused();
    world.sleep.webhooks = [("policy/a.example.com", "Fail")].into();
    live(&mut world, 90);
    assert_eq!(phase(&world), None);
    let told = progressing(&world);
    assert_eq!(
        (told.0.as_str(), told.1.as_str()),
        ("True", "FallingAsleep")
    );
    assert!(
        told.2.contains("webhook policy/a.example.com"),
        "{}",
        told.2
    );
    let (writes, looks) = (world.writes, world.sleep.look.1);
    live(&mut world, 120);
    assert!(world.sleep.look.1 > looks + 5, "it is looked at");
    assert_eq!(progressing(&world), told);
    assert_eq!(world.writes, writes, "what is said is steady");
    // What is not known now may be as it was.
    world.sleep.used = None;
    live(&mut world, 30);
    assert_eq!((progressing(&world), world.writes), (told.clone(), writes));
    // Nor does another operator say anything else.
    world.sleep.used = Some(7);
    world.sleep.look.0 = None;
    live(&mut world, 30);
    assert_eq!(progressing(&world), told);
    // Whoever uses it is not to sleep any more.
    world.sleep.used = Some(8);
    live(&mut world, 20);
    assert_eq!(progressing(&world).1, "AsDesired");
    world.sleep.webhooks.clear();
    live(&mut world, 120);
    assert_eq!(phase(&world), Some(HibernationPhase::Asleep));
}

#[test]
fn what_a_webhook_is_to_do_meanwhile_is_no_matter_of_the_look_before() {
    let mut world = unused();
    world.sleep.webhooks = [("policy/a.example.com", "Fail")].into();
    live(&mut world, 90);
    world.cluster.spec.hibernation.webhooks = api::tenant_cluster::HibernationWebhooks::Relax;
    step(&mut world);
    assert_eq!(
        phase(&world),
        None,
        "it is looked at anew before anything is done"
    );
    live(&mut world, 20);
    assert_eq!(phase(&world), Some(HibernationPhase::Asleep));
}
