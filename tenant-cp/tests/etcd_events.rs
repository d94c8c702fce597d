//! The etcd that has Events alone: when kube-apiservers are told of it, and who reaches it.
//!
//! Invariant: but for the flag and the probes of the kube-apiserver nothing of a tenant cluster depends on it.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

mod fixtures;

use std::collections::BTreeMap;

use fixtures::{addresses, minimal, objects, with_events};
use kit_objects::object::Key;
use serde_json::{Value, json};
use tenant_cp::Validated;
use tenant_cp::desired::etcd_events;

fn all(v: &Validated) -> BTreeMap<Key, Value> {
    let objects = objects(v, &addresses("demo.example.com"));
    let all = objects.into_iter();
    all.map(|object| (object.key(), object.value)).collect()
}

fn of(named: Option<bool>) -> (Validated, BTreeMap<Key, Value>) {
    let mut v = minimal();
    v.etcd.events = named.map(with_events);
    let all = all(&v);
    (v, all)
}

fn server(v: &Validated, all: &BTreeMap<Key, Value>) -> Value {
    let deployment = &all[&Key::new("Deployment", &v.tenant_namespace, "control-plane")];
    let containers = &deployment["spec"]["template"]["spec"]["containers"];
    let mut containers = containers.as_array().unwrap().iter();
    let server = containers.find(|container| container["name"] == "apiserver");
    server.unwrap().clone()
}

#[test]
fn kube_apiserver_is_told_of_it_once_it_works_and_its_probes_do_without_it() {
    let flag = "--etcd-servers-overrides=/events#https://etcd-events:2379";
    for (named, livez, readyz) in [
        (None, "/livez", "/readyz"),
        (Some(false), "/livez", "/readyz"),
        (
            Some(true),
            "/livez?exclude=etcd-override-0",
            "/readyz?exclude=etcd-override-0&exclude=etcd-override-readiness-0",
        ),
    ] {
        let (v, all) = of(named);
        let server = server(&v, &all);
        let mut args = server["args"].as_array().unwrap().iter();
        assert_eq!(args.any(|arg| arg == flag), named == Some(true));
        let path = |probe: &str| {
            server[probe]["httpGet"]["path"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(path("startupProbe"), livez);
        assert_eq!(path("livenessProbe"), livez);
        assert_eq!(path("readinessProbe"), readyz);
    }
}

/// But for them a kube-apiserver that does not use it is the same with it and without.
#[test]
fn what_is_made_for_it_is_what_is_taken_away_and_nothing_else_changes() {
    let (v, without) = of(None);
    let (_, with) = of(Some(false));
    let parts = etcd_events::parts(&v.tenant_namespace);
    for key in &parts {
        // Its Secret is laid with the other certificates.
        assert!(with.contains_key(key) || key.kind == "Secret", "{key}");
        assert!(!without.contains_key(key), "{key}");
    }
    let rest = with.iter().filter(|(key, _)| !parts.contains(key));
    let rest: BTreeMap<_, _> = rest.map(|(k, v)| (k.clone(), v.clone())).collect();
    assert_eq!(rest, without);
}

#[test]
fn it_is_one_pod_without_a_volume_that_kube_apiservers_alone_reach_with_a_certificate() {
    let (v, all) = of(Some(true));
    let key = |kind: &str| Key::new(kind, &v.tenant_namespace, "etcd-events");
    let spec = &all[&key("Deployment")]["spec"];
    assert_eq!(spec["replicas"], 1);
    assert_eq!(spec["strategy"]["type"], "Recreate");
    assert_eq!(spec["minReadySeconds"], 30);
    let pod = &spec["template"]["spec"];
    let volumes = pod["volumes"].as_array().unwrap();
    assert_eq!(volumes[1]["emptyDir"]["sizeLimit"], "2Gi");
    let container = &pod["containers"][0];
    assert_eq!(
        container["resources"]["requests"]["ephemeral-storage"],
        "2Gi"
    );
    let args = container["args"].as_array().unwrap();
    for flag in [
        "--client-cert-auth=true",
        "--trusted-ca-file=/etc/kubernetes/etcd-ca.crt",
        "--quota-backend-bytes=1073741824",
        "--initial-cluster-state=new",
    ] {
        assert!(args.iter().any(|arg| arg == flag), "{flag}");
    }
    let policy = &all[&key("NetworkPolicy")]["spec"];
    let from = json!({ "app.kubernetes.io/component": "control-plane" });
    assert_eq!(
        policy["ingress"],
        json!([{
            "from": [{ "podSelector": { "matchLabels": from } }],
            "ports": [{ "protocol": "TCP", "port": 2379 }],
        }])
    );
    assert_eq!(policy["egress"], json!([]));
}
