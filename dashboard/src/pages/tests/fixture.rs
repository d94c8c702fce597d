//! A tenant cluster whose addons are not ready, and all that belongs to it, as the API gives them.
//!
//! Invariant: `hostile` stands wherever somebody else's text may stand.

use insight::facts::{Facts, TenantNamespace};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kit_objects::known::Known;
use serde_json::{Value, json};

use api::TenantCluster;

const TENANT: &str = "covey-demo-0a1b2c3d11";
const UID: &str = "0a1b2c3d-1111-4222-8333-444455556666";

/// When it is looked at.
pub(crate) fn now() -> Timestamp {
    "2026-11-27T12:00:00Z".parse().unwrap()
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-11-27T11:00:00Z", "observedGeneration": 1})
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "namespace": "team-a", "uid": UID, "generation": 1, "creationTimestamp": "2026-11-26T12:00:00Z"})
}

fn or<'a>(hostile: Option<&'a str>, text: &'a str) -> &'a str {
    hostile.unwrap_or(text)
}

/// The TenantCluster.
pub(crate) fn cluster(hostile: Option<&str>) -> Value {
    let message = or(hostile, "coreDNS: 0 of 2 pods are ready");
    json!({"apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster", "metadata": metadata("demo"),
    "spec": {"version": or(hostile, "1.35.4"), "controlPlane": {"endpoint": {"type": "LoadBalancer"}}, "backup": {"target": or(hostile, "off-site")}},
    "status": {"observedGeneration": 1, "version": or(hostile, "1.35.4"), "namespace": hostile.map_or(TENANT, |_| "covey-demo-0a1b2c3d11"),
        "endpoint": {"host": or(hostile, "10.96.3.7"), "port": 6443},
        "certificates": [{"name": "apiserver", "notAfter": "2027-09-01T00:00:00Z"}],
        "backup": {"lastFull": or(hostile, "2026-11-27T00:00:00Z")},
        "conditions": [
            condition("BackupReady", "False", or(hostile, "Foreign"), message),
            condition("ControlPlaneReady", "True", "PodsReady", ""),
            condition("ControllersReady", "True", "PodsReady", ""),
            condition("CoreDNSReady", "False", "PodsNotReady", message),
            condition("Degraded", "True", "AddonsNotReady", message),
            condition("EndpointReady", "True", "HasAddress", ""),
            condition("EtcdReady", "True", "MembersReady", ""),
            condition("KonnectivityReady", "Unknown", or(hostile, "PodsReady"), message),
            condition("KubeProxyReady", "True", "PodsReady", ""),
            condition("NetworkReady", "True", "PodsReady", ""),
            condition("Ready", "False", or(hostile, "AddonsNotReady"), message),
        ]}})
}

/// Its NodePool.
pub(crate) fn pool(hostile: Option<&str>) -> Value {
    json!({"apiVersion": "covey.dev/v1alpha1", "kind": "NodePool", "metadata": metadata("demo-workers"),
        "spec": {"clusterName": "demo", "replicas": 2, "provider": {"kubevirt": {}}},
        "status": {"observedGeneration": 1, "replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "version": or(hostile, "1.35.4"),
            "conditions": [condition("Ready", "False", or(hostile, "ScalingUp"), or(hostile, ""))]}})
}

/// One of its machines: `a` is ready, others boot.
pub(crate) fn machine(name: &str, hostile: Option<&str>) -> Value {
    let (phase, ready) = match name {
        "a" => ("Running", condition("Ready", "True", "NodeReady", "")),
        _ => (
            "Booting",
            condition(
                "Ready",
                "False",
                or(hostile, "Booting"),
                or(hostile, "the virtual machine runs, no node yet"),
            ),
        ),
    };
    json!({"apiVersion": "covey.dev/v1alpha1", "kind": "Machine", "metadata": metadata(&format!("demo-workers-{name}")),
        "spec": {"clusterName": "demo", "clusterUID": UID, "poolName": or(hostile, "demo-workers"), "version": or(hostile, "1.35.4"), "provider": {"kubevirt": {}}},
        "status": {"phase": phase, "nodeName": or(hostile, "demo-workers-a"), "addresses": [{"type": "InternalIP", "address": or(hostile, "10.1.2.3")}], "conditions": [ready]}})
}

/// A Host.
pub(crate) fn host(hostile: Option<&str>) -> Value {
    json!({"apiVersion": "covey.dev/v1alpha1", "kind": "Host", "metadata": metadata("edge-1"),
        "spec": {"address": or(hostile, "192.0.2.10"), "user": "root", "sshKeySecretName": "edge", "hostKeys": ["ssh-ed25519 AAAA"]},
        "status": {"phase": "Quarantined", "claim": {"machineName": or(hostile, "edge-a"), "machineUID": UID, "tenantClusterUID": UID},
            "facts": {"machineID": "m", "hostKey": "k", "architecture": or(hostile, "amd64"), "cpu": 8, "memory": "16Gi",
                "os": or(hostile, "Debian GNU/Linux 13"), "kernel": or(hostile, "6.12"), "cgroup2": true, "tun": true},
            "conditions": [condition("Clean", "False", or(hostile, "Quarantined"), or(hostile, "it does not answer"))]}})
}

/// A Snapshot.
pub(crate) fn snapshot(hostile: Option<&str>) -> Value {
    json!({"apiVersion": "covey.dev/v1alpha1", "kind": "Snapshot", "metadata": metadata("demo-1"),
        "spec": {"clusterName": "demo"},
        "status": {"bytes": 8_478_720, "taken": or(hostile, "2026-11-27T00:00:00Z"), "conditions": [condition("Ready", "False", or(hostile, "Foreign"), or(hostile, "it is taken"))]}})
}

/// A Restore.
pub(crate) fn restore(hostile: Option<&str>) -> Value {
    json!({"apiVersion": "covey.dev/v1alpha1", "kind": "Restore", "metadata": metadata("demo-back"),
        "spec": {"clusterName": "demo", "dryRun": true},
        "status": {"time": or(hostile, "2026-11-26T20:00:00Z"), "conditions": [condition("Possible", "False", or(hostile, "Foreign"), or(hostile, "it begins later"))]}})
}

/// A grant of access, of a program.
pub(crate) fn grant(hostile: Option<&str>) -> Value {
    json!({"apiVersion": "covey.dev/v1alpha1", "kind": "AccessGrant", "metadata": metadata("demo-flux"),
        "spec": {"clusterName": "demo", "profile": "view", "user": or(hostile, "flux"), "secretName": "flux-kubeconfig"},
        "status": {"notAfter": or(hostile, "2026-11-28T12:00:00Z"), "conditions": [condition("Ready", "False", or(hostile, "GrantSecretTaken"), or(hostile, "it is there"))]}})
}

/// An Event.
pub(crate) fn event(hostile: Option<&str>) -> Value {
    json!({"apiVersion": "v1", "kind": "Event", "metadata": metadata("demo.1"), "type": "Warning",
        "reason": or(hostile, "AddonsNotReady"), "message": or(hostile, "coreDNS: 0 of 2 pods are ready"),
        "involvedObject": {"kind": "TenantCluster", "name": "demo", "namespace": "team-a"},
        "lastTimestamp": "2026-11-27T11:55:00Z"})
}

/// A list of tenant clusters as the API server makes a table of it.
pub(crate) fn table(hostile: Option<&str>, goes_on: bool) -> Value {
    let columns = ["Name", "Version", "Ready", "Reason", "Cluster", "Age"];
    let columns = columns.map(|name| json!({"name": name, "type": "string", "priority": 0}));
    let row = |name: &str, ready: &str| {
        json!({"cells": [name, or(hostile, "1.35.4"), or(hostile, ready), or(hostile, "AddonsNotReady"), or(hostile, "demo"), "1d"],
            "object": {"metadata": {"name": name, "namespace": "team-a"}}})
    };
    let rows = [row("demo", "False"), row("web", "True"), row("db", "")];
    let next = goes_on.then_some("more+1");
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"continue": next}, "columnDefinitions": columns, "rows": rows})
}

fn all<T: serde::de::DeserializeOwned>(values: Vec<Value>) -> Known<Vec<T>> {
    let read = values
        .into_iter()
        .map(|value| serde_json::from_value(value).unwrap());
    Known::Known(read.collect())
}

/// All of it.
pub(crate) fn facts() -> (TenantCluster, Facts, Known<Vec<Event>>) {
    let found: TenantCluster = serde_json::from_value(cluster(None)).unwrap();
    let facts = Facts {
        now: now(),
        clusters: Known::Known(vec![found.clone()]),
        pools: all(vec![pool(None)]),
        machines: all(vec![machine("a", None), machine("b", None)]),
        hosts: all(Vec::new()),
        snapshots: all(vec![snapshot(None)]),
        restores: all(vec![restore(None)]),
        grants: all(vec![grant(None)]),
        tenant_namespaces: [(TENANT.to_owned(), TenantNamespace::default())].into(),
        not_allowed: vec!["list pods in covey-demo-0a1b2c3d11".to_owned()],
        ..Facts::default()
    };
    (found, facts, all(vec![event(None)]))
}
