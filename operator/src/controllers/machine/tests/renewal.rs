//! A kubelet that is told of a rotation in place.
//!
//! Invariant: [`World`] itself asserts that a try is stored before anything of it is made, that its Secret and token are there
//! before its pod, and that there are never two pods.

use api::machine::{KubeletRenewalPhase, MachinePhase};
use api::names;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pki::{KeyPair, Want};
use serde_json::json;

use super::said;
use super::tokens::{client_request, keyed};
use super::world::{NAME, World, read};
use crate::controllers::machine::plan::Action;
use crate::controllers::stored::stored;
use crate::rotation::kubelets;

/// `client-ca` as its second generation signs, and another one.
fn authority(name: &str, now: Timestamp) -> KeyPair {
    pki::issue(&Want::authority(name, name, 24), None, now).unwrap()
}

/// It is waited for kubelets of before now, and this one has its turn.
fn asked() -> World {
    let mut world = World::running();
    world.later(3600);
    let cluster = json!({ "rotation": [
        { "name": "clientCA", "generation": 2, "signs": 2, "believed": [1, 2], "phase": "Draining",
            "since": "x", "signedUntil": world.now.to_string() },
    ] });
    let known = world.cluster.as_mut().unwrap();
    known.spec.rotation = read(json!({ "clientCA": { "generation": 2, "nodes": "InPlace" } }));
    let status = known.status.as_mut().unwrap();
    status.rotation = read(cluster["rotation"].clone());
    let turn = kubelets::renewed_before(known).unwrap().to_string();
    let annotations = world.machine.metadata.annotations.get_or_insert_default();
    annotations.insert(names::ANNOTATION_RENEW_KUBELET.to_owned(), turn);
    world.later(60);
    world
}

/// The kubelet starts anew and asks; gives what it asked with.
fn asks(world: &mut World, name: &str) -> String {
    let pem = keyed(NAME);
    world.requests = vec![client_request(name, &pem)];
    world.settle();
    pem
}

/// `by` signs what was asked, and the pod ends well.
fn is_signed(world: &mut World, pem: &str, by: &str) {
    let now = world.now;
    let want = Want::client("node", by, "system:node", 1);
    let key = pki::request::read(pem.as_bytes()).unwrap().public_key;
    let until = now.saturating_add(SignedDuration::from_hours(1)).unwrap();
    let signed = pki::issue::sign(&want, &key, &authority(by, now), until, now).unwrap();
    world.renewal.signed = Some(signed);
    world.renewal.pod.as_mut().unwrap().succeeded = Some(true);
}

fn phase(world: &World) -> Option<KubeletRenewalPhase> {
    let status = world.machine.status.as_ref()?;
    Some(status.renewal.as_ref()?.phase)
}

fn renewed(world: &World) -> Option<Timestamp> {
    let status = world.machine.status.as_ref()?;
    Some(status.renewed.as_ref()?.0)
}

/// Nothing of a try is left.
fn is_clean(world: &World) {
    assert!(world.token.is_none(), "the token is left");
    let found = &world.renewal;
    assert!(found.pod.is_none() && found.secret.is_none(), "{found:?}");
}

/// A try from its beginning to its end.
fn told(world: &mut World) {
    world.settle();
    let pem = asks(world, "csr");
    is_signed(world, &pem, "client-ca-g2");
    world.settle();
    world.later(5);
    world.settle();
}

#[test]
fn kubelet_is_told_by_one_pod_and_afterwards_nothing_is_left_and_nothing_written() {
    let mut world = asked();
    let key = world.machine.status.as_ref().unwrap().client_key.clone();
    world.settle();
    assert_eq!(phase(&world), Some(KubeletRenewalPhase::Running));
    let token = world.token.clone().unwrap();
    let left = token.expires.unwrap().duration_since(world.now);
    assert!(left <= SignedDuration::from_secs(330), "{left}");
    let pem = asks(&mut world, "csr");
    assert_eq!(world.decided.last(), Some(&("csr".to_owned(), true)));
    is_signed(&mut world, &pem, "client-ca-g2");
    world.settle();
    world.settle();
    is_clean(&world);
    assert_eq!((phase(&world), world.pods_made), (None, 1));
    let since = world
        .cluster
        .as_ref()
        .unwrap()
        .status
        .as_ref()
        .unwrap()
        .rotation[0]
        .signed_until
        .clone();
    assert!(renewed(&world).unwrap() >= since.unwrap().parse().unwrap());
    assert_ne!(world.machine.status.as_ref().unwrap().client_key, key);
    assert_eq!(
        world.condition("KubeletRenewed"),
        said("True", "RenewedInPlace")
    );
    assert_eq!(world.told("RenewedInPlace"), 1);
    assert_eq!(world.phase(), MachinePhase::Running);
    let writes = world.writes;
    for _ in 0..20 {
        world.settle();
        world.later(3600);
    }
    assert_eq!(world.writes, writes);
}

#[test]
fn crash_after_any_write_tells_it_once_and_leaves_nothing() {
    let mut cut = 0;
    loop {
        let mut world = asked();
        let start = world.writes;
        let mut died = false;
        let mut pem = None;
        for _ in 0..12 {
            let mut budget = match died {
                true => usize::MAX,
                false => cut - (world.writes - start).min(cut),
            };
            died |= !world.reconcile(&mut budget);
            if world.renewal.pod.is_some() && pem.is_none() {
                let asked = keyed(NAME);
                world.requests = vec![client_request("csr", &asked)];
                pem = Some(asked);
            } else if let (Some(pem), true) = (&pem, !world.decided.is_empty())
                && world.renewal.pod.is_some()
                && world.renewal.signed.is_none()
            {
                is_signed(&mut world, pem, "client-ca-g2");
            }
        }
        is_clean(&world);
        assert!(
            renewed(&world).is_some() && phase(&world).is_none(),
            "cut after {cut}"
        );
        assert_eq!(
            (world.pods_made, world.decided.len()),
            (1, 1),
            "cut after {cut}"
        );
        if !died {
            break;
        }
        cut += 1;
    }
    // A try, token, Secret, pod; the key, the answer; its end, token, pod, Secret; and that it was told.
    assert_eq!(cut, 11);
}

#[test]
fn status_that_is_lost_begins_anew_and_never_beside_a_pod_of_before() {
    let mut world = asked();
    world.settle();
    assert!(world.renewal.pod.is_some());
    world.later(60);
    world.machine.status.as_mut().unwrap().renewal = None;
    world.settle();
    assert_eq!(world.pods_made, 2, "the one of before ended first");
    let pem = asks(&mut world, "csr");
    is_signed(&mut world, &pem, "client-ca-g2");
    world.settle();
    world.settle();
    is_clean(&world);
    assert!(renewed(&world).is_some());
}

#[test]
fn what_the_node_says_proves_nothing() {
    // No key asked; another key's certificate; another generation's.
    for (asks_first, by) in [(false, None), (true, None), (true, Some("client-ca"))] {
        let mut world = asked();
        world.settle();
        let mut pem = keyed(NAME);
        if asks_first {
            pem = asks(&mut world, "csr");
        }
        match by {
            Some(by) => is_signed(&mut world, &pem, by),
            None => is_signed(&mut world, &keyed(NAME), "client-ca-g2"),
        }
        world.settle();
        assert_eq!(phase(&world), Some(KubeletRenewalPhase::Running), "{by:?}");
        world.later(400);
        world.settle();
        world.settle();
        assert_eq!(renewed(&world), None);
        assert_eq!(world.told("RenewalFailed"), 1);
    }
}

#[test]
fn second_key_by_its_token_is_refused_and_the_machine_is_replaced() {
    let mut world = asked();
    world.settle();
    asks(&mut world, "first");
    asks(&mut world, "second");
    let approved: Vec<_> = world
        .decided
        .iter()
        .map(|(_, approved)| *approved)
        .collect();
    assert_eq!(approved, [true, false]);
    assert_eq!(world.phase(), MachinePhase::Failed);
    assert_eq!(world.told("TokenUsedTwice"), 1);
}

#[test]
fn who_asks_too_late_is_refused_and_the_machine_stays() {
    let mut world = asked();
    world.settle();
    world.renewal.pod.as_mut().unwrap().succeeded = Some(false);
    world.settle();
    asks(&mut world, "late");
    assert_eq!(world.decided.last(), Some(&("late".to_owned(), false)));
    assert_eq!(world.phase(), MachinePhase::Running);
}

#[test]
fn what_fails_is_tried_once_more_and_then_given_up_with_nothing_left() {
    for refused in [false, true] {
        let mut world = asked();
        world.refuses_pods = refused;
        for _ in 0..2 {
            assert_eq!(renewed(&world), None);
            world.settle();
            if let Some(pod) = &mut world.renewal.pod {
                pod.succeeded = Some(false);
                pod.message = "no kubelet runs".into();
            }
            world.settle();
            world.settle();
            is_clean(&world);
            world.later(90);
        }
        world.settle();
        assert_eq!(
            phase(&world),
            Some(KubeletRenewalPhase::GivenUp),
            "{refused}"
        );
        assert_eq!(
            world.condition("KubeletRenewed"),
            said("False", "RenewalFailed")
        );
        assert_eq!(world.told("RenewalFailed"), 3);
        let writes = world.writes;
        world.later(3600);
        world.settle();
        assert_eq!(world.writes, writes, "it is at rest");
        // It is not asked for any more.
        world.cluster.as_mut().unwrap().spec.rotation = read(json!({}));
        world.settle();
        assert_eq!(phase(&world), None);
    }
}

#[test]
fn second_try_succeeds_with_another_token() {
    let mut world = asked();
    world.settle();
    let first = world.token.clone().unwrap().token;
    world.renewal.pod.as_mut().unwrap().succeeded = Some(false);
    world.settle();
    world.later(90);
    world.settle();
    assert_ne!(world.token.clone().unwrap().token, first);
    told(&mut world);
    is_clean(&world);
    assert!(renewed(&world).is_some());
}

#[test]
fn pod_that_does_not_end_ends_the_try() {
    let mut world = asked();
    world.settle();
    world.later(331);
    world.settle();
    world.settle();
    assert_eq!(world.told("RenewalFailed"), 1);
    assert!(world.token.is_none() || world.pods_made == 2);
}

#[test]
fn nothing_is_begun_on_a_node_that_is_not_ready_or_has_no_turn_or_needs_nothing() {
    let mut world = asked();
    world.node_is(None);
    world.settle();
    assert_eq!((phase(&world), world.pods_made), (None, 0), "it waits");
    world.node_is(Some(true));
    world.settle();
    assert_eq!(world.pods_made, 1);
    let mut world = asked();
    let annotations = world.machine.metadata.annotations.as_mut().unwrap();
    annotations.insert(
        names::ANNOTATION_RENEW_KUBELET.to_owned(),
        "1970-01-01T00:00:07Z".into(),
    );
    world.settle();
    assert_eq!(phase(&world), None);
    let mut world = asked();
    world.machine.metadata.creation_timestamp = Some(stored(&Time(world.now)));
    world.settle();
    assert_eq!(phase(&world), None);
}

#[test]
fn what_is_not_asked_for_any_more_is_taken_away() {
    let mut world = asked();
    world.settle();
    assert!(world.renewal.pod.is_some());
    let clients = &mut world.cluster.as_mut().unwrap().spec.rotation.client_ca;
    clients.as_mut().unwrap().hold = true;
    world.settle();
    world.settle();
    is_clean(&world);
    assert_eq!((phase(&world), renewed(&world)), (None, None));
    assert_eq!(world.told("RenewalFailed"), 0);
}

#[test]
fn it_is_told_only_where_the_bundle_is_whole() {
    let mut world = asked();
    let status = world.cluster.as_mut().unwrap().status.as_mut().unwrap();
    status.rotation.push(read(json!({
        "name": "clusterCA", "generation": 2, "signs": 2, "believed": [1, 2], "phase": "Idle", "since": "x",
    })));
    world.settle();
    let plan = world.plan();
    assert!(
        !plan
            .actions
            .iter()
            .any(|it| matches!(it, Action::StartRenewal(_)))
    );
    assert_eq!((phase(&world), world.token.is_none()), (None, true));
}
