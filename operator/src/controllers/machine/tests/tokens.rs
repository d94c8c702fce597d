//! Bootstrap tokens: each is good for one key of its own Machine.

use api::machine::MachinePhase;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::world::{NAME, World};
use crate::controllers::machine::plan::Action;

/// Asks for the first certificate of a node with the Machine's own token.
pub(super) fn client_request(name: &str, pem: &str) -> Value {
    let id = tenant_cp::node::bootstrap_token::token_id("0a1b2c3d-1111-4222-8333-444455556666");
    let pem = k8s_openapi::ByteString(pem.as_bytes().to_vec());
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": { "name": name },
        "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "username": format!("system:bootstrap:{id}"), "request": pem,
            "usages": ["digital signature", "client auth"],
        },
    })
}

pub(super) fn keyed(node: &str) -> String {
    testkit::certs::request(&format!("system:node:{node}"), "system:nodes", &[]).unwrap()
}

#[test]
fn token_is_used_for_one_key_which_is_recorded_before_it_is_approved() {
    let mut world = World::new();
    world.settle();
    world.vm_runs();
    world.settle();
    let (first, second) = (keyed(NAME), keyed(NAME));
    world.requests = vec![client_request("first", &first)];
    let plan = world.plan();
    assert!(plan.reports_first() && plan.status.client_key.is_some());
    // A death after the record leaves it to whoever comes next.
    let cut = world.reconcile(&mut 1);
    assert!(!cut && world.decided.is_empty(), "{:?}", world.decided);
    world.settle();
    assert_eq!(world.decided, [("first".to_owned(), true)]);
    world.requests = vec![client_request("again", &first)];
    world.settle();
    assert_eq!(world.decided.last(), Some(&("again".to_owned(), true)));
    assert_ne!(world.phase(), MachinePhase::Failed);
    // Its token is about to end, and is not made valid for longer.
    world.now += SignedDuration::from_mins(25);
    world.requests = vec![client_request("second", &second)];
    let plan = world.plan();
    assert!(
        matches!(plan.actions.as_slice(), [Action::Decide { .. }]),
        "{:?}",
        plan.actions
    );
    world.settle();
    assert_eq!(world.decided.last(), Some(&("second".to_owned(), false)));
    assert_eq!(world.phase(), MachinePhase::Failed, "its pool replaces it");
    assert_eq!(world.told("TokenUsedTwice"), 1);
}

#[test]
fn of_two_that_ask_at_once_with_one_token_one_is_refused_and_the_machine_is_replaced() {
    let mut world = World::new();
    world.settle();
    world.vm_runs();
    world.settle();
    world.requests = vec![
        client_request("one", &keyed(NAME)),
        client_request("two", &keyed(NAME)),
    ];
    world.settle();
    let approved: Vec<_> = world
        .decided
        .iter()
        .map(|(_, approved)| *approved)
        .collect();
    assert_eq!(approved, [true, false]);
    assert_eq!(world.phase(), MachinePhase::Failed);
}

#[test]
fn whoever_asks_for_a_node_that_joined_is_refused_also_where_its_status_was_lost() {
    let mut world = World::running();
    world.machine.status = None;
    world.requests = vec![client_request("late", &keyed(NAME))];
    world.settle();
    assert_eq!(world.decided, [("late".to_owned(), false)]);
    assert_eq!(world.told("TokenUsedTwice"), 1);
}

#[test]
fn token_of_another_machine_gets_no_certificate_and_that_is_told() {
    let mut world = World::new();
    world.settle();
    let mut stolen = client_request("stolen", &keyed(NAME));
    stolen["spec"]["username"] = json!("system:bootstrap:zzzzzz");
    world.requests = vec![stolen];
    world.settle();
    assert_eq!(world.decided, [("stolen".to_owned(), false)]);
    assert_eq!(world.told("CertificateDenied"), 1);
    assert_ne!(world.phase(), MachinePhase::Failed);
}
