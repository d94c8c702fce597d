//! A whole installation of Covey with one tenant cluster, and ways to break it.
//!
//! Invariant: in what [`whole`] gives, nothing is wrong.

use insight::facts::{ApiAnswer, Facts, Management, TenantNamespace};
use jiff::SignedDuration;
use kit_objects::known::Known;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::inside::{here, inside};

pub(crate) const NOW: &str = "2026-11-27T12:00:00Z";
pub(crate) const UID: &str = "0a1b2c3d-1111-4222-8333-444455556666";
pub(crate) const TENANT: &str = "covey-demo-0a1b2c3d11";

pub(crate) fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-11-27T11:00:00Z", "observedGeneration": 1})
}

pub(crate) fn cluster() -> Value {
    let good = [
        ("AutoscalerReady", "AsDesired"),
        ("BootstrapReady", "InPlace"),
        ("CertificatesReady", "Issued"),
        ("ControlPlaneReady", "PodsReady"),
        ("ControllersReady", "PodsReady"),
        ("CoreDNSReady", "PodsReady"),
        ("EndpointReachable", "Answering"),
        ("EndpointReady", "HasAddress"),
        ("EtcdReady", "MembersReady"),
        ("KonnectivityReady", "PodsReady"),
        ("KubeProxyReady", "PodsReady"),
        ("NetworkReady", "PodsReady"),
        ("Ready", "Answering"),
    ];
    let mut conditions: Vec<_> = good.map(|(t, r)| condition(t, "True", r, "")).to_vec();
    conditions.push(condition("Degraded", "False", "AsExpected", ""));
    conditions.push(condition("Progressing", "False", "AsDesired", ""));
    json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": {"name": "demo", "namespace": "team-a", "uid": UID, "generation": 1,
            "managedFields": [{"manager": "covey-cli", "time": "2026-11-27T11:00:00Z"}]},
        "spec": {"version": "1.35.4"},
        "status": {"observedGeneration": 1, "conditions": conditions, "version": "1.35.4", "namespace": TENANT,
            "endpoint": {"host": "10.96.3.7", "port": 6443},
            "certificates": [{"name": "apiserver", "notAfter": "2027-09-01T00:00:00Z"},
                {"name": "ca", "notAfter": "2036-09-01T00:00:00Z"}]},
    })
}

pub(crate) fn pool() -> Value {
    json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
        "metadata": {"name": "demo-workers", "namespace": "team-a", "uid": "b", "generation": 1},
        "spec": {"clusterName": "demo", "replicas": 2, "provider": {"kubevirt": {}}},
        "status": {"observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "version": "1.35.4", "conditions": [
            condition("Ready", "True", "NodesReady", ""), condition("Degraded", "False", "AsExpected", ""),
            condition("Progressing", "False", "AsDesired", ""), condition("Capacity", "True", "Fits", "")]},
    })
}

pub(crate) fn machine(name: &str) -> Value {
    json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
        "metadata": {"name": name, "namespace": "team-a", "uid": name},
        "spec": {"clusterName": "demo", "clusterUID": UID, "poolName": "demo-workers", "version": "1.35.4",
            "provider": {"kubevirt": {}}},
        "status": {"phase": "Running", "conditions": [condition("Ready", "True", "NodeReady", "")]},
    })
}

pub(crate) fn pod(name: &str, component: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": TENANT, "labels": {"app.kubernetes.io/component": component}},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

pub(crate) fn broken(name: &str, component: &str, status: Value) -> Value {
    let mut pod = pod(name, component);
    pod["status"] = status;
    pod
}

/// An account at a cloud, of which this is said.
pub(crate) fn account(conditions: &[(&str, &str, &str, &str)]) -> Value {
    let told = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "ProviderConfig",
        "metadata": {"name": "hetzner", "namespace": "team-a"},
        "spec": {"hetzner": {"tokenSecretName": "hetzner", "location": "fsn1", "sshKeys": ["covey"]}},
        "status": {"account": "ssh-key-1", "conditions": [condition("Leaks", "False", "NothingLeaked", "")]},
    });
    said(told, conditions)
}

/// A pool whose machines are made by that account.
pub(crate) fn pool_of_account() -> Value {
    let mut pool = pool();
    pool["spec"]["provider"] = json!({"hetzner": {"configName": "hetzner", "types": ["cx32"]}});
    pool
}

/// A policy of the fleet with a wave, of which this is said.
pub(crate) fn fleet(conditions: &[(&str, &str, &str, &str)]) -> Value {
    let told = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "FleetPolicy",
        "metadata": {"name": "default"}, "spec": {"waves": [{"name": "canary", "size": 3}]},
        "status": {"conditions": [condition("Degraded", "False", "AsExpected", "")],
            "waves": [{"name": "canary", "tenantClusters": 3, "done": 3, "inFlight": 0, "waiting": 0, "failed": 0, "leftOut": 0}]},
    });
    said(told, conditions)
}

/// Everything as it should be.
pub(crate) fn whole() -> Facts {
    let definitions = [
        "tenantclusters",
        "nodepools",
        "machines",
        "hosts",
        "tenantquotas",
        "machineaddresses",
        "backuptargets",
        "fleetpolicies",
        "snapshots",
        "restores",
        "providerconfigs",
        "accessgrants",
    ];
    let management = Management {
        api: ApiAnswer::Version("v1.35.4".to_owned()),
        clock_ahead: Known::Known(SignedDuration::from_secs(1)),
        definitions: Known::Known(definitions.map(|name| format!("{name}.covey.dev")).to_vec()),
        operator: Known::Known(read(
            json!({"metadata": {"name": "covey-operator", "namespace": "covey-system"},
            "spec": {"replicas": 2, "selector": {}, "template": {}}, "status": {"availableReplicas": 2}}),
        )),
        operator_pods: Known::Known(vec![]),
        lease: Known::Known(read(
            json!({"metadata": {"name": "covey-operator", "namespace": "covey-system"},
            "spec": {"holderIdentity": "covey-operator-1", "leaseDurationSeconds": 15, "renewTime": "2026-11-27T11:59:58.000000Z"}}),
        )),
        webhook: Known::Known(read(
            json!({"metadata": {"name": "covey"}, "webhooks": [{"name": "covey.dev",
            "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"caBundle": "QUFB"}}]}),
        )),
        policy_bindings: Known::Known(vec![read(json!({"metadata": {"name": "covey-machines"},
            "spec": {"validationActions": ["Deny"]}}))]),
        storage_classes: Known::Known(vec![read(json!({"metadata": {"name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "x"}))]),
        quotas: Known::Known(vec![]),
        backup_targets: Known::Known(vec![read(
            json!({"apiVersion": "covey.dev/v1alpha1", "kind": "BackupTarget",
            "metadata": {"name": "main"}, "spec": {"claim": {}, "encryption": {"keySecret": "k"}},
            "status": {"conditions": [condition("Usable", "True", "TargetAnswers", "")]}}),
        )]),
        fleet_policies: Known::Known(vec![read(fleet(&[(
            "Progressing",
            "False",
            "FleetRolledOut",
            "",
        )]))]),
    };
    let tenant = TenantNamespace {
        object: Known::Known(read(
            json!({"metadata": {"name": TENANT, "labels": {"covey.dev/tenant-cluster-uid": UID}}}),
        )),
        pods: Known::Known(vec![
            read(pod("etcd-0", "etcd")),
            read(pod("control-plane-1", "control-plane")),
        ]),
        claims: Known::Known(vec![read(
            json!({"metadata": {"name": "data-etcd-0", "namespace": TENANT,
            "creationTimestamp": "2026-11-27T11:00:00Z"}, "status": {"phase": "Bound"}}),
        )]),
    };
    Facts {
        now: NOW.parse().unwrap(),
        here: here(),
        before: None,
        management,
        clusters: Known::Known(vec![read(cluster())]),
        pools: Known::Known(vec![read(pool())]),
        machines: Known::Known(vec![
            read(machine("demo-workers-aaaaa")),
            read(machine("demo-workers-bbbbb")),
        ]),
        hosts: Known::Known(vec![]),
        snapshots: Known::Known(vec![]),
        restores: Known::Known(vec![]),
        grants: Known::Known(vec![]),
        provider_configs: Known::Known(vec![read(account(&[(
            "Ready",
            "True",
            "ProviderChecked",
            "",
        )]))]),
        tenant_namespaces: [(TENANT.to_owned(), tenant)].into(),
        inside: Known::Known(inside()),
        not_allowed: vec![],
    }
}

/// Writes conditions of an object anew.
pub(crate) fn said(mut object: Value, conditions: &[(&str, &str, &str, &str)]) -> Value {
    for (type_, status, reason, message) in conditions {
        let list = object["status"]["conditions"].as_array_mut().unwrap();
        list.retain(|c| c["type"] != *type_);
        list.push(condition(type_, status, reason, message));
    }
    object
}

pub(crate) fn with_cluster(facts: &mut Facts, conditions: &[(&str, &str, &str, &str)]) {
    facts.clusters = Known::Known(vec![read(said(cluster(), conditions))]);
}

/// The only grant is this one, of a program, whose certificate ends then.
pub(crate) fn with_grant(
    facts: &mut Facts,
    metadata: &Value,
    (status, reason): (&str, &str),
    end: &str,
) {
    let mut grant = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "AccessGrant",
        "metadata": { "name": "flux", "namespace": "team-a" },
        "spec": {
            "clusterName": "demo", "profile": "view", "user": "flux", "ttlSeconds": 86400,
            "secretName": "flux-kubeconfig",
        },
        "status": { "notAfter": end, "conditions": [condition("Ready", status, reason, "")] },
    });
    for (key, value) in metadata.as_object().unwrap() {
        grant["metadata"][key] = value.clone();
    }
    facts.grants = Known::Known(vec![read(grant)]);
}

pub(crate) fn tenant(facts: &mut Facts) -> &mut TenantNamespace {
    facts.tenant_namespaces.get_mut(TENANT).unwrap()
}
