//! Laws of a fleet that follows another operator, and what is said of it.
//!
//! Long because every law is held against the same fleet.

use std::collections::BTreeSet;

use api::fleet_policy::{FleetPolicySpec, Window};
use api::tenant_cluster::{RolloutBegun, RolloutStatus};
use api::{FleetPolicy, FleetPolicyStatus};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::json;
use tenant_cp::rollout::order::Cause;

use super::plan::{Observed, Plan, plan};
use super::tenant::{TOLERANCE, Tenant};
use crate::maintenance::patches::HowFar;
use crate::rollouts::queue::{Answer, Purpose, RolloutQueue, Turn};

mod maintenance;

const NEW: &str = "new";
const OLD: &str = "old";
/// `spec.deadline` of the policies here.
const DEADLINE: SignedDuration = SignedDuration::from_mins(15);

fn start() -> Timestamp {
    "2026-11-20T12:00:00Z".parse().unwrap()
}

fn tenant(number: usize, wave: &str) -> Tenant {
    let created = i64::try_from(number).unwrap();
    Tenant {
        uid: format!("uid-{number:02}"),
        name: format!("team-a/t{number}"),
        created: Timestamp::from_second(created).ok(),
        labels: [("wave".to_owned(), wave.to_owned())].into(),
        priority: 0,
        held_until: None,
        windows: None,
        patch: HowFar::None,
        is_left_out: false,
        rollout: RolloutStatus {
            templates: Some(OLD.to_owned()),
            ..RolloutStatus::default()
        },
        ready: Some((true, Timestamp::UNIX_EPOCH)),
    }
}

/// Tenant clusters, an operator with its queue, and a policy.
#[derive(Debug)]
struct Fleet {
    policy: Option<FleetPolicy>,
    tenants: Vec<Tenant>,
    queue: RolloutQueue,
    now: Timestamp,
}

impl Fleet {
    /// Of each wave so many, in this order.
    fn new(waves: &[(&str, usize)], spec: serde_json::Value) -> Self {
        let spec: FleetPolicySpec = serde_json::from_value(spec).unwrap();
        let each = waves
            .iter()
            .flat_map(|(wave, count)| std::iter::repeat_n(*wave, *count));
        let mut fleet = Self {
            policy: Some(FleetPolicy::new("default", spec)),
            tenants: each
                .enumerate()
                .map(|(number, wave)| tenant(number, wave))
                .collect(),
            queue: RolloutQueue::new(9, 9),
            now: start(),
        };
        fleet.restart();
        fleet
    }

    /// Another operator leads, which has seen everybody and remembers nothing.
    fn restart(&mut self) {
        self.queue = RolloutQueue::new(9, 9);
        self.queue.saw("any", Vec::new);
    }

    fn plan(&self) -> Plan {
        plan(&Observed {
            policy: self.policy.as_ref(),
            tenants: &self.tenants,
            running: &self.queue.fleet_running(),
            templates: NEW,
            is_shared: false,
            now: self.now,
        })
    }

    /// Decides, and writes what the policy says; gives who may begin.
    fn write(&mut self) -> Vec<String> {
        let plan = self.plan();
        self.queue.gate(plan.gate.clone());
        if let Some(policy) = &mut self.policy {
            policy.status = plan.status;
        }
        let names = |uid: &String| {
            let mut tenants = self.tenants.iter();
            tenants.find(|t| t.uid == *uid).unwrap().name.clone()
        };
        let admitted = plan.gate.admitted.unwrap_or_default();
        admitted.iter().map(names).collect()
    }

    /// One asks for its turn; whether it begins, or has begun.
    fn ask(&mut self, number: usize) -> Answer {
        self.queue.gate(self.plan().gate);
        let tenant = &mut self.tenants[number];
        let turn = Turn {
            purpose: Purpose::Rollout(Cause::Fleet),
            created: tenant.created.unwrap(),
            uid: tenant.uid.clone(),
            namespace: "team-a".to_owned(),
        };
        let answer = self.queue.ask(&turn, self.now);
        match answer {
            Answer::Go if !tenant.is_toward() => {
                tenant.rollout.toward = Some(RolloutBegun {
                    templates: NEW.to_owned(),
                    since: self.now.to_string(),
                });
                tenant.rollout.held = false;
            }
            Answer::Held => tenant.rollout.held = true,
            Answer::Go | Answer::Wait => {}
        }
        answer
    }

    fn ends(&mut self, number: usize) {
        let tenant = &mut self.tenants[number];
        if tenant.in_flight() {
            tenant.rollout.templates = Some(NEW.to_owned());
            self.queue.done(&tenant.uid);
        }
    }

    fn pass(&mut self, time: SignedDuration) {
        self.now = self.now.checked_add(time).unwrap();
    }

    fn status(&self) -> &FleetPolicyStatus {
        self.policy.as_ref().unwrap().status.as_ref().unwrap()
    }

    fn said(&self, type_: &str) -> (String, String, String) {
        let mut conditions = self.status().conditions.iter();
        let said = conditions.find(|c| c.type_ == type_).unwrap();
        (
            said.status.clone(),
            said.reason.clone(),
            said.message.clone(),
        )
    }

    fn progressing(&self) -> (String, String) {
        let (value, reason, _) = self.said("Progressing");
        (value, reason)
    }

    /// Whether anybody failed, by the words of docs/fleet.md.
    fn has_failed(&self) -> bool {
        let since = |text: &str| text.parse::<Timestamp>().unwrap();
        self.tenants.iter().any(|tenant| {
            let late = tenant.in_flight()
                && tenant.rollout.toward.as_ref().is_some_and(|toward| {
                    self.now.duration_since(since(&toward.since)) >= DEADLINE
                });
            let lost = tenant.is_toward()
                && tenant.is_current(NEW)
                && tenant.ready.is_some_and(|(ready, since)| {
                    !ready && self.now.duration_since(since) >= TOLERANCE
                });
            late || lost
        })
    }
}

impl Tenant {
    fn is_toward(&self) -> bool {
        let toward = self.rollout.toward.as_ref();
        toward.is_some_and(|toward| toward.templates == NEW)
    }

    fn in_flight(&self) -> bool {
        self.is_toward() && !self.is_current(NEW)
    }
}

fn two_waves() -> serde_json::Value {
    json!({
        "waves": [
            { "name": "canary", "selector": { "matchLabels": { "wave": "canary" } }, "soak": "1h" },
            { "name": "tenth", "selector": { "matchLabels": { "wave": "tenth" } } },
        ],
        "maxConcurrent": 1,
    })
}

fn yes(value: &str, reason: &str) -> (String, String) {
    (value.to_owned(), reason.to_owned())
}

#[test]
fn waves_follow_each_other_once_the_one_before_is_whole_and_was_looked_at() {
    let mut fleet = Fleet::new(&[("canary", 2), ("tenth", 1), ("other", 1)], two_waves());
    assert_eq!(fleet.write(), ["team-a/t0", "team-a/t1"]);
    assert_eq!(fleet.ask(2), Answer::Held);
    assert_eq!(fleet.ask(0), Answer::Go);
    assert_eq!(fleet.ask(1), Answer::Held, "one at a time");
    assert_eq!(fleet.write(), ["team-a/t1"]);
    let wave = fleet.status().waves[0].clone();
    assert_eq!((wave.in_flight, wave.waiting, wave.done), (1, 1, 0));
    assert_eq!(fleet.progressing(), yes("True", "RollingOut"));
    fleet.ends(0);
    assert_eq!(fleet.ask(1), Answer::Go);
    fleet.ends(1);
    assert_eq!(fleet.write(), [""; 0]);
    assert_eq!(fleet.progressing(), yes("True", "WaveSoaking"));
    assert_eq!(
        fleet.plan().again,
        fleet.now.checked_add(SignedDuration::from_hours(1)).ok()
    );
    fleet.pass(SignedDuration::from_mins(59));
    assert_eq!(fleet.ask(2), Answer::Held);
    fleet.pass(SignedDuration::from_mins(1));
    assert_eq!(fleet.write(), ["team-a/t2"]);
    assert_eq!(fleet.ask(2), Answer::Go);
    assert_eq!(fleet.ask(3), Answer::Held, "of no wave, so of the last one");
    fleet.ends(2);
    assert_eq!(fleet.ask(3), Answer::Go);
    fleet.ends(3);
    fleet.write();
    assert_eq!(fleet.progressing(), yes("False", "FleetRolledOut"));
    let names: Vec<_> = fleet
        .status()
        .waves
        .iter()
        .map(|w| w.name.as_str())
        .collect();
    assert_eq!(names, ["canary", "tenth", "rest"]);
    let rests = fleet.policy.clone();
    fleet.pass(SignedDuration::from_hours(100));
    fleet.write();
    assert_eq!(fleet.policy, rests, "nothing is written at rest");
    assert_eq!(fleet.plan().again, None, "nor looked at");
}

#[test]
fn shares_are_of_all_and_the_oldest_go_first() {
    let spec =
        json!({ "waves": [{ "name": "few", "size": "10%" }, { "name": "more", "size": 3 }] });
    let mut fleet = Fleet::new(&[("any", 11)], spec);
    assert_eq!(fleet.write(), ["team-a/t0", "team-a/t1"], "rounded up");
    let sizes = fleet.status().waves.iter();
    let sizes: Vec<_> = sizes.map(|wave| wave.tenant_clusters).collect();
    assert_eq!(sizes, [2, 3, 6]);
}

#[test]
fn failure_halts_until_somebody_says_that_it_is_mended() {
    let mut fleet = Fleet::new(&[("canary", 2), ("tenth", 1)], two_waves());
    assert_eq!(fleet.ask(0), Answer::Go);
    fleet.pass(DEADLINE);
    assert_eq!(fleet.write(), [""; 0]);
    let halted = fleet.status().halted.clone().unwrap();
    assert_eq!(
        (halted.tenant_cluster.as_str(), halted.retry),
        ("team-a/t0", 0)
    );
    assert_eq!(fleet.progressing(), yes("False", "FleetHalted"));
    let (value, _, message) = fleet.said("Degraded");
    assert_eq!(value, "True");
    assert!(
        message.contains("Mend it (or pause or delete it)"),
        "{message}"
    );
    assert_eq!(fleet.ask(1), Answer::Held);
    assert_eq!(fleet.ask(0), Answer::Go, "it goes on");
    // Also of another leader, and where what was said is erased.
    fleet.restart();
    fleet.policy.as_mut().unwrap().status = None;
    assert_eq!(fleet.ask(1), Answer::Held);
    assert_eq!(fleet.ask(0), Answer::Go);
    assert_eq!(fleet.write(), [""; 0]);
    // It gets through, and the others stay until a person says so.
    fleet.ends(0);
    assert_eq!(fleet.write(), [""; 0]);
    assert_eq!(fleet.ask(1), Answer::Held);
    fleet.policy.as_mut().unwrap().spec.retry = 1;
    assert_eq!(fleet.write(), ["team-a/t1"]);
    assert_eq!(fleet.status().halted, None);
    // Without being mended it is halted again at once.
    assert_eq!(fleet.ask(1), Answer::Go);
    fleet.pass(DEADLINE);
    fleet.write();
    fleet.policy.as_mut().unwrap().spec.retry = 2;
    assert_eq!(fleet.write(), [""; 0]);
    assert_eq!(fleet.status().halted.as_ref().unwrap().retry, 2);
    // Whoever is paused is waited for by nobody.
    fleet.tenants[1].is_left_out = true;
    fleet.policy.as_mut().unwrap().spec.retry = 3;
    fleet.write();
    assert_eq!(fleet.progressing(), yes("True", "WaveSoaking"));
}

#[test]
fn so_many_may_fail_as_the_wave_says_and_the_next_one_halts() {
    let spec = json!({
        "waves": [{
            "name": "canary", "maxFailures": 1, "selector": { "matchLabels": { "wave": "canary" } },
        }],
        "maxConcurrent": 2,
    });
    let mut fleet = Fleet::new(&[("canary", 3), ("other", 2)], spec);
    assert_eq!(fleet.ask(0), Answer::Go);
    fleet.pass(DEADLINE);
    assert_eq!(fleet.write(), ["team-a/t1", "team-a/t2"], "one may fail");
    assert_eq!(fleet.status().halted, None);
    assert_eq!(fleet.ask(1), Answer::Go);
    assert_eq!(fleet.ask(2), Answer::Held, "who failed has its place still");
    fleet.ends(1);
    assert_eq!(fleet.ask(2), Answer::Go);
    fleet.ends(2);
    assert_eq!(fleet.write(), ["team-a/t3", "team-a/t4"], "it is whole");
    assert_eq!(fleet.status().waves[0].failed, 1);
    // Of those of no wave none may.
    assert_eq!(fleet.ask(3), Answer::Go);
    fleet.pass(DEADLINE);
    assert_eq!(fleet.write(), [""; 0]);
    let halted = fleet.status().halted.clone().unwrap();
    assert_eq!(halted.tenant_cluster, "team-a/t3");
}

#[test]
fn replicas_that_see_different_moments_stay_within_the_budget_together() {
    let spec = json!({ "maxConcurrent": 2 });
    let mut fleet = Fleet::new(&[("any", 6)], spec);
    let admitted = |fleet: &Fleet| {
        let observed = Observed {
            policy: fleet.policy.as_ref(),
            tenants: &fleet.tenants,
            running: &BTreeSet::new(),
            templates: NEW,
            is_shared: true,
            now: fleet.now,
        };
        plan(&observed).gate.admitted.unwrap()
    };
    let of =
        |uids: &[&str]| -> BTreeSet<String> { uids.iter().map(|uid| (*uid).to_owned()).collect() };
    assert_eq!(admitted(&fleet), of(&["uid-00", "uid-01"]));
    assert_eq!(fleet.ask(0), Answer::Go);
    // Who has not seen it yet admits it still, and nobody else.
    assert_eq!(admitted(&fleet), of(&["uid-01"]));
    fleet.ends(0);
    assert_eq!(admitted(&fleet), of(&["uid-01", "uid-02"]));
}

#[test]
fn ready_that_is_lost_afterwards_halts_and_a_moment_of_it_does_not() {
    let spec = json!({ "maxConcurrent": 5 });
    let mut fleet = Fleet::new(&[("any", 3)], spec);
    assert_eq!(fleet.ask(0), Answer::Go);
    fleet.ends(0);
    fleet.tenants[0].ready = Some((false, fleet.now));
    assert_eq!(fleet.write(), ["team-a/t1", "team-a/t2"]);
    assert_eq!(fleet.plan().again, fleet.now.checked_add(TOLERANCE).ok());
    fleet.pass(TOLERANCE);
    assert_eq!(fleet.write(), [""; 0]);
    assert_eq!(
        fleet.status().halted.as_ref().unwrap().message,
        "it is not Ready any more"
    );
}

#[test]
fn whoever_was_broken_before_sleeps_or_is_gone_delays_nobody() {
    let mut fleet = Fleet::new(&[("canary", 3), ("tenth", 1)], two_waves());
    fleet.tenants[0].ready = Some((false, Timestamp::UNIX_EPOCH));
    fleet.tenants[1].is_left_out = true;
    assert_eq!(fleet.ask(2), Answer::Go);
    fleet.ends(2);
    fleet.write();
    fleet.pass(SignedDuration::from_hours(1));
    assert_eq!(fleet.write(), ["team-a/t3"]);
    assert_eq!(fleet.status().waves[0].left_out, 2);
    // Its user changed it, with the new templates, and it is as broken as before.
    fleet.tenants[0].rollout.templates = Some(NEW.to_owned());
    assert_eq!(fleet.write(), ["team-a/t3"]);
}

#[test]
fn what_is_not_known_is_not_done() {
    for erase in [
        |tenant: &mut Tenant| tenant.ready = None,
        |tenant: &mut Tenant| tenant.rollout.templates = None,
        |tenant: &mut Tenant| tenant.rollout = RolloutStatus::default(),
    ] {
        let mut fleet = Fleet::new(&[("canary", 1), ("tenth", 1)], two_waves());
        assert_eq!(fleet.ask(0), Answer::Go);
        fleet.ends(0);
        fleet.write();
        erase(&mut fleet.tenants[0]);
        fleet.pass(SignedDuration::from_hours(1));
        fleet.write();
        assert_eq!(fleet.ask(1), Answer::Held);
    }
}

#[test]
fn policy_that_is_broken_held_or_gone_leaves_all_where_they_are() {
    let mut fleet = Fleet::new(&[("canary", 2), ("tenth", 1)], two_waves());
    assert_eq!(fleet.ask(0), Answer::Go);
    assert_eq!(fleet.ask(1), Answer::Held);
    assert_eq!(fleet.ask(2), Answer::Held);
    let whole = fleet.policy.clone();
    let spec = |fleet: &mut Fleet, change: &dyn Fn(&mut FleetPolicySpec)| {
        change(&mut fleet.policy.as_mut().unwrap().spec);
    };
    spec(&mut fleet, &|spec| {
        spec.windows = vec![Window {
            opens: "0 25 * * *".to_owned(),
            closes: "0 4 * * *".to_owned(),
            time_zone: Some("Mars/Olympus".to_owned()),
        }];
    });
    fleet.ends(0);
    assert_eq!(fleet.write(), [""; 0]);
    let (value, reason, message) = fleet.said("Degraded");
    assert_eq!(
        (value.as_str(), reason.as_str()),
        ("True", "FleetPolicyUnusable")
    );
    assert!(
        message.starts_with("spec.windows[0].opens: \"0 25 * * *\" cannot be read"),
        "{message}"
    );
    assert_eq!(fleet.ask(1), Answer::Held);

    fleet.policy.clone_from(&whole);
    spec(&mut fleet, &|spec| spec.held = true);
    assert_eq!(fleet.write(), [""; 0]);
    assert_eq!(fleet.progressing(), yes("False", "FleetHeld"));

    fleet.policy = None;
    fleet.restart();
    assert_eq!(fleet.ask(1), Answer::Held);
    assert_eq!(fleet.ask(2), Answer::Held);
    // Whoever waited for none is no business of a policy that is gone.
    fleet.tenants.push(tenant(3, "other"));
    assert_eq!(fleet.ask(3), Answer::Go);

    fleet.policy = whole;
    assert_eq!(fleet.write(), ["team-a/t1"]);
}

#[test]
fn nobody_begins_outside_of_windows_and_who_has_begun_goes_on() {
    let mut spec = two_waves();
    spec["windows"] =
        json!([{ "opens": "0 22 * * *", "closes": "0 4 * * *", "timeZone": "Europe/Berlin" }]);
    let mut fleet = Fleet::new(&[("canary", 2)], spec);
    assert_eq!(fleet.write(), [""; 0]);
    assert_eq!(fleet.progressing(), yes("True", "WaitingForWindow"));
    let opens: Timestamp = "2026-11-20T21:00:00Z".parse().unwrap();
    assert_eq!(fleet.plan().again, Some(opens));
    fleet.now = opens;
    assert_eq!(fleet.ask(0), Answer::Go);
    fleet.now = "2026-11-21T03:00:00Z".parse().unwrap();
    fleet.tenants[0].rollout.toward.as_mut().unwrap().since = fleet.now.to_string();
    assert_eq!(fleet.write(), [""; 0]);
    assert_eq!(fleet.ask(0), Answer::Go);
    assert_eq!(fleet.ask(1), Answer::Held);
}

#[test]
fn other_templates_are_another_matter() {
    let mut fleet = Fleet::new(&[("canary", 1), ("tenth", 1)], two_waves());
    // The operator before failed with its own, and is replaced by one that mends them.
    fleet.tenants[0].rollout.toward = Some(RolloutBegun {
        templates: "bad".to_owned(),
        since: Timestamp::UNIX_EPOCH.to_string(),
    });
    let halted = json!({
        "templates": "bad",
        "waves": [{ "name": "canary", "tenantClusters": 1, "done": 0, "inFlight": 0, "waiting": 0, "failed": 1,
                    "leftOut": 0, "wholeSince": "2026-01-01T00:00:00Z" }],
        "halted": { "templates": "bad", "retry": 0, "tenantCluster": "team-a/t0", "message": "", "since": "" },
    });
    fleet.policy.as_mut().unwrap().status = serde_json::from_value(halted).unwrap();
    assert_eq!(fleet.write(), ["team-a/t0"]);
    assert_eq!(fleet.status().halted, None);
}

#[test]
fn whoever_is_held_back_begins_not_before_and_delays_nobody() {
    let mut fleet = Fleet::new(&[("canary", 2), ("tenth", 1)], two_waves());
    let until = fleet
        .now
        .checked_add(SignedDuration::from_hours(9))
        .unwrap();
    fleet.tenants[0].held_until = Some(until);
    assert_eq!(fleet.write(), ["team-a/t1"]);
    let wave = fleet.status().waves[0].clone();
    assert_eq!((wave.held, wave.waiting, wave.left_out), (1, 1, 0));
    assert_eq!(fleet.ask(1), Answer::Go);
    fleet.ends(1);
    fleet.write();
    fleet.pass(SignedDuration::from_hours(1));
    assert_eq!(fleet.ask(2), Answer::Go, "its wave is whole without it");
    fleet.ends(2);
    fleet.write();
    let (_, reason, message) = fleet.said("Progressing");
    assert_eq!(reason, "FleetRolledOut");
    assert!(message.contains("1 are held back"), "{message}");
    assert!(message.ends_with(&until.to_string()), "{message}");
    assert_eq!(fleet.plan().again, Some(until), "then it is looked at");
    fleet.now = until;
    assert_eq!(fleet.write(), ["team-a/t0"]);
    assert_eq!(fleet.ask(0), Answer::Go);
    // What has begun goes on, whatever is said afterwards.
    fleet.tenants[0].held_until = fleet.now.checked_add(SignedDuration::from_hours(1)).ok();
    fleet.restart();
    assert_eq!(fleet.ask(0), Answer::Go);
}

#[test]
fn a_wave_that_is_held_begins_not_before_and_those_after_it_wait() {
    let mut spec = two_waves();
    spec["waves"][1]["heldUntil"] = json!("2026-11-25T06:00:00Z");
    let mut fleet = Fleet::new(&[("canary", 1), ("tenth", 2), ("other", 1)], spec);
    assert_eq!(fleet.ask(0), Answer::Go);
    fleet.ends(0);
    fleet.write();
    assert_eq!(fleet.progressing(), yes("True", "WaveSoaking"));
    fleet.pass(SignedDuration::from_hours(1));
    assert_eq!(fleet.write(), [""; 0]);
    let (_, reason, message) = fleet.said("Progressing");
    assert_eq!(reason, "WaveHeld");
    let told = "wave tenth is held back until 2026-11-25T06:00:00Z";
    assert!(message.starts_with(told), "{message}");
    assert_eq!(fleet.ask(3), Answer::Held, "of a wave after it");
    let until: Timestamp = "2026-11-25T06:00:00Z".parse().unwrap();
    assert_eq!(fleet.plan().again, Some(until));
    fleet.now = until;
    assert_eq!(fleet.write(), ["team-a/t1", "team-a/t2"]);
    assert_eq!(fleet.ask(1), Answer::Go);
    // It goes on while the wave is held again.
    let policy = fleet.policy.as_mut().unwrap();
    policy.spec.waves[1].held_until = Some("2026-12-25T06:00:00Z".to_owned());
    assert_eq!(fleet.write(), [""; 0]);
    assert_eq!(fleet.ask(1), Answer::Go);
    assert_eq!(fleet.ask(2), Answer::Held);
}

#[test]
fn a_wave_that_is_held_until_no_day_says_so() {
    let mut spec = two_waves();
    spec["waves"][1]["heldUntil"] = json!("2026-02-31T00:00:00Z");
    let mut fleet = Fleet::new(&[("canary", 1)], spec);
    assert_eq!(fleet.write(), [""; 0]);
    let (value, reason, message) = fleet.said("Degraded");
    assert_eq!(
        (value.as_str(), reason.as_str()),
        ("True", "FleetPolicyUnusable")
    );
    let told =
        "spec.waves: heldUntil of wave tenth: 2026-02-31T00:00:00Z is no day of the calendar";
    assert_eq!(message, told);
}

#[test]
fn the_highest_priority_of_a_wave_goes_first() {
    let mut fleet = Fleet::new(&[("canary", 3), ("tenth", 1)], two_waves());
    fleet.tenants[0].priority = -1;
    fleet.tenants[2].priority = 5;
    fleet.tenants[3].priority = 1000;
    for number in [2, 1, 0] {
        assert_eq!(fleet.write(), [format!("team-a/t{number}")]);
        assert_eq!(fleet.ask(number), Answer::Go);
        fleet.ends(number);
    }
    fleet.write();
    assert_eq!(
        fleet.progressing(),
        yes("True", "WaveSoaking"),
        "waves come first"
    );
}

/// What may happen next.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Asks(usize),
    Ends(usize),
    Breaks(usize),
    IsMended(usize),
    OperatorDies,
    StatusIsErased,
    IsWritten,
    TimePasses(i64),
}

fn happening() -> impl Strategy<Value = Happening> {
    let one = 0..8_usize;
    prop_oneof![
        6 => one.clone().prop_map(Happening::Asks),
        4 => one.clone().prop_map(Happening::Ends),
        1 => one.clone().prop_map(Happening::Breaks),
        1 => one.prop_map(Happening::IsMended),
        1 => Just(Happening::OperatorDies),
        1 => Just(Happening::StatusIsErased),
        2 => Just(Happening::IsWritten),
        2 => (1..40_i64).prop_map(Happening::TimePasses),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever happens in whatever order: whoever begins may.
    #[test]
    fn nobody_begins_who_may_not(
        most in 1..4_usize,
        happenings in prop::collection::vec(happening(), 1..80),
    ) {
        let mut spec = two_waves();
        spec["maxConcurrent"] = json!(most);
        let mut fleet = Fleet::new(&[("canary", 2), ("tenth", 3), ("other", 3)], spec);
        for happening in happenings {
            match happening {
                Happening::Asks(number) => {
                    let tenant = &fleet.tenants[number];
                    // One that is done does not ask, and one that is not Ready asks for itself.
                    if tenant.is_current(NEW) || tenant.ready.is_some_and(|(ready, _)| !ready) {
                        continue;
                    }
                    let had_begun = tenant.in_flight();
                    let failed = fleet.has_failed();
                    let busy = fleet.tenants.iter().filter(|t| t.in_flight()).count();
                    let waves = ["canary", "tenth", "other"];
                    let of = |t: &Tenant| waves.iter().position(|w| t.labels["wave"] == *w);
                    let wave = of(tenant);
                    let before: Vec<_> = fleet.tenants.iter().filter(|t| of(t) < wave).cloned().collect();
                    let answer = fleet.ask(number);
                    prop_assert!(!had_begun || answer == Answer::Go, "who has begun goes on");
                    if answer == Answer::Go && !had_begun {
                        prop_assert!(!failed, "after a failure");
                        prop_assert!(busy < most, "one too many");
                        for other in before {
                            let is_ready = other.ready.is_some_and(|(ready, _)| ready);
                            let waits = is_ready && !other.is_current(NEW);
                            prop_assert!(!waits && !other.in_flight(), "{} is not done", other.name);
                        }
                    }
                }
                Happening::Ends(number) => fleet.ends(number),
                Happening::Breaks(number) => fleet.tenants[number].ready = Some((false, fleet.now)),
                Happening::IsMended(number) => fleet.tenants[number].ready = Some((true, fleet.now)),
                Happening::OperatorDies => fleet.restart(),
                Happening::StatusIsErased => fleet.policy.as_mut().unwrap().status = None,
                Happening::IsWritten => {
                    fleet.write();
                }
                Happening::TimePasses(minutes) => fleet.pass(SignedDuration::from_mins(minutes)),
            }
        }
    }

    /// Where nothing breaks, all get there, wherever operators die and whatever is erased.
    #[test]
    fn all_get_there(
        most in 1..4_usize,
        troubles in prop::collection::vec(prop::option::of(prop::bool::ANY), 40),
    ) {
        let mut spec = two_waves();
        spec["maxConcurrent"] = json!(most);
        let mut fleet = Fleet::new(&[("canary", 2), ("tenth", 3), ("other", 3)], spec);
        for trouble in troubles.into_iter().chain([None; 40]) {
            match trouble {
                Some(true) => fleet.restart(),
                Some(false) => fleet.policy.as_mut().unwrap().status = None,
                None => {}
            }
            fleet.write();
            for number in 0..fleet.tenants.len() {
                if !fleet.tenants[number].is_current(NEW) {
                    fleet.ask(number);
                }
            }
            for number in 0..fleet.tenants.len() {
                fleet.ends(number);
            }
            fleet.pass(SignedDuration::from_mins(10));
        }
        let left: BTreeSet<_> = fleet.tenants.iter().filter(|t| !t.is_current(NEW)).map(|t| &t.name).collect();
        prop_assert!(left.is_empty(), "{left:?}");
    }
}
