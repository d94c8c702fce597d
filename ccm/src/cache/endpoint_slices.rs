//! Cached EndpointSlices: of the tenant cluster, on which nodes a Service has endpoints; of the
//! tenant namespace, what a slice says, as a hash.
//!
//! Invariant: two slices that say the same have the same hash, wherever they come from; what others
//! add to one makes no difference.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use api::names::{LABEL_COMPONENT, LABEL_MANAGED_BY, LABEL_TENANT_UID};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::cache::objects::version;
use crate::names;

/// Labels of a slice that are ours; what others add makes no difference.
pub const LABELS: [&str; 6] = [
    LABEL_MANAGED_BY,
    LABEL_COMPONENT,
    LABEL_TENANT_UID,
    names::LABEL_SERVICE_UID,
    names::LABEL_SLICE_OF,
    names::LABEL_SLICES_MANAGED_BY,
];

/// What endpoints of the tenant's Service a node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalEndpoints {
    /// One that is ready.
    pub ready: bool,
    /// One that serves, though it may be terminating.
    pub serving: bool,
}

impl LocalEndpoints {
    /// Counts the endpoints of another slice, too.
    pub fn add(&mut self, more: Self) {
        self.ready |= more.ready;
        self.serving |= more.serving;
    }
}

/// The nodes on which a slice of the tenant cluster has endpoints; `share` gives the name of a node
/// that others hold already.
pub fn local_endpoints(
    slice: &EndpointSlice,
    share: impl Fn(&str) -> Arc<str>,
) -> BTreeMap<Arc<str>, LocalEndpoints> {
    let mut nodes: BTreeMap<Arc<str>, LocalEndpoints> = BTreeMap::new();
    for endpoint in &slice.endpoints {
        let Some(name) = endpoint.node_name.as_deref() else {
            continue;
        };
        let conditions = endpoint.conditions.as_ref();
        // What is not said is true, but for `serving`, which is then as `ready` is (KEP-1672).
        let ready = conditions.and_then(|c| c.ready).unwrap_or(true);
        let serving = conditions.and_then(|c| c.serving).unwrap_or(ready);
        let all = nodes.entry(share(name)).or_default();
        all.add(LocalEndpoints { ready, serving });
    }
    nodes
}

/// An EndpointSlice of the tenant namespace as it is: all that has to be remembered of one.
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
    /// The endpoints that are ready, sorted: see [`Content::ready`].
    pub ready: Box<[u32]>,
}

impl From<&EndpointSlice> for Slice {
    fn from(slice: &EndpointSlice) -> Self {
        let meta = &slice.metadata;
        let label = |key: &str| meta.labels.as_ref().and_then(|l| l.get(key));
        let by = label(names::LABEL_SLICES_MANAGED_BY).map(String::as_str);
        let content = Content::of(slice);
        Self {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            service: label(names::LABEL_SLICE_OF).cloned().unwrap_or_default(),
            of: label(names::LABEL_SERVICE_UID).cloned(),
            ours: by == Some(names::SLICES_MANAGED_BY),
            of_selector: by == Some(names::SLICES_OF_SELECTOR),
            deleting: meta.deletion_timestamp.is_some(),
            version: version(meta),
            hash: content.hash(),
            ready: content.ready().into(),
        }
    }
}

/// An endpoint of a mirror: a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// Name of the virtual machine.
    pub machine: Arc<str>,
    /// Its address of the slice's family.
    pub address: String,
    /// The condition.
    pub ready: bool,
    /// The condition.
    pub serving: bool,
    /// The condition.
    pub terminating: bool,
    /// The management cluster's node that it is on.
    pub management_node: Option<Arc<str>>,
    /// The zone that it is in.
    pub zone: Option<Arc<str>>,
    /// The zone whose traffic it should get rather than that of others (`hints.forZones`).
    pub for_zone: Option<Arc<str>>,
}

/// A port of a slice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlicePort {
    /// Name; empty where there is only one.
    pub name: String,
    /// TCP, UDP or SCTP.
    pub protocol: String,
    /// Port of the tenant's nodes.
    pub port: i32,
    /// What is spoken.
    pub app_protocol: Option<String>,
}

/// What a slice says, wherever it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Content {
    /// addressType
    pub family: String,
    /// Those of [`LABELS`].
    pub labels: BTreeMap<String, String>,
    /// UID of the mirror.
    pub owner: Option<String>,
    /// Its ports.
    pub ports: Vec<SlicePort>,
    /// Its endpoints.
    pub endpoints: Vec<Endpoint>,
}

impl Content {
    /// Equal for slices that say the same, while this process runs.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        Hash::hash(self, &mut hasher);
        hasher.finish()
    }

    /// Digests of machine and address of the endpoints that are ready, sorted; equal for the same two while
    /// this process runs. That two share one of four billion may cost a dead endpoint its haste, no more.
    #[must_use]
    pub fn ready(&self) -> Vec<u32> {
        let ready = self.endpoints.iter().filter(|endpoint| endpoint.ready);
        let mut digests: Vec<_> = ready
            .map(|endpoint| {
                let mut hasher = DefaultHasher::new();
                Hash::hash(&(&endpoint.machine, &endpoint.address), &mut hasher);
                (hasher.finish() & u64::from(u32::MAX)) as u32
            })
            .collect();
        digests.sort_unstable();
        digests
    }

    /// That of a slice as an API told it.
    #[must_use]
    pub fn of(slice: &EndpointSlice) -> Self {
        let meta = &slice.metadata;
        let ports = slice.ports.iter().flatten().map(|port| SlicePort {
            name: port.name.clone().unwrap_or_default(),
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            port: port.port.unwrap_or_default(),
            app_protocol: port.app_protocol.clone(),
        });
        let endpoints = slice.endpoints.iter().map(|endpoint| {
            let conditions = endpoint.conditions.as_ref();
            let is = |value: Option<Option<bool>>| value.flatten().unwrap_or(false);
            let target = endpoint.target_ref.as_ref().and_then(|t| t.name.as_deref());
            let hints = endpoint.hints.as_ref().and_then(|h| h.for_zones.as_ref());
            let zones: Vec<&str> = hints.into_iter().flatten().map(|z| &*z.name).collect();
            Endpoint {
                machine: target.unwrap_or_default().into(),
                address: endpoint.addresses.join(","),
                ready: is(conditions.map(|c| c.ready)),
                serving: is(conditions.map(|c| c.serving)),
                terminating: is(conditions.map(|c| c.terminating)),
                management_node: endpoint.node_name.as_deref().map(Into::into),
                zone: endpoint.zone.as_deref().map(Into::into),
                for_zone: (!zones.is_empty()).then(|| zones.join(",").into()),
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
