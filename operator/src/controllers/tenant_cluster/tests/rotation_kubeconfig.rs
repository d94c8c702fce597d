//! The administrator's certificate is made anew because somebody asks for it.
//!
//! Invariant: a number makes one certificate, whatever is cut off.

use std::collections::BTreeSet;

use api::tenant_cluster::{AuthorityTurn, KubeconfigTurn, RotationPhase, RotationStatus};
use base64::engine::general_purpose::STANDARD;

use super::*;

fn raise(world: &mut World, generation: u32) {
    world.cluster.spec.rotation.kubeconfig = Some(KubeconfigTurn { generation });
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
}

fn told(world: &World) -> Option<RotationStatus> {
    world.rotation("kubeconfig")
}

/// The certificate in the kubeconfig.
fn certificate(world: &World) -> String {
    let key = Key::new("Secret", "team-a", "demo-kubeconfig");
    let value = world.objects[&key]["data"]["value"].as_str().unwrap();
    let data = BTreeMap::from([("value".to_owned(), STANDARD.decode(value).unwrap())]);
    let read = certificates::read_store(&BTreeMap::from([(key.name, data)]));
    read.store["admin"].certificate.clone()
}

#[test]
fn higher_number_makes_one_certificate_and_until_when_the_old_one_is_let_in_is_told() {
    for erased in [false, true] {
        let mut world = ready(minimal());
        assert_eq!(told(&world), None);
        let old = certificate(&world);
        let mut seen = BTreeSet::from([old.clone()]);
        // Another one would be the same within a second.
        world.now += jiff::SignedDuration::from_secs(60);
        raise(&mut world, 2);
        for _ in 0..50 {
            let before = world.writes;
            if erased {
                world.cluster.status.as_mut().unwrap().rotation.clear();
            }
            let is_done = world.reconcile(&mut 1);
            seen.insert(certificate(&world));
            if is_done && world.writes <= before + usize::from(erased) {
                break;
            }
        }
        assert_eq!(seen.len(), 2, "{erased}");
        assert_ne!(certificate(&world), old);
        let now = told(&world).unwrap();
        assert_eq!((now.generation, now.signs, now.believed), (2, 2, vec![2]));
        assert_eq!((now.phase, now.waiting_for), (RotationPhase::Idle, None));
        let end = pki::not_after(&old).unwrap().to_string();
        assert_eq!(now.previous_until, Some(end));
        assert_eq!(world.condition("Progressing").1, "AsDesired");
        let writes = world.writes;
        world.settle();
        assert_eq!(world.writes, writes, "it is written to at rest");
    }
}

#[test]
fn authority_that_is_turned_ends_what_was_let_in_until_then() {
    let mut world = ready(minimal());
    world.now += jiff::SignedDuration::from_secs(60);
    raise(&mut world, 2);
    world.settle();
    assert!(told(&world).unwrap().previous_until.is_some());
    let generation = AuthorityTurn {
        generation: 2,
        ..AuthorityTurn::default()
    };
    world.cluster.spec.rotation.users_ca = Some(generation);
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
    world.settle();
    let now = told(&world).unwrap();
    assert_eq!((now.signs, now.previous_until), (2, None));
}

#[test]
fn who_asks_no_more_and_asks_again_for_the_same_gets_no_other() {
    let mut world = ready(minimal());
    world.now += jiff::SignedDuration::from_secs(60);
    raise(&mut world, 2);
    world.settle();
    let second = certificate(&world);
    world.cluster.spec.rotation.kubeconfig = None;
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
    world.settle();
    assert_eq!(certificate(&world), second);
    assert_eq!(told(&world).unwrap().signs, 2);
    raise(&mut world, 2);
    world.settle();
    assert_eq!(certificate(&world), second);
    // A Secret that is lost comes back with the number that is asked for.
    let key = Key::new("Secret", "team-a", "demo-kubeconfig");
    world.objects.remove(&key);
    world.settle();
    assert_eq!(told(&world).unwrap().signs, 2);
}
