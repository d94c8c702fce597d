//! Who is woken by what, and by what nobody is.

use api::machine::MachinePhase;
use kube::runtime::watcher;
use serde_json::json;

use super::*;

#[test]
fn outage_that_begins_costs_no_machine_a_reconcile_and_its_end_does() {
    let up = Facts {
        uid: Some("a".into()),
        answers: true,
        ..Facts::default()
    };
    let down = Facts {
        answers: false,
        ..up.clone()
    };
    let newer = Facts {
        version: Some("1.36.3".into()),
        ..up.clone()
    };
    let another = Facts {
        uid: Some("b".into()),
        ..up.clone()
    };
    let with_overlay = Facts {
        overlay: Some("198.18.0.0/16".parse().unwrap()),
        ..up.clone()
    };
    assert!(with_overlay.matter_to_machines(&up));
    assert!(!down.matter_to_machines(&up) && up.matter_to_machines(&down));
    assert!(!newer.matter_to_machines(&up) && another.matter_to_machines(&up));
}

fn machine(namespace: &str, name: &str, node: Option<&str>) -> Machine {
    serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
        "metadata": {"name": name, "namespace": namespace, "uid": name},
        "spec": {"clusterName": "demo", "clusterUID": "tc", "poolName": "w", "version": "1.35.4",
            "provider": {"static": {}}},
        "status": {"nodeName": node},
    }))
    .unwrap()
}

fn host(claim: Option<&str>) -> Host {
    let claim = claim
        .map(|name| json!({"machineName": name, "machineUID": name, "tenantClusterUID": "tc"}));
    serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Host",
        "metadata": {"name": "a", "namespace": "team-a"},
        "spec": {"address": "192.0.2.10", "user": "root", "sshKeySecretName": "ssh", "hostKeys": ["x"]},
        "status": {"claim": claim},
    }))
    .unwrap()
}

/// A store with a TenantCluster that has an overlay, and a Machine of it that has a Host.
fn with_overlay() -> Stores {
    let (stores, mut writers) = Stores::new();
    let cluster = serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": { "name": "demo", "namespace": "team-a", "uid": "tc" },
        "spec": { "version": "1.35.4",
            "addons": { "overlay": { "enabled": true, "cidr": "198.18.0.0/16" } } },
    }));
    let applied = watcher::Event::Apply(cluster.unwrap());
    writers.clusters.apply_watcher_event(&applied);
    let applied = watcher::Event::Apply(machine("team-a", "joined", Some("joined")));
    writers.machines.apply_watcher_event(&applied);
    stores
}

#[test]
fn overlay_is_told_of_a_machine_once_for_each_change_of_what_it_is_told() {
    let stores = with_overlay();
    let (triggers, mut triggered) = Triggers::new();
    let mut woken = |machine: &Machine, there| {
        triggers.on_machine(&stores, machine, there);
        std::iter::from_fn(|| triggered.clusters.try_recv().ok()).count() > 0
    };
    let mut machine = machine("team-a", "joined", Some("joined"));
    assert!(woken(&machine, true), "it is there");
    assert!(!woken(&machine, true));
    let overlay = json!({ "address": "198.18.0.7" });
    let status = machine.status.get_or_insert_default();
    status.overlay = serde_json::from_value(overlay).unwrap();
    assert!(woken(&machine, true), "it has an address");
    machine.status.get_or_insert_default().provider_id = Some("x".to_owned());
    assert!(!woken(&machine, true));
    machine.status.get_or_insert_default().phase = Some(MachinePhase::Failed);
    assert!(woken(&machine, true), "it failed");
    assert!(woken(&machine, false), "it is gone");
    machine.metadata.namespace = Some("team-b".to_owned());
    machine.status = None;
    assert!(!woken(&machine, true), "its tenant cluster has none");
}

#[test]
fn overlay_is_told_where_a_host_is_reached_once_for_each_change() {
    let stores = with_overlay();
    let (triggers, mut triggered) = Triggers::new();
    let mut woken = |host: &Host| {
        triggers.on_host(&stores, host, true);
        triggered
            .clusters
            .try_recv()
            .ok()
            .map(|cluster| cluster.name)
    };
    let mut host = host(Some("joined"));
    host.metadata.uid = Some("host".to_owned());
    assert_eq!(woken(&host), None);
    host.spec.overlay_endpoint = Some("203.0.113.20:51820".to_owned());
    assert_eq!(woken(&host).as_deref(), Some("demo"));
    host.spec.maintenance = true;
    assert_eq!(woken(&host), None);
    host.spec.overlay_endpoint = None;
    assert_eq!(woken(&host).as_deref(), Some("demo"));
}

#[test]
fn host_wakes_the_machine_that_has_it_and_one_that_nobody_has_those_that_wait() {
    let (stores, mut writers) = Stores::new();
    for machine in [
        machine("team-a", "waits", None),
        machine("team-a", "joined", Some("joined")),
        machine("team-b", "elsewhere", None),
    ] {
        let applied = watcher::Event::Apply(machine);
        writers.machines.apply_watcher_event(&applied);
    }
    let woken = |host: &Host, there| {
        let (triggers, mut triggered) = Triggers::new();
        triggers.on_host(&stores, host, there);
        let next = || triggered.machines.try_recv().ok();
        std::iter::from_fn(next)
            .map(|machine| machine.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(woken(&host(Some("joined")), true), ["joined"]);
    assert_eq!(woken(&host(Some("joined")), false), ["joined"]);
    assert_eq!(woken(&host(None), true), ["waits"]);
}

#[test]
fn tenant_cluster_that_is_gone_wakes_the_hosts_of_its_namespace_and_one_that_changes_does_not() {
    let (stores, mut writers) = Stores::new();
    let applied = watcher::Event::Apply(host(None));
    writers.hosts.apply_watcher_event(&applied);
    let woken = |namespace: &str, there| {
        let (triggers, mut triggered) = Triggers::new();
        let cluster = serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": { "name": "demo", "namespace": namespace, "uid": "tc" },
            "spec": { "version": "1.35.4" },
        }));
        triggers.on_cluster(&stores, &cluster.unwrap(), there);
        triggered.hosts.try_recv().ok().map(|host| host.name)
    };
    assert_eq!(woken("team-a", false).as_deref(), Some("a"));
    assert_eq!(woken("team-b", false), None);
    assert_eq!(woken("team-a", true), None);
}

#[test]
fn provider_config_is_woken_by_its_first_machine_and_its_last_and_while_it_goes_by_each() {
    let of_cloud = |name: &str| -> Machine {
        let mut machine = machine("team-a", name, None);
        machine.spec.provider =
            serde_json::from_value(json!({ "hetzner": { "configName": "h", "types": ["cx22"] } }))
                .unwrap();
        machine
    };
    let config = |in_use: &str, going: bool| -> ProviderConfig {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "ProviderConfig",
            "metadata": { "name": "h", "namespace": "team-a",
                "deletionTimestamp": going.then_some("2026-11-21T12:00:00Z") },
            "spec": { "hetzner": { "tokenSecretName": "t", "location": "fsn1", "sshKeys": ["covey"] } },
            "status": { "conditions": [{ "type": "InUse", "status": in_use, "reason": "x",
                "message": "", "lastTransitionTime": "2026-11-21T12:00:00Z" }] },
        }))
        .unwrap()
    };
    let woken = |config: ProviderConfig, others: &[&str], there: bool| {
        let (stores, mut writers) = Stores::new();
        let applied = watcher::Event::Apply(config);
        writers.configs.apply_watcher_event(&applied);
        for other in others {
            let applied = watcher::Event::Apply(of_cloud(other));
            writers.machines.apply_watcher_event(&applied);
        }
        let (triggers, mut triggered) = Triggers::new();
        triggers.on_machine(&stores, &of_cloud("a"), there);
        triggered.configs.try_recv().is_ok()
    };
    assert!(woken(config("False", false), &["a"], true));
    assert!(!woken(config("True", false), &["a"], true));
    assert!(!woken(config("True", false), &["b"], false));
    assert!(woken(config("True", false), &[], false));
    assert!(woken(config("True", true), &["b"], false));
}
