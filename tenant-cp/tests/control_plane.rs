//! Who shares a pod with the kube-apiserver, and what the programs beside it are given.
//!
//! Invariant: the endpoint leads to pods all of whose containers are ready, so each container of such a
//! pod can take the API away.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

mod fixtures;

use std::collections::BTreeMap;

use api::tenant_cluster::EndpointType;
use fixtures::{addresses, material, minimal, objects};
use serde_json::{Value, json};
use tenant_cp::certificates;
use tenant_cp::validate::bytes;
use tenant_cp::{Settings, Validated};

/// What a workload's pods are.
fn pod(v: &Validated, name: &str) -> Value {
    let objects = objects(v, &addresses("demo.example.com"));
    let mut found = objects.into_iter().filter(|object| object.name == name);
    let pod = found.find_map(|object| object.value.pointer("/spec/template").cloned());
    pod.unwrap()
}

fn names(pod: &Value) -> Vec<&str> {
    let lists = ["initContainers", "containers"].into_iter();
    let all = lists.flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    all.map(|container| container["name"].as_str().unwrap())
        .collect()
}

/// Finding 26: with kube-controller-manager and kube-scheduler in the pod, a scheduler that crashed (a flag,
/// too little memory) made every pod unready, and the endpoint had none left.
#[test]
fn scheduler_that_crashes_makes_no_pod_of_the_endpoint_unready() {
    for konnectivity in [true, false] {
        let mut v = minimal();
        v.addons.konnectivity.enabled = konnectivity;
        let objects = objects(&v, &addresses("demo.example.com"));
        let service = objects
            .iter()
            .find(|object| object.kind == "Service" && object.name == "control-plane");
        let selected = &service.unwrap().value["spec"]["selector"];
        let selected = selected.as_object().unwrap();
        let behind: Vec<_> = objects
            .iter()
            .filter_map(|object| object.value.pointer("/spec/template"))
            .filter(|pod| {
                let labels = &pod["metadata"]["labels"];
                selected.iter().all(|(key, value)| labels[key] == *value)
            })
            .flat_map(names)
            .collect();
        let expected: &[_] = match konnectivity {
            true => &["konnectivity-server", "apiserver"],
            false => &["apiserver"],
        };
        assert_eq!(behind, expected);
        let controllers = pod(&v, "controllers");
        assert_eq!(names(&controllers), ["controller-manager", "scheduler"]);
    }
}

/// Beside another kube-apiserver they would ask 127.0.0.1 in vain.
#[test]
fn controllers_ask_the_api_at_its_service() {
    for (type_, port, asked) in [
        (EndpointType::ClusterIP, None, 6443),
        (EndpointType::LoadBalancer, Some(443), 443),
        (EndpointType::NodePort, Some(30443), 6443),
    ] {
        let mut v = minimal();
        (v.endpoint.type_, v.endpoint.port) = (type_, port);
        let (settings, a) = (Settings::default(), addresses("demo.example.com"));
        let wants = certificates::wants(&v, &settings, Some(&a));
        let server = wants.iter().find(|want| want.name == "apiserver").unwrap();
        assert!(server.dns_names.iter().any(|name| name == "control-plane"));
        let all = material(wants.iter().map(|want| want.name.as_str()), "some");
        for secret in certificates::leaf_secrets(&v, &all, None) {
            let name = secret.name.as_str();
            if !["controller-manager", "scheduler"].contains(&name) {
                continue;
            }
            let data: BTreeMap<String, k8s_openapi::ByteString> =
                serde_json::from_value(secret.value["data"].clone()).unwrap();
            let kubeconfig = String::from_utf8(data["kubeconfig"].0.clone()).unwrap();
            let server = format!("server: https://control-plane:{asked}\n");
            assert!(kubeconfig.contains(&server), "{name}: {kubeconfig}");
            let pair = format!("client-key: /etc/kubernetes/{name}.key\n");
            assert!(kubeconfig.contains(&pair), "{name}: {kubeconfig}");
        }
    }
}

/// A new pod whose program ends at once, over a flag or for want of memory, never replaces one that works.
#[test]
fn controllers_have_to_run_for_a_while_before_others_go_for_them() {
    let objects = objects(&minimal(), &addresses("x"));
    let mut found = objects.iter();
    let found = found.find(|o| o.kind == "Deployment" && o.name == "controllers");
    let spec = &found.unwrap().value["spec"];
    assert_eq!(spec["minReadySeconds"], 10);
    let rolling = json!({ "maxSurge": 1, "maxUnavailable": 0 });
    assert_eq!(spec["strategy"]["rollingUpdate"], rolling);
}

/// Bytes that a pod asks of its node's disk, and that its volumes may hold there.
fn disk(pod: &Value) -> [u64; 2] {
    let number = |text: &Value| bytes(text.as_str().unwrap()).unwrap();
    let containers = pod["spec"]["containers"].as_array().unwrap().iter();
    let requests = containers.map(|c| &c["resources"]["requests"]["ephemeral-storage"]);
    let volumes = pod["spec"]["volumes"].as_array().unwrap().iter();
    let sizes = volumes.map(|volume| &volume["emptyDir"]["sizeLimit"]);
    [
        requests.filter(|r| !r.is_null()).map(number).sum(),
        sizes.filter(|size| !size.is_null()).map(number).sum(),
    ]
}

/// Finding 27: 1.5 GB of audit log in each pod, of which the scheduler of the management cluster knew
/// nothing, so that nodes could be filled.
#[test]
fn whatever_an_api_server_may_write_to_its_node_is_asked_for() {
    const MIB: u64 = 1 << 20;
    let mut v = minimal();
    v.addons.konnectivity.enabled = false;
    let of = |v: &Validated| disk(&pod(v, "control-plane"));
    assert_eq!(of(&v), [1564 * MIB; 2]);
    let set = |amount: &str| [("ephemeral-storage".to_owned(), amount.to_owned())].into();
    // More than that is the user's to ask for, less is not.
    v.api_server.requests = set("4Gi");
    assert_eq!(of(&v)[0], 4096 * MIB);
    v.api_server.requests = set("1Mi");
    assert_eq!(of(&v)[0], 1564 * MIB);
    // The API refuses a request above the limit.
    v.api_server.limits = set("1Gi");
    assert_eq!(of(&v)[0], 1024 * MIB);
    // Nodes rotate a container's log.
    let mut to_stdout = minimal();
    to_stdout.addons.konnectivity.enabled = false;
    to_stdout.audit = Some(serde_json::from_value(json!({})).unwrap());
    assert_eq!(of(&to_stdout), [64 * MIB; 2]);
}
