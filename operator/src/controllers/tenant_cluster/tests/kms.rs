//! A KMS encrypts what is encrypted, another one does, and none does: who writes by what, who reads it, whose plugin is beside
//! whom, and when one is left out.
//!
//! Invariant: whatever is cut off, every kube-apiserver that runs reads whatever stands in etcd, and whatever another one
//! writes beside it, and has the plugins that it needs for that.

use std::collections::BTreeSet;

use api::tenant_cluster::{KmsChoice, KmsStatus, RotationPhase};
use jiff::SignedDuration;
use tenant_cp::encrypted_kinds::EncryptedKinds;
use tenant_cp::kms::Provider;
use tenant_cp::settings::KmsPlugin;

use super::upgrade_failures::crashes;
use super::world::{by_kms, written_by};
use super::*;

fn plugins(names: &[&str]) -> Vec<KmsPlugin> {
    let plugin = |name: &&str| KmsPlugin {
        name: (*name).to_owned(),
        image: format!("registry.example.com/{name}:v1"),
        cidrs: vec!["192.0.2.0/24".parse().unwrap()],
        ports: vec![8200],
        ..KmsPlugin::default()
    };
    names.iter().map(plugin).collect()
}

/// On a platform with two of them.
fn with_plugins(spec: Value) -> World {
    let mut world = World::new(spec);
    has_plugins(&mut world);
    world.settle();
    world
}

pub(super) fn has_plugins(world: &mut World) {
    world.settings.encryption.kms = plugins(&["other", "vault"]);
}

pub(super) fn ask(world: &mut World, kms: Option<(&str, u32)>) {
    world.cluster.spec.encryption.kms = kms.map(|(name, generation)| KmsChoice {
        name: name.to_owned(),
        generation,
    });
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
}

fn told(world: &World) -> Option<KmsStatus> {
    let status = world.cluster.status.as_ref().unwrap();
    status.encryption.as_ref()?.kms.clone()
}

fn waits(world: &World) -> String {
    let status = world.cluster.status.as_ref().unwrap();
    let encryption = status.encryption.as_ref().unwrap();
    encryption.waiting_for.clone().unwrap_or_default()
}

fn template(world: &World) -> Value {
    world.objects[&Key::new("Deployment", NS, "control-plane")]["spec"]["template"].clone()
}

/// Names of the plugins in a pod, or a template.
fn beside(pod: &Value) -> BTreeSet<String> {
    let containers = pod["spec"]["initContainers"]
        .as_array()
        .into_iter()
        .flatten();
    let names = containers.filter_map(|container| container["name"].as_str()?.strip_prefix("kms-"));
    names.map(str::to_owned).collect()
}

fn has_a_plugin(template: &Value) -> bool {
    !beside(template).is_empty()
}

/// What pods write and read, by the hash that they started with.
#[derive(Default)]
struct Started(BTreeMap<String, EncryptedKinds>);

impl Started {
    /// Looks at every pod: it may have read its file again, or not yet. One of them writes.
    fn look(&mut self, world: &mut World, number: usize, when: &str) {
        let now = encrypted::file(world);
        let servers = world.pods.iter();
        let servers = servers.filter(|(key, _)| key.name.starts_with("control-plane"));
        let mut readers = vec![now.clone()];
        for (_, pod) in servers {
            let hash = pod["metadata"]["annotations"]["covey.dev/keys-hash"].as_str();
            let hash = hash.unwrap_or_default().to_owned();
            let started = self.0.entry(hash).or_insert_with(|| now.clone());
            let plugins = started.kms.names();
            assert!(plugins.is_subset(&beside(pod)), "{when}: {plugins:?}");
            readers.push(started.clone());
        }
        let others = world.others_at_rest.values().flatten();
        let mut seen: BTreeSet<u32> = world.at_rest.values().chain(others).copied().collect();
        seen.extend(readers.iter().map(|reader| written_by(1, reader)));
        for reader in &readers {
            let mut reads: BTreeSet<u32> = reader.kms.all().map(by_kms).collect();
            reads.insert(1);
            assert!(
                seen.is_subset(&reads),
                "{when}: {seen:?} is read by {reads:?}"
            );
        }
        let writer = &readers[number % readers.len()];
        let by = written_by(1, writer);
        world.at_rest.insert("shop/c", by);
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
        let is_over = told(world).is_none_or(|told| told.phase == RotationPhase::Idle);
        // What was erased is told again, and that is one write.
        if is_done && is_over && world.writes <= before + usize::from(erased) {
            return;
        }
    }
    panic!("{when}: writes never end: {:?}", told(world));
}

#[test]
fn kms_comes_is_turned_is_changed_and_goes_write_by_write_and_everything_is_read() {
    for (mut spec, erased) in [(minimal(), false), (large(), false), (minimal(), true)] {
        spec["encryption"] = json!({ "resources": ["secrets", "configmaps"] });
        let mut world = with_plugins(spec);
        let whole = template(&world);
        let mut started = Started::default();
        started.look(&mut world, 0, "before");
        assert_eq!(told(&world), None);
        assert!(beside(&whole).is_empty());
        let steps = [("vault", 1), ("vault", 2), ("other", 1)];
        for (name, generation) in steps {
            ask(&mut world, Some((name, generation)));
            let when = format!("{name} {generation}");
            write_by_write(&mut world, &mut started, &when, erased);
            world.settle();
            let provider = Provider::read(&format!("{name}-g{generation}")).unwrap();
            let by = by_kms(&provider);
            assert!(world.at_rest.values().all(|key| *key == by), "{when}");
            let maps = world.others_at_rest.iter();
            let mut maps = maps.filter(|((kind, _), _)| *kind == "configmaps");
            assert!(maps.all(|(_, key)| *key == Some(by)), "{when}");
            let over = told(&world).unwrap();
            assert_eq!(over.phase, RotationPhase::Idle);
            assert_eq!(over.writes, Some(provider.to_string()));
            assert!(over.reads.is_empty() && over.needed.contains(&provider.to_string()));
            assert_eq!(beside(&template(&world)), BTreeSet::from([name.to_owned()]));
            assert_eq!(world.condition("Ready").0, "True");
            assert_eq!(world.condition("Progressing").1, "AsDesired");
            let writes = world.writes;
            world.settle();
            assert_eq!(world.writes, writes, "it is written to at rest");
        }
        ask(&mut world, None);
        write_by_write(&mut world, &mut started, "off", erased);
        world.settle();
        assert!(world.at_rest.values().all(|key| *key == 1));
        assert!(beside(&template(&world)).is_empty());
        let over = told(&world).unwrap();
        assert_eq!((over.writes, over.reads), (None, Vec::new()));
        assert_eq!(over.needed, ["other-g1", "vault-g1", "vault-g2"]);
    }
}

#[test]
fn who_changes_their_mind_at_any_write_ends_with_what_is_asked_for_last() {
    for last in [None, Some(("other", 1))] {
        for cut in (0..60).step_by(5) {
            let mut world = with_plugins(minimal());
            let mut started = Started::default();
            started.look(&mut world, 0, "before");
            ask(&mut world, Some(("vault", 1)));
            for number in 0..cut {
                world.reconcile(&mut 1);
                world.play_controllers();
                started.look(&mut world, number, &format!("on, {number} of {cut}"));
            }
            ask(&mut world, last);
            write_by_write(&mut world, &mut started, &format!("{last:?}, {cut}"), false);
            world.settle();
            let by = match last {
                None => 1,
                Some(_) => 2001,
            };
            assert!(world.at_rest.values().all(|key| *key == by), "{cut}");
            let names = last.map(|(name, _)| name.to_owned());
            assert_eq!(beside(&template(&world)), names.into_iter().collect());
        }
    }
}

#[test]
fn dead_kms_takes_no_running_pod_away_and_is_taken_back() {
    let mut world = with_plugins(minimal());
    let whole = template(&world);
    let key = Key::new("Pod", NS, "control-plane-0");
    let before = world.pods[&key].clone();
    world.fails = Some((has_a_plugin, crashes()));
    ask(&mut world, Some(("vault", 1)));
    world.settle();
    assert_eq!(told(&world).unwrap().phase, RotationPhase::Preparing);
    assert!(waits(&world).starts_with("kube-apiservers that all read"));
    assert_eq!(world.pods[&key], before, "it serves");
    world.now += SignedDuration::from_mins(16);
    world.settle();
    let over = told(&world).unwrap();
    assert_eq!(over.returned.as_deref(), Some("vault-g1"));
    assert_eq!((over.writes, over.reads), (None, Vec::new()));
    assert!(waits(&world).contains("spec.encryption.kms.generation"));
    assert_eq!(template(&world), whole, "as it was");
    assert_eq!(world.pods[&key], before, "nobody was replaced");
    assert_eq!(world.condition("Ready").0, "True");
    let writes = world.writes;
    world.now += SignedDuration::from_mins(10);
    world.settle();
    assert_eq!(world.writes, writes, "it is not tried again by itself");
    world.fails = None;
    ask(&mut world, Some(("vault", 2)));
    world.settle();
    let over = told(&world).unwrap();
    assert_eq!(
        (over.writes.as_deref(), over.returned),
        (Some("vault-g2"), None)
    );
}

#[test]
fn kms_that_the_configuration_lacks_changes_nothing_and_is_named() {
    let mut world = with_plugins(minimal());
    let whole = template(&world);
    ask(&mut world, Some(("gone", 1)));
    world.settle();
    assert!(waits(&world).contains("gone"), "{}", waits(&world));
    assert_eq!(template(&world), whole);
    ask(&mut world, Some(("vault", 1)));
    world.settle();
    let whole = template(&world);
    // Somebody takes away what objects are written with.
    world.settings.encryption.kms = plugins(&["other"]);
    world.settle();
    assert!(waits(&world).contains("vault"), "{}", waits(&world));
    assert_eq!(template(&world), whole);
    ask(&mut world, None);
    world.settle();
    assert_eq!(template(&world), whole);
    assert_eq!(told(&world).unwrap().writes.as_deref(), Some("vault-g1"));
    world.settings.encryption.kms = plugins(&["other", "vault"]);
    world.settle();
    assert!(world.at_rest.values().all(|key| *key == 1));
    assert!(beside(&template(&world)).is_empty());
}

#[test]
fn new_tenant_cluster_is_encrypted_by_its_kms_from_the_start() {
    let mut spec = minimal();
    spec["encryption"] = json!({ "resources": ["secrets"], "kms": { "name": "vault" } });
    let world = with_plugins(spec);
    let over = told(&world).unwrap();
    assert_eq!(over.writes.as_deref(), Some("vault-g1"));
    assert_eq!(over.phase, RotationPhase::Idle);
    let kinds = encrypted::file(&world);
    assert!(!kinds.kms.partly, "nothing was there before");
    let policy = &world.objects[&Key::new("NetworkPolicy", NS, "control-plane")];
    let reaches = policy["spec"]["egress"].to_string();
    assert!(reaches.contains("192.0.2.0/24"), "{reaches}");
}

#[test]
fn lost_file_comes_back_as_one_that_reads_all_and_goes_on() {
    let mut world = with_plugins(minimal());
    ask(&mut world, Some(("vault", 1)));
    world.settle();
    world.objects.remove(&Key::new("Secret", NS, "apiserver"));
    world.settle();
    assert_eq!(told(&world).unwrap().writes.as_deref(), Some("vault-g1"));
    assert!(world.at_rest.values().all(|key| *key == 1001));
}
