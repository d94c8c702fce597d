//! What many played tenant clusters show, counted and compared with the list.

use std::sync::Arc;
use std::time::Duration;

use api::{Machine, NodePool, TenantCluster};
use monitoring::catalogue::{BUDGET, QUEUES, TENANTS};
use monitoring::exposition::{differences, families};
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tenant_cp::Settings;

use super::series::{Snapshot, Tenant};
use crate::prober::counts::Counts;
use crate::prober::outcome::Outcome;

fn read<T: DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn condition(type_: &str, status: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": "Answering", "message": "",
        "lastTransitionTime": "2026-11-21T10:00:00Z",
    })
}

/// One with everything that a TenantCluster can say.
fn cluster(number: usize) -> Arc<TenantCluster> {
    let types = [
        "AutoscalerReady",
        "BackupReady",
        "BootstrapReady",
        "CSIReady",
        "CertificatesReady",
        "CloudControllerReady",
        "ControlPlaneReady",
        "ControllersReady",
        "CoreDNSReady",
        "Degraded",
        "EndpointReachable",
        "EndpointReady",
        "EtcdReady",
        "KonnectivityReady",
        "KubeProxyReady",
        "NetworkReady",
        "OverlayReady",
        "Progressing",
        "Ready",
        "WhateverSomebodyWrote",
    ];
    let conditions = types.map(|type_| condition(type_, "True"));
    read(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": { "name": "demo", "namespace": format!("team-{number}"), "uid": format!("{number:08}-aa-1111") },
        "spec": { "version": "1.35.4" },
        "status": {
            "version": "1.35.4", "bootstrapHash": "x", "conditions": conditions,
            "certificates": [
                { "name": "apiserver", "notAfter": "2027-11-21T12:00:00Z" },
                { "name": "etcd-0-peer", "notAfter": "2027-10-21T12:00:00Z" },
                { "name": "client-ca-g2", "notAfter": "2036-11-21T12:00:00Z" },
                { "name": "ca", "notAfter": "2035-11-21T12:00:00Z" },
            ],
        },
    }))
}

fn pool(number: usize, name: &str, conditions: &[Value]) -> Arc<NodePool> {
    read(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
        "metadata": { "name": name, "namespace": format!("team-{number}"), "uid": format!("p-{number}-{name}") },
        "spec": { "clusterName": "demo", "replicas": 3, "provider": { "kubevirt": { "cpu": 2, "memory": "2Gi" } } },
        "status": { "replicas": 3, "readyReplicas": 2, "updatedReplicas": 3, "conditions": conditions },
    }))
}

fn machine(number: usize, phase: &str) -> Arc<Machine> {
    read(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
        "metadata": { "name": format!("m-{phase}"), "namespace": format!("team-{number}") },
        "spec": {
            "clusterName": "demo", "clusterUID": format!("{number:08}-aa-1111"), "poolName": "workers",
            "version": "1.35.4", "provider": { "kubevirt": { "cpu": 2, "memory": "2Gi" } },
        },
        "status": { "phase": phase },
    }))
}

fn played(number: usize) -> Vec<Tenant> {
    let phases = [
        "Pending", "Creating", "Booting", "Joining", "Running", "Draining", "Deleting", "Failed",
    ];
    let (mut clusters, mut pools, mut machines) = (Vec::new(), Vec::new(), Vec::new());
    let counts = Counts::default();
    for number in 0..number {
        clusters.push(cluster(number));
        let full = [
            condition("Capacity", "False"),
            condition("Degraded", "True"),
        ];
        pools.extend([pool(number, "workers", &full), pool(number, "more", &[])]);
        machines.extend(phases.map(|phase| machine(number, phase)));
    }
    let mut tenants = Tenant::all(&clusters, &pools, &machines, &Settings::default());
    for tenant in &mut tenants {
        for outcome in Outcome::ALL {
            counts.count(&tenant.tenant, outcome, Duration::from_millis(20));
        }
        tenant.probes = counts.of(&tenant.tenant);
    }
    tenants
}

fn text(tenants: Vec<Tenant>) -> String {
    let snapshot = Snapshot {
        leads: true,
        running: 1,
        queues: vec![("tenant_cluster", 3), ("machine", 0)],
        tenants,
        ..Snapshot::default()
    };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(snapshot));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    text
}

#[test]
fn a_hundred_tenant_clusters_are_within_the_budget_each_and_shown_as_the_list_says() {
    let text = text(played(100));
    assert_eq!(differences(&[TENANTS, QUEUES], &text), [""; 0]);
    let mut series = std::collections::BTreeMap::<_, usize>::new();
    for family in families(&text).unwrap().values() {
        for (tenant, count) in &family.per_tenant {
            *series.entry(tenant.clone()).or_default() += count;
        }
    }
    assert_eq!(series.len(), 100);
    for (tenant, count) in &series {
        // All that it can have is played, so that the budget is not kept by chance.
        assert!((50..=BUDGET).contains(count), "{tenant} has {count}");
    }
}

#[test]
fn nothing_is_shown_of_nobody() {
    let text = text(Vec::new());
    let families = families(&text).unwrap();
    assert!(
        families.values().all(|family| family.per_tenant.is_empty()),
        "{text}"
    );
    assert!(text.contains("covey_leader 1\n"), "{text}");
}

#[test]
fn what_is_said_of_one_is_what_its_objects_say() {
    let text = text(played(1));
    let of = "tenant=\"covey-demo-00000000aa\"";
    for line in [
        format!(
            r#"covey_tenant_info{{{of},namespace="team-0",name="demo",version="1.35.4",exposure="ClusterIP",start="empty"}} 1"#
        ),
        format!(r#"covey_tenant_state{{{of},state="serving"}} 1"#),
        format!(r#"covey_tenant_condition{{{of},type="Ready"}} 1"#),
        format!(r#"covey_tenant_availability_objective_ratio{{{of}}} 0.995"#),
        format!(r#"covey_tenant_nodes{{{of},state="desired"}} 6"#),
        format!(r#"covey_tenant_nodes{{{of},state="ready"}} 4"#),
        format!(r#"covey_tenant_pools{{{of},state="ready"}} 0"#),
        format!(r#"covey_tenant_pools{{{of},state="no_room"}} 1"#),
        format!(r#"covey_tenant_pools{{{of},state="degraded"}} 1"#),
        format!(r#"covey_tenant_machines{{{of},phase="Booting"}} 1"#),
        // 2027-10-21T12:00:00Z and 2035-11-21T12:00:00Z.
        format!(
            r#"covey_tenant_certificate_not_after_timestamp_seconds{{{of},kind="leaf"}} 1824120000"#
        ),
        format!(
            r#"covey_tenant_certificate_not_after_timestamp_seconds{{{of},kind="authority"}} 2079259200"#
        ),
        format!(r#"covey_tenant_probe_requests_total{{{of},via="service",result="auth"}} 1"#),
    ] {
        assert!(text.lines().any(|l| l == line), "no {line} in\n{text}");
    }
    assert!(!text.contains("WhateverSomebodyWrote"), "{text}");
}

#[test]
fn what_is_not_known_has_no_series() {
    let unknown = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": { "name": "demo", "namespace": "a", "uid": "0123456789" },
        "spec": { "version": "1.35.4" },
        "status": { "version": "1.35.4\",evil=\"", "conditions": [condition("Ready", "Unknown")] },
    });
    let clusters = [read::<TenantCluster>(unknown)];
    let text = text(Tenant::all(&clusters, &[], &[], &Settings::default()));
    for absent in [
        "covey_tenant_condition{",
        "covey_tenant_nodes{",
        "covey_tenant_probe_requests_total{",
        "evil=",
    ] {
        assert!(!text.contains(absent), "{text}");
    }
    assert!(
        text.contains("state=\"starting\"") && text.contains("version=\"1.35.4evil\""),
        "{text}"
    );
}
