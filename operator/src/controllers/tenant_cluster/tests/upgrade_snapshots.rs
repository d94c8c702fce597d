//! A Snapshot is taken before an upgrade, and was read again, before anything changes.
//!
//! Invariant: one is made for each try, and none while something else speaks against the upgrade.

use api::tenant_cluster::UpgradePhase;

use super::rollouts::{apiserver, ask_for};
use super::upgrades::{checks, later, status, troubled};
use super::*;

fn backed_up() -> Value {
    json!({ "version": "1.35.4", "backup": { "target": "main" } })
}

/// The Snapshot is in the backup, and was read again.
fn take_snapshot(world: &mut World) {
    let now = world.now.to_string();
    let condition = |type_: &str| json!({ "type": type_, "status": "True", "reason": "X", "message": "", "lastTransitionTime": now });
    let conditions = json!([condition("Ready"), condition("Verified")]);
    for snapshot in world.snapshots.values_mut() {
        let snapshot = Arc::make_mut(snapshot);
        let taken = json!({ "taken": now, "conditions": conditions });
        snapshot.status = Some(serde_json::from_value(taken).unwrap());
    }
}

#[test]
fn upgrade_begins_once_its_snapshot_is_taken_and_was_read_again() {
    for asked in ["1.35.5", "1.36.3"] {
        let mut world = ready(backed_up());
        ask_for(&mut world, asked);
        world.settle();
        assert!(apiserver(&world).ends_with(":v1.35.4"));
        let told = status(&world).unwrap();
        assert_eq!(told.phase, UpgradePhase::Snapshotting);
        let name = format!("demo-1.35.4-{asked}-0");
        assert_eq!(told.snapshot.as_ref(), Some(&name));
        assert_eq!(world.snapshots.keys().collect::<Vec<_>>(), [&name]);
        assert_eq!(
            world.condition("Progressing"),
            ("True".into(), "UpgradeWaiting".into())
        );
        assert_eq!(world.condition("Ready").0, "True");
        let writes = world.writes;
        world.settle();
        assert_eq!(world.writes, writes, "nothing is written while it waits");
        take_snapshot(&mut world);
        world.stuck = true;
        world.settle();
        assert!(apiserver(&world).ends_with(&format!(":v{asked}")));
        assert_eq!(status(&world).unwrap().snapshot, Some(name));
        world.stuck = false;
        world.play_controllers();
        world.settle();
        let version = world.cluster.status.clone().unwrap().version;
        assert_eq!(version.as_deref(), Some(asked));
        assert_eq!(world.snapshots.len(), 1);
    }
}

#[test]
fn snapshot_that_is_not_taken_in_time_blocks_a_minor_and_is_told_of_a_patch() {
    for (asked, begins) in [("1.35.5", true), ("1.36.3", false)] {
        let mut world = ready(backed_up());
        ask_for(&mut world, asked);
        world.settle();
        later(&mut world, 9);
        world.settle();
        assert!(apiserver(&world).ends_with(":v1.35.4"));
        later(&mut world, 1);
        world.stuck = true;
        world.settle();
        assert_eq!(apiserver(&world).ends_with(":v1.35.4"), !begins);
        let told = status(&world).unwrap();
        let found = match begins {
            true => told.warnings,
            false => told.blockers,
        };
        assert_eq!(found[0].check, "Snapshot");
        assert_eq!(world.snapshots.len(), 1, "it is made once");
        if !begins {
            take_snapshot(&mut world);
            world.settle();
            assert!(apiserver(&world).ends_with(&format!(":v{asked}")));
        }
    }
}

#[test]
fn no_snapshot_is_asked_for_while_something_speaks_against_the_upgrade() {
    let mut world = ready(backed_up());
    world.preflight = troubled();
    ask_for(&mut world, "1.36.3");
    world.settle();
    assert_eq!(checks(&world), ["DeprecatedApis", "Kubelets", "Webhooks"]);
    assert_eq!(world.snapshots.len(), 0);
}

#[test]
fn upgrade_without_a_backup_says_so_and_begins() {
    let mut world = ready(minimal());
    world.stuck = true;
    ask_for(&mut world, "1.36.3");
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.36.3"));
    let warned = status(&world).unwrap().warnings;
    assert_eq!(warned[0].check, "Snapshot");
    assert!(warned[0].message.contains("spec.backup"), "{warned:?}");
}

#[test]
fn crash_or_erased_phase_around_the_snapshot_makes_one() {
    let start = ready(backed_up());
    let changed = || {
        let mut world = start.clone();
        ask_for(&mut world, "1.36.3");
        world
    };
    let through = |world: &mut World| {
        world.settle();
        take_snapshot(world);
        world.settle();
    };
    let mut whole = changed();
    through(&mut whole);
    let total = whole.writes - start.writes;
    for cut in 0..total {
        let mut world = changed();
        let mut left = cut;
        if world.reconcile(&mut left) {
            take_snapshot(&mut world);
            world.reconcile(&mut left);
        }
        world.cluster.status.as_mut().unwrap().upgrade = None;
        through(&mut world);
        assert_eq!(world.objects, whole.objects, "cut after {cut} writes");
        assert_eq!(
            world.snapshots.keys().collect::<Vec<_>>(),
            whole.snapshots.keys().collect::<Vec<_>>()
        );
        assert_eq!(status(&world), None);
    }
}
