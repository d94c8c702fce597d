//! Windows of tenant clusters of their own, and patches that the operator takes by itself, in waves.

use tenant_cp::windows;

use super::*;
use crate::maintenance::Wait;
use crate::maintenance::patches::Due;

fn nights() -> Option<windows::Read> {
    let window = json!([{ "opens": "0 22 * * *", "closes": "0 4 * * *" }]);
    windows::read(&serde_json::from_value::<Vec<Window>>(window).unwrap()).ok()
}

#[test]
fn a_wave_waits_for_windows_of_its_own_tenant_clusters_and_says_so() {
    let mut fleet = Fleet::new(&[("canary", 2), ("tenth", 1)], two_waves());
    fleet.tenants[0].windows = nights();
    assert_eq!(fleet.write(), ["team-a/t1"]);
    assert_eq!(fleet.progressing(), yes("True", "RollingOut"));
    assert_eq!(fleet.ask(1), Answer::Go);
    fleet.ends(1);
    fleet.pass(SignedDuration::from_hours(2));
    assert_eq!(fleet.write(), [""; 0], "canaries come first");
    let wave = fleet.status().waves[0].clone();
    assert_eq!((wave.done, wave.waiting, wave.held), (1, 1, 0));
    let (_, reason, message) = fleet.said("Progressing");
    assert_eq!(reason, "WaitingForWindow");
    let opens: Timestamp = "2026-11-20T22:00:00Z".parse().unwrap();
    assert!(
        message.ends_with(&format!("opens at {opens}, of team-a/t0")),
        "{message}"
    );
    assert_eq!(fleet.plan().again, Some(opens));
    assert_eq!(fleet.ask(0), Answer::Held);
    fleet.now = opens;
    assert_eq!(fleet.write(), ["team-a/t0"]);
    // And not after it closes again.
    assert_eq!(fleet.plan().again, "2026-11-21T04:00:00Z".parse().ok());
    assert_eq!(fleet.ask(0), Answer::Go);
    fleet.now = "2026-11-21T05:00:00Z".parse().unwrap();
    fleet.tenants[0].rollout.toward.as_mut().unwrap().since = fleet.now.to_string();
    fleet.restart();
    assert_eq!(fleet.ask(0), Answer::Go, "what has begun goes on");
}

#[test]
fn whose_windows_are_never_open_with_the_policys_delays_nobody() {
    let mut spec = two_waves();
    spec["windows"] = json!([{ "opens": "0 8 * * *", "closes": "0 18 * * *" }]);
    let mut fleet = Fleet::new(&[("canary", 1), ("tenth", 1)], spec);
    fleet.tenants[0].windows = nights();
    assert_eq!(fleet.write(), ["team-a/t1"]);
    assert_eq!(fleet.status().waves[0].held, 1);
}

fn due(is_demanded: bool, waits: Option<Wait>) -> HowFar {
    HowFar::Due(Due {
        version: semver::Version::new(1, 35, 6),
        is_demanded,
        waits,
    })
}

#[test]
fn a_patch_comes_in_waves_and_one_that_was_rolled_back_halts_all() {
    let mut fleet = Fleet::new(&[("canary", 1), ("tenth", 1), ("other", 1)], two_waves());
    for tenant in &mut fleet.tenants {
        tenant.rollout.templates = Some(NEW.to_owned());
        tenant.rollout.toward = Some(RolloutBegun {
            templates: NEW.to_owned(),
            since: Timestamp::UNIX_EPOCH.to_string(),
        });
    }
    assert_eq!(fleet.write(), [""; 0]);
    fleet.tenants[0].patch = due(false, None);
    fleet.tenants[1].patch = due(false, None);
    fleet.tenants[2].patch = HowFar::Blocked;
    assert_eq!(
        fleet.write(),
        ["team-a/t0"],
        "what was begun long ago is another matter"
    );
    assert_eq!(
        fleet.status().waves[2].done,
        1,
        "nobody waits for one that is blocked"
    );
    assert_eq!(fleet.ask(0), Answer::Go);
    fleet.tenants[0].patch = HowFar::Begun;
    fleet.tenants[0].rollout.toward.as_mut().unwrap().since = fleet.now.to_string();
    fleet.restart();
    assert_eq!(fleet.write(), [""; 0]);
    assert_eq!(fleet.status().waves[0].in_flight, 1);
    assert_eq!(fleet.ask(0), Answer::Go, "whoever leads");
    fleet.tenants[0].patch = HowFar::Failed("the patch to Kubernetes 1.35.6 failed: x".to_owned());
    assert_eq!(fleet.write(), [""; 0]);
    let (_, reason, message) = fleet.said("Degraded");
    assert_eq!(reason, "FleetHalted");
    assert!(message.contains("1.35.6 failed: x"), "{message}");
    // It is mended, and somebody says so.
    fleet.tenants[0].patch = HowFar::None;
    fleet.policy.as_mut().unwrap().spec.retry = 1;
    fleet.write();
    fleet.pass(SignedDuration::from_hours(1));
    assert_eq!(fleet.write(), ["team-a/t1"]);
}

#[test]
fn a_least_version_waits_for_no_wish_of_a_user() {
    let mut fleet = Fleet::new(&[("canary", 2)], two_waves());
    let until = fleet.now + SignedDuration::from_hours(9);
    for tenant in &mut fleet.tenants {
        tenant.rollout.templates = Some(NEW.to_owned());
        tenant.windows = nights();
        tenant.held_until = Some(until);
    }
    fleet.tenants[0].patch = due(false, Some(Wait::Held(until)));
    fleet.tenants[1].patch = due(true, None);
    assert_eq!(fleet.write(), ["team-a/t1"]);
    assert_eq!(fleet.status().waves[0].held, 1);
}
