//! Deleting, after its name was typed.
//!
//! Invariant: the object that was shown is deleted, and not another one of its name.

use axum::extract::Path;
use axum::response::Response;
use http::StatusCode;
use insight_read::request::all;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Preconditions};

use api::Machine;

use super::app::{html, see};
use super::visitor::{Sent, Visitor, named};
use crate::access::Act;
use crate::kinds::Kind;
use crate::pages::confirm::{Deletion, confirm};
use crate::paths;
use crate::problem::Problem;

/// Pages of the machines that are counted.
const PAGES: usize = 10;

/// The page that asks.
pub(crate) async fn ask(
    visitor: Visitor,
    Path((word, namespace, name)): Path<(String, String, String)>,
) -> Response {
    let answer = async {
        let (kind, namespace, name) = deletable(&word, &namespace, &name)?;
        asked(&visitor, kind, namespace, name, None).await
    };
    let answer = answer.await;
    visitor.answer(answer)
}

/// Kinds that people delete.
fn deletable<'a>(
    word: &str,
    namespace: &'a str,
    name: &'a str,
) -> Result<(Kind, &'a str, &'a str), Problem> {
    let (namespace, name) = named(namespace, name)?;
    match Kind::of_word(word) {
        Some(kind @ (Kind::Clusters | Kind::Pools | Kind::Machines)) => Ok((kind, namespace, name)),
        Some(Kind::Hosts | Kind::Snapshots | Kind::Restores | Kind::ProviderConfigs) | None => {
            Err(Problem::no_page())
        }
    }
}

fn called(kind: Kind) -> &'static str {
    match kind {
        Kind::Clusters => "tenant cluster",
        Kind::Pools => "node pool",
        Kind::Machines => "machine",
        Kind::Hosts => "host",
        Kind::Snapshots => "snapshot",
        Kind::Restores => "restore",
        Kind::ProviderConfigs => "account at a cloud",
    }
}

async fn asked(
    visitor: &Visitor,
    kind: Kind,
    namespace: &str,
    name: &str,
    mistake: Option<&str>,
) -> Result<Response, Problem> {
    let (client, resource) = (visitor.client(), kind.resource());
    let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let (found, goes, access) = tokio::join!(
        objects.get(name),
        goes(visitor, kind, namespace, name),
        visitor.access(namespace)
    );
    let act = format!("get the {} {name} in {namespace}", called(kind));
    let found = found.map_err(|error| Problem::of(&act, &error))?;
    let refused = access.refuses(Act::new("delete", &resource.plural, Some(name)), namespace);
    let uid = found.uid().unwrap_or_default();
    let page = Deletion {
        kind,
        word: called(kind),
        namespace,
        name,
        uid: &uid,
        goes: &goes,
        mistake,
        refused: refused.as_deref(),
    };
    let status = match mistake {
        None => StatusCode::OK,
        Some(_) => StatusCode::UNPROCESSABLE_ENTITY,
    };
    Ok(html(status, confirm(visitor.viewer(), &page)))
}

/// What goes with it.
async fn goes(visitor: &Visitor, kind: Kind, namespace: &str, name: &str) -> String {
    let machines = async |is_of: fn(&Machine, &str) -> bool| {
        let api: Api<Machine> = Api::namespaced(visitor.client().clone(), namespace);
        match all(&api, ListParams::default(), PAGES).await {
            Ok(all) => match all.iter().filter(|machine| is_of(machine, name)).count() {
                1 => "1 machine".to_owned(),
                count => format!("{count} machines"),
            },
            // That it is not known keeps nobody from deleting.
            Err(_) => "its machines, whose number is not known".to_owned(),
        }
    };
    match kind {
        Kind::Clusters => {
            let machines = machines(|machine, name| machine.spec.cluster_name == name).await;
            format!(
                "the tenant cluster {name} in {namespace}: its control plane, etcd with all data, volumes, load balancers and {machines}"
            )
        }
        Kind::Pools => {
            let machines = machines(|machine, name| machine.spec.pool_name == name).await;
            format!("the node pool {name} in {namespace}: {machines}")
        }
        Kind::Machines | Kind::Hosts | Kind::Snapshots | Kind::Restores | Kind::ProviderConfigs => {
            format!(
                "the {} {name} in {namespace}; its node pool makes another one",
                called(kind)
            )
        }
    }
}

/// Deletes it.
pub(crate) async fn delete(
    Path((word, namespace, name)): Path<(String, String, String)>,
    sent: Sent,
) -> Response {
    let visitor = &sent.visitor;
    let answer = async {
        let (kind, namespace, name) = deletable(&word, &namespace, &name)?;
        if sent.pairs.text("confirm") != name {
            let mistake = format!("type {name}: nothing was deleted");
            return asked(visitor, kind, namespace, name, Some(&mistake)).await;
        }
        let resource = kind.resource();
        let client = visitor.client().clone();
        let objects: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(sent.pairs.text("uid").to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let act = format!("delete the {} {name} in {namespace}", called(kind));
        let deleted = objects.delete(name, &params).await;
        deleted.map_err(|error| Problem::of(&act, &error))?;
        let page = paths::list(&format!("/{}", kind.word()), Some(namespace));
        Ok(see(&format!("{page}&done=deleted")))
    };
    let answer = answer.await;
    visitor.answer(answer)
}
