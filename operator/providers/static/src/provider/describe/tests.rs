//! What a Machine is told of its Host, in each phase.

use serde_json::{Value, json};

use super::*;

fn machine(is_going: bool) -> Machine {
    let deleted = is_going.then_some("2026-01-01T00:00:00Z");
    serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
        "metadata": {"name": "w-1", "namespace": "team-a", "uid": "uid-1", "deletionTimestamp": deleted},
        "spec": {"clusterName": "demo", "clusterUID": "tc", "poolName": "w", "version": "1.35.4",
            "provider": {"static": {}}},
    }))
    .unwrap()
}

fn host(phase: &str, conditions: Value) -> Host {
    serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Host",
        "metadata": {"name": "rack-a-1", "namespace": "team-a", "uid": "h", "generation": 1},
        "spec": {"address": "192.0.2.10", "user": "root", "sshKeySecretName": "ssh", "hostKeys": ["x"]},
        "status": {
            "phase": phase,
            "claim": {"machineName": "w-1", "machineUID": "uid-1", "tenantClusterUID": "tc"},
            "facts": {"machineID": "one", "hostKey": "x", "architecture": "amd64", "cpu": 8,
                "memory": "16000Mi", "os": "debian 12", "kernel": "6.1.0", "cgroup2": true, "tun": true},
            "conditions": conditions,
        },
    }))
    .unwrap()
}

fn bad(type_: &str, reason: &str) -> Value {
    json!([{"type": type_, "status": "False", "reason": reason, "message": "words",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}])
}

fn seen(phase: &str, conditions: Value) -> Description {
    let presence = presence(&[host(phase, conditions)], &machine(false));
    presence.present().unwrap()
}

#[test]
fn node_is_called_after_its_host_once_the_machine_has_said_whose_it_is() {
    assert_eq!(seen("Claimed", json!([])).provider_id, None);
    for phase in ["Joining", "Joined", "Resetting", "Quarantined"] {
        let id = seen(phase, json!([])).provider_id;
        assert_eq!(id.as_deref(), Some("static://rack-a-1/w-1"), "{phase}");
    }
}

#[test]
fn each_phase_says_how_far_the_machine_is() {
    assert_eq!(seen("Claimed", json!([])).state, State::Creating);
    assert_eq!(seen("Joining", json!([])).state, State::Creating);
    let joined = seen("Joined", bad("Reachable", "HostUnreachable"));
    assert_eq!(joined.state, State::Running, "silence fences nothing");
    assert_eq!(joined.addresses[0].address, "192.0.2.10");
    assert_eq!(joined.located, None);
    assert!(!joined.deleting && joined.evacuation.is_none());
    assert!(seen("Resetting", json!([])).deleting);
    for (phase, type_, reason) in [
        ("Joining", "Verified", "HostFailing"),
        ("Claimed", "Reachable", "HostUnreachable"),
        ("Quarantined", "Verified", "OwnedByAnother"),
    ] {
        let state = seen(phase, bad(type_, reason)).state;
        let State::Failing {
            reason: told,
            message,
        } = &state
        else {
            panic!("{phase}: {state:?}");
        };
        assert_eq!(
            (told.as_str(), message.as_str()),
            (reason, "Host rack-a-1: words")
        );
    }
}

#[test]
fn machine_is_gone_only_when_no_host_is_claimed_by_it() {
    let gone = presence(&[], &machine(false));
    assert_eq!(gone, Presence::Absent(Proof::Authoritative));
    let mut other = host("Joined", json!([]));
    if let Some(claim) = other
        .status
        .as_mut()
        .and_then(|status| status.claim.as_mut())
    {
        claim.machine_uid = "uid-2".to_owned();
    }
    let gone = presence(&[other], &machine(true));
    assert_eq!(gone, Presence::Absent(Proof::Authoritative));
    for phase in ["Claimed", "Joining", "Joined", "Resetting"] {
        let hosts = [host(phase, json!([]))];
        let there = presence(&hosts, &machine(true));
        assert!(matches!(there, Presence::Present(_)), "{phase}");
    }
}

#[test]
fn quarantined_host_lets_go_of_a_machine_that_goes_and_of_no_other() {
    let hosts = [host("Quarantined", json!([]))];
    let gone = presence(&hosts, &machine(true));
    assert_eq!(gone, Presence::Absent(Proof::Quarantined));
    assert!(matches!(
        presence(&hosts, &machine(false)),
        Presence::Present(_)
    ));
}

#[test]
fn maintenance_has_the_machine_leave() {
    let mut host = host("Joined", json!([]));
    host.spec.maintenance = true;
    let left = |host: &Host| presence(std::slice::from_ref(host), &machine(false)).present();
    assert_eq!(left(&host).unwrap().evacuation, Some(Evacuation::default()));
    if let Some(status) = &mut host.status {
        status.phase = Some(HostPhase::Resetting);
    }
    assert_eq!(left(&host).unwrap().evacuation, None, "it leaves already");
}
