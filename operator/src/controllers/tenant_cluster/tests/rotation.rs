//! The authority of people's certificates is turned: who is believed, what signs, and that it can be taken back.
//!
//! Invariant: whatever is cut off, every kube-apiserver that runs believes who signed the kubeconfig, and who signs
//! requests.

use std::collections::BTreeSet;

use api::tenant_cluster::{AuthorityTurn, RotationPhase, RotationStatus};
use base64::engine::general_purpose::STANDARD;
use tenant_cp::names;

use super::*;

fn turn(world: &mut World, generation: u32, hold: bool) {
    world.cluster.spec.rotation.users_ca = Some(AuthorityTurn {
        generation,
        hold,
        complete: None,
    });
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
}

fn told(world: &World) -> Option<RotationStatus> {
    let status = world.cluster.status.as_ref()?;
    status.rotation.first().cloned()
}

fn phase(world: &World) -> RotationPhase {
    told(world).unwrap().phase
}

fn file(world: &World, secret: &Key, file: &str) -> Option<String> {
    let content = world.objects.get(secret)?["data"][file].as_str()?;
    String::from_utf8(STANDARD.decode(content).unwrap()).ok()
}

fn in_tenant(name: &str) -> Key {
    Key::new("Secret", NS, name)
}

/// Generations whose certificates are in a bundle.
fn of_bundle(world: &World, bundle: &str) -> BTreeSet<u32> {
    let known = (1..6).filter(|generation| {
        let name = tenant_cp::generations::authority_name(names::USERS_CA, *generation);
        file(world, &in_tenant(&name), "ca.crt").is_some_and(|pem| bundle.contains(pem.trim()))
    });
    known.collect()
}

/// Whom kube-apiservers believe that start now.
fn published(world: &World) -> BTreeSet<u32> {
    let bundle = file(world, &in_tenant("apiserver"), "clients.crt");
    of_bundle(world, &bundle.unwrap_or_default())
}

/// The generation that signed the administrator's certificate.
fn kubeconfig(world: &World) -> Option<u32> {
    let key = Key::new("Secret", "team-a", "demo-kubeconfig");
    let value = file(world, &key, "value")?.into_bytes();
    let data = BTreeMap::from([("value".to_owned(), value)]);
    let admin = certificates::read_store(&BTreeMap::from([("demo-kubeconfig".to_owned(), data)]));
    let mut store = admin.store;
    for generation in 1..6 {
        let name = tenant_cp::generations::authority_name(names::USERS_CA, generation);
        let pair = |end: &str| file(world, &in_tenant(&name), &format!("ca.{end}"));
        if let (Some(certificate), Some(key)) = (pair("crt"), pair("key")) {
            let key = pki::Key::new(key);
            store.insert(name, pki::KeyPair { certificate, key });
        }
    }
    match pki::as_issued("admin", &store)?.signer {
        pki::Signer::By(name) => tenant_cp::generations::of_authority(&name, names::USERS_CA),
        pki::Signer::Own => None,
    }
}

/// The generation that signs requests, by what kube-controller-managers are started with.
fn flag(pod: &Value) -> Option<u32> {
    let containers = pod["spec"]["containers"].as_array()?;
    let mut args = containers
        .iter()
        .filter_map(|c| c["args"].as_array())
        .flatten();
    let start = "--cluster-signing-kube-apiserver-client-cert-file=/etc/kubernetes/";
    let file = args.find_map(|arg| arg.as_str()?.strip_prefix(start))?;
    tenant_cp::generations::of_authority(file.strip_suffix(".crt")?, names::USERS_CA)
}

/// Whom pods believe, by the keys that they started from: what was published when the first of them was seen.
#[derive(Default)]
struct Started(BTreeMap<String, BTreeSet<u32>>);

impl Started {
    /// Looks at every pod.
    fn look(&mut self, world: &World, when: &str) {
        let shown: BTreeSet<u32> = world
            .pods
            .values()
            .filter_map(flag)
            .chain(kubeconfig(world))
            .collect();
        for (key, pod) in &world.pods {
            if !key.name.starts_with("control-plane") {
                continue;
            }
            let keys = pod["metadata"]["annotations"][names::CLIENTS_HASH].as_str();
            let keys = keys.unwrap_or_default();
            let believes = self
                .0
                .entry(keys.to_owned())
                .or_insert_with(|| published(world));
            assert!(
                shown.is_subset(believes),
                "{when}: {} believes {believes:?}, and {shown:?} are shown",
                key.name
            );
        }
    }
}

/// One write after the other, each followed by a crash; says which phases were told.
fn write_by_write(world: &mut World, started: &mut Started, when: &str) -> Vec<RotationPhase> {
    let mut phases = Vec::new();
    for number in 0..400 {
        let before = world.writes;
        let is_done = world.reconcile(&mut 1);
        world.play_controllers();
        started.look(world, &format!("{when}, write {number}"));
        let now = told(world).map(|told| told.phase);
        if phases.last() != now.as_ref() {
            phases.extend(now);
        }
        if is_done && world.writes == before {
            return phases;
        }
    }
    panic!("{when}: writes never end: {:?}", told(world));
}

#[test]
fn rotation_goes_on_by_itself_write_by_write_and_nobody_is_refused() {
    for spec in [minimal(), large()] {
        let mut world = ready(spec);
        let mut started = Started::default();
        started.look(&world, "before");
        let before = file(&world, &in_tenant("users-ca"), "ca.crt");
        turn(&mut world, 2, false);
        let phases = write_by_write(&mut world, &mut started, "turned");
        // What is over between two writes of the status is not told.
        let is_over = |phase: &RotationPhase| *phase == RotationPhase::Idle;
        assert!(phases.is_sorted_by_key(is_over), "{phases:?}");
        assert_eq!(phases.last(), Some(&RotationPhase::Idle), "{phases:?}");
        let told = told(&world).unwrap();
        assert_eq!((told.signs, told.believed), (2, vec![2]));
        assert_eq!(told.waiting_for, None);
        assert_eq!(published(&world), BTreeSet::from([2]));
        assert_eq!(kubeconfig(&world), Some(2));
        for (key, pod) in &world.pods {
            assert!(world.is_newest(&key.name), "{key}");
            assert!(flag(pod).is_none_or(|signs| signs == 2), "{key}");
        }
        // It is not deleted, and no pod has it.
        let dropped = &world.objects[&in_tenant("users-ca")];
        assert!(dropped["metadata"]["annotations"][names::DROPPED].is_string());
        assert_eq!(file(&world, &in_tenant("users-ca"), "ca.crt"), before);
        let left = file(&world, &in_tenant("controller-manager"), "users-ca.key");
        assert_eq!(left, None);
        assert_eq!(world.condition("Ready").0, "True");
        assert_eq!(world.condition("Progressing").1, "AsDesired");
        assert_eq!(world.condition("CertificatesReady").0, "True");
    }
}

#[test]
fn what_was_told_may_be_erased_at_any_time_and_only_times_change() {
    let mut world = ready(minimal());
    turn(&mut world, 2, false);
    for _ in 0..400 {
        let before = world.writes;
        world.cluster.status.as_mut().unwrap().rotation.clear();
        let is_done = world.reconcile(&mut 1);
        world.play_controllers();
        // The status itself is one write.
        if is_done && world.writes <= before + 1 && phase(&world) == RotationPhase::Idle {
            break;
        }
    }
    assert_eq!(phase(&world), RotationPhase::Idle);
    assert_eq!(kubeconfig(&world), Some(2));
    assert_eq!(published(&world), BTreeSet::from([2]));
}

/// Both are believed, the second one signs, and its user has it stay so.
fn held() -> World {
    let mut world = ready(minimal());
    turn(&mut world, 2, false);
    for _ in 0..400 {
        let signed =
            kubeconfig(&world) == Some(2) && world.pods.values().any(|pod| flag(pod) == Some(2));
        if signed {
            break;
        }
        world.reconcile(&mut 1);
        world.play_controllers();
    }
    turn(&mut world, 2, true);
    world.settle();
    world
}

#[test]
fn held_rotation_stays_and_is_at_rest() {
    let mut world = held();
    let told = told(&world).unwrap();
    assert_eq!(told.phase, RotationPhase::Draining);
    assert_eq!((told.signs, told.believed), (2, vec![1, 2]));
    let waits = told.waiting_for.unwrap();
    assert_eq!(waits, "spec.rotation.usersCA.hold to be false");
    assert_eq!(world.condition("Progressing").1, "AsDesired");
    let writes = world.writes;
    world.settle();
    assert_eq!(world.writes, writes);
    turn(&mut world, 2, false);
    world.settle();
    assert_eq!(phase(&world), RotationPhase::Idle);
    assert_eq!(published(&world), BTreeSet::from([2]));
}

#[test]
fn until_it_is_dropped_the_generation_of_before_can_be_had_back() {
    let mut world = held();
    let mut started = Started::default();
    started.look(&world, "held");
    turn(&mut world, 1, false);
    write_by_write(&mut world, &mut started, "back");
    assert_eq!(kubeconfig(&world), Some(1));
    assert_eq!(published(&world), BTreeSet::from([1]));
    assert_eq!(phase(&world), RotationPhase::Idle);
    // The number was used.
    turn(&mut world, 2, false);
    world.settle();
    let refused = ("True".to_owned(), "RotationRefused".to_owned());
    assert_eq!(world.condition("Degraded"), refused);
    assert_eq!(world.condition("Ready").0, "True");
    assert_eq!(published(&world), BTreeSet::from([1]));
    turn(&mut world, 3, false);
    write_by_write(&mut world, &mut started, "a third one");
    assert_eq!(kubeconfig(&world), Some(3));
    assert_eq!(world.condition("Degraded").0, "False");
}

#[test]
fn generation_that_was_dropped_is_refused_and_what_runs_stays() {
    let mut world = ready(minimal());
    turn(&mut world, 2, false);
    world.settle();
    let objects = world.objects.clone();
    turn(&mut world, 1, false);
    world.settle();
    assert_eq!(world.condition("Degraded").1, "RotationRefused");
    let said = told(&world).unwrap().waiting_for.unwrap();
    assert!(
        said.ends_with("set it to 2, or to 3 for a new one"),
        "{said}"
    );
    assert_eq!(world.objects, objects);
    // Who forgets to say it changes nothing either.
    world.cluster.spec.rotation = api::tenant_cluster::Rotation::default();
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
    world.settle();
    assert_eq!(world.objects, objects);
    assert_eq!(world.condition("Degraded").0, "False");
}

#[test]
fn nothing_signs_anew_while_an_old_kube_apiserver_ends() {
    let mut world = ready(minimal());
    let old = world.pods[&Key::new("Pod", NS, "control-plane-0")].clone();
    turn(&mut world, 2, false);
    let ends = Key::new("Pod", NS, "control-plane-old");
    world.pods.insert(ends.clone(), old);
    world.pods.get_mut(&ends).unwrap()["metadata"]["deletionTimestamp"] =
        json!("2026-11-21T12:00:00Z");
    world.settle();
    assert_eq!(phase(&world), RotationPhase::Preparing);
    assert_eq!(world.condition("Progressing").1, "Rotating");
    let waits = told(&world).unwrap().waiting_for.unwrap();
    assert_eq!(
        waits,
        "kube-apiservers that all believe generations 1 and 2"
    );
    assert_eq!(kubeconfig(&world), Some(1));
    world.pods.remove(&ends);
    world.settle();
    assert_eq!(kubeconfig(&world), Some(2));
    assert_eq!(phase(&world), RotationPhase::Idle);
}

#[test]
fn nothing_is_dropped_while_the_kubeconfig_cannot_be_written() {
    let mut world = ready(minimal());
    world.refused = vec![Key::new("Secret", "team-a", "demo-kubeconfig")];
    turn(&mut world, 2, false);
    for _ in 0..8 {
        world.reconcile(&mut usize::MAX.clone());
    }
    assert_eq!(published(&world), BTreeSet::from([1, 2]));
    assert_eq!(phase(&world), RotationPhase::Switching);
    assert_eq!(kubeconfig(&world), Some(1));
    world.refused.clear();
    world.settle();
    assert_eq!(kubeconfig(&world), Some(2));
    assert_eq!(published(&world), BTreeSet::from([2]));
}

#[test]
fn who_says_so_waits_for_no_kubeconfig_that_cannot_be_written() {
    let mut world = ready(minimal());
    let kubeconfig = Key::new("Secret", "team-a", "demo-kubeconfig");
    world.refused.push(kubeconfig);
    turn(&mut world, 2, false);
    world
        .cluster
        .spec
        .rotation
        .users_ca
        .as_mut()
        .unwrap()
        .complete = Some(2);
    for _ in 0..12 {
        world.reconcile(&mut usize::MAX.clone());
        world.play_controllers();
    }
    assert_eq!(published(&world), BTreeSet::from([2]));
    assert_eq!(self::kubeconfig(&world), Some(1), "it is of use to nobody");
    world.refused.clear();
    world.settle();
    assert_eq!(self::kubeconfig(&world), Some(2));
    assert_eq!(phase(&world), RotationPhase::Idle);
}

#[test]
fn no_rotation_begins_while_an_upgrade_goes_on() {
    let mut world = ready(minimal());
    rollouts::ask_for(&mut world, "1.36.3");
    world.stuck = true;
    world.settle();
    turn(&mut world, 2, false);
    world.settle();
    let told = told(&world).unwrap();
    assert_eq!(told.believed, [1]);
    assert_eq!(told.waiting_for.as_deref(), Some("the upgrade to be over"));
    world.stuck = false;
    world.play_controllers();
    world.settle();
    assert_eq!(phase(&world), RotationPhase::Idle);
    assert_eq!(published(&world), BTreeSet::from([2]));
}

#[test]
fn secret_that_is_lost_while_it_signs_comes_back_from_its_copy() {
    let mut world = held();
    let before = file(&world, &in_tenant("users-ca-g2"), "ca.key");
    world.objects.remove(&in_tenant("users-ca-g2"));
    world.settle();
    assert_eq!(file(&world, &in_tenant("users-ca-g2"), "ca.key"), before);
    // What was dropped has no copy that could come back in its place.
    turn(&mut world, 2, false);
    world.settle();
    let dropped = world.objects[&in_tenant("users-ca")].clone();
    world.objects.remove(&in_tenant("apiserver"));
    world.objects.remove(&in_tenant("controller-manager"));
    world.settle();
    assert_eq!(world.objects[&in_tenant("users-ca")], dropped);
    assert_eq!(published(&world), BTreeSet::from([2]));
}

#[test]
fn aggregated_api_servers_are_told_no_more_of_what_was_dropped_and_it_is_looked_at_until_then() {
    for erased in [false, true] {
        let mut world = ready(minimal());
        // What kube-apiservers of before wrote.
        world.aggregated = rotation_front_proxy::with(&world);
        let old = file(&world, &in_tenant("users-ca"), "ca.crt").unwrap();
        assert!(world.aggregated.clients.contains(old.trim()));
        turn(&mut world, 2, false);
        for _ in 0..400 {
            let before = world.writes;
            if erased {
                world.cluster.status.as_mut().unwrap().rotation.clear();
            }
            let is_done = world.reconcile(&mut 1);
            world.play_controllers();
            // Those that run add what they believe.
            world.aggregated = rotation_front_proxy::with(&world);
            let is_quiet = world.writes <= before + usize::from(erased);
            if is_done && is_quiet && phase(&world) == RotationPhase::Idle {
                break;
            }
        }
        assert_eq!(phase(&world), RotationPhase::Idle);
        let new = file(&world, &in_tenant("users-ca-g2"), "ca.crt").unwrap();
        let machinery = file(&world, &in_tenant("client-ca"), "ca.crt").unwrap();
        let believed = &world.aggregated.clients;
        assert!(believed.contains(new.trim()) && believed.contains(machinery.trim()));
        assert!(!believed.contains(old.trim()), "{erased}: {believed}");
    }
}
