//! Watches inside tenant clusters: our objects, nodes, and certificates that kubelets ask for.
//!
//! Invariant: nothing of an object is kept but its name and fingerprint; who is woken reads for
//! himself.

mod fingerprints;
mod nodes;
pub(super) mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::{Machine, TenantCluster};
use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kit_objects::kinds::{self, Kind};
use kube::api::{DynamicObject, ObjectMeta, PartialObjectMeta};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, ResourceExt};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::budget::PAGE;
use crate::node_silence::NodeSilence;
use fingerprints::{Change, Fingerprints};
use stream::{Gate, watched};

/// Kinds of objects in a tenant cluster whose changes are noticed at once: without one of these addons
/// do not work, nodes do not join, or pods do not find the API. Others are found by the slow sweep: each
/// watch costs a stream of the tenant's one connection, and a request every five minutes. Of these,
/// namespaces do not go without what is in them, Endpoints are read by nobody where there is an
/// EndpointSlice, and what uses a ServiceAccount, a definition or a class has it already.
const OBJECTS: [Kind; 9] = [
    kinds::CLUSTER_ROLE,
    kinds::CLUSTER_ROLE_BINDING,
    kinds::CONFIG_MAP,
    kinds::DAEMON_SET,
    kinds::DEPLOYMENT,
    kinds::ENDPOINT_SLICE,
    kinds::ROLE,
    kinds::ROLE_BINDING,
    kinds::SERVICE,
];
/// A TenantCluster is woken by its own objects no more often than this.
const PERIOD: Duration = Duration::from_secs(1);

/// Pages as small as those of any list, whose answers are capped: objects in them have any size.
fn config() -> Config {
    Config::default().page_size(PAGE)
}

/// Signers of nodes' certificates. A watch for each: requests to others, of which there may be any number, cost nothing.
const SIGNERS: [&str; 2] = [
    tenant_cp::names::KUBELET_CLIENT_SIGNER,
    tenant_cp::names::KUBELET_SERVING_SIGNER,
];

/// Names of requests that wait for approval, by node.
pub(super) type Waiting = Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>;

/// An event about an object of a kind, reduced to its name and fingerprint.
type Reduced = (Kind, Event<(String, String)>);

/// An event about a request to a signer, reduced to its name and the node that waits for the answer.
type Asked = (&'static str, Event<(String, Option<String>)>);

/// Wakes the TenantCluster when something of ours in the tenant changes.
/// `suspected` is called when one was changed or lost, before anybody is woken.
pub(super) fn objects(
    client: &Client,
    cluster: ObjectRef<TenantCluster>,
    gate: Gate,
    suspected: impl Fn() + Send + 'static,
    clusters: mpsc::UnboundedSender<ObjectRef<TenantCluster>>,
) -> impl Future<Output = ()> + Send + 'static {
    let ours = format!(
        "{}={}",
        api::names::LABEL_MANAGED_BY,
        api::names::MANAGED_BY
    );
    let mut events = SelectAll::<BoxStream<'static, Reduced>>::new();
    for kind in OBJECTS {
        let resource = kind.resource();
        let api = Api::<PartialObjectMeta<DynamicObject>>::all_with(client.clone(), &resource);
        let watch = watched(api, config().labels(&ours), gate.clone());
        let reduced = watch.map(move |event| (kind, reduce(event, |o| own(&o.metadata))));
        events.push(reduced.boxed());
    }
    async move {
        let mut known = BTreeMap::<Kind, Fingerprints<String>>::new();
        let (mut due, mut not_before) = (false, Instant::now());
        loop {
            tokio::select! {
                event = events.next() => {
                    let Some((kind, event)) = event else { return };
                    for change in known.entry(kind).or_default().take(event) {
                        due = true;
                        if change != Change::Same {
                            suspected();
                        }
                    }
                }
                () = tokio::time::sleep_until(not_before), if due => {
                    due = false;
                    not_before = Instant::now() + PERIOD;
                    if clusters.send(cluster.clone()).is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// Name and fingerprint of an object of ours: what is wanted of it is in its generation, where it
/// has one, else anything may matter.
fn own(meta: &ObjectMeta) -> (String, String) {
    let (namespace, name) = (
        meta.namespace.as_deref(),
        meta.name.as_deref().unwrap_or_default(),
    );
    let fingerprint = match (meta.generation, name) {
        (Some(generation), _) => generation.to_string(),
        // The kube-controller-manager signs it for each bootstrap token.
        (None, "cluster-info") => String::new(),
        (None, _) => meta.resource_version.clone().unwrap_or_default(),
    };
    (
        format!("{}/{name}", namespace.unwrap_or_default()),
        fingerprint,
    )
}

/// Wakes Machines when their node changes or waits for a certificate.
pub(super) fn nodes(
    client: &Client,
    namespace: String,
    gate: Gate,
    waiting: Waiting,
    machines: mpsc::UnboundedSender<ObjectRef<Machine>>,
) -> impl Future<Output = ()> + Send + 'static {
    let resource = kinds::NODE.resource();
    let api = Api::<nodes::Node>::all_with(client.clone(), &resource);
    let mut nodes = watched(api, config(), gate.clone());
    let mut requests = SelectAll::<BoxStream<'static, Asked>>::new();
    for signer in SIGNERS {
        let api = Api::<CertificateSigningRequest>::all(client.clone());
        let of_signer = config().fields(&format!("spec.signerName={signer}"));
        let watch = watched(api, of_signer, gate.clone());
        let reduced = watch.map(move |event| {
            let reduced = reduce(event, |r: CertificateSigningRequest| {
                (r.name_any(), nodes::waiting_for(&r))
            });
            (signer, reduced)
        });
        requests.push(reduced.boxed());
    }
    async move {
        let mut known = Fingerprints::default();
        let mut asked = BTreeMap::<&str, Fingerprints<Option<String>>>::new();
        loop {
            let names: Vec<String> = tokio::select! {
                event = nodes.next() => {
                    let Some(event) = event else { return };
                    let changes = known.take(reduce(event, |node: nodes::Node| {
                        (node.name_any(), nodes::fingerprint(&node))
                    }));
                    changes.into_iter().filter_map(name).collect()
                }
                event = requests.next() => {
                    let Some((signer, event)) = event else { return };
                    let changes = asked.entry(signer).or_default().take(event);
                    let new: Vec<String> = changes.into_iter().filter_map(name).collect();
                    let all = requests_by_node(asked.values());
                    let of = |(node, names): (&String, &BTreeSet<String>)| {
                        new.iter().any(|name| names.contains(name)).then(|| node.clone())
                    };
                    let nodes = all.iter().filter_map(of).collect();
                    *waiting.lock().unwrap_or_else(PoisonError::into_inner) = all;
                    nodes
                }
            };
            for name in names {
                if machines
                    .send(ObjectRef::new(&name).within(&namespace))
                    .is_err()
                {
                    return;
                }
            }
        }
    }
}

/// Listens to the nodes: each writes its Lease every ten seconds. Of one nothing is read but its version.
pub(super) fn leases(
    client: &Client,
    gate: Gate,
    silence: Arc<NodeSilence>,
) -> impl Future<Output = ()> + Send + 'static {
    let (uid, resource) = (gate.uid.clone(), kinds::LEASE.resource());
    let api = Api::<PartialObjectMeta<DynamicObject>>::namespaced_with(
        client.clone(),
        tenant_cp::names::NODE_LEASES,
        &resource,
    );
    let mut leases = watched(api, config(), gate);
    async move {
        while let Some(event) = leases.next().await {
            let version = |lease: &PartialObjectMeta<DynamicObject>| {
                lease.resource_version().unwrap_or_default()
            };
            silence.take(
                &uid,
                reduce(event, |lease| (lease.name_any(), version(&lease))),
            );
        }
    }
}

fn requests_by_node<'a>(
    asked: impl Iterator<Item = &'a Fingerprints<Option<String>>>,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::<String, BTreeSet<String>>::new();
    for (request, node) in asked.flat_map(Fingerprints::iter) {
        if let Some(node) = node {
            all.entry(node.clone()).or_default().insert(request.clone());
        }
    }
    all
}

fn name(change: Change) -> Option<String> {
    match change {
        Change::Changed(name) | Change::Gone(name) => Some(name),
        Change::Same => None,
    }
}

fn reduce<K, T>(event: Event<K>, reduce: impl Fn(K) -> T) -> Event<T> {
    match event {
        Event::Apply(object) => Event::Apply(reduce(object)),
        Event::Delete(object) => Event::Delete(reduce(object)),
        Event::InitApply(object) => Event::InitApply(reduce(object)),
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
    }
}
