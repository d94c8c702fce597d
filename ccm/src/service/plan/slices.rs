//! The EndpointSlices of a mirror: which machines get its traffic.
//!
//! One endpoint per node and family: the address of its machine, the tenant's node port, and the
//! management cluster's node below, by which `externalTrafficPolicy: Local` there sends traffic
//! without changing the client's address. With that policy an endpoint counts only while the
//! tenant's Service has a pod on the node; readiness comes from the machine, from the node and, then,
//! from those pods. This is what a health-check node port would say, without asking.
//!
//! Invariant: never more than [`MOST`] endpoints in a slice, families never mixed; the same input in
//! any order gives the same slices.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use api::names::{LABEL_COMPONENT, LABEL_MANAGED_BY, LABEL_TENANT_UID};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::refusal::Port;
use super::{Action, Observed, Plan, mirror};
use crate::model::number;
use crate::names;
use crate::settings::Settings;

/// Most endpoints of a slice, as the EndpointSlice controller's default
/// (`--max-endpoints-per-slice`).
pub const MOST: usize = 100;

/// Labels of a slice that are ours; what others add makes no difference.
const LABELS: [&str; 6] = [
    LABEL_MANAGED_BY,
    LABEL_COMPONENT,
    LABEL_TENANT_UID,
    names::LABEL_SERVICE_UID,
    names::LABEL_SLICE_OF,
    names::LABEL_SLICES_MANAGED_BY,
];

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4
    V4,
    /// IPv6
    V6,
}

impl Family {
    /// As in `spec.ipFamilies` and `addressType`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    fn has(self, address: &IpAddr) -> bool {
        address.is_ipv4() == (self == Self::V4)
    }
}

/// A machine that traffic may be sent to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The tenant's node.
    pub node: Arc<str>,
    /// The node is Ready, with its kube-proxy, and its machine runs.
    pub ready: bool,
    /// The machine runs, or is just being shut down; the node may be anything.
    pub serving: bool,
    /// The machine is being shut down.
    pub terminating: bool,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The management cluster's node that it is on.
    pub management_node: Option<Arc<str>>,
}

/// What endpoints of the tenant's Service a node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Presence {
    /// One that is ready.
    pub ready: bool,
    /// One that serves, though it may be terminating.
    pub serving: bool,
}

/// An EndpointSlice as it is: all that has to be remembered of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slice {
    /// metadata.name
    pub name: String,
    /// metadata.uid
    pub uid: String,
    /// The Service that it belongs to.
    pub service: String,
    /// UID of the tenant's Service, by its label.
    pub of: Option<String>,
    /// We made it.
    pub ours: bool,
    /// The EndpointSlice controller made it of a selector.
    pub of_selector: bool,
    /// metadata.deletionTimestamp is set.
    pub deleting: bool,
    /// metadata.resourceVersion as a number, to know which of two is newer; 0 where it is none.
    pub version: u64,
    /// Of everything that we would write.
    pub hash: u64,
}

/// metadata.resourceVersion as a number; 0 where it is none.
#[must_use]
pub fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().map_or(0, number)
}

impl Slice {
    pub(super) fn delete(&self) -> Action {
        Action::DeleteSlice {
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }
}

impl From<&EndpointSlice> for Slice {
    fn from(slice: &EndpointSlice) -> Self {
        let meta = &slice.metadata;
        let label = |key: &str| meta.labels.as_ref().and_then(|l| l.get(key));
        let by = label(names::LABEL_SLICES_MANAGED_BY).map(String::as_str);
        Self {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            service: label(names::LABEL_SLICE_OF).cloned().unwrap_or_default(),
            of: label(names::LABEL_SERVICE_UID).cloned(),
            ours: by == Some(names::SLICES_MANAGED_BY),
            of_selector: by == Some(names::SLICES_OF_SELECTOR),
            deleting: meta.deletion_timestamp.is_some(),
            version: version(meta),
            hash: Content::of(slice).hash(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Endpoint {
    node: Arc<str>,
    address: String,
    ready: bool,
    serving: bool,
    terminating: bool,
    management_node: Option<Arc<str>>,
}

impl Endpoint {
    fn value(&self) -> Value {
        let mut value = json!({
            "addresses": [self.address],
            "conditions": {
                "ready": self.ready, "serving": self.serving, "terminating": self.terminating,
            },
            // For people, and to tell two endpoints apart whose addresses changed places.
            "targetRef": { "kind": "VirtualMachineInstance", "name": &*self.node },
        });
        if let Some(node) = &self.management_node {
            value["nodeName"] = json!(&**node);
        }
        value
    }
}

type SlicePort = (String, String, i32, Option<String>);

/// What a slice says, wherever it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Content {
    family: String,
    labels: BTreeMap<String, String>,
    owner: Option<String>,
    ports: Vec<SlicePort>,
    endpoints: Vec<Endpoint>,
}

impl Content {
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        Hash::hash(self, &mut hasher);
        hasher.finish()
    }

    fn of(slice: &EndpointSlice) -> Self {
        let meta = &slice.metadata;
        let ports = slice.ports.iter().flatten().map(|port| {
            (
                port.name.clone().unwrap_or_default(),
                port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                port.port.unwrap_or_default(),
                port.app_protocol.clone(),
            )
        });
        let endpoints = slice.endpoints.iter().map(|endpoint| {
            let conditions = endpoint.conditions.as_ref();
            let is = |value: Option<Option<bool>>| value.flatten().unwrap_or(false);
            let target = endpoint.target_ref.as_ref().and_then(|t| t.name.as_deref());
            Endpoint {
                node: target.unwrap_or_default().into(),
                address: endpoint.addresses.join(","),
                ready: is(conditions.map(|c| c.ready)),
                serving: is(conditions.map(|c| c.serving)),
                terminating: is(conditions.map(|c| c.terminating)),
                management_node: endpoint.node_name.as_deref().map(Into::into),
            }
        });
        let owners = meta.owner_references.iter().flatten();
        let mut owners = owners.filter(|o| o.kind == "Service");
        let labels = meta.labels.iter().flatten();
        let labels = labels.filter(|(key, _)| LABELS.contains(&key.as_str()));
        Self {
            family: slice.address_type.clone(),
            labels: labels.map(|(k, v)| (k.clone(), v.clone())).collect(),
            owner: owners.next().map(|o| o.uid.clone()),
            ports: ports.collect(),
            endpoints: endpoints.collect(),
        }
    }
}

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
        let port = |(name, protocol, port, app): &SlicePort| {
            let mut value = json!({ "name": name, "protocol": protocol, "port": port });
            if let Some(app) = app {
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
            "endpoints": endpoints.iter().map(Endpoint::value).collect::<Vec<_>>(),
        })
    }
}

/// The slices as they should be, by name.
#[must_use]
pub fn desired(
    service: &Service,
    ports: &[Port],
    mirror: &Service,
    observed: &Observed,
    settings: &Settings,
) -> Vec<Desired> {
    let name = mirror.metadata.name.clone().unwrap_or_default();
    let mut labels = mirror::labels(settings, &observed.uid);
    labels.insert(names::LABEL_SLICE_OF.to_owned(), name.clone());
    labels.insert(
        names::LABEL_SLICES_MANAGED_BY.to_owned(),
        names::SLICES_MANAGED_BY.to_owned(),
    );
    labels.retain(|key, _| LABELS.contains(&key.as_str()));
    let mut ports: Vec<SlicePort> = ports
        .iter()
        .map(|p| {
            (
                p.name.clone(),
                p.protocol.clone(),
                p.node_port,
                p.app_protocol.clone(),
            )
        })
        .collect();
    ports.sort();
    let mut all = Vec::new();
    for family in families(service, mirror) {
        let endpoints = endpoints(service, observed, family);
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
    let policy = service.spec.as_ref();
    let policy = policy.and_then(|s| s.external_traffic_policy.as_deref());
    let local = policy == Some("Local");
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
                false => Presence {
                    ready: true,
                    serving: true,
                },
            };
            let leaving = target.terminating || (local && !pods.ready);
            Some(Endpoint {
                node: Arc::clone(&target.node),
                address: address.to_string(),
                ready: healthy && pods.ready,
                // Last resort of a proxy that finds none that is ready (KEP-1669).
                serving: (healthy || target.terminating) && target.serving && pods.serving,
                terminating: leaving,
                management_node: target.management_node.clone(),
            })
        })
        .filter(|endpoint| endpoint.serving || endpoint.ready)
        .collect();
    endpoints.sort();
    // Two nodes that claim one machine must not make one endpoint twice.
    endpoints.dedup_by(|a, b| a.address == b.address);
    endpoints
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
    plan.actions.extend(stale.into_iter().map(Slice::delete));
}
