//! One tenant cluster as a tree: its parts, its pools with their machines, and the last warning.
//!
//! Invariant: equal machines share a line and different ones never do; what could not be read is said so in its place.

use std::collections::BTreeSet;

use api::condition::is_true;
use api::names::LABEL_COMPONENT;
use api::{ConditionType, NodePool, Reason, TenantCluster};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit_objects::known::Known;
use kube::ResourceExt as _;

use self::machines::of_pool;
use crate::description::types::{ConditionLine, Description, Part, State, WarningEvent};
use crate::facts::{Facts, accounts, is_held};
use crate::text;

mod flows;
mod machines;
pub mod types;

/// How much of a tenant cluster is told.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Detail {
    /// Most warnings of Events.
    pub events: usize,
    /// Whether each machine has a line of its own, and every condition is told.
    pub is_all: bool,
}

/// Describes a tenant cluster of the facts.
#[must_use]
pub fn describe(
    cluster: &TenantCluster,
    facts: &Facts,
    events: &Known<Vec<Event>>,
    detail: Detail,
) -> Description {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let status = cluster.status.clone().unwrap_or_default();
    let ready = find(&status.conditions, ConditionType::Ready);
    let state = match ready.map(|c| c.status.as_str()) {
        Some("True") => State::Ok,
        Some("False") => State::Failing,
        _ => State::Unknown,
    };
    let told = ready.filter(|_| state != State::Ok);
    let generation = cluster.metadata.generation.unwrap_or_default();
    let pools = facts.pools.as_ref().there();
    let ours = pools.into_iter().flatten().filter(|pool| {
        pool.spec.cluster_name == name && pool.namespace().as_deref() == Some(&namespace)
    });
    let ours: Vec<_> = ours.collect();
    let mut parts = parts(cluster, facts);
    parts.extend(flows::parts(cluster));
    parts.extend(cloud(&ours, facts));
    parts.extend(fleet(cluster, facts));
    Description {
        api_version: "cli.covey.dev/v1",
        kind: "ClusterDescription",
        version: status.version.clone(),
        state,
        since: ready.map(|c| c.last_transition_time.0),
        reason: told.map(|c| c.reason.clone()).unwrap_or_default(),
        message: told.map(sentence).unwrap_or_default(),
        is_current: status.observed_generation.unwrap_or_default() >= generation,
        parts,
        pools: ours
            .iter()
            .map(|pool| of_pool(pool, facts, detail.is_all))
            .collect(),
        conditions: match detail.is_all {
            true => status.conditions.iter().map(told_condition).collect(),
            false => Vec::new(),
        },
        not_read: not_read(facts, events),
        warnings: warnings(events, detail.events),
        name,
        namespace,
    }
}

fn not_read(facts: &Facts, events: &Known<Vec<Event>>) -> Vec<String> {
    let refused = facts
        .not_allowed
        .iter()
        .map(|what| format!("not allowed to {what}"));
    let lists = [
        ("pools", why(&facts.pools)),
        ("machines", why(&facts.machines)),
        ("Events", why(events)),
    ];
    let others = lists.into_iter().filter_map(|(what, why)| {
        let why = why.filter(|why| *why != crate::facts::NOT_ALLOWED)?;
        Some(format!("{what} are not known: {why}"))
    });
    refused.chain(others).collect()
}

fn why<T>(known: &Known<T>) -> Option<&'static str> {
    match known {
        Known::Unknown { why } => Some(why),
        Known::Known(_) | Known::Absent => None,
    }
}

fn find(conditions: &[Condition], type_: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|c| c.type_ == type_.as_str())
}

/// What a condition says, in its own words or the catalogue's.
fn sentence(condition: &Condition) -> String {
    if !condition.message.is_empty() {
        return text::shown(&condition.message);
    }
    let reason = condition.reason.parse::<Reason>();
    reason.map_or_else(
        |_| text::shown(&condition.reason),
        |r| r.meaning().to_owned(),
    )
}

/// A condition as a line.
fn told_condition(condition: &Condition) -> ConditionLine {
    ConditionLine {
        type_: text::shown(&condition.type_),
        status: text::shown(&condition.status),
        since: condition.last_transition_time.0,
        reason: text::shown(&condition.reason),
        message: text::shown(&condition.message),
    }
}

fn state_of(condition: Option<&Condition>) -> State {
    let Some(condition) = condition else {
        return State::Unknown;
    };
    let is_without_nodes = condition.reason == Reason::NoNodes;
    match condition.status.as_str() {
        "True" => State::Ok,
        "False" if is_without_nodes => State::Off,
        "False" => State::Failing,
        _ => State::Unknown,
    }
}

fn parts(cluster: &TenantCluster, facts: &Facts) -> Vec<Part> {
    let spec = &cluster.spec;
    let status = cluster.status.clone().unwrap_or_default();
    let conditions = &status.conditions;
    let pods = status
        .namespace
        .as_ref()
        .and_then(|ns| facts.tenant_namespaces.get(ns));
    let pods = pods.map(|read| read.pods.as_ref()).unwrap_or_default();
    let counted = |component: &str, wanted: i32| {
        let pods = pods.there()?;
        let ready = pods
            .iter()
            .filter(|pod| is_of(pod, component) && is_ready(pod))
            .count();
        Some(format!("{ready} of {wanted}"))
    };
    let part = |name, type_, counted: Option<String>| {
        let condition = find(conditions, type_);
        let state = state_of(condition);
        let said = condition.filter(|_| state != State::Ok).map(sentence);
        let words: Vec<_> = counted.into_iter().chain(said).collect();
        Part {
            name,
            state,
            text: words.join("  "),
        }
    };
    let (etcd, pods_wanted) = (spec.etcd.replicas, spec.control_plane.replicas);
    let mut all = vec![
        endpoint(cluster),
        part("etcd", ConditionType::EtcdReady, counted("etcd", etcd)),
        part(
            "control plane",
            ConditionType::ControlPlaneReady,
            counted("control-plane", pods_wanted),
        ),
        part(
            "controllers",
            ConditionType::ControllersReady,
            counted("controllers", pods_wanted),
        ),
    ];
    if spec.addons.konnectivity.enabled {
        all.push(part("konnectivity", ConditionType::KonnectivityReady, None));
    }
    all.push(addons(cluster, conditions));
    if spec.backup.is_some() {
        let last = status.backup.as_ref().and_then(|b| b.last_full.as_deref());
        let last = last.map(|at| format!("last full snapshot {}", text::shown(at)));
        all.push(part("backup", ConditionType::BackupReady, last));
    }
    if is_true(conditions, ConditionType::Degraded) {
        let degraded = find(conditions, ConditionType::Degraded);
        all.push(Part {
            name: "degraded",
            state: State::Failing,
            text: degraded.map(sentence).unwrap_or_default(),
        });
    }
    if spec.paused {
        all.push(Part {
            name: "paused",
            state: State::Waiting,
            text: Reason::Paused.meaning().to_owned(),
        });
    }
    all
}

fn endpoint(cluster: &TenantCluster) -> Part {
    let status = cluster.status.clone().unwrap_or_default();
    let condition = find(&status.conditions, ConditionType::EndpointReady);
    let state = state_of(condition);
    let exposure = cluster.spec.control_plane.endpoint.type_.as_str();
    let at = status
        .endpoint
        .as_ref()
        .map(|at| format!("{}:{} ({exposure})", at.host, at.port));
    // Only what can be read: it is never told as expired.
    let ends = status
        .certificates
        .iter()
        .filter(|one| one.name == "apiserver");
    let ends = ends
        .filter_map(|one| one.not_after.parse::<Timestamp>().ok())
        .min();
    let certificate = ends.map(|at| format!("certificate until {}", at.strftime("%Y-%m-%d")));
    let said = condition.filter(|_| state != State::Ok).map(sentence);
    let words: Vec<_> = at.into_iter().chain(certificate).chain(said).collect();
    Part {
        name: "endpoint",
        state,
        text: words.join(", "),
    }
}

fn addons(cluster: &TenantCluster, conditions: &[Condition]) -> Part {
    let addons = &cluster.spec.addons;
    let all = [
        (
            "coreDNS",
            addons.core_dns.enabled,
            ConditionType::CoreDNSReady,
        ),
        (
            "kubeProxy",
            addons.kube_proxy.enabled,
            ConditionType::KubeProxyReady,
        ),
        ("network", true, ConditionType::NetworkReady),
        (
            "cloudController",
            addons.cloud_controller.enabled,
            ConditionType::CloudControllerReady,
        ),
        ("csi", addons.csi.enabled, ConditionType::CSIReady),
        (
            "autoscaler",
            addons.autoscaler.enabled,
            ConditionType::AutoscalerReady,
        ),
    ];
    // Of sites that few have nothing is said where there is none.
    let overlay = ("overlay", true, ConditionType::OverlayReady);
    let all = all
        .into_iter()
        .chain(addons.overlay.enabled.then_some(overlay));
    let mut worst = State::Ok;
    let words = all.map(|(name, is_on, type_)| {
        let condition = find(conditions, type_);
        if !is_on {
            return format!("{name} off");
        }
        let state = state_of(condition);
        worst = worst.max(state);
        match (state, condition) {
            (State::Ok, _) => name.to_owned(),
            (_, Some(condition)) => format!("{name} {}", condition.reason),
            (_, None) => format!("{name} ?"),
        }
    });
    let text = words.collect::<Vec<_>>().join(" · ");
    Part {
        name: "addons",
        state: worst,
        text,
    }
}

/// The accounts at clouds by which its machines are made; none where no pool has one.
fn cloud(pools: &[&NodePool], facts: &Facts) -> Option<Part> {
    let names: BTreeSet<_> = pools.iter().flat_map(|pool| accounts(pool)).collect();
    if names.is_empty() {
        return None;
    }
    let mut worst = State::Ok;
    let words = names.into_iter().map(|name| {
        let (state, words) = account(name, facts);
        worst = worst.max(state);
        words
    });
    let text = words.collect::<Vec<_>>().join(" · ");
    Some(Part {
        name: "cloud",
        state: worst,
        text,
    })
}

fn account(name: &str, facts: &Facts) -> (State, String) {
    let Known::Known(all) = &facts.provider_configs else {
        return (State::Unknown, format!("{name} ?"));
    };
    let Some(config) = all.iter().find(|config| config.name_any() == name) else {
        return (State::Failing, format!("{name} is not there"));
    };
    let status = config.status.clone().unwrap_or_default();
    let ready = find(&status.conditions, ConditionType::Ready);
    let state = state_of(ready);
    let mut words = name.to_owned();
    if state != State::Ok {
        let said = ready.map_or("nothing is said of it yet".to_owned(), sentence);
        words = format!("{name}: {said}");
    }
    match find(&status.conditions, ConditionType::Leaks).filter(|c| c.status == "True") {
        Some(leaks) => {
            words = format!("{words} ({})", sentence(leaks));
            (state.max(State::Waiting), words)
        }
        None => (state, words),
    }
}

/// That it waits for its turn to follow another version of the operator; none of one that does not.
fn fleet(cluster: &TenantCluster, facts: &Facts) -> Option<Part> {
    if !is_held(cluster) {
        return None;
    }
    let policies = facts.management.fleet_policies.as_ref().there();
    let mut said = policies.into_iter().flatten().filter_map(|policy| {
        let conditions = &policy.status.as_ref()?.conditions;
        let told = find(conditions, ConditionType::Progressing)?;
        let is_followed = told.reason != Reason::FleetPolicyIgnored;
        is_followed.then(|| format!("FleetPolicy {}: {}", policy.name_any(), sentence(told)))
    });
    let said = said.next();
    Some(Part {
        name: "fleet",
        state: State::Waiting,
        text: said.unwrap_or_else(|| {
            "runs as before until a FleetPolicy lets it follow the operator: `covey fleet` says whose turn it is".to_owned()
        }),
    })
}

fn is_of(pod: &Pod, component: &str) -> bool {
    pod.labels()
        .get(LABEL_COMPONENT)
        .is_some_and(|of| of == component)
}

/// Whether a pod says that it is ready.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let mut conditions = status
        .and_then(|s| s.conditions.as_ref())
        .into_iter()
        .flatten();
    conditions.any(|c| c.type_ == "Ready" && c.status == "True")
}

fn warnings(events: &Known<Vec<Event>>, most: usize) -> Vec<WarningEvent> {
    let events = events.as_ref().there();
    let warnings = events
        .into_iter()
        .flatten()
        .filter(|event| event.type_.as_deref() == Some("Warning"));
    let mut warnings: Vec<_> = warnings.map(told).collect();
    warnings.sort_by_key(|warning| std::cmp::Reverse(warning.at));
    warnings.truncate(most);
    warnings
}

/// An Event in four words.
#[must_use]
pub fn told(event: &Event) -> WarningEvent {
    let of = &event.involved_object;
    let part = |part: &Option<String>| text::shown(part.as_deref().unwrap_or_default());
    WarningEvent {
        at: told_at(event),
        object: format!("{}/{}", part(&of.kind), part(&of.name)),
        reason: part(&event.reason),
        message: part(&event.message),
    }
}

/// When an Event was told last; a recorder of `events.k8s.io` counts in its series.
fn told_at(event: &Event) -> Option<Timestamp> {
    let series = event
        .series
        .as_ref()
        .and_then(|series| series.last_observed_time.as_ref());
    let times = [
        series.map(|time| time.0),
        event.last_timestamp.as_ref().map(|time| time.0),
        event.event_time.as_ref().map(|time| time.0),
        event
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0),
    ];
    times.into_iter().flatten().next()
}
