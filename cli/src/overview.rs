//! Hosts, quotas and the fleet as text for people.
//!
//! Invariant: pure; whatever others wrote is fit to be shown.

use api::condition::is_true;
use api::tenant_quota::Used;
use api::{ConditionType, FleetPolicy, Host, Reason, TenantCluster, TenantQuota};
use insight::facts::is_held;
use insight::text;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use crate::judge::sentence;
use crate::table::aligned;

/// Most tenant clusters that are named.
const NAMED: usize = 10;

fn heads(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A line for each host: who has it, and why it cannot be used.
pub(crate) fn hosts(all: &[Host], has_namespace: bool, is_wide: bool) -> String {
    let mut lines = vec![heads(&["NAME", "ADDRESS", "PHASE", "MACHINE", "WHY"])];
    if is_wide {
        lines[0].splice(4..4, heads(&["CORES", "MEMORY", "OS"]));
    }
    lines.extend(all.iter().map(|host| {
        let status = host.status.clone().unwrap_or_default();
        let claim = status.claim.map(|claim| claim.machine_name);
        let mut line = vec![
            host.name_any(),
            host.spec.address.clone(),
            status
                .phase
                .map_or(String::new(), |phase| format!("{phase:?}")),
            claim.unwrap_or_default(),
        ];
        if is_wide {
            let facts = status.facts.unwrap_or_default();
            line.extend([facts.cpu.to_string(), facts.memory.0, facts.os]);
        }
        line.push(why(&status.conditions));
        line
    }));
    if has_namespace {
        let namespaces = all.iter().map(|host| host.namespace().unwrap_or_default());
        let namespaces = ["NAMESPACE".to_owned()].into_iter().chain(namespaces);
        for (line, namespace) in lines.iter_mut().zip(namespaces) {
            line.insert(0, namespace);
        }
    }
    shown(lines)
}

/// What the first condition says that is not as it should be; that somebody uses a host is nothing wrong.
fn why(conditions: &[Condition]) -> String {
    let mut bad = conditions.iter();
    let bad = bad.find(|c| c.status == "False" && c.reason != Reason::InUse);
    bad.map(sentence).unwrap_or_default()
}

/// A line for each bound of each quota.
pub(crate) fn quotas(all: &[TenantQuota]) -> String {
    let mut lines = vec![heads(&["QUOTA", "OF", "USED", "AT MOST"])];
    for quota in all {
        let used = quota.status.as_ref().and_then(|status| status.used.clone());
        let spec = &quota.spec;
        let count = |value: &Option<i64>| value.map(|value| value.to_string());
        let bounds = [
            ("clusters", count(&spec.clusters)),
            ("cores", spec.cores.as_ref().map(|value| value.0.clone())),
            ("memory", spec.memory.as_ref().map(|value| value.0.clone())),
            (
                "storage",
                spec.storage.as_ref().map(|value| value.0.clone()),
            ),
            ("loadBalancers", count(&spec.load_balancers)),
            ("machines", count(&spec.machines)),
        ];
        for (of, bound) in bounds {
            let Some(bound) = bound else { continue };
            // What is not known is not nothing.
            let used = used
                .as_ref()
                .map_or("?".to_owned(), |used| of_used(used, of));
            lines.push(vec![quota.name_any(), of.to_owned(), used, bound]);
        }
    }
    let exceeded = all.iter().filter_map(|quota| {
        let conditions = &quota.status.as_ref()?.conditions;
        let told = conditions
            .iter()
            .find(|c| c.type_ == ConditionType::Exceeded.as_str())?;
        is_exceeded(quota).then(|| format!("{}: {}\n", quota.name_any(), sentence(told)))
    });
    let exceeded: String = exceeded.collect();
    shown(lines) + &exceeded
}

fn of_used(used: &Used, of: &str) -> String {
    match of {
        "clusters" => used.clusters.to_string(),
        "cores" => used.cores.0.clone(),
        "memory" => used.memory.0.clone(),
        "storage" => used.storage.0.clone(),
        "loadBalancers" => used.load_balancers.to_string(),
        _ => used.machines.to_string(),
    }
}

/// Whether more is taken than a quota allows.
pub(crate) fn is_exceeded(quota: &TenantQuota) -> bool {
    let status = quota.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, ConditionType::Exceeded))
}

/// Each policy with its waves, and who of these waits, or is held back.
pub(crate) fn fleet(all: &[FleetPolicy], clusters: &[TenantCluster], now: Timestamp) -> String {
    let mut out = String::new();
    for policy in all {
        let status = policy.status.clone().unwrap_or_default();
        let mut conditions = status.conditions.iter();
        let told = conditions.find(|c| c.type_ == ConditionType::Progressing.as_str());
        let told = told.map_or("nothing is said of it yet".to_owned(), sentence);
        out.push_str(&format!("FleetPolicy {}: {told}\n", policy.name_any()));
        if let Some(halted) = &status.halted {
            let line = format!(
                "halted since {} by {}: {}; `spec.retry` is {}",
                halted.since, halted.tenant_cluster, halted.message, policy.spec.retry
            );
            out.push_str(&(text::shown(&line) + "\n"));
        }
        for wave in &policy.spec.waves {
            // One that is no moment is what the condition speaks of.
            if let Ok(Some(until)) = wave.holds(now) {
                let line = format!("wave {} is held back until {until}", wave.name);
                out.push_str(&(text::shown(&line) + "\n"));
            }
        }
        if status.waves.is_empty() {
            continue;
        }
        let mut lines = vec![heads(&[
            "WAVE",
            "ALL",
            "DONE",
            "UNDER WAY",
            "WAITING",
            "FAILED",
            "LEFT OUT",
            "HELD BACK",
            "WHOLE SINCE",
        ])];
        lines.extend(status.waves.into_iter().map(|wave| {
            let counts = [
                wave.tenant_clusters,
                wave.done,
                wave.in_flight,
                wave.waiting,
                wave.failed,
                wave.left_out,
                wave.held,
            ];
            let counts = counts.iter().map(i32::to_string);
            let since = wave.whole_since.unwrap_or_default();
            [wave.name]
                .into_iter()
                .chain(counts)
                .chain([since])
                .collect()
        }));
        out.push_str(&shown(lines));
    }
    let name = |cluster: &TenantCluster| {
        let namespace = cluster.namespace().unwrap_or_default();
        format!("{namespace}/{}", cluster.name_any())
    };
    let until = |cluster: &TenantCluster| cluster.spec.maintenance.holds(now);
    let waiting = clusters.iter().filter(|c| is_held(c) && until(c).is_none());
    let held = clusters.iter().filter_map(|cluster| {
        let until = until(cluster)?;
        Some(format!("{} until {until}", name(cluster)))
    });
    for (what, names) in [
        ("wait", waiting.map(name).collect::<Vec<_>>()),
        (
            "are held back by `spec.maintenance.heldUntil`",
            held.collect(),
        ),
    ] {
        out.push_str(&told(what, names));
    }
    out
}

/// How many of these do what, and the first of them by name.
fn told(what: &str, mut names: Vec<String>) -> String {
    if names.is_empty() {
        return String::new();
    }
    names.sort();
    let count = names.len();
    let names = text::names(names.iter().map(String::as_str), NAMED);
    format!("{count} {what}: {names}\n")
}

/// Whether a failure or a mistake keeps a policy from going on.
pub(crate) fn is_halted(policy: &FleetPolicy) -> bool {
    let status = policy.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, ConditionType::Degraded))
}

fn shown(mut lines: Vec<Vec<String>>) -> String {
    for cell in lines.iter_mut().flatten() {
        *cell = text::shown(cell);
    }
    aligned(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-11-27T11:00:00Z"})
    }

    fn host(name: &str, status: &Value) -> Host {
        let host = json!({"apiVersion": "covey.dev/v1alpha1", "kind": "Host",
            "metadata": {"name": name, "namespace": "team-a"},
            "spec": {"address": "192.0.2.10", "user": "root", "sshKeySecretName": "k", "hostKeys": ["ssh-ed25519 AAAA"]},
            "status": status});
        serde_json::from_value(host).unwrap()
    }

    #[test]
    fn a_host_says_who_has_it_or_why_nobody_can() {
        let claim = json!({"machineName": "web-x2k9p", "machineUID": "a", "tenantClusterUID": "b"});
        let used = host(
            "a",
            &json!({"phase": "Joined", "claim": claim, "conditions": [condition("Clean", "False", "InUse", "")]}),
        );
        let locked = host(
            "b",
            &json!({"phase": "Quarantined", "conditions": [condition("Reachable", "False", "HostKeyUnknown", "SHA256:abc")]}),
        );
        let told = hosts(&[used, locked], false, false);
        let expected = "\
NAME   ADDRESS      PHASE         MACHINE     WHY
a      192.0.2.10   Joined        web-x2k9p
b      192.0.2.10   Quarantined               Reachable False HostKeyUnknown: SHA256:abc
";
        assert_eq!(told, expected);
    }

    #[test]
    fn a_quota_says_what_is_used_of_what_it_bounds_and_what_is_not_known() {
        let quota = |status: Value| {
            let quota = json!({"apiVersion": "covey.dev/v1alpha1", "kind": "TenantQuota",
                "metadata": {"name": "team-a"}, "spec": {"namespaces": ["team-a"], "clusters": 1, "memory": "8Gi"},
                "status": status});
            serde_json::from_value::<TenantQuota>(quota).unwrap()
        };
        let used = json!({"clusters": 2, "cores": "1", "memory": "4Gi", "storage": "1Gi", "loadBalancers": 0, "machines": 0});
        let above = quota(
            json!({"used": used, "conditions": [condition("Exceeded", "True", "AboveLimits", "2 of 1 clusters")]}),
        );
        assert!(is_exceeded(&above));
        let expected = "\
QUOTA    OF         USED   AT MOST
team-a   clusters   2      1
team-a   memory     4Gi    8Gi
team-a: Exceeded True AboveLimits: 2 of 1 clusters
";
        assert_eq!(quotas(&[above]), expected);
        let unknown = quota(json!({}));
        assert!(!is_exceeded(&unknown));
        assert!(quotas(&[unknown]).contains("clusters   ?"));
    }

    #[test]
    fn a_fleet_is_its_waves_and_who_waits() {
        let policy = json!({"apiVersion": "covey.dev/v1alpha1", "kind": "FleetPolicy",
            "metadata": {"name": "default"},
            "spec": {"waves": [{"name": "canary"}, {"name": "tenth", "heldUntil": "2027-01-31T12:00:00Z"}]},
            "status": {"conditions": [condition("Progressing", "False", "FleetHalted", "team-a/shop failed"),
                    condition("Degraded", "True", "FleetHalted", "team-a/shop failed")],
                "halted": {"templates": "a", "retry": 0, "tenantCluster": "team-a/shop", "message": "it is slow", "since": "2026-11-27T11:00:00Z"},
                "waves": [{"name": "canary", "tenantClusters": 3, "done": 1, "inFlight": 0, "waiting": 1, "failed": 1, "leftOut": 0, "held": 1}]}});
        let cluster = |name: &str, until: Value| {
            let cluster = json!({"apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
                "metadata": {"name": name, "namespace": "team-a"},
                "spec": {"version": "1.35.4", "maintenance": until}, "status": {"rollout": {"held": true}}});
            serde_json::from_value::<TenantCluster>(cluster).unwrap()
        };
        let until = json!({"heldUntil": "2026-12-24T00:00:00Z"});
        let clusters = [cluster("later", until), cluster("demo", json!({}))];
        let now = "2026-11-27T12:00:00Z".parse().unwrap();
        let policy: FleetPolicy = serde_json::from_value(policy).unwrap();
        assert!(is_halted(&policy));
        let told = fleet(&[policy], &clusters, now);
        let expected = "\
FleetPolicy default: Progressing False FleetHalted: team-a/shop failed
halted since 2026-11-27T11:00:00Z by team-a/shop: it is slow; `spec.retry` is 0
wave tenth is held back until 2027-01-31T12:00:00Z
WAVE     ALL   DONE   UNDER WAY   WAITING   FAILED   LEFT OUT   HELD BACK   WHOLE SINCE
canary   3     1      0           1         1        0          1
1 wait: team-a/demo
1 are held back by `spec.maintenance.heldUntil`: team-a/later until 2026-12-24T00:00:00Z
";
        assert_eq!(told, expected);
        assert_eq!(fleet(&[], &[], now), "");
    }
}
