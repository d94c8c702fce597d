//! Reading the facts that descriptions and checks go by.
//!
//! Invariant: what could not be read is unknown and never absent; a missing right becomes a line and never an error;
//! requests go side by side, a bounded number at a time.

use std::sync::Mutex;

use futures::stream::{self, StreamExt as _};
use insight::facts::{Facts, NO_ANSWER, NOT_ALLOWED, TOO_MANY, TenantNamespace};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Namespace, PersistentVolumeClaim, Pod};
use kit_objects::known::Known;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use serde::de::DeserializeOwned;

use api::names::NOT_OF_MACHINES;
use api::{Machine, NodePool, TenantCluster};

use crate::request::{self, Unread};

pub(crate) mod installation;

/// Tenant namespaces that are read at once.
const AT_ONCE: usize = 8;
/// Why something is not known: this cluster does not have the kind.
const NO_KIND: &str = "this cluster has no such kind";
/// Why something is not known: what was answered cannot be read.
const UNREADABLE: &str = "it was answered in a form that is not understood";

/// Notes what may not be read.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    not_allowed: Mutex<Vec<String>>,
}

impl Reader {
    /// What may not be read, in order.
    pub(crate) fn not_allowed(self) -> Vec<String> {
        let all = self.not_allowed.into_inner();
        let mut all = all.unwrap_or_else(std::sync::PoisonError::into_inner);
        all.sort();
        all.dedup();
        all
    }

    /// A list, or why it is not known. `what` says which: `pods in covey-demo-0a1b2c3d11`.
    pub(crate) async fn list<K>(
        &self,
        api: &Api<K>,
        params: ListParams,
        pages: usize,
        what: &str,
    ) -> Known<Vec<K>>
    where
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        match request::all(api, params, pages).await {
            Ok(all) => Known::Known(all),
            Err(Unread::TooMany) => Known::Unknown { why: TOO_MANY },
            // A list that is not found is of a kind that is not there.
            Err(Unread::Failed(error)) => Known::Unknown {
                why: self.why(&error, &format!("list {what}")),
            },
        }
    }

    /// An object, that it is absent, or why it is not known.
    pub(crate) async fn get<K>(&self, api: &Api<K>, name: &str, what: &str) -> Known<K>
    where
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        match api.get_opt(name).await {
            Ok(found) => Known::found(found),
            Err(error) => Known::Unknown {
                why: self.why(&error, &format!("get {what}")),
            },
        }
    }

    fn why(&self, error: &kube::Error, act: &str) -> &'static str {
        match error {
            kube::Error::Api(status) if matches!(status.code, 401 | 403) => {
                let all = self.not_allowed.lock();
                let mut all = all.unwrap_or_else(std::sync::PoisonError::into_inner);
                all.push(act.to_owned());
                NOT_ALLOWED
            }
            kube::Error::Api(status) if status.code == 404 => NO_KIND,
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => UNREADABLE,
            _ => NO_ANSWER,
        }
    }
}

/// What is read of one tenant cluster for its description: five requests, four of them at once.
pub(crate) async fn of_cluster(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<(TenantCluster, Facts, Known<Vec<Event>>), kube::Error> {
    let reader = Reader::default();
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let events_are = format!("events in {namespace}");
    let warnings = ListParams::default().fields("type=Warning");
    let (about, events) = tokio::join!(
        about_cluster(&reader, client, namespace, name, 1),
        reader.list(&events, warnings, 1, &events_are),
    );
    let (cluster, mut facts) = about?;
    let space = cluster.status.as_ref().and_then(|s| s.namespace.clone());
    if let Some(space) = space {
        let pods = pods(&reader, client, &space, 1).await;
        let read = TenantNamespace {
            pods,
            ..TenantNamespace::default()
        };
        facts.tenant_namespaces.insert(space, read);
    }
    facts.not_allowed = reader.not_allowed();
    let events = events.map(|all| all.into_iter().filter(|e| is_of(e, name, &facts)).collect());
    Ok((cluster, facts, events))
}

/// The tenant cluster with its pools and machines, which say what an Event is about.
pub(crate) async fn about_cluster(
    reader: &Reader,
    client: &Client,
    namespace: &str,
    name: &str,
    pages: usize,
) -> Result<(TenantCluster, Facts), kube::Error> {
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), namespace);
    let pools: Api<NodePool> = Api::namespaced(client.clone(), namespace);
    let machines: Api<Machine> = Api::namespaced(client.clone(), namespace);
    let (pools_are, machines_are) = (
        format!("nodepools in {namespace}"),
        format!("machines in {namespace}"),
    );
    let (cluster, pools, machines) = tokio::join!(
        clusters.get(name),
        reader.list(&pools, ListParams::default(), pages, &pools_are),
        reader.list(&machines, ListParams::default(), pages, &machines_are),
    );
    let pools = pools.map(|mut all| {
        all.retain(|pool| pool.spec.cluster_name == name);
        all
    });
    let machines = machines.map(|mut all| {
        all.retain(|machine| machine.spec.cluster_name == name);
        all
    });
    let cluster = cluster?;
    let facts = Facts {
        now: Timestamp::now(),
        clusters: Known::Known(vec![cluster.clone()]),
        pools,
        machines,
        ..Facts::default()
    };
    Ok((cluster, facts))
}

/// Whether an Event is about the tenant cluster, one of its pools or one of its machines.
pub(crate) fn is_of(event: &Event, cluster: &str, facts: &Facts) -> bool {
    let about = &event.involved_object;
    let name = about.name.as_deref().unwrap_or_default();
    let among = |names: Option<Vec<String>>| names.is_some_and(|all| all.iter().any(|n| n == name));
    match about.kind.as_deref() {
        Some("TenantCluster") => name == cluster,
        Some("NodePool") => {
            let all = facts.pools.as_ref().there();
            among(all.map(|all| all.iter().map(|p| p.name_any()).collect()))
        }
        Some("Machine") => {
            let all = facts.machines.as_ref().there();
            among(all.map(|all| all.iter().map(|m| m.name_any()).collect()))
        }
        _ => false,
    }
}

async fn pods(reader: &Reader, client: &Client, space: &str, pages: usize) -> Known<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), space);
    let params = ListParams::default().labels(NOT_OF_MACHINES);
    let what = format!("pods in {space}");
    reader.list(&api, params, pages, &what).await
}

/// What is in tenant namespaces, a few at a time.
pub(crate) async fn tenant_namespaces(
    reader: &Reader,
    client: &Client,
    names: Vec<String>,
) -> Vec<(String, TenantNamespace)> {
    let reads = names.into_iter().map(|name| async move {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &name);
        let (this, claims_are) = (
            format!("namespace {name}"),
            format!("persistentvolumeclaims in {name}"),
        );
        let (object, pods, claims) = tokio::join!(
            reader.get(&namespaces, &name, &this),
            pods(reader, client, &name, 2),
            reader.list(&claims, ListParams::default(), 2, &claims_are),
        );
        let read = TenantNamespace {
            object,
            pods,
            claims,
        };
        (name, read)
    });
    stream::iter(reads)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await
}
