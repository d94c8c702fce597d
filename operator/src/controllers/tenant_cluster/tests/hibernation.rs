//! A tenant cluster that falls asleep and wakes, by the plan that is carried out: crash after every write, the phase erased
//! between any two, and what is said.
//! Long because every way in and out of sleep is played with the same world.
//!
//! Invariant: no plan deletes a claim, a Secret or a Service for it; the end is the same wherever the operator dies.

use api::tenant_cluster::{
    HibernationPhase, HibernationStatus, HibernationWebhooks, WebhooksStatus,
};

use super::*;
use tenant_cp::names;

/// More reconciles than it takes.
const MOST: usize = 40;

fn awake() -> World {
    let mut world = ready(json!({
        "version": "1.35.4", "etcd": { "replicas": 3 }, "backup": { "target": "main" },
        "addons": { "cloudController": { "enabled": true } },
    }));
    world.list_due = true;
    world.settle();
    world.list_due = false;
    world.sleep.machines = 2;
    // Within a second, as clocks are: what is stored of it is the second alone.
    world.now += jiff::SignedDuration::from_millis(700);
    world
}

fn told(world: &World) -> Option<HibernationStatus> {
    world.cluster.status.clone()?.hibernation
}

fn phase(world: &World) -> Option<HibernationPhase> {
    Some(told(world)?.phase)
}

fn want(world: &mut World, sleeps: bool) {
    world.cluster.spec.hibernation.enabled = sleeps;
    let generation = world.cluster.metadata.generation.get_or_insert_default();
    *generation += 1;
}

fn running(world: &World) -> Vec<&'static str> {
    let all = [
        ("Deployment", "ccm"),
        ("Deployment", "control-plane"),
        ("Deployment", "controllers"),
        ("StatefulSet", "etcd"),
    ];
    let running = all
        .into_iter()
        .filter(|(kind, name)| world.runs(kind, name));
    running.map(|(_, name)| name).collect()
}

/// What stays whatever happens.
fn kept(world: &World) -> Vec<Key> {
    let is_kept = |key: &&Key| {
        ["PersistentVolumeClaim", "Secret", "Service", "Namespace"].contains(&key.kind.as_str())
    };
    world.objects.keys().filter(is_kept).cloned().collect()
}

/// What others do meanwhile: machines go one by one, and the API answers while it runs.
fn others(world: &mut World) {
    let is_drained = told(world).is_some_and(|told| told.drained);
    let holds = crate::hibernation::holds_machines(&world.cluster);
    if holds && world.sleep.machines > 0 {
        assert!(
            running(world).contains(&"control-plane") && !is_drained,
            "machines are drained first"
        );
        world.sleep.machines -= 1;
    }
    world.tenant_up =
        world.runs("StatefulSet", "etcd") && world.runs("Deployment", "control-plane");
    if world.runs("Deployment", "control-plane") {
        assert!(
            world.runs("StatefulSet", "etcd") || phase(world) == Some(HibernationPhase::Waking)
        );
    }
}

/// Reconciles, of which all together do so many writes before the operator dies once; until nothing is left to do.
fn go_on(world: &mut World, mut budget: usize, erases: bool) -> bool {
    let (mut died, mut quiet) = (false, 0);
    for round in 0..MOST {
        let before = world.writes;
        let mut without_end = usize::MAX;
        let left = if died { &mut without_end } else { &mut budget };
        let lived = world.reconcile(left);
        died |= !lived;
        others(world);
        quiet = if before == world.writes && lived {
            quiet + 1
        } else {
            0
        };
        if quiet == 3 {
            return died;
        }
        let status = world
            .cluster
            .status
            .as_mut()
            .and_then(|s| s.hibernation.as_mut());
        if let Some(status) = status.filter(|_| erases && round < 12) {
            status.phase = HibernationPhase::default();
        }
    }
    panic!("it never comes to rest: {:?}", told(world));
}

#[test]
fn sleep_and_wake_end_the_same_wherever_the_operator_dies() {
    let whole = awake();
    let before = kept(&whole);
    let mut least = 0;
    for budget in 0.. {
        let mut world = whole.clone();
        want(&mut world, true);
        let died = go_on(&mut world, budget, false);
        assert_eq!(running(&world), [""; 0], "{budget}");
        assert_eq!(phase(&world), Some(HibernationPhase::Asleep), "{budget}");
        assert_eq!(kept(&world), before, "{budget}");
        want(&mut world, false);
        go_on(&mut world, budget, false);
        assert_eq!(
            running(&world),
            ["ccm", "control-plane", "controllers", "etcd"],
            "{budget}"
        );
        assert_eq!(
            (told(&world), world.condition("Ready").0.as_str()),
            (None, "True"),
            "{budget}"
        );
        assert_eq!(kept(&world), before, "{budget}");
        if !died {
            break;
        }
        least = budget;
    }
    assert!(least > 5, "{least} writes are fewer than it must have");
}

/// An old copy of a volume that is put back meanwhile has less.
#[test]
fn what_members_of_etcd_had_when_they_ended_is_known_when_they_wake() {
    let mut world = awake();
    world.applied = 1_234;
    want(&mut world, true);
    go_on(&mut world, usize::MAX, false);
    assert_eq!(phase(&world), Some(HibernationPhase::Asleep));
    let noted = |world: &World| -> Vec<_> {
        let etcd = world.cluster.status.as_ref().and_then(|s| s.etcd.as_ref());
        let members = etcd.map(|etcd| etcd.members.iter());
        members
            .into_iter()
            .flatten()
            .map(|m| m.last_index)
            .collect()
    };
    assert_eq!(noted(&world), [Some(1_234); 3]);
    want(&mut world, false);
    go_on(&mut world, usize::MAX, false);
    // What came since counts from the next time on.
    assert_eq!(noted(&world), [Some(1_234); 3]);
}

const STRICT: [(&str, &str); 2] = [("policy/nodes", "Fail"), ("policy/pods", "Fail")];

#[test]
fn webhooks_that_would_keep_it_from_waking_keep_it_awake_and_are_named() {
    let mut world = awake();
    world.sleep.webhooks = STRICT.into();
    want(&mut world, true);
    go_on(&mut world, usize::MAX, false);
    assert_eq!((told(&world), world.sleep.machines), (None, 2));
    let (status, message) = (world.condition("Progressing"), world.condition("Ready"));
    assert_eq!((&*status.0, &*status.1), ("True", "FallingAsleep"));
    assert_eq!(message.0, "True");
    let said = world.sleep.said.iter().map(|notice| &*notice.message);
    let said: Vec<_> = said.collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("webhook policy/nodes, policy/pods, which"),
        "{said:?}"
    );
    let writes = world.writes;
    go_on(&mut world, usize::MAX, false);
    assert_eq!(world.writes, writes);
    // Or it is changed on which occasion it sleeps.
    world.cluster.spec.hibernation.webhooks = HibernationWebhooks::Relax;
    go_on(&mut world, usize::MAX, false);
    assert_eq!(phase(&world), Some(HibernationPhase::Asleep));
    let policies: Vec<_> = world.sleep.webhooks.values().copied().collect();
    assert_eq!(policies, ["Ignore"; 2]);
}

#[test]
fn webhooks_have_to_answer_again_once_somebody_is_there_wherever_the_operator_dies() {
    let mut whole = awake();
    whole.sleep.webhooks = STRICT.into();
    whole.cluster.spec.hibernation.webhooks = HibernationWebhooks::Relax;
    for (budget, erases) in (0..).flat_map(|budget| [(budget, false), (budget, true)]) {
        let mut world = whole.clone();
        want(&mut world, true);
        let died = go_on(&mut world, budget, erases);
        assert_eq!(phase(&world), Some(HibernationPhase::Asleep), "{budget}");
        want(&mut world, false);
        go_on(&mut world, budget, erases);
        let status = told(&world).unwrap();
        assert_eq!(status.webhooks, Some(WebhooksStatus::Relaxed), "{budget}");
        assert_eq!(world.condition("Ready").0, "True", "{budget}");
        let conditions = world.cluster.status.iter().flat_map(|s| &s.conditions);
        let mut says = conditions.map(|condition| &condition.message);
        let wanted = "nobody is there yet to answer for webhook policy/nodes, policy/pods";
        assert!(says.any(|message| message.starts_with(wanted)), "{budget}");
        world.sleep.answers = true;
        go_on(&mut world, budget, erases);
        assert_eq!(
            (told(&world), &world.sleep.webhooks),
            (None, &STRICT.into())
        );
        if !died && erases {
            break;
        }
    }
}

#[test]
fn a_phase_that_is_erased_is_computed_again() {
    let mut world = awake();
    world.sleep.machines = 0;
    want(&mut world, true);
    go_on(&mut world, usize::MAX, true);
    assert_eq!(phase(&world), Some(HibernationPhase::Asleep));
    want(&mut world, false);
    go_on(&mut world, usize::MAX, true);
    assert_eq!((told(&world), running(&world).len()), (None, 4));
}

#[test]
fn asleep_is_no_error_and_costs_neither_a_write_nor_a_question() {
    let mut world = awake();
    want(&mut world, true);
    go_on(&mut world, usize::MAX, false);
    assert_eq!(
        world.condition("Ready"),
        ("False".to_owned(), "Hibernated".to_owned())
    );
    assert_eq!(
        world.condition("Degraded"),
        ("False".to_owned(), "AsExpected".to_owned())
    );
    assert_eq!(
        world.condition("Progressing"),
        ("False".to_owned(), "Hibernated".to_owned())
    );
    for type_ in ["EtcdReady", "ControlPlaneReady", "ControllersReady"] {
        assert_eq!(
            world.condition(type_),
            ("False".to_owned(), "Hibernated".to_owned()),
            "{type_}"
        );
    }
    let (writes, questions) = (world.writes, world.sleep.questions);
    // Also where somebody thinks that objects inside have to be listed, and with another version, which waits.
    world.list_due = true;
    for _ in 0..5 {
        let plan = plan(&world.observe(), &world.settings, world.now);
        assert!(plan.is_settled() && plan.rollout.is_none(), "{plan:?}");
        let after = plan.requeue_after.unwrap();
        assert!(after > std::time::Duration::from_secs(3600), "{after:?}");
        world.reconcile(&mut usize::MAX.clone());
    }
    assert_eq!((world.writes, world.sleep.questions), (writes, questions));
}

#[test]
fn a_version_that_is_asked_for_takes_effect_when_it_wakes() {
    let mut world = awake();
    want(&mut world, true);
    go_on(&mut world, usize::MAX, false);
    world.cluster.spec.version = "1.36.3".to_owned();
    go_on(&mut world, usize::MAX, false);
    assert_eq!(
        (running(&world).len(), phase(&world)),
        (0, Some(HibernationPhase::Asleep))
    );
    want(&mut world, false);
    go_on(&mut world, usize::MAX, false);
    let status = world.cluster.status.clone().unwrap();
    assert!(
        status.upgrade.is_some() || status.version.as_deref() == Some("1.36.3"),
        "{status:?}"
    );
}

#[test]
fn it_stays_up_with_the_reason_while_something_is_left_on_nodes() {
    let mut world = awake();
    world.sleep.left = Some("pod shop/db-0 and 2 more");
    want(&mut world, true);
    go_on(&mut world, usize::MAX, false);
    assert_eq!(running(&world).len(), 4);
    let conditions = world.cluster.status.clone().unwrap().conditions;
    let progressing = conditions
        .iter()
        .find(|c| c.type_ == "Progressing")
        .unwrap();
    assert!(
        progressing.message.contains("shop/db-0"),
        "{}",
        progressing.message
    );
    assert_eq!(
        (
            progressing.reason.as_str(),
            world.condition("Ready").0.as_str()
        ),
        ("FallingAsleep", "True")
    );
    world.sleep.left = None;
    go_on(&mut world, usize::MAX, false);
    assert_eq!(running(&world), [""; 0]);
}

#[test]
fn etcd_stays_until_the_last_pod_is_gone_that_writes_or_backs_up() {
    for lingering in ["ccm", "control-plane", "controllers", "backup"] {
        let mut world = awake();
        world.sleep.lingering.insert(lingering);
        want(&mut world, true);
        go_on(&mut world, usize::MAX, false);
        assert!(world.runs("StatefulSet", "etcd"), "{lingering}");
        world.sleep.lingering.clear();
        go_on(&mut world, usize::MAX, false);
        assert_eq!(running(&world), [""; 0], "{lingering}");
    }
}

#[test]
fn a_request_wakes_it_until_it_is_sent_to_sleep_anew() {
    let mut world = awake();
    want(&mut world, true);
    go_on(&mut world, usize::MAX, false);
    world.sleep.asked = Some(world.now + jiff::SignedDuration::from_secs(1));
    go_on(&mut world, usize::MAX, false);
    assert_eq!(
        (running(&world).len(), phase(&world)),
        (4, Some(HibernationPhase::Awake))
    );
    assert_eq!(world.condition("Ready").0, "True");
    want(&mut world, false);
    go_on(&mut world, usize::MAX, false);
    assert_eq!(told(&world), None);
    world.now += jiff::SignedDuration::from_secs(60);
    want(&mut world, true);
    go_on(&mut world, usize::MAX, false);
    assert_eq!(running(&world), [""; 0]);
}

#[test]
fn one_that_never_answered_is_started_first() {
    let mut spec = minimal();
    spec["hibernation"] = json!({ "enabled": true });
    let mut world = World::new(spec);
    go_on(&mut world, usize::MAX, false);
    assert_eq!(running(&world), [""; 0]);
    assert!(
        world
            .cluster
            .status
            .clone()
            .unwrap()
            .bootstrap_hash
            .is_some()
    );
}

#[test]
fn the_activator_waits_in_its_place_while_nothing_runs_wherever_the_operator_dies() {
    let mut whole = awake();
    whole.sleep.activators.insert("10.0.9.1".parse().unwrap());
    let slice = Key::new("EndpointSlice", NS, names::ACTIVATOR_SLICE);
    for budget in 0.. {
        let mut world = whole.clone();
        want(&mut world, true);
        let died = go_on(&mut world, budget, false);
        let entry: api::activator::Sleeper =
            serde_json::from_str(&world.sleep.ports["20000"]).unwrap();
        assert_eq!((entry.uid.as_str(), entry.server), (UID, None), "{budget}");
        assert_eq!(
            world.objects[&slice]["ports"][0]["port"], 20_000,
            "{budget}"
        );
        // Another pod of it.
        world.sleep.activators = ["10.0.9.2".parse().unwrap()].into();
        go_on(&mut world, usize::MAX, false);
        assert_eq!(
            world.objects[&slice]["endpoints"][0]["addresses"][0],
            "10.0.9.2"
        );
        want(&mut world, false);
        go_on(&mut world, budget, false);
        assert!(!world.objects.contains_key(&slice), "{budget}");
        // Whoever was held is handed on meanwhile.
        assert_eq!(world.sleep.ports.len(), 1, "{budget}");
        world.now += jiff::SignedDuration::from_secs(10);
        go_on(&mut world, usize::MAX, false);
        assert!(
            world.sleep.ports.is_empty() && told(&world).is_none(),
            "{budget}"
        );
        if !died {
            break;
        }
    }
}

#[test]
fn who_is_woken_by_hand_alone_gets_no_port() {
    let mut world = awake();
    world.sleep.activators.insert("10.0.9.1".parse().unwrap());
    world.cluster.spec.hibernation.wake = api::tenant_cluster::HibernationWake::Manual;
    want(&mut world, true);
    go_on(&mut world, usize::MAX, false);
    assert_eq!((running(&world).len(), world.sleep.ports.len()), (0, 0));
}

/// Nobody changes anything: the clock alone does.
#[test]
fn it_sleeps_and_wakes_by_schedule_when_the_clock_says_so() {
    let at = |text: &str| -> jiff::Timestamp { text.parse().unwrap() };
    let mut world = ready(minimal());
    // It is Saturday noon in UTC.
    let nights =
        json!([{ "sleep": "0 20 * * *", "wake": "0 7 * * *", "timeZone": "Europe/Berlin" }]);
    world.cluster.spec.hibernation.schedules = serde_json::from_value(nights).unwrap();
    world.settle();
    assert_eq!(world.condition("Ready").0, "True");
    let next = |world: &World| {
        let plan = plan(&world.observe(), &world.settings, world.now);
        let after = plan.requeue_after.unwrap();
        world.now + jiff::SignedDuration::try_from(after).unwrap()
    };
    let written = world.writes;
    for (now, phase) in [
        ("2026-11-21T19:00:00Z", Some(HibernationPhase::Asleep)),
        ("2026-11-22T06:00:00Z", None),
        ("2026-11-22T19:00:00Z", Some(HibernationPhase::Asleep)),
    ] {
        // The operator is woken by its own timer, in time.
        let sweep = world.now + jiff::SignedDuration::try_from(SLOW_SWEEP).unwrap();
        assert!(next(&world) <= (at(now) + jiff::SignedDuration::from_millis(1)).min(sweep));
        world.now = at(now) - jiff::SignedDuration::from_secs(1);
        let before = world.cluster.status.clone().unwrap().hibernation;
        world.settle();
        assert_eq!(
            world.cluster.status.clone().unwrap().hibernation,
            before,
            "{now}"
        );
        world.now = at(now);
        for _ in 0..4 {
            world.settle();
        }
        let told = world.cluster.status.clone().unwrap().hibernation;
        assert_eq!(told.map(|told| told.phase), phase, "{now}");
    }
    assert!(world.writes > written);
    // Whoever set `enabled` is asked no less.
    world.cluster.spec.hibernation.schedules.clear();
    for _ in 0..4 {
        world.settle();
    }
    assert_eq!(world.condition("Ready").0, "True");
}

/// What is said since it was last asked.
fn heard(world: &mut World) -> Vec<(&'static str, String)> {
    let said = std::mem::take(&mut world.sleep.said).into_iter();
    said.map(|notice| (notice.reason, notice.message)).collect()
}

fn texts<'a>(heard: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
    let each = heard.iter();
    each.map(|(reason, text)| (*reason, text.as_str()))
        .collect()
}

const SLEEPS: (&str, &str) = (
    "Hibernated",
    "it sleeps: nothing of it runs, and its data, keys and addresses stay",
);

#[test]
fn who_puts_it_to_sleep_and_wakes_it_is_said_once_each_time() {
    let mut world = awake();
    world.sleep.said.clear();
    want(&mut world, true);
    go_on(&mut world, usize::MAX, false);
    let wanted = "it is put to sleep: spec.hibernation.enabled is true";
    assert_eq!(
        texts(&heard(&mut world)),
        [("FallingAsleep", wanted), SLEEPS]
    );
    world.sleep.asked = Some(world.now + jiff::SignedDuration::from_secs(1));
    go_on(&mut world, usize::MAX, false);
    let wanted = "it wakes: 192.0.2.7 asked its API";
    assert_eq!(texts(&heard(&mut world)), [("Waking", wanted)]);
    want(&mut world, false);
    go_on(&mut world, usize::MAX, false);
    assert!(heard(&mut world).is_empty(), "it was awake");
    world.now += jiff::SignedDuration::from_secs(60);
    want(&mut world, true);
    go_on(&mut world, usize::MAX, false);
    heard(&mut world);
    want(&mut world, false);
    go_on(&mut world, usize::MAX, false);
    let wanted = "it wakes: spec.hibernation.enabled is false";
    assert_eq!(texts(&heard(&mut world)), [("Waking", wanted)]);
}

#[test]
fn what_holds_it_awake_is_said_and_that_it_is_awake_again() {
    let mut world = awake();
    world.sleep.machines = 0;
    world.sleep.left = Some("pod shop/db-0 and 2 more");
    world.sleep.said.clear();
    want(&mut world, true);
    world.reconcile(&mut usize::MAX.clone());
    let said = heard(&mut world);
    assert_eq!(said.len(), 1, "it may go in the next moment: {said:?}");
    world.reconcile(&mut usize::MAX.clone());
    let wanted = "waits until nothing is left on nodes: pod shop/db-0 and 2 more";
    assert_eq!(texts(&heard(&mut world)), [("FallingAsleep", wanted)]);
    want(&mut world, false);
    go_on(&mut world, usize::MAX, false);
    let wanted = "it wakes: spec.hibernation.enabled is false";
    assert_eq!(texts(&heard(&mut world)), [("Waking", wanted)]);
}

#[test]
fn a_schedule_that_puts_it_to_sleep_is_named() {
    let mut world = ready(minimal());
    let nights = json!([{ "sleep": "0 20 * * *", "wake": "0 7 * * *" }]);
    world.cluster.spec.hibernation.schedules = serde_json::from_value(nights).unwrap();
    world.settle();
    for (now, wanted) in [
        (
            "2026-11-21T20:00:00Z",
            vec![
                (
                    "FallingAsleep",
                    "it is put to sleep: spec.hibernation.schedules has it sleep since 2026-11-21T20:00:00Z",
                ),
                SLEEPS,
            ],
        ),
        (
            "2026-11-22T07:00:00Z",
            vec![(
                "Waking",
                "it wakes: spec.hibernation.schedules has it awake",
            )],
        ),
    ] {
        world.now = now.parse().unwrap();
        world.sleep.said.clear();
        for _ in 0..4 {
            world.settle();
        }
        assert_eq!(texts(&heard(&mut world)), wanted);
    }
}
