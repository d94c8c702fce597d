//! `covey tree`: a tenant cluster's objects by who owns them, in its namespace, its tenant namespace and inside of it.
//!
//! Invariant: every list has a bound; what may not be read, or is not there, is a line on standard error. Only what is
//! inside is asked of the tenant's API, and only when that is wanted.

use api::names::NOT_OF_MACHINES;
use insight_read::request::{self, Unread};
use jiff::Timestamp;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use serde::Serialize;
use serde_json::Value;

use super::describe::about;
use super::kubeconfig::administrators;
use crate::args::overview::Tree;
use crate::args::{Format, Global};
use crate::connect::{Connection, connect, inside_of};
use crate::exit::{Exit, Failure};
use crate::output::{result, say, structured};
use crate::render::Symbols;
use crate::terminal::fitted;
use crate::tree::{Item, Place, is_part, item, written};

/// Pages of each list.
const PAGES: usize = 4;
/// What is shown of the user's namespace beside the tenant cluster, its pools and machines.
const BESIDE: &[(&str, &str, &str)] = &[
    ("covey.dev", "v1alpha1", "Restore"),
    ("covey.dev", "v1alpha1", "Snapshot"),
];
/// What is shown of a tenant namespace.
const PARTS: &[(&str, &str, &str)] = &[
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "ReplicaSet"),
    ("apps", "v1", "StatefulSet"),
    ("kubevirt.io", "v1", "VirtualMachine"),
    ("", "v1", "PersistentVolumeClaim"),
    ("", "v1", "Pod"),
    ("", "v1", "Service"),
];
/// What is shown of the inside.
const INSIDE: &[(&str, &str, &str)] = &[
    ("apps", "v1", "DaemonSet"),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "StatefulSet"),
    ("", "v1", "Node"),
];

/// `ClusterTree` of `cli.covey.dev/v1`; it only ever gains fields.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    api_version: &'static str,
    kind: &'static str,
    name: &'a str,
    namespace: &'a str,
    places: &'a [Place],
}

pub(super) async fn run(global: &Global, args: &Tree) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let (client, namespace) = (&connection.client, connection.namespace.as_str());
    // It is large, because many requests are made side by side.
    let (own, space) = Box::pin(own(client, namespace, &args.name)).await?;
    let mut places = vec![own];
    if args.namespaces {
        match &space {
            Some(space) => places.push(parts(client, space).await),
            None => say(&format!("{} has no tenant namespace yet", args.name)),
        }
    }
    if args.inside {
        places.push(inside(global, &connection, &args.name).await?);
    }
    let text = match global.output {
        Format::Json | Format::Yaml => {
            let report = Report {
                api_version: "cli.covey.dev/v1",
                kind: "ClusterTree",
                name: &args.name,
                namespace,
                places: &places,
            };
            structured(&report, global.output)?
        }
        Format::Name => {
            let items = places.iter().flat_map(|place| &place.items);
            let names = items.map(|item| format!("{}/{}\n", item.kind.to_lowercase(), item.name));
            names.collect()
        }
        Format::Table | Format::Wide => {
            let text = written(&places, Timestamp::now(), Symbols::of(global));
            fitted(text, global)
        }
    };
    result(&text)?;
    Ok(Exit::Done)
}

/// The user's namespace, and the name of the tenant namespace.
async fn own(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<(Place, Option<String>), Failure> {
    let (cluster, facts) = about(client, namespace, name, PAGES).await?;
    let uid = cluster.uid().unwrap_or_default();
    let mut items = vec![typed("TenantCluster", &cluster, None)];
    let pools = facts.pools.as_ref().there().into_iter().flatten();
    items.extend(
        pools
            .clone()
            .map(|pool| typed("NodePool", pool, Some(uid.clone()))),
    );
    let machines = facts.machines.as_ref().there().into_iter().flatten();
    items.extend(machines.map(|machine| {
        let mut pools = pools.clone();
        let pool = pools.find(|pool| pool.name_any() == machine.spec.pool_name);
        typed("Machine", machine, pool.and_then(|pool| pool.uid()))
    }));
    let beside = listed(client, Some(namespace), BESIDE, None).await;
    let beside = beside
        .into_iter()
        .filter(|(_, object)| object["spec"]["clusterName"] == name);
    items.extend(beside.map(|(kind, object)| Item {
        owners: vec![uid.clone()],
        ..item(kind, &object)
    }));
    let place = Place {
        place: format!("namespace {namespace}"),
        items,
    };
    Ok((place, cluster.status.and_then(|status| status.namespace)))
}

/// A typed object; its owner is who its spec names.
fn typed(kind: &str, object: &impl Serialize, owner: Option<String>) -> Item {
    let object = serde_json::to_value(object).unwrap_or_default();
    Item {
        owners: owner.into_iter().collect(),
        ..item(kind, &object)
    }
}

/// The tenant namespace, without the pods of machines.
async fn parts(client: &Client, space: &str) -> Place {
    let all = listed(client, Some(space), PARTS, Some(NOT_OF_MACHINES)).await;
    let items = all.iter().map(|(kind, object)| item(kind, object));
    Place {
        place: format!("tenant namespace {space}"),
        items: items.filter(is_part).collect(),
    }
}

/// Nodes and workloads inside the tenant cluster.
async fn inside(global: &Global, connection: &Connection, name: &str) -> Result<Place, Failure> {
    let (_, kubeconfig) = administrators(connection, name).await?;
    let client = inside_of(&kubeconfig, global).await?;
    let all = listed(&client, None, INSIDE, None).await;
    let items = all.iter().map(|(kind, object)| {
        let mut item = item(kind, object);
        if let Some(namespace) = object["metadata"]["namespace"].as_str() {
            item.name = insight::text::shown(&format!("{namespace}/{}", item.name));
        }
        item
    });
    Ok(Place {
        place: format!("inside {name}"),
        items: items.collect(),
    })
}

/// Lists of kinds, with what each is called. What is not there, as KubeVirt where machines are of another provider, is
/// nothing to be said.
async fn listed(
    client: &Client,
    namespace: Option<&str>,
    kinds: &'static [(&'static str, &'static str, &'static str)],
    pods: Option<&str>,
) -> Vec<(&'static str, Value)> {
    let reads = kinds.iter().map(|(group, version, kind)| async move {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let params = match pods.filter(|_| *kind == "Pod") {
            Some(labels) => ListParams::default().labels(labels),
            None => ListParams::default(),
        };
        (
            *kind,
            resource.plural,
            request::all(&api, params, PAGES).await,
        )
    });
    let mut found = Vec::new();
    for (kind, plural, read) in futures::future::join_all(reads).await {
        match read {
            Ok(all) => {
                let all = all
                    .into_iter()
                    .filter_map(|one| serde_json::to_value(one).ok());
                found.extend(all.map(|one| (kind, one)));
            }
            Err(Unread::Failed(kube::Error::Api(status))) if status.code == 404 => {}
            Err(unread) => {
                let why = Failure::unread(&format!("list {plural}"), &unread).what;
                say(&format!("({why})"));
            }
        }
    }
    found
}
