//! EndpointSlices of a mirror: which machines get its traffic.
//!
//! One endpoint per machine and family: its address, the tenant's node port, and the
//! management cluster's node below, by which `externalTrafficPolicy: Local` there sends traffic
//! without changing the client's address. With that policy an endpoint counts only while the
//! tenant's Service has a pod on the node; readiness comes from the machine, from the node and, then,
//! from those pods. This is what a health-check node port would say, without asking.
//!
//! Of very many machines a part is taken, so that the slices of one tenant cluster stay small.
//! Invariant: never more than [`MOST`] endpoints in a slice, families never mixed; the same input in
//! any order gives the same slices.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::mirror;
use super::types::{Action, Family, Observed, Plan};
use super::unsupported::Port;
use crate::cache::endpoint_slices::{Content, Endpoint, LABELS, LocalEndpoints, Slice, SlicePort};
use crate::cache::services::keeps_traffic_local;
use crate::names;
use crate::settings::Settings;

/// Most endpoints of a slice, as the EndpointSlice controller's default
/// (`--max-endpoints-per-slice`).
pub const MOST: usize = 100;

/// A slice as it should be.
#[derive(Clone, Debug)]
pub struct Desired {
    name: String,
    namespace: String,
    mirror: String,
    content: Content,
}

impl Desired {
    /// Whether anything in it is ready.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        self.content.endpoints.iter().any(|e| e.ready)
    }

    /// Endpoints in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.content.endpoints.len()
    }

    /// True when no endpoint is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The object, for server-side apply.
    #[must_use]
    pub fn object(&self) -> Value {
        let Content {
            family,
            labels,
            owner,
            ports,
            endpoints,
        } = &self.content;
        let port = |port: &SlicePort| {
            let mut value = json!({
                "name": port.name, "protocol": port.protocol, "port": port.port,
            });
            if let Some(app) = &port.app_protocol {
                value["appProtocol"] = json!(app);
            }
            value
        };
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": labels,
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Service", "name": self.mirror, "uid": owner,
                }],
            },
            "addressType": family,
            "ports": ports.iter().map(port).collect::<Vec<_>>(),
            "endpoints": endpoints.iter().map(endpoint).collect::<Vec<_>>(),
        })
    }
}

fn endpoint(endpoint: &Endpoint) -> Value {
    let mut value = json!({
        "addresses": [endpoint.address],
        "conditions": {
            "ready": endpoint.ready,
            "serving": endpoint.serving,
            "terminating": endpoint.terminating,
        },
        // For people, and to tell two endpoints apart whose addresses changed places.
        "targetRef": { "kind": "VirtualMachineInstance", "name": &*endpoint.machine },
    });
    if let Some(node) = &endpoint.management_node {
        value["nodeName"] = json!(&**node);
    }
    if let Some(zone) = &endpoint.zone {
        value["zone"] = json!(&**zone);
    }
    if let Some(zone) = &endpoint.for_zone {
        value["hints"] = json!({ "forZones": [{ "name": &**zone }] });
    }
    value
}

/// The slices as they should be, by name; and whether they are to have fewer endpoints than there are.
#[must_use]
pub fn desired(
    service: &Service,
    ports: &[Port],
    mirror: &Service,
    observed: &Observed,
    settings: &Settings,
) -> (Vec<Desired>, bool) {
    let name = mirror.metadata.name.clone().unwrap_or_default();
    let mut labels = mirror::labels(settings, &observed.uid);
    labels.insert(names::LABEL_SLICE_OF.to_owned(), name.clone());
    labels.insert(
        names::LABEL_SLICES_MANAGED_BY.to_owned(),
        names::SLICES_MANAGED_BY.to_owned(),
    );
    labels.retain(|key, _| LABELS.contains(&key.as_str()));
    let ports = slice_ports(ports, mirror);
    let (mut all, mut fewer) = (Vec::new(), false);
    for family in families(service, mirror) {
        let mut endpoints = endpoints(service, observed, family);
        fewer |= endpoints.len() > settings.limits.endpoints;
        keep_few(&mut endpoints, &observed.uid, settings.limits.endpoints);
        for (number, endpoints) in endpoints.chunks(MOST).enumerate() {
            all.push(Desired {
                name: names::slice(&name, family.as_str(), number),
                namespace: settings.namespace.clone(),
                mirror: name.clone(),
                content: Content {
                    family: family.as_str().to_owned(),
                    labels: labels.clone(),
                    owner: mirror.metadata.uid.clone(),
                    ports: ports.clone(),
                    endpoints: endpoints.to_vec(),
                },
            });
        }
    }
    (all, fewer)
}

/// Those that a load balancer may have: rather those that are ready, and of them always the same, other ones
/// for each Service, so that one that comes or goes moves no other, and all machines get traffic
/// (rendezvous hashing).
fn keep_few(endpoints: &mut Vec<Endpoint>, service: &str, most: usize) {
    if endpoints.len() <= most {
        return;
    }
    endpoints.sort_by_cached_key(|endpoint| {
        let digest = Sha256::digest(format!("{service}/{}", endpoint.machine));
        (!endpoint.ready, <[u8; 32]>::from(digest))
    });
    endpoints.truncate(most);
    endpoints.sort();
}

/// Those of the Service, and of the mirror what it has beyond: a mirror that is to change, and may not,
/// goes on leading where it led.
fn slice_ports(ports: &[Port], mirror: &Service) -> Vec<SlicePort> {
    let mut all: Vec<SlicePort> = ports
        .iter()
        .map(|p| SlicePort {
            name: p.name.clone(),
            protocol: p.protocol.clone(),
            port: p.node_port,
            app_protocol: p.app_protocol.clone(),
        })
        .collect();
    let of_mirror = mirror.spec.as_ref().and_then(|s| s.ports.as_ref());
    for port in of_mirror.into_iter().flatten() {
        let name = port.name.clone().unwrap_or_default();
        let Some(IntOrString::Int(target)) = port.target_port else {
            continue;
        };
        if all.iter().all(|known| known.name != name) {
            all.push(SlicePort {
                name,
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                port: target,
                app_protocol: port.app_protocol.clone(),
            });
        }
    }
    all.sort();
    all
}

/// Those that the mirror got; the tenant's, while that is not known.
fn families(service: &Service, mirror: &Service) -> Vec<Family> {
    let of = |service: &Service| {
        let families = service.spec.as_ref().and_then(|s| s.ip_families.clone());
        families.filter(|f| !f.is_empty())
    };
    let names = of(mirror).or_else(|| of(service)).unwrap_or_default();
    let is_there = |family: &Family| names.iter().any(|name| name == family.as_str());
    match names.is_empty() {
        true => vec![Family::V4],
        false => [Family::V4, Family::V6]
            .into_iter()
            .filter(is_there)
            .collect(),
    }
}

fn endpoints(service: &Service, observed: &Observed, family: Family) -> Vec<Endpoint> {
    let local = keeps_traffic_local(service);
    let near = mirror::traffic_distribution(service).is_some();
    // When every node of the tenant cluster is lost at once, more likely its API is than all of
    // them: what runs goes on getting traffic, because there is nothing better to send it to.
    let blind = !local && observed.targets.iter().all(|target| !target.ready);
    let mut endpoints: Vec<_> = observed
        .targets
        .iter()
        .filter_map(|target| {
            let address = target.addresses.iter().find(|ip| family.has(ip))?;
            let healthy = match blind {
                true => target.serving && !target.terminating,
                false => target.ready,
            };
            let pods = match local {
                true => *observed.local.get(&target.node)?,
                false => LocalEndpoints {
                    ready: true,
                    serving: true,
                },
            };
            let leaving = target.terminating || (local && !pods.ready);
            let ready = healthy && pods.ready;
            Some(Endpoint {
                machine: Arc::clone(&target.machine),
                address: address.to_string(),
                ready,
                // Last resort of a proxy that finds none that is ready (KEP-1669).
                serving: (healthy || target.terminating) && target.serving && pods.serving,
                terminating: leaving,
                management_node: target.management_node.clone(),
                zone: target.zone.clone(),
                // As the EndpointSlice controller gives them (`trafficdist.ReconcileHints`): a proxy
                // goes by hints only while all endpoints that are ready have one.
                for_zone: target.zone.clone().filter(|_| near && ready),
            })
        })
        .filter(|endpoint| endpoint.serving || endpoint.ready)
        .collect();
    // Of machines that say that they have the same address one counts: rather one that is ready.
    endpoints.sort_by(|a, b| (&a.address, !a.ready, a).cmp(&(&b.address, !b.ready, b)));
    endpoints.dedup_by(|later, first| later.address == first.address);
    endpoints.sort();
    endpoints
}

/// The deletion of a slice.
pub(super) fn delete(slice: &Slice) -> Action {
    Action::DeleteSlice {
        name: slice.name.clone(),
        uid: slice.uid.clone(),
    }
}

/// What brings the slices to what they should be. An endpoint that moves from one slice to another
/// is rather in both for a moment than in none.
pub(super) fn difference(
    desired: &[Desired],
    observed: &Observed,
    mirror: &str,
    selected: bool,
    plan: &mut Plan,
) {
    let find = |name: &str| observed.slices.iter().find(|s| s.name == name);
    let mut writes: Vec<_> = desired
        .iter()
        .filter(|wanted| {
            let hash = wanted.content.hash();
            find(&wanted.name).is_none_or(|live| live.hash != hash || live.deleting)
        })
        .map(|wanted| Action::ApplySlice(wanted.object()))
        .collect();
    // Endpoints are sorted: one that comes pushes others into the next slice, one that goes pulls.
    let ours = observed
        .slices
        .iter()
        .filter(|s| s.ours && s.service == mirror);
    if ours.count() <= desired.len() {
        writes.reverse();
    }
    let mut ready: Vec<_> = desired.iter().flat_map(|d| d.content.ready()).collect();
    ready.sort_unstable();
    let is_dead = |endpoint: &u32| ready.binary_search(endpoint).is_err();
    // All of them, also those that have none that is dead: endpoints move from one into another.
    plan.takes_out = observed
        .slices
        .iter()
        .filter(|slice| slice.ours && slice.service == mirror && !slice.deleting)
        .any(|slice| slice.ready.iter().any(is_dead));
    plan.actions.extend(writes);
    let is_stale = |slice: &&Slice| {
        let unwanted = desired.iter().all(|wanted| wanted.name != slice.name);
        // What a selector left behind goes on sending traffic.
        (slice.ours || (slice.of_selector && !selected && slice.service == mirror))
            && unwanted
            && !slice.deleting
    };
    let mut stale: Vec<_> = observed.slices.iter().filter(is_stale).collect();
    stale.sort();
    plan.actions.extend(stale.into_iter().map(delete));
}
