//! A tenant cluster whose addons are not ready, for tests of what is shown.
//!
//! Invariant: objects are as the API gives them.

use insight::facts::{Facts, TenantNamespace};
use k8s_openapi::api::core::v1::Event;
use kit_objects::known::Known;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const TENANT: &str = "covey-demo-0a1b2c3d11";

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-11-27T11:00:00Z", "observedGeneration": 1})
}

fn pod(name: &str, component: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": TENANT, "labels": {"app.kubernetes.io/component": component}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
}

fn machine(name: &str, phase: &str, ready: Value) -> Value {
    json!({"apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"clusterName": "demo", "clusterUID": "0a1b2c3d-1111-4222-8333-444455556666", "poolName": "demo-workers", "version": "1.35.4", "provider": {"kubevirt": {}}},
        "status": {"phase": phase, "conditions": [ready]}})
}

/// The facts.
pub(crate) fn facts() -> Facts {
    let cluster = json!({"apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
    "metadata": {"name": "demo", "namespace": "team-a", "uid": "0a1b2c3d-1111-4222-8333-444455556666", "generation": 1},
    "spec": {"version": "1.35.4", "controlPlane": {"endpoint": {"type": "LoadBalancer"}}},
    "status": {"observedGeneration": 1, "version": "1.35.4", "namespace": TENANT,
        "endpoint": {"host": "10.96.3.7", "port": 6443},
        "certificates": [{"name": "apiserver", "notAfter": "2027-09-01T00:00:00Z"}],
        "conditions": [
            condition("ControlPlaneReady", "True", "PodsReady", ""),
            condition("ControllersReady", "True", "PodsReady", ""),
            condition("CoreDNSReady", "False", "PodsNotReady", "0 of 2 pods are ready"),
            condition("EndpointReady", "True", "HasAddress", ""),
            condition("EtcdReady", "True", "MembersReady", ""),
            condition("KonnectivityReady", "True", "PodsReady", ""),
            condition("KubeProxyReady", "True", "PodsReady", ""),
            condition("NetworkReady", "True", "PodsReady", ""),
            condition("Ready", "False", "AddonsNotReady", "coreDNS: 0 of 2 pods are ready"),
        ]}});
    let pool = json!({"apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
        "metadata": {"name": "demo-workers", "namespace": "team-a", "generation": 1},
        "spec": {"clusterName": "demo", "replicas": 2, "provider": {"kubevirt": {}}},
        "status": {"observedGeneration": 1, "replicas": 2, "readyReplicas": 1, "version": "1.35.4",
            "conditions": [condition("Ready", "False", "ScalingUp", "")]}});
    let tenant = TenantNamespace {
        pods: Known::Known(vec![
            read(pod("etcd-0", "etcd")),
            read(pod("control-plane-1", "control-plane")),
            read(pod("controllers-1", "controllers")),
        ]),
        ..TenantNamespace::default()
    };
    let ready = condition("Ready", "True", "NodeReady", "");
    let boots = condition(
        "Ready",
        "False",
        "Booting",
        "the virtual machine runs, no node yet",
    );
    Facts {
        now: "2026-11-27T12:00:00Z".parse().unwrap(),
        clusters: Known::Known(vec![read(cluster)]),
        pools: Known::Known(vec![read(pool)]),
        machines: Known::Known(vec![
            read(machine("demo-workers-aaaaa", "Running", ready)),
            read(machine("demo-workers-bbbbb", "Booting", boots)),
        ]),
        tenant_namespaces: [(TENANT.to_owned(), tenant)].into(),
        ..Facts::default()
    }
}

/// A warning among Events.
pub(crate) fn events() -> Known<Vec<Event>> {
    Known::Known(vec![read(
        json!({"metadata": {"name": "a", "namespace": "team-a"}, "type": "Warning",
        "reason": "AddonsNotReady", "message": "coreDNS: 0 of 2 pods are ready",
        "involvedObject": {"kind": "TenantCluster", "name": "demo", "namespace": "team-a"},
        "lastTimestamp": "2026-11-27T11:55:00Z"}),
    )])
}
