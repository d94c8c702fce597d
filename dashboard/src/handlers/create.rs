//! New tenant clusters and node pools.
//!
//! Invariant: what the API would refuse is made not at all: both objects are tried first. What is there already is never
//! overwritten.

use axum::extract::{Path, RawQuery};
use axum::response::Response;
use http::StatusCode;
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::Value;

use super::app::{MANAGER, html, see};
use super::visitor::{Sent, Visitor, named};
use crate::form::{Field, Filled, Of, cluster, pool};
use crate::kinds::Kind;
use crate::pages::fields::{FormPage, form};
use crate::paths;
use crate::problem::Problem;
use crate::query::Pairs;

/// The empty form of a tenant cluster.
pub(crate) async fn new_cluster(visitor: Visitor, RawQuery(query): RawQuery) -> Response {
    let query = Pairs::read(query.unwrap_or_default().as_bytes());
    let mut filled = Filled::default();
    filled
        .values
        .insert(cluster::NAMESPACE, query.text("ns").to_owned());
    cluster_form(&visitor, &filled)
}

fn cluster_form(visitor: &Visitor, filled: &Filled) -> Response {
    let namespace = Some(filled.value(cluster::NAMESPACE)).filter(|n| paths::is_name(n));
    let page = FormPage {
        title: "New tenant cluster",
        action: "/new",
        back: &paths::list("/clusters", namespace),
        namespace,
        fields: cluster::FIELDS,
        filled,
        button: "Create",
    };
    answered(visitor, &page)
}

fn answered(visitor: &Visitor, page: &FormPage<'_>) -> Response {
    let status = match page.filled.mistakes.is_empty() {
        true => StatusCode::OK,
        false => StatusCode::UNPROCESSABLE_ENTITY,
    };
    html(status, form(visitor.viewer(), page))
}

/// Makes a tenant cluster, or only asks whether it could be made.
pub(crate) async fn create_cluster(sent: Sent) -> Response {
    let visitor = &sent.visitor;
    let answer = async {
        let mut filled = Filled::read(cluster::FIELDS, &sent.pairs);
        filled.judge(cluster::FIELDS);
        let namespace = filled.value(cluster::NAMESPACE).to_owned();
        if !namespace.is_empty() && !paths::is_name(&namespace) {
            let what = "this is no name of a namespace".to_owned();
            filled.add(Some(cluster::NAMESPACE), what);
        }
        if !filled.mistakes.is_empty() {
            return Ok(cluster_form(visitor, &filled));
        }
        let name = filled.value(cluster::NAME).to_owned();
        let (new, first_pool) = cluster::objects(&filled);
        let mut all = vec![(Kind::Clusters, Of::Cluster, new)];
        all.extend(first_pool.map(|pool| (Kind::Pools, Of::Pool, pool)));
        for (kind, of, object) in &all {
            let made = make(visitor, *kind, &namespace, object, true).await;
            judged(&mut filled, cluster::FIELDS, *of, made)?;
        }
        filled.is_checked = true;
        if !filled.mistakes.is_empty() || sent.pairs.text("act") != "create" {
            return Ok(cluster_form(visitor, &filled));
        }
        let page = paths::object(Kind::Clusters.word(), &namespace, &name);
        for (number, (kind, of, object)) in all.iter().enumerate() {
            let made = make(visitor, *kind, &namespace, object, false).await;
            match made {
                // The tenant cluster is there by now.
                Err(_) if number > 0 => {
                    return Ok(see(&format!("{page}?done=created-without-pool")));
                }
                made => judged(&mut filled, cluster::FIELDS, *of, made)?,
            }
            if !filled.mistakes.is_empty() {
                return Ok(cluster_form(visitor, &filled));
            }
        }
        Ok(see(&format!("{page}?done=created")))
    };
    let answer = answer.await;
    visitor.answer(answer)
}

/// The empty form of a node pool.
pub(crate) async fn new_pool(visitor: Visitor, Path(of): Path<(String, String)>) -> Response {
    let answer = named(&of.0, &of.1).map(|(namespace, name)| {
        let mut filled = Filled::default();
        filled.values.insert(pool::REPLICAS.name, "1".to_owned());
        pool_form(&visitor, namespace, name, &filled)
    });
    visitor.answer(answer)
}

fn pool_form(visitor: &Visitor, namespace: &str, cluster: &str, filled: &Filled) -> Response {
    let page = FormPage {
        title: &format!("New node pool of {cluster}"),
        action: &paths::act(Kind::Clusters.word(), namespace, cluster, "new-pool"),
        back: &paths::object(Kind::Clusters.word(), namespace, cluster),
        namespace: Some(namespace),
        fields: pool::FIELDS,
        filled,
        button: "Create",
    };
    answered(visitor, &page)
}

/// Makes a node pool, or only asks whether it could be made.
pub(crate) async fn create_pool(Path(of): Path<(String, String)>, sent: Sent) -> Response {
    let visitor = &sent.visitor;
    let answer = async {
        let (namespace, cluster) = named(&of.0, &of.1)?;
        let mut filled = Filled::read(pool::FIELDS, &sent.pairs);
        filled.judge(pool::FIELDS);
        let is_wanted = sent.pairs.text("act") == "create";
        if filled.mistakes.is_empty() {
            let new = pool::new(&filled, namespace, cluster);
            let made = make(visitor, Kind::Pools, namespace, &new, !is_wanted).await;
            judged(&mut filled, pool::FIELDS, Of::Pool, made)?;
            filled.is_checked = true;
            if filled.mistakes.is_empty() && is_wanted {
                let page = paths::object(Kind::Clusters.word(), namespace, cluster);
                return Ok(see(&format!("{page}?done=created-pool")));
            }
        }
        Ok(pool_form(visitor, namespace, cluster, &filled))
    };
    let answer = answer.await;
    visitor.answer(answer)
}

async fn make(
    visitor: &Visitor,
    kind: Kind,
    namespace: &str,
    object: &Value,
    is_dry_run: bool,
) -> Result<(), kube::Error> {
    let resource = kind.resource();
    let api: Api<DynamicObject> =
        Api::namespaced_with(visitor.client().clone(), namespace, &resource);
    let object: DynamicObject =
        serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
    let params = PostParams {
        dry_run: is_dry_run,
        field_manager: Some(MANAGER.to_owned()),
    };
    api.create(&params, &object).await.map(drop)
}

/// Notes a refusal beside the field that it is about.
fn judged(
    filled: &mut Filled,
    fields: &[Field],
    of: Of,
    made: Result<(), kube::Error>,
) -> Result<(), Problem> {
    let Err(error) = made else { return Ok(()) };
    let problem = Problem::of("make it", &error);
    let kube::Error::Api(status) = &error else {
        return Err(problem);
    };
    match status.code {
        400 | 403 | 422 => filled.refuse(fields, of, status),
        404 => filled.add(Some("namespace").filter(|n| has(fields, n)), problem.what),
        409 if status.reason == "AlreadyExists" => {
            let what = "there is one of this name already: choose another name".to_owned();
            filled.add(Some("name"), what);
        }
        _ => return Err(problem),
    }
    Ok(())
}

fn has(fields: &[Field], name: &str) -> bool {
    fields.iter().any(|field| field.name == name)
}
