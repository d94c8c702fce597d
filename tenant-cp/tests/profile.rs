//! `spec.controlPlane.profile`, from what a user writes to the pods that are made.
//!
//! Invariant: without it, and with `Standard`, nothing is other than it was, and what a user says of a program holds.

mod fixtures;

use fixtures::addresses;
use serde_json::{Value, json};
use tenant_cp::rollout::template;
use tenant_cp::validate::validate;
use tenant_cp::{Settings, management_objects};

const WORKLOADS: [&str; 4] = ["etcd", "control-plane", "controllers", "etcd-events"];

/// Workloads of a tenant cluster, in the order of [`WORKLOADS`].
fn made(spec: &Value) -> [Value; 4] {
    let mut all = json!({ "version": "1.35.4", "etcd": { "events": {} } });
    for (field, value) in spec.as_object().expect("a map") {
        all[field] = value.clone();
    }
    let cluster = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster", "spec": all,
        "metadata": {
            "name": "demo", "namespace": "team-a", "uid": "0a1b2c3d-0000-4000-8000-000000000000",
        },
        "status": { "network": {
            "podCIDR": "10.128.0.0/18", "serviceCIDR": "100.64.0.0/20", "dnsDomain": "cluster.local",
        } },
    });
    let settings = Settings::default();
    let cluster = serde_json::from_value(cluster).expect("a TenantCluster");
    let valid = validate(&cluster, &settings).expect("it is valid");
    let hosts = addresses("demo.example.com");
    let objects = management_objects::workloads(&valid, &settings, &hosts, &fixtures::keys());
    WORKLOADS.map(|name| {
        let mut found = objects.iter();
        let found = found.find(|object| object.name == name);
        found.expect("it is made").value.clone()
    })
}

fn profile(name: &str) -> Value {
    json!({ "controlPlane": { "profile": name } })
}

fn container<'a>(workloads: &'a [Value; 4], name: &str) -> &'a Value {
    let pods = workloads
        .iter()
        .map(|workload| &workload["spec"]["template"]["spec"]);
    let mut all = pods.flat_map(|pod| pod["containers"].as_array().into_iter().flatten());
    all.find(|container| container["name"] == name)
        .expect("it is there")
}

fn variable(container: &Value, name: &str) -> Option<String> {
    let variables = container["env"].as_array()?;
    let found = variables.iter().find(|variable| variable["name"] == name)?;
    found["value"].as_str().map(str::to_owned)
}

fn flag(container: &Value, name: &str) -> Vec<String> {
    let start = format!("--{name}=");
    let args = container["args"].as_array().into_iter().flatten();
    let args = args.filter_map(|arg| arg.as_str()?.strip_prefix(&start));
    args.map(str::to_owned).collect()
}

#[test]
fn standard_is_what_is_made_where_nobody_says_anything() {
    assert_eq!(made(&profile("Standard")), made(&json!({})));
}

#[test]
fn another_profile_is_a_rollout_of_each_workload_and_no_more_pods() {
    let standard = made(&json!({}));
    for name in ["Small", "Large"] {
        let others = made(&profile(name));
        for (other, standard) in others.iter().zip(&standard) {
            let (hash, before) = (
                template::of_workload(other),
                template::of_workload(standard),
            );
            assert!(hash.is_some() && hash != before, "{name}: {other}");
            assert_eq!(other["spec"]["replicas"], standard["spec"]["replicas"]);
        }
        let gate = |made: &[Value; 4]| {
            made[0]["spec"]["template"]["spec"]["initContainers"][0]["env"].clone()
        };
        assert_eq!(gate(&others), gate(&standard), "the gate is no Go program");
    }
}

#[test]
fn small_and_large_are_seen_in_the_containers() {
    let (small, large) = (made(&profile("Small")), made(&profile("Large")));
    for program in [
        "apiserver",
        "controller-manager",
        "scheduler",
        "etcd",
        "etcd-events",
    ] {
        let (small, large) = (container(&small, program), container(&large, program));
        assert_eq!(variable(small, "GOMAXPROCS").as_deref(), Some("1"));
        assert_eq!(variable(large, "GOMAXPROCS"), None, "{program}");
        assert!(small["resources"]["requests"] != large["resources"]["requests"]);
    }
    let inflight = |made| flag(container(made, "apiserver"), "max-requests-inflight");
    assert_eq!(inflight(&small), ["200"]);
    assert_eq!(inflight(&large), ["800"]);
    let qps = |made| flag(container(made, "controller-manager"), "kube-api-qps");
    assert_eq!(qps(&small), [""; 0]);
    assert_eq!(qps(&large), ["100"]);
}

#[test]
fn what_a_user_says_of_a_program_holds() {
    let made = made(&json!({
        "controlPlane": {
            "profile": "Large",
            "apiServer": {
                "resources": { "requests": { "cpu": "20m" }, "limits": { "memory": "1Gi" } },
                "extraArgs": { "max-requests-inflight": "50" },
            },
            "controllerManager": { "extraArgs": { "kube-api-qps": "7" } },
        },
    }));
    let api_server = container(&made, "apiserver");
    assert_eq!(flag(api_server, "max-requests-inflight"), ["50"]);
    assert_eq!(flag(api_server, "max-mutating-requests-inflight"), ["400"]);
    let resources = &api_server["resources"];
    assert_eq!(resources["requests"]["cpu"], "20m");
    // The profile's request, lowered to the user's limit.
    assert_eq!(resources["requests"]["memory"], "1Gi");
    assert_eq!(resources["limits"]["memory"], "1Gi");
    let manager = container(&made, "controller-manager");
    assert_eq!(flag(manager, "kube-api-qps"), ["7"]);
    assert_eq!(flag(manager, "kube-api-burst"), ["150"]);
}
