//! The page of a tenant cluster, and what is done to it.
//!
//! Invariant: what is shown was read for this page; a change is one request, and leads back to the page.

use axum::extract::{Path, RawQuery};
use axum::response::Response;
use http::StatusCode;
use insight::description::{Detail, describe};
use insight::diagnosis::diagnose;
use insight_read::cluster::in_depth;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use api::TenantCluster;

use super::app::{MANAGER, html, notice, see};
use super::follow::address;
use super::visitor::{Sent, Visitor, named};
use crate::kinds::Kind;
use crate::pages::cluster::{ClusterPage, cluster};
use crate::paths;
use crate::problem::Problem;
use crate::query::Pairs;

/// Pages of each list that is read for one page.
const PAGES: usize = 4;
/// What the page follows.
const FOLLOWED: [Kind; 5] = [
    Kind::Clusters,
    Kind::Pools,
    Kind::Machines,
    Kind::Snapshots,
    Kind::Restores,
];

/// The page.
pub(crate) async fn page(
    visitor: Visitor,
    Path((namespace, name)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    let answer = shown(&visitor, &namespace, &name, query).await;
    visitor.answer(answer)
}

async fn shown(
    visitor: &Visitor,
    namespace: &str,
    name: &str,
    query: Option<String>,
) -> Result<Response, Problem> {
    let (namespace, name) = named(namespace, name)?;
    // It is large, because many requests are made side by side.
    let read = Box::pin(in_depth(visitor.client(), namespace, name, PAGES));
    let (read, access) = tokio::join!(read, visitor.access(namespace));
    let act = format!("get the tenant cluster {name} in {namespace}");
    let (found, facts, events) = read.map_err(|error| Problem::of(&act, &error))?;
    visitor.session.saw(namespace);
    let description = describe(&found, &facts, &events, Detail::default());
    let findings = diagnose(&facts, |_| true);
    let made = (&description, findings.as_slice());
    let page = ClusterPage::new(&found, (&facts, &events), made, &access);
    let query = Pairs::read(query.unwrap_or_default().as_bytes());
    let live = address(&FOLLOWED, Some(namespace));
    let text = cluster(visitor.viewer(), &page, &live, notice(query.text("done")));
    Ok(html(StatusCode::OK, text))
}

/// Pauses it.
pub(crate) async fn pause(Path(of): Path<(String, String)>, sent: Sent) -> Response {
    paused(&of, &sent, true).await
}

/// Lets it go on.
pub(crate) async fn resume(Path(of): Path<(String, String)>, sent: Sent) -> Response {
    paused(&of, &sent, false).await
}

async fn paused((namespace, name): &(String, String), sent: &Sent, is_on: bool) -> Response {
    let visitor = &sent.visitor;
    let change = async || {
        let (namespace, name) = named(namespace, name)?;
        let clusters: Api<TenantCluster> = Api::namespaced(visitor.client().clone(), namespace);
        let patch = Patch::Merge(json!({"spec": {"paused": is_on}}));
        let written = clusters.patch(name, &params(false), &patch).await;
        let word = if is_on { "pause" } else { "resume" };
        let act = format!("{word} the tenant cluster {name} in {namespace}");
        written.map_err(|error| Problem::of(&act, &error))?;
        let page = paths::object(Kind::Clusters.word(), namespace, name);
        let done = if is_on { "paused" } else { "resumed" };
        Ok(see(&format!("{page}?done={done}")))
    };
    let answer = change().await;
    visitor.answer(answer)
}

/// How changes are sent.
pub(crate) fn params(is_dry_run: bool) -> PatchParams {
    PatchParams {
        dry_run: is_dry_run,
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}
