//! The keys of encryption at rest are turned: who writes with which, who reads, and when nothing is left of a key.
//!
//! Invariant: whatever is cut off, every kube-apiserver that runs reads whatever stands in etcd, and whatever another one
//! writes beside it.

use std::collections::BTreeSet;

use api::tenant_cluster::{RotationPhase, RotationStatus, Turn};
use base64::engine::general_purpose::STANDARD;
use tenant_cp::certificates::{encryption_generation, encryption_keys};
use tenant_cp::names;

use super::*;

pub(super) fn turn(world: &mut World, generation: u32, hold: bool) {
    world.cluster.spec.rotation.encryption_keys = Some(Turn { generation, hold });
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
}

fn told(world: &World) -> Option<RotationStatus> {
    world.rotation("encryptionKeys")
}

fn phase(world: &World) -> RotationPhase {
    told(world).unwrap().phase
}

/// The file that kube-apiservers have which start now, or read it again: the key that writes, and all.
fn file(world: &World) -> (u32, BTreeSet<u32>) {
    let live = &world.objects[&Key::new("Secret", NS, "apiserver")]["data"]["encryption.yaml"];
    let text = String::from_utf8(STANDARD.decode(live.as_str().unwrap()).unwrap()).unwrap();
    let first = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("- name: "));
    let all = encryption_keys(&text).numbers().collect();
    (encryption_generation(first.unwrap()).unwrap(), all)
}

pub(super) fn is_dropped(world: &World, secret: &str) -> bool {
    let live = &world.objects[&Key::new("Secret", NS, secret)];
    let mark = live["metadata"]["annotations"][names::DROPPED].as_str();
    mark.is_some_and(|mark| !mark.is_empty())
}

/// What pods read and write by, by the hash that they started with.
#[derive(Default)]
struct Started(BTreeMap<String, (u32, BTreeSet<u32>)>);

impl Started {
    /// Looks at every pod: it may have read its file again, or not yet.
    fn look(&mut self, world: &World, when: &str) {
        let now = file(world);
        let servers = world.pods.iter();
        let servers = servers.filter(|(key, _)| key.name.starts_with("control-plane"));
        let mut readers = vec![now.clone()];
        for (_, pod) in servers {
            let hash = pod["metadata"]["annotations"][names::ENCRYPTION_HASH].as_str();
            let hash = hash.unwrap_or_default().to_owned();
            readers.push(self.0.entry(hash).or_insert_with(|| now.clone()).clone());
        }
        let written = readers.iter().map(|(first, _)| *first);
        let written: BTreeSet<u32> = written.chain(world.at_rest.values().copied()).collect();
        for (_, reads) in &readers {
            assert!(
                written.is_subset(reads),
                "{when}: {written:?} is read by {reads:?}"
            );
        }
    }
}

/// One write after the other, each followed by a crash, and with `erased` without what was told.
fn write_by_write(world: &mut World, started: &mut Started, when: &str, erased: bool) {
    for number in 0..400 {
        let before = world.writes;
        if erased {
            world.cluster.status.as_mut().unwrap().rotation.clear();
        }
        let is_done = world.reconcile(&mut 1);
        world.play_controllers();
        started.look(world, &format!("{when}, write {number}"));
        // What was erased is told again, and that is one write.
        if is_done && world.writes <= before + usize::from(erased) {
            let is_over = told(world).is_none_or(|told| told.waiting_for.is_none());
            if !erased || is_over {
                return;
            }
        }
    }
    panic!("{when}: writes never end: {:?}", told(world));
}

#[test]
fn all_is_written_with_the_new_key_write_by_write_and_everything_is_read() {
    for (spec, erased) in [(minimal(), false), (large(), false), (minimal(), true)] {
        let mut world = ready(spec);
        let mut started = Started::default();
        started.look(&world, "before");
        let before = world.objects[&Key::new("Secret", NS, "encryption")]["data"].clone();
        turn(&mut world, 2, false);
        write_by_write(&mut world, &mut started, "turned", erased);
        world.settle();
        assert_eq!(phase(&world), RotationPhase::Idle);
        let over = told(&world).unwrap();
        assert_eq!(
            (over.signs, over.believed, over.waiting_for),
            (2, vec![2], None)
        );
        assert_eq!(file(&world), (2, BTreeSet::from([2])));
        assert!(world.at_rest.values().all(|key| *key == 2));
        // It is not deleted, because backups need it, and no kube-apiserver has it.
        assert!(is_dropped(&world, "encryption"));
        let after = &world.objects[&Key::new("Secret", NS, "encryption")]["data"];
        assert_eq!(*after, before);
        assert_eq!(world.condition("Ready").0, "True");
        assert_eq!(world.condition("Progressing").1, "AsDesired");
        assert_eq!(world.condition("CertificatesReady").0, "True");
        let writes = world.writes;
        world.settle();
        assert_eq!(world.writes, writes);
    }
}

#[test]
fn until_it_is_dropped_the_key_of_before_can_be_had_back() {
    let mut world = ready(minimal());
    let mut started = Started::default();
    started.look(&world, "before");
    turn(&mut world, 2, false);
    for number in 0..400 {
        if world.at_rest.values().any(|key| *key == 2) {
            break;
        }
        world.reconcile(&mut 1);
        world.play_controllers();
        started.look(&world, &format!("turned, write {number}"));
    }
    turn(&mut world, 2, true);
    write_by_write(&mut world, &mut started, "held", false);
    let held = told(&world).unwrap();
    assert_eq!((held.signs, held.believed), (2, vec![1, 2]));
    assert_eq!(
        held.waiting_for.as_deref(),
        Some("spec.rotation.encryptionKeys.hold to be false")
    );
    assert!(world.at_rest.values().any(|key| *key == 1), "it is held");
    turn(&mut world, 1, false);
    write_by_write(&mut world, &mut started, "back", false);
    assert_eq!(file(&world), (1, BTreeSet::from([1])));
    assert!(world.at_rest.values().all(|key| *key == 1));
    // The number was used.
    turn(&mut world, 2, false);
    world.settle();
    assert_eq!(world.condition("Degraded").1, "RotationRefused");
    turn(&mut world, 3, false);
    write_by_write(&mut world, &mut started, "a third one", false);
    assert_eq!(file(&world), (3, BTreeSet::from([3])));
    assert!(is_dropped(&world, "encryption") && is_dropped(&world, "encryption-g2"));
}

#[test]
fn nothing_is_written_with_a_key_that_a_kube_apiserver_lacks_which_ends() {
    let mut world = ready(minimal());
    let old = world.pods[&Key::new("Pod", NS, "control-plane-0")].clone();
    let mut started = Started::default();
    started.look(&world, "before");
    turn(&mut world, 2, false);
    let ends = Key::new("Pod", NS, "control-plane-old");
    world.pods.insert(ends.clone(), old);
    world.pods.get_mut(&ends).unwrap()["metadata"]["deletionTimestamp"] =
        json!("2026-11-21T12:00:00Z");
    write_by_write(&mut world, &mut started, "while it ends", false);
    assert_eq!(phase(&world), RotationPhase::Preparing);
    assert_eq!(file(&world), (1, BTreeSet::from([1, 2])));
    world.pods.remove(&ends);
    write_by_write(&mut world, &mut started, "afterwards", false);
    assert_eq!(file(&world), (2, BTreeSet::from([2])));
}

#[test]
fn secret_that_cannot_be_written_is_named_and_its_key_stays() {
    let mut world = ready(minimal());
    world.refuses = true;
    turn(&mut world, 2, false);
    world.settle();
    let waits = told(&world).unwrap().waiting_for.unwrap();
    assert!(
        waits.starts_with("the tenant's API to let Secret default/a be updated"),
        "{waits}"
    );
    assert_eq!(file(&world), (2, BTreeSet::from([1, 2])));
    world.refuses = false;
    world.settle();
    assert_eq!(file(&world), (2, BTreeSet::from([2])));
}

#[test]
fn key_whose_secret_is_lost_comes_back_from_its_copy() {
    let mut world = ready(minimal());
    world.refuses = true;
    turn(&mut world, 2, false);
    world.settle();
    for name in ["encryption", "encryption-g2"] {
        let key = Key::new("Secret", NS, name);
        let before = world.objects.remove(&key).unwrap();
        world.settle();
        assert_eq!(world.objects[&key]["data"], before["data"], "{name}");
    }
    assert_eq!(file(&world), (2, BTreeSet::from([1, 2])));
}

#[test]
fn nothing_is_told_where_nobody_asked() {
    let mut world = ready(minimal());
    assert_eq!(told(&world), None);
    world.settle();
    assert_eq!(file(&world), (1, BTreeSet::from([1])));
}

#[test]
fn nothing_is_written_with_a_key_that_the_backup_lacks_and_going_back_does_not_wait_for_it() {
    for erased in [false, true] {
        let mut spec = minimal();
        spec["backup"] = json!({ "target": "main" });
        let mut world = ready(spec);
        let mut started = Started::default();
        started.look(&world, "before");
        world.saves = Some(BTreeSet::from([1]));
        turn(&mut world, 2, false);
        for number in 0..100 {
            if erased {
                world.cluster.status.as_mut().unwrap().rotation.clear();
            }
            world.reconcile(&mut 1);
            world.play_controllers();
            started.look(&world, &format!("not saved, write {number}"));
        }
        world.settle();
        assert_eq!(phase(&world), RotationPhase::Preparing);
        assert_eq!(file(&world), (1, BTreeSet::from([1, 2])));
        let waits = told(&world).unwrap().waiting_for.unwrap();
        assert!(waits.contains("in the backup"), "{waits}");
        assert!(world.at_rest.values().all(|key| *key == 1));
        let writes = world.writes;
        world.settle();
        assert_eq!(world.writes, writes, "it is written to while it waits");
        world.saves = Some(BTreeSet::from([1, 2]));
        write_by_write(&mut world, &mut started, "saved", erased);
        assert_eq!(file(&world), (2, BTreeSet::from([2])));
        // The target is gone, and the key of before wrote already.
        turn(&mut world, 3, false);
        world.settle();
        assert_eq!(file(&world), (2, BTreeSet::from([2, 3])));
        turn(&mut world, 2, false);
        world.settle();
        assert_eq!(file(&world), (2, BTreeSet::from([2])));
    }
}
