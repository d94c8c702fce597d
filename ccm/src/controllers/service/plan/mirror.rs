//! Mirror: the Service of type LoadBalancer in the tenant namespace, from the tenant's Service.
//!
//! Everything that says how traffic is treated is taken over. Not taken over, because they are of
//! the tenant cluster alone: cluster IPs, node ports, the health-check node port (two tenant
//! clusters may have the same; the management cluster allocates its own), the selector, and
//! annotations and addresses that nobody allowed.
//! Invariant: the same Service gives the same mirror; the class of a mirror never changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::names::{LABEL_COMPONENT, LABEL_MANAGED_BY, LABEL_TENANT_UID, MANAGED_BY};
use k8s_openapi::api::core::v1::{Service, ServicePort};
use kit_objects::difference::difference;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::families::{Families, families};
use super::types::Observed;
use super::unsupported::Port;
use crate::cache::services::{Accepted, mirrored};
use crate::names;
use crate::settings::{Endpoints, Settings};

/// The mirror to go on with: ours by name, or the one of the KubeVirt CCM, where that is wanted or was:
/// then it has our labels.
#[must_use]
pub fn choose<'a>(observed: &'a Observed, settings: &Settings) -> Option<&'a Service> {
    let ours = names::mirror(&settings.cluster_uid, &observed.uid);
    let theirs = names::legacy_mirror(&observed.uid);
    let named = |name: &str| {
        let mut mirrors = observed.mirrors.iter();
        mirrors
            .find(|m| m.metadata.name.as_deref() == Some(name))
            .map(Arc::as_ref)
    };
    // Its address is in use; ours, should both be there, was made while it was out of sight.
    let adopted = named(&theirs).filter(|m| settings.adopt || mirrored(m, settings).is_some());
    adopted.or_else(|| named(&ours))
}

/// Those of a Service's ports that its mirror has already.
#[must_use]
pub fn ports_that_it_has(mut ports: Vec<Port>, live: &Service) -> Vec<Port> {
    let has = live.spec.as_ref().and_then(|spec| spec.ports.as_ref());
    let protocol = |port: &ServicePort| port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    ports.retain(|port| {
        let mut has = has.into_iter().flatten();
        has.any(|live| live.port == port.port && protocol(live) == port.protocol)
    });
    ports
}

/// Labels of mirrors and of their EndpointSlices. Not those by which the operator finds the owner of
/// what it applied: it need not reconcile its TenantCluster whenever a mirror changes.
#[must_use]
pub fn labels(settings: &Settings, service_uid: &str) -> BTreeMap<String, String> {
    let ours = [
        (LABEL_MANAGED_BY, MANAGED_BY),
        (LABEL_COMPONENT, names::COMPONENT),
        (LABEL_TENANT_UID, &settings.cluster_uid),
        (names::LABEL_SERVICE_UID, service_uid),
    ];
    let mut labels = settings.labels.clone();
    labels.extend(ours.map(|(key, value)| (key.to_owned(), value.to_owned())));
    labels
}

/// The mirror as it should be, for server-side apply.
#[must_use]
pub fn desired(
    service: &Service,
    ports: &[Port],
    live: Option<&Service>,
    observed: &Observed,
    settings: &Settings,
) -> Value {
    let meta = &service.metadata;
    let name = live.and_then(|live| live.metadata.name.clone());
    let name = name.unwrap_or_else(|| names::mirror(&settings.cluster_uid, &observed.uid));
    let mut annotations: BTreeMap<_, _> = meta
        .annotations
        .iter()
        .flatten()
        .filter(|(key, _)| settings.allows_annotation(key) && !is_of_restores(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let (service_name, namespace) = (meta.name.clone(), meta.namespace.clone());
    for (key, value) in [
        (names::ANNOTATION_SERVICE, service_name),
        (names::ANNOTATION_SERVICE_NAMESPACE, namespace),
    ] {
        annotations.insert(key.to_owned(), value.unwrap_or_default());
    }
    let families = match &service.spec {
        Some(wanted) => families(wanted, live, &observed.targets),
        None => Families::default(),
    };
    let mut mirror = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": settings.namespace,
            "labels": labels(settings, &observed.uid),
            "annotations": annotations,
        },
        "spec": spec(service, ports, live, &families, settings),
    });
    let digest = Sha256::digest(mirror.to_string());
    // Tells when a field is not wanted any more, which a comparison with the live object cannot.
    mirror["metadata"]["annotations"][kit_objects::object::ANNOTATION_HASH] =
        hex::encode(&digest[..8]).into();
    if families.said != families.asked {
        mirror["spec"]["ipFamilies"] = json!(families.said);
    }
    mirror
}

/// What the operator and we tell each other on a mirror is nothing that a tenant may ask for.
fn is_of_restores(key: &str) -> bool {
    [names::ANNOTATION_KEPT, names::ANNOTATION_ORPHAN].contains(&key)
}

fn spec(
    service: &Service,
    ports: &[Port],
    live: Option<&Service>,
    families: &Families,
    settings: &Settings,
) -> Value {
    let mut spec = Map::new();
    let mut set = |key: &str, value: Value| {
        if !value.is_null() {
            spec.insert(key.to_owned(), value);
        }
    };
    set("type", json!("LoadBalancer"));
    let mut ports = ports.to_vec();
    ports.sort_by(|a, b| (a.port, &a.protocol).cmp(&(b.port, &b.protocol)));
    set("ports", ports.iter().map(port).collect());
    if let Some(wanted) = &service.spec {
        set(
            "externalTrafficPolicy",
            json!(wanted.external_traffic_policy),
        );
        set(
            "internalTrafficPolicy",
            json!(wanted.internal_traffic_policy),
        );
        set("trafficDistribution", json!(traffic_distribution(service)));
        set("sessionAffinity", json!(wanted.session_affinity));
        set(
            "sessionAffinityConfig",
            json!(wanted.session_affinity_config),
        );
        if !families.asked.is_empty() {
            set("ipFamilies", json!(families.asked));
        }
        set("ipFamilyPolicy", json!(families.policy));
        set(
            "loadBalancerSourceRanges",
            json!(wanted.load_balancer_source_ranges),
        );
        let external = wanted.external_ips.iter().flatten();
        let external: Vec<_> = external.filter(|ip| settings.allows_address(ip)).collect();
        if !external.is_empty() {
            set("externalIPs", json!(external));
        }
        let asked = wanted.load_balancer_ip.as_ref();
        set(
            "loadBalancerIP",
            json!(asked.filter(|ip| settings.allows_address(ip))),
        );
    }
    // The API refuses to change it, so a mirror keeps the class that it was made with.
    let class = match live {
        Some(live) => live
            .spec
            .as_ref()
            .and_then(|s| s.load_balancer_class.as_ref()),
        None => settings.mirror_class.as_ref(),
    };
    set("loadBalancerClass", json!(class));
    if !settings.allocate_node_ports {
        set("allocateLoadBalancerNodePorts", json!(false));
    }
    if let Endpoints::Selector(labels) = &settings.endpoints {
        set("selector", json!(labels));
    }
    Value::Object(spec)
}

/// What a mirror has as its `trafficDistribution`. All that a tenant's Service may say is about what is near,
/// and of what is near the management cluster knows zones alone: a node below is none of the tenant's nodes.
/// `PreferSameZone` means the same as `PreferClose` (KEP-3015), which every API server since 1.30 takes, so a
/// tenant cluster that is newer than the management cluster has its load balancer all the same. What is not
/// known is left out.
pub fn traffic_distribution(service: &Service) -> Option<&'static str> {
    let asked = service.spec.as_ref()?.traffic_distribution.as_deref()?;
    let is_near = matches!(asked, "PreferClose" | "PreferSameZone" | "PreferSameNode");
    is_near.then_some("PreferClose")
}

fn port(port: &Port) -> Value {
    let mut value = json!({
        "protocol": port.protocol, "port": port.port, "targetPort": port.node_port,
    });
    if !port.name.is_empty() {
        value["name"] = json!(port.name);
    }
    if let Some(protocol) = &port.app_protocol {
        value["appProtocol"] = json!(protocol);
    }
    value
}

/// What there is to do about a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is as it should be.
    AsDesired,
    /// This field is not, and the API, asked for it, gave what there is.
    Accepted(String),
    /// It is to be applied.
    Apply,
}

/// Whether a mirror is as it should be, or as it was given.
#[must_use]
pub fn judge(desired: &Value, live: &Service, accepted: Option<&Accepted>) -> Verdict {
    let live = comparable(live);
    match difference(desired, &live) {
        None => Verdict::AsDesired,
        Some(at) if accepted == Some(&given(desired, &live)) => {
            // Keys of annotations and numbers of ports say no more.
            let field = at.path.split('.').take(2).collect::<Vec<_>>().join(".");
            Verdict::Accepted(field)
        }
        Some(_) => Verdict::Apply,
    }
}

/// What is to be remembered of an answer: none when it is what was asked for.
#[must_use]
pub fn accepted(desired: &Value, answer: &Service) -> Option<Accepted> {
    let answer = comparable(answer);
    difference(desired, &answer)?;
    Some(given(desired, &answer))
}

fn given(desired: &Value, live: &Value) -> Accepted {
    let digest = |value: &Value| hex::encode(&Sha256::digest(value.to_string())[..8]);
    Accepted {
        applied: digest(desired),
        answer: digest(&shared(desired, live)),
    }
}

/// Of `live` what `desired` speaks of, too.
fn shared(desired: &Value, live: &Value) -> Value {
    match (desired, live) {
        (Value::Object(desired), Value::Object(live)) => {
            let both = desired.iter().filter_map(|(key, value)| {
                let live = live.get(key)?;
                Some((key.clone(), shared(value, live)))
            });
            Value::Object(both.collect())
        }
        (Value::Array(desired), Value::Array(live)) if desired.len() == live.len() => {
            let both = desired.iter().zip(live);
            both.map(|(desired, live)| shared(desired, live)).collect()
        }
        (_, live) => live.clone(),
    }
}

fn comparable(live: &Service) -> Value {
    let mut live = serde_json::to_value(live).unwrap_or_default();
    // Server-side apply knows ports by number and protocol, and keeps an order of its own.
    if let Some(ports) = live["spec"]["ports"].as_array_mut() {
        ports.sort_by_key(|p| {
            (
                p["port"].as_i64(),
                p["protocol"].as_str().map(str::to_owned),
            )
        });
    }
    live
}
