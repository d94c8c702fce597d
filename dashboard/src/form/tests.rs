//! What was filled in becomes objects, and what the API says stands beside its field.
//!
//! Invariant: objects are read as our kinds read them.

use api::{NodePool, TenantCluster};
use kube::core::Status;
use serde_json::{Value, json};

use super::{Filled, Of, cluster, pool};
use crate::query::Pairs;

fn status(message: &str, causes: &[(&str, &str)]) -> Status {
    let causes: Vec<Value> = causes
        .iter()
        .map(|(field, message)| json!({"field": field, "message": message, "reason": "FieldValueInvalid"}))
        .collect();
    serde_json::from_value(
        json!({"status": "Failure", "code": 422, "reason": "Invalid", "message": message,
        "details": {"name": "demo", "causes": causes}}),
    )
    .unwrap()
}

#[test]
fn only_what_was_filled_in_is_written() {
    let sent = Pairs::from([
        ("namespace", "team-a"),
        ("name", " demo "),
        ("version", "1.35.4"),
    ]);
    let mut filled = Filled::read(cluster::FIELDS, &sent);
    filled.judge(cluster::FIELDS);
    assert_eq!(filled.mistakes, []);
    let (made, none) = cluster::objects(&filled);
    let expected = json!({"apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": {"name": "demo", "namespace": "team-a"}, "spec": {"version": "1.35.4"}});
    assert_eq!((made, none), (expected, None));
}

#[test]
fn every_field_has_its_place_in_the_definition() {
    let sent = Pairs::from([
        ("namespace", "team-a"),
        ("name", "demo"),
        ("version", "1.35.4"),
        ("endpoint", "NodePort"),
        ("host", "192.0.2.7"),
        ("replicas", "2"),
        ("members", "3"),
        ("backup", "off-site"),
        ("workers", "4"),
        ("cpu", "8"),
        ("memory", "16Gi"),
    ]);
    let filled = Filled::read(cluster::FIELDS, &sent);
    let (cluster, pool) = cluster::objects(&filled);
    let read: TenantCluster = serde_json::from_value(cluster).unwrap();
    let spec = serde_json::to_value(read.spec).unwrap();
    for (pointer, value) in [
        ("/controlPlane/endpoint/type", json!("NodePort")),
        ("/controlPlane/endpoint/host", json!("192.0.2.7")),
        ("/controlPlane/replicas", json!(2)),
        ("/etcd/replicas", json!(3)),
        ("/backup/target", json!("off-site")),
    ] {
        assert_eq!(spec.pointer(pointer), Some(&value), "{pointer}");
    }
    let read: NodePool = serde_json::from_value(pool.unwrap()).unwrap();
    assert_eq!(read.metadata.name.as_deref(), Some("demo-workers"));
    assert_eq!(
        (read.spec.cluster_name.as_str(), read.spec.replicas),
        ("demo", 4)
    );
    let machine = read.spec.provider.unwrap().kubevirt.unwrap();
    assert_eq!(machine.cpu, 8);
}

#[test]
fn another_pool_is_of_its_tenant_cluster() {
    let sent = Pairs::from([("name", "large"), ("replicas", "2"), ("image", "x/y:1")]);
    let filled = Filled::read(pool::FIELDS, &sent);
    let made = pool::new(&filled, "team-a", "demo");
    let read: NodePool = serde_json::from_value(made).unwrap();
    assert_eq!(
        (read.spec.cluster_name.as_str(), read.spec.replicas),
        ("demo", 2)
    );
    let machine = read.spec.provider.unwrap().kubevirt.unwrap();
    assert_eq!(machine.image.as_deref(), Some("x/y:1"));
}

#[test]
fn what_cannot_be_an_object_is_said_beside_its_field() {
    let sent = Pairs::from([("name", "demo"), ("workers", "many")]);
    let mut filled = Filled::read(cluster::FIELDS, &sent);
    filled.judge(cluster::FIELDS);
    let said = |name: &str| filled.mistake(name).map(|m| m.what.as_str());
    assert_eq!(said("namespace"), Some("Namespace is missing"));
    assert_eq!(said("version"), Some("Kubernetes version is missing"));
    assert_eq!(said("workers"), Some("Machines is a whole number"));
    assert_eq!(said("name"), None);
    assert_eq!(filled.value("workers"), "many");
}

#[test]
fn what_the_api_refuses_stands_beside_the_field_that_it_names() {
    let mut filled = Filled::default();
    let causes = [
        ("spec.version", "not a version"),
        ("spec.version", "said twice"),
        ("spec.controlPlane.endpoint.host", "is missing"),
        (
            "spec.controlPlane.endpoint.annotations[a]",
            "is not allowed",
        ),
        ("<nil>", "the name may have at most 46 characters"),
    ];
    filled.refuse(cluster::FIELDS, Of::Cluster, &status("invalid", &causes));
    let said = |name: &str| filled.mistake(name).map(|m| m.what.as_str());
    assert_eq!(said("version"), Some("not a version"));
    assert_eq!(said("host"), Some("is missing"));
    assert_eq!(
        said("name"),
        Some("the name may have at most 46 characters")
    );
    let general: Vec<_> = filled
        .mistakes
        .iter()
        .filter(|m| m.field.is_none())
        .collect();
    assert_eq!(general.len(), 1);
    assert_eq!(
        general[0].what,
        "spec.controlPlane.endpoint.annotations[a]: is not allowed"
    );
}

#[test]
fn a_sentence_without_causes_finds_its_field_or_none() {
    let mut filled = Filled::default();
    let policy =
        "ValidatingAdmissionPolicy 'x' denied request: spec.replicas is set by the autoscaler";
    filled.refuse(&[pool::REPLICAS], Of::Pool, &status(policy, &[]));
    assert_eq!(filled.mistakes[0].field, Some("replicas"));
    let mut other = Filled::default();
    other.refuse(
        cluster::FIELDS,
        Of::Cluster,
        &status("no to Bearer sesame-canary <b>", &[]),
    );
    assert_eq!(other.mistakes[0].field, None);
    assert!(!other.mistakes[0].what.contains("sesame"));
}
