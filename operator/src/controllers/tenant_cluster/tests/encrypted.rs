//! Kinds of objects come to be encrypted at rest, and go: who writes what, who reads it, and when it is left out.
//!
//! Invariant: whatever is cut off, every kube-apiserver that runs reads whatever stands in etcd, and whatever another one
//! writes beside it.

use std::collections::BTreeSet;

use api::tenant_cluster::EncryptionStatus;
use base64::engine::general_purpose::STANDARD;
use tenant_cp::encrypted_kinds::EncryptedKinds;
use tenant_cp::names;

use super::*;

pub(super) fn list(world: &mut World, kinds: &[&str]) {
    let kinds = kinds.iter().map(|kind| (*kind).to_owned());
    world.cluster.spec.encryption.resources = kinds.collect();
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
}

fn told(world: &World) -> Option<EncryptionStatus> {
    world.cluster.status.as_ref().unwrap().encryption.clone()
}

/// What kube-apiservers do that start now, or read their file again.
pub(super) fn file(world: &World) -> EncryptedKinds {
    let data = &world.objects[&Key::new("Secret", NS, "apiserver")]["data"];
    let text = |name: &str| {
        let content = data[name].as_str().unwrap_or_default();
        String::from_utf8(STANDARD.decode(content).unwrap()).unwrap()
    };
    EncryptedKinds::read_back(&text("encryption.yaml"), &text(names::ENCRYPTED_KINDS))
}

pub(super) fn set(kinds: &[&str]) -> BTreeSet<String> {
    kinds.iter().map(|kind| (*kind).to_owned()).collect()
}

fn encrypted(world: &World, kind: &str) -> Vec<bool> {
    let all = world.others_at_rest.iter();
    let its = all.filter(|((of, _), _)| *of == kind);
    its.map(|(_, key)| key.is_some()).collect()
}

/// What pods write and read, by the hash that they started with.
#[derive(Default)]
struct Started(BTreeMap<String, EncryptedKinds>);

impl Started {
    /// Looks at every pod: it may have read its file again, or not yet. One of them writes.
    fn look(&mut self, world: &mut World, number: usize, when: &str) {
        let now = file(world);
        let servers = world.pods.iter();
        let servers = servers.filter(|(key, _)| key.name.starts_with("control-plane"));
        let mut readers = vec![now.clone()];
        for (_, pod) in servers {
            let hash = pod["metadata"]["annotations"]["covey.dev/keys-hash"].as_str();
            let hash = hash.unwrap_or_default().to_owned();
            readers.push(self.0.entry(hash).or_insert_with(|| now.clone()).clone());
        }
        let all = world.others_at_rest.iter();
        let there = all.filter(|(_, key)| key.is_some());
        let mut seen: BTreeSet<String> = there.map(|((kind, _), _)| (*kind).to_owned()).collect();
        seen.extend(readers.iter().flat_map(|reader| reader.written.clone()));
        for reader in &readers {
            let reads: BTreeSet<String> = reader.written.union(&reader.read).cloned().collect();
            assert!(
                seen.is_subset(&reads),
                "{when}: {seen:?} is read by {reads:?}"
            );
        }
        let writer = &readers[number % readers.len()];
        let key = writer.written.contains("configmaps").then_some(1);
        world
            .others_at_rest
            .insert(("configmaps", "default/b"), key);
    }
}

/// One write after the other, each followed by a crash, and with `erased` without what was told.
fn write_by_write(world: &mut World, started: &mut Started, when: &str, erased: bool) {
    for number in 0..400 {
        let before = world.writes;
        if erased {
            world.cluster.status.as_mut().unwrap().encryption = None;
        }
        let is_done = world.reconcile(&mut 1);
        world.play_controllers();
        started.look(world, number, &format!("{when}, write {number}"));
        // What was erased is told again, and that is one write.
        let is_over = told(world).is_none_or(|told| told.changing.is_empty());
        if is_done && is_over && world.writes <= before + usize::from(erased) {
            return;
        }
    }
    panic!("{when}: writes never end: {:?}", told(world));
}

#[test]
fn kind_comes_and_goes_write_by_write_and_everything_is_read() {
    for (spec, erased) in [(minimal(), false), (large(), false), (minimal(), true)] {
        let mut world = ready(spec);
        let mut started = Started::default();
        started.look(&mut world, 0, "before");
        assert_eq!(told(&world), None);
        let before = world.objects[&Key::new("Secret", NS, "apiserver")]["data"].clone();
        list(&mut world, &["secrets", "configmaps"]);
        write_by_write(&mut world, &mut started, "added", erased);
        world.settle();
        assert_eq!(encrypted(&world, "configmaps"), [true, true]);
        assert_eq!(encrypted(&world, "pods"), [false]);
        let over = told(&world).unwrap();
        assert_eq!(over.resources, ["configmaps", "secrets"]);
        assert_eq!((over.changing, over.waiting_for), (Vec::new(), None));
        let now = file(&world);
        assert_eq!((now.written, now.read), (set(&["configmaps"]), set(&[])));
        assert_eq!(world.condition("Ready").0, "True");
        assert_eq!(world.condition("Progressing").1, "AsDesired");
        let writes = world.writes;
        world.settle();
        assert_eq!(world.writes, writes, "it is written to at rest");
        list(&mut world, &["secrets"]);
        write_by_write(&mut world, &mut started, "taken out", erased);
        world.settle();
        assert_eq!(encrypted(&world, "configmaps"), [false, false]);
        let now = file(&world);
        assert!(now.is_none() && now.ever == set(&["configmaps"]), "{now:?}");
        let after = &world.objects[&Key::new("Secret", NS, "apiserver")]["data"];
        assert_eq!(after["encryption.yaml"], before["encryption.yaml"]);
        assert_eq!(told(&world).unwrap().resources, ["secrets"]);
        assert_eq!(world.condition("Progressing").1, "AsDesired");
    }
}

#[test]
fn who_changes_their_mind_at_any_write_ends_with_what_is_asked_for_last() {
    for cut in (0..60).step_by(4) {
        let mut world = ready(minimal());
        let mut started = Started::default();
        started.look(&mut world, 0, "before");
        list(&mut world, &["secrets", "configmaps"]);
        for number in 0..cut {
            world.reconcile(&mut 1);
            world.play_controllers();
            started.look(&mut world, number, &format!("added, {number} of {cut}"));
        }
        list(&mut world, &["secrets", "pods"]);
        write_by_write(&mut world, &mut started, &format!("others, {cut}"), false);
        world.settle();
        assert_eq!(encrypted(&world, "configmaps"), [false, false], "{cut}");
        assert_eq!(encrypted(&world, "pods"), [true], "{cut}");
        let now = file(&world);
        assert_eq!((now.written, now.read), (set(&["pods"]), set(&[])), "{cut}");
    }
}

#[test]
fn nothing_is_written_encrypted_that_a_kube_apiserver_does_not_read_which_ends() {
    let mut world = ready(minimal());
    let old = world.pods[&Key::new("Pod", NS, "control-plane-0")].clone();
    let mut started = Started::default();
    started.look(&mut world, 0, "before");
    list(&mut world, &["secrets", "configmaps"]);
    let ends = Key::new("Pod", NS, "control-plane-old");
    world.pods.insert(ends.clone(), old);
    world.pods.get_mut(&ends).unwrap()["metadata"]["deletionTimestamp"] =
        json!("2026-11-21T12:00:00Z");
    for number in 0..60 {
        world.reconcile(&mut 1);
        world.play_controllers();
        started.look(&mut world, number, &format!("while it ends, {number}"));
    }
    let now = file(&world);
    assert_eq!((now.written, now.read), (set(&[]), set(&["configmaps"])));
    let waits = told(&world).unwrap().waiting_for.unwrap();
    assert!(
        waits.starts_with("kube-apiservers that all read"),
        "{waits}"
    );
    world.pods.remove(&ends);
    write_by_write(&mut world, &mut started, "afterwards", false);
    assert_eq!(file(&world).written, set(&["configmaps"]));
}

#[test]
fn key_is_turned_for_every_kind_and_one_thing_at_a_time() {
    let mut world = ready(minimal());
    list(&mut world, &["secrets", "configmaps"]);
    world.settle();
    assert_eq!(encrypted(&world, "configmaps"), [true, true]);
    rotation_at_rest::turn(&mut world, 2, false);
    list(&mut world, &["secrets", "configmaps", "pods"]);
    world.settle();
    let all = world.others_at_rest.values();
    assert!(all.clone().all(|key| *key == Some(2)), "{all:?}");
    assert!(world.at_rest.values().all(|key| *key == 2));
    assert!(rotation_at_rest::is_dropped(&world, "encryption"));
    assert_eq!(file(&world).written, set(&["configmaps", "pods"]));
}

#[test]
fn object_that_cannot_be_written_is_named_and_its_kind_is_read_on() {
    let mut world = ready(minimal());
    list(&mut world, &["secrets", "configmaps"]);
    world.settle();
    world.refuses = true;
    list(&mut world, &["secrets"]);
    world.settle();
    let waits = told(&world).unwrap().waiting_for.unwrap();
    let wanted = "the tenant's API to let ConfigMap default/a be updated";
    assert!(waits.starts_with(wanted), "{waits}");
    assert_eq!(file(&world).read, set(&["configmaps"]));
    // That is its user's to mend.
    assert_eq!(world.condition("Progressing").1, "AsDesired");
    world.refuses = false;
    world.settle();
    assert!(file(&world).is_none());
}

#[test]
fn new_tenant_cluster_encrypts_what_it_is_to_from_the_start() {
    let mut spec = minimal();
    spec["encryption"] = json!({ "resources": ["secrets", "configmaps"] });
    let world = ready(spec);
    let now = file(&world);
    assert_eq!((now.written, now.read), (set(&["configmaps"]), set(&[])));
    assert!(now.partly.is_empty());
    assert_eq!(told(&world).unwrap().resources, ["configmaps", "secrets"]);
}

#[test]
fn lost_file_comes_back_as_one_that_reads_all_and_goes_on() {
    let mut world = ready(minimal());
    list(&mut world, &["secrets", "configmaps"]);
    world.settle();
    world.objects.remove(&Key::new("Secret", NS, "apiserver"));
    world.settle();
    assert_eq!(file(&world).written, set(&["configmaps"]));
    assert_eq!(told(&world).unwrap().resources, ["configmaps", "secrets"]);
    assert_eq!(encrypted(&world, "configmaps"), [true, true]);
}
