//! What KubeVirt says, as it was seen to say it, and what a Machine is told.

use api::machine_addresses::PublishedAddresses;
use serde_json::{Value, json};

use super::*;

const UID: &str = "machine-1";

fn machine() -> Machine {
    let spec = json!({
        "clusterName": "demo", "clusterUID": "c1", "poolName": "workers", "version": "1.35.4",
        "provider": {"kubevirt": {}},
    });
    let mut machine = Machine::new("workers-a", serde_json::from_value(spec).unwrap());
    machine.metadata.uid = Some(UID.to_owned());
    machine
}

fn metadata(machine_uid: &str) -> Value {
    json!({
        "name": "workers-a",
        "uid": "object-1",
        "labels": {names::LABEL_MACHINE_UID: machine_uid},
    })
}

fn vm(status: &Value) -> VirtualMachine {
    let spec = json!({"template": {"spec": {"domain": {"devices": {}}}}});
    let vm = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": metadata(UID), "spec": spec, "status": status,
    });
    serde_json::from_value(vm).unwrap()
}

fn instance(status: &Value) -> VirtualMachineInstance {
    let instance = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": metadata(UID), "spec": {}, "status": status,
    });
    serde_json::from_value(instance).unwrap()
}

fn seen(
    vm: Option<&VirtualMachine>,
    instance: Option<&VirtualMachineInstance>,
) -> Option<Description> {
    describe(vm, instance, &machine())
}

/// The state with an instance in this status.
fn state(status: &Value) -> State {
    seen(Some(&vm(&json!({}))), Some(&instance(status)))
        .unwrap()
        .state
}

fn reason(state: &State) -> (&str, &str) {
    match state {
        State::Failing { reason, message } => (reason.as_str(), message),
        other => panic!("{other:?}"),
    }
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    // Times may be null, and probes have none.
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastProbeTime": null, "lastTransitionTime": null,
    })
}

#[test]
fn a_machine_is_gone_only_when_both_objects_are() {
    assert_eq!(seen(None, None), None);
    let (vm, instance) = (vm(&json!({})), instance(&json!({})));
    assert!(seen(Some(&vm), None).is_some());
    let lone = seen(None, Some(&instance)).unwrap();
    assert_eq!(reason(&lone.state).0, "VirtualMachineMissing");
}

#[test]
fn a_start_goes_through_every_phase_without_failing() {
    let just_made = seen(Some(&vm(&Value::Null)), None).unwrap();
    assert_eq!(just_made, Description::default());
    let starting = json!({"printableStatus": "Starting"});
    let starting = seen(Some(&vm(&starting)), None).unwrap();
    assert_eq!(starting.state, State::Creating);
    // A conflict that KubeVirt tries again.
    let conflict = condition("Synchronized", "False", "FailedPodPatch", "conflict");
    for status in [
        json!({}),
        json!({"phase": "Pending", "conditions": [conflict]}),
        json!({"phase": "Scheduling"}),
        json!({"phase": "Scheduled"}),
    ] {
        assert_eq!(state(&status), State::Creating, "{status}");
    }
    assert_eq!(state(&json!({"phase": "Running"})), State::Running);
}

#[test]
fn an_image_that_cannot_be_pulled_is_named_with_the_field_to_mend() {
    let pull = condition(
        "Synchronized",
        "False",
        "ErrImagePull",
        "failed to resolve example.com/worker:v1: not found",
    );
    let state = state(&json!({"phase": "Scheduling", "conditions": [pull]}));
    let (reason, message) = reason(&state);
    assert_eq!(reason, "ErrImagePull");
    assert_eq!(
        message,
        "failed to resolve example.com/worker:v1: not found: check spec.provider.kubevirt.image \
         of the node pool, and that the management cluster can pull it"
    );
}

#[test]
fn a_machine_that_fits_nowhere_says_so() {
    let nowhere = condition(
        "PodScheduled",
        "False",
        "Unschedulable",
        "0/1 nodes are available: 1 Insufficient memory.",
    );
    let state = state(&json!({"phase": "Pending", "conditions": [nowhere]}));
    let (reason, message) = reason(&state);
    assert_eq!(reason, "Unschedulable");
    assert!(message.starts_with("0/1 nodes are available"), "{message}");
    assert!(
        message.ends_with("ask for less CPU and memory"),
        "{message}"
    );
}

#[test]
fn an_instance_that_cannot_be_made_is_explained_by_the_virtual_machine() {
    let failure = condition(
        "Failure",
        "True",
        "FailedCreate",
        "denied: spec.x is not known",
    );
    let description = seen(Some(&vm(&json!({"conditions": [failure]}))), None).unwrap();
    assert_eq!(
        reason(&description.state),
        ("FailedCreate", "denied: spec.x is not known")
    );
}

#[test]
fn ends_of_an_instance_are_told_apart() {
    assert_eq!(state(&json!({"phase": "Succeeded"})), State::Stopped);
    let stopped = vm(&json!({"printableStatus": "Stopped"}));
    assert_eq!(seen(Some(&stopped), None).unwrap().state, State::Stopped);
    for (status, expected) in [
        (json!({"phase": "Failed"}), "VirtualMachineFailed"),
        (json!({"phase": "Unknown"}), "VirtualMachineUnknown"),
        (
            json!({"phase": "Running", "conditions": [condition("Paused", "True", "", "")]}),
            "VirtualMachinePaused",
        ),
    ] {
        assert_eq!(reason(&state(&status)).0, expected, "{status}");
    }
    let crashing = vm(&json!({"printableStatus": "CrashLoopBackOff"}));
    let crashing = seen(Some(&crashing), None).unwrap();
    assert_eq!(reason(&crashing.state).0, "CrashLoopBackOff");
}

/// Findings D3 and S2: a guest's agent chooses what KubeVirt reports of its interfaces.
#[test]
fn addresses_that_a_guest_reports_are_nobodys() {
    let many: Vec<String> = (0..10_000)
        .map(|n| format!("10.9.{}.{}", n / 250, n % 250))
        .collect();
    let status = json!({"phase": "Running", "nodeName": "n", "interfaces": [
        {"name": "default", "mac": "02:00:00:00:00:01", "ipAddress": "10.96.0.1",
         "ipAddresses": ["10.96.0.1", "fd00::1"], "infoSource": "domain, guest-agent"},
        {"name": "", "mac": "02:00:00:00:00:01", "ipAddresses": many},
    ]});
    let mut both = seen(Some(&vm(&json!({}))), Some(&instance(&status))).unwrap();
    assert_eq!(both.addresses, []);
    let located = PublishedAddresses {
        instance: "object-1".to_owned(),
        node: "n".to_owned(),
        addresses: vec!["10.0.1.7".parse().unwrap(), "fd00::7".parse().unwrap()],
    };
    both.locate(Some(located.clone()), None);
    let texts = |found: &Description| {
        let addresses = found.addresses.iter();
        addresses
            .map(|a| format!("{} {}", a.type_, a.address))
            .collect::<Vec<_>>()
    };
    assert_eq!(texts(&both), ["InternalIP 10.0.1.7", "InternalIP fd00::7"]);
    // While nobody knows where it is, what was published of this very instance holds.
    both.locate(None, Some(&located));
    assert_eq!(texts(&both).len(), 2);
    let another = PublishedAddresses {
        instance: "another".to_owned(),
        ..located
    };
    both.locate(None, Some(&another));
    assert_eq!(texts(&both), [""; 0]);
}

#[test]
fn a_drained_management_node_shows_as_evacuation() {
    let marked = json!({"phase": "Running", "evacuationNodeName": "management-0"});
    let description = seen(Some(&vm(&json!({}))), Some(&instance(&marked))).unwrap();
    assert_eq!(description.evacuation, Some(Evacuation { deadline: None }));
    assert_eq!(description.instance.as_deref(), Some("object-1"));
    let unmarked = json!({"phase": "Running", "evacuationNodeName": ""});
    assert_eq!(
        seen(None, Some(&instance(&unmarked))).unwrap().evacuation,
        None
    );
}

#[test]
fn deletion_and_somebody_elses_objects_are_seen() {
    let mut going = vm(&json!({}));
    let now = k8s_openapi::jiff::Timestamp::from_second(0).unwrap();
    going.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
    assert!(
        seen(Some(&going), Some(&instance(&json!({}))))
            .unwrap()
            .deleting
    );
    assert!(!seen(Some(&vm(&json!({}))), None).unwrap().foreign);
    let mut strange = vm(&json!({}));
    strange.metadata.labels = None;
    assert!(seen(Some(&strange), None).unwrap().foreign);
    // A Machine that has no UID yet owns nothing.
    let mut unmade = machine();
    unmade.metadata.uid = None;
    assert!(describe(Some(&strange), None, &unmade).unwrap().foreign);
}

#[test]
fn a_list_has_every_machine_once_in_the_order_of_names() {
    let mut second = instance(&json!({"phase": "Running"}));
    second.metadata.name = Some("workers-b".to_owned());
    let listed = list(
        &[vm(&json!({}))],
        &[second, instance(&json!({"phase": "Running"}))],
    );
    let names: Vec<&str> = listed.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["workers-a", "workers-b"]);
    assert_eq!(listed[0].description.state, State::Running);
    assert_eq!(listed[0].machine_uid, UID);
    assert_eq!(
        reason(&listed[1].description.state).0,
        "VirtualMachineMissing"
    );
}

#[test]
fn long_texts_of_others_are_cut_and_the_mending_step_is_kept() {
    let endless = "ä".repeat(10_000);
    let pull = condition("Synchronized", "False", "ImagePullBackOff", &endless);
    let state = state(&json!({"phase": "Scheduling", "conditions": [pull]}));
    let message = reason(&state).1;
    assert!(message.chars().count() < 600, "{message}");
    assert!(message.ends_with("can pull it"), "{message}");
}
