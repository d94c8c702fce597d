//! A tenant cluster that begins with what a Restore brings of another one: crash after every write, no Restore, one that
//! fails, a copy.
//!
//! Invariant: nothing of it has pods before its data is there, and authorities of its own are never made but of a copy,
//! which has none of then.

use tenant_cp::backup::{identity, source};
use tenant_cp::certificates::{self, SecretData};
use tenant_cp::names::{AUTHORITIES, ENCRYPTION, SERVICE_ACCOUNT};

use super::*;
use crate::controllers::tenant_cluster::observe;

const THEN: &str = "0a1b2c3d-0011-4000-8000-000000000077";

/// Its authorities and keys.
fn of_then() -> SecretData {
    let then = backed_up(1);
    let all = observe::secrets(&then.objects).into_iter();
    let own = all.filter(|(name, _)| identity::has(name));
    own.collect()
}

fn awaiting(members: i32) -> World {
    awaiting_with(&json!({ "replicas": members, "bootstrap": "Restore" }))
}

fn awaiting_with(etcd: &Value) -> World {
    let mut world = World::new(json!({
        "version": "1.35.4", "etcd": etcd,
        "backup": { "target": "main" }, "addons": { "cloudController": { "enabled": true } },
    }));
    world.tenant_up = false;
    for _ in 0..2 {
        world.reconcile(&mut usize::MAX.clone());
    }
    world
}

/// What the recovery key opened.
fn carry(world: &mut World, then: &SecretData) {
    let valid = tenant_cp::validate::validate(&world.cluster, &world.settings).unwrap();
    let secret = source::secret(&valid, THEN, &[7; 32], &identity::to_carry(then));
    let mut live = secret.value.clone();
    live["metadata"]["uid"] = json!("s");
    world.objects.insert(secret.key(), live);
}

fn play() -> Play {
    let mut play = Play::new();
    let restore = play.restore.as_mut().unwrap();
    restore.spec.from = Some(api::restore::Source {
        cluster_uid: Some(THEN.to_owned()),
        cluster_id: OLD.to_owned(),
    });
    restore.status.as_mut().unwrap().replaces = None;
    play.balancers.clear();
    play
}

/// What it is that it was.
fn is_of_then(world: &World, then: &SecretData) {
    let all = observe::secrets(&world.objects);
    for name in AUTHORITIES.into_iter().chain([SERVICE_ACCOUNT, ENCRYPTION]) {
        assert!(all.get(name) == then.get(name), "{name} is another one");
    }
}

fn has_workloads(world: &World) -> bool {
    let kinds = ["StatefulSet", "Deployment"];
    let mut keys = world.objects.keys();
    keys.any(|key| kinds.contains(&key.kind.as_str()))
}

fn may_start_empty(world: &World) -> bool {
    let engine = base64::engine::general_purpose::STANDARD;
    let file = world
        .secret("etcd")
        .and_then(|s| s["data"]["identity.json"].as_str());
    let file = file.and_then(|file| base64::Engine::decode(&engine, file).ok());
    file.is_some_and(|file| String::from_utf8_lossy(&file).contains("\"mayStartEmpty\":true"))
}

#[test]
fn without_a_restore_nothing_starts_and_no_authority_is_made_however_long_it_waits() {
    let mut world = awaiting(3);
    for _ in 0..3 {
        world.reconcile(&mut usize::MAX.clone());
        world.now = world
            .now
            .saturating_add(jiff::SignedDuration::from_hours(30))
            .unwrap();
    }
    assert!(!has_workloads(&world));
    let secrets = observe::secrets(&world.objects);
    assert!(
        !secrets.keys().any(|name| identity::has(name)),
        "it has keys of its own"
    );
    assert!(world.cluster.status.clone().unwrap().etcd.is_none());
    assert_eq!(world.condition("Progressing").1, "RestoreWaiting");
    let writes = world.writes;
    world.reconcile(&mut usize::MAX.clone());
    assert_eq!(world.writes, writes, "it writes while it waits");

    // Known who it is, and still without data.
    carry(&mut world, &of_then());
    world.reconcile(&mut usize::MAX.clone());
    assert!(!has_workloads(&world) && !may_start_empty(&world));
    assert_eq!(world.condition("EtcdReady").1, "RestoreWaiting");
    // Who changes their mind changes nothing.
    world.cluster.status.as_mut().unwrap().conditions.clear();
    world.reconcile(&mut usize::MAX.clone());
    assert!(!has_workloads(&world));
}

fn becomes(whole: &World, then: &SecretData, (members, budget): (usize, usize)) -> bool {
    let mut world = whole.clone();
    world.restore = Some(play());
    let died = go_on(&mut world, budget, true);
    assert_eq!(cluster_id(&world).as_deref(), Some(NEW), "{budget}");
    assert!(
        facts(&world).is_none() && all_run(&world),
        "{budget}: {:?}",
        facts(&world)
    );
    is_of_then(&world, then);
    assert_eq!(jobs(&world, "restore-"), members, "{budget}");
    assert!(!may_start_empty(&world), "{budget}");
    died
}

#[test]
fn it_becomes_the_one_of_then_wherever_the_operator_dies() {
    let then = of_then();
    let mut known = awaiting(1);
    carry(&mut known, &then);
    // Keys take most of the time here, so they are made once for most of it.
    let mut settled = known.clone();
    settled.reconcile(&mut usize::MAX.clone());
    is_of_then(&settled, &then);
    let mut least = 0;
    for budget in 0.. {
        if !becomes(&settled, &then, (1, budget)) {
            break;
        }
        least = budget;
    }
    assert!(least > 20, "{least} writes are fewer than it must have");
    for budget in (0..30).step_by(3) {
        assert!(becomes(&known, &then, (1, budget)), "{budget}");
    }
}

#[test]
fn three_members_become_one_cluster_of_what_was_brought() {
    let then = of_then();
    let mut known = awaiting(3);
    carry(&mut known, &then);
    for budget in [0, 25, 50, 75, usize::MAX] {
        becomes(&known, &then, (3, budget));
    }
}

#[test]
fn one_that_fails_leaves_it_waiting_and_the_next_one_brings_it() {
    let then = of_then();
    let whole = {
        let mut world = awaiting(1);
        carry(&mut world, &then);
        world.reconcile(&mut usize::MAX.clone());
        world
    };
    for budget in (0..).step_by(7) {
        let mut world = whole.clone();
        world.restore = Some(Play {
            failing: Some("etcd-0"),
            ..play()
        });
        let died = go_on(&mut world, budget, true);
        assert!(
            facts(&world).is_none() && !has_workloads(&world),
            "{budget}"
        );
        assert!(world.cluster.status.clone().unwrap().etcd.is_none());
        let mut next = play();
        next.restore.as_mut().unwrap().metadata.uid = Some("6a1c0f6e-2222".to_owned());
        world.restore = Some(next);
        go_on(&mut world, usize::MAX, true);
        assert_eq!(cluster_id(&world).as_deref(), Some(NEW), "{budget}");
        assert!(all_run(&world));
        is_of_then(&world, &then);
        if !died {
            break;
        }
    }
}

#[test]
fn what_has_data_is_never_taken_for_one_that_waits_for_it() {
    let mut world = awaiting(1);
    carry(&mut world, &of_then());
    world.restore = Some(play());
    go_on(&mut world, usize::MAX, true);
    // Another Restore of another one, and the facts of the first are forgotten.
    let mut again = play();
    again.restore.as_mut().unwrap().metadata.uid = Some("6a1c0f6e-2222".to_owned());
    world.restore = Some(again);
    let before = world.writes;
    go_on(&mut world, usize::MAX, true);
    assert!(facts(&world).is_none() && all_run(&world));
    assert_eq!(world.writes, before);
    // Not even where what is known of etcd is erased.
    world.cluster.status.as_mut().unwrap().etcd = None;
    world.reconcile(&mut usize::MAX.clone());
    assert!(facts(&world).is_none() && world.runs("StatefulSet", "etcd"));
}

#[test]
fn copy_has_authorities_and_keys_of_its_own_and_those_of_then_only_to_read_wherever_the_operator_dies()
 {
    let then = of_then();
    let mut known =
        awaiting_with(&json!({ "replicas": 1, "bootstrap": "Restore", "copyOf": THEN }));
    assert!(!has_workloads(&known), "it begins by itself");
    let own = certificates::encryption_key(&[9; 32]);
    carry(&mut known, &identity::of_copy(&then, &own));
    known.reconcile(&mut usize::MAX.clone());
    for budget in (0..).step_by(5) {
        let mut world = known.clone();
        world.restore = Some(play());
        let died = go_on(&mut world, budget, true);
        assert_eq!(cluster_id(&world).as_deref(), Some(NEW), "{budget}");
        assert!(facts(&world).is_none() && all_run(&world), "{budget}");
        let now = observe::secrets(&world.objects);
        let (its, was) = (
            certificates::read_store(&now),
            certificates::read_store(&then),
        );
        for name in AUTHORITIES {
            assert!(its.store.contains_key(name), "{name}");
            assert!(its.store[name] != was.store[name], "{name} is that of then");
        }
        assert!(!its.service_account.is_empty() && its.service_account != was.service_account);
        let keys: Vec<_> = its.encryption.active_first().collect();
        let before = was.encryption.active().unwrap().1;
        assert_eq!(keys, [(2, &own), (1, before)], "{budget}");
        if !died {
            break;
        }
    }
}

#[test]
fn copy_is_one_of_a_single_other_one() {
    let then = of_then();
    let mut world = awaiting_with(&json!({ "bootstrap": "Restore", "copyOf": "another" }));
    carry(
        &mut world,
        &identity::of_copy(&then, &certificates::encryption_key(&[9; 32])),
    );
    world.restore = Some(play());
    go_on(&mut world, usize::MAX, true);
    assert!(facts(&world).is_none() && !has_workloads(&world));
    assert!(world.cluster.status.clone().unwrap().etcd.is_none());
}
