//! The pages of node pools, machines and hosts, and the number of machines of a pool.
//!
//! Invariant: what is shown was read for this page; what the API refuses stands beside the field.

use axum::extract::{Path, RawQuery};
use axum::response::Response;
use http::StatusCode;
use insight::facts::TOO_MANY;
use insight_read::request::{Unread, all};
use jiff::Timestamp;
use kube::api::{Api, ListParams, Patch};

use api::names::LABEL_NODE_POOL;
use api::{Host, Machine, NodePool};

use super::app::{html, notice, see};
use super::clusters::params;
use super::follow::address;
use super::visitor::{Sent, Visitor, named};
use crate::form::pool::{REPLICAS, scaled};
use crate::form::{Filled, Of};
use crate::kinds::Kind;
use crate::pages::object::{host, machine, object, pool};
use crate::paths;
use crate::problem::Problem;
use crate::query::Pairs;

/// Pages of a pool's machines.
const PAGES: usize = 2;

/// The page of an object.
pub(crate) async fn page(
    visitor: Visitor,
    Path((word, namespace, name)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    let query = Pairs::read(query.unwrap_or_default().as_bytes());
    let notice = notice(query.text("done"));
    let answer = async {
        let (namespace, name) = named(&namespace, &name)?;
        match Kind::of_word(&word) {
            Some(Kind::Pools) => pool_page(&visitor, namespace, name, None, notice).await,
            Some(Kind::Machines) => machine_page(&visitor, namespace, name, notice).await,
            Some(Kind::Hosts) => host_page(&visitor, namespace, name, notice).await,
            Some(Kind::Clusters | Kind::Snapshots | Kind::Restores | Kind::ProviderConfigs)
            | None => Err(Problem::no_page()),
        }
    };
    let answer = answer.await;
    visitor.answer(answer)
}

async fn pool_page(
    visitor: &Visitor,
    namespace: &str,
    name: &str,
    filled: Option<&Filled>,
    notice: Option<&str>,
) -> Result<Response, Problem> {
    let client = visitor.client();
    let pools: Api<NodePool> = Api::namespaced(client.clone(), namespace);
    let machines: Api<Machine> = Api::namespaced(client.clone(), namespace);
    let of_it = ListParams::default().labels(&format!("{LABEL_NODE_POOL}={name}"));
    let (found, machines, access) = tokio::join!(
        pools.get(name),
        all(&machines, of_it, PAGES),
        visitor.access(namespace)
    );
    let act = format!("get the node pool {name} in {namespace}");
    let found = found.map_err(|error| Problem::of(&act, &error))?;
    let why;
    let machines = match &machines {
        Ok(all) => Ok(all.as_slice()),
        Err(Unread::TooMany) => Err(TOO_MANY),
        Err(Unread::Failed(error)) => {
            why = Problem::of("list machines", error).what;
            Err(why.as_str())
        }
    };
    let wanted = found.spec.replicas.to_string();
    let present = Filled {
        values: [(REPLICAS.name, wanted)].into(),
        ..Filled::default()
    };
    let (viewer, filled) = (visitor.viewer(), filled.unwrap_or(&present));
    let page = pool(
        viewer,
        &found,
        machines,
        &access,
        Some(filled),
        Timestamp::now(),
    );
    let live = address(&[Kind::Pools, Kind::Machines], Some(namespace));
    let status = match filled.mistakes.is_empty() {
        true => StatusCode::OK,
        false => StatusCode::UNPROCESSABLE_ENTITY,
    };
    Ok(html(status, object(viewer, &page, &live, notice)))
}

async fn machine_page(
    visitor: &Visitor,
    namespace: &str,
    name: &str,
    notice: Option<&str>,
) -> Result<Response, Problem> {
    let machines: Api<Machine> = Api::namespaced(visitor.client().clone(), namespace);
    let (found, access) = tokio::join!(machines.get(name), visitor.access(namespace));
    let act = format!("get the machine {name} in {namespace}");
    let found = found.map_err(|error| Problem::of(&act, &error))?;
    let page = machine(&found, &access, Timestamp::now());
    let live = address(&[Kind::Machines], Some(namespace));
    Ok(html(
        StatusCode::OK,
        object(visitor.viewer(), &page, &live, notice),
    ))
}

async fn host_page(
    visitor: &Visitor,
    namespace: &str,
    name: &str,
    notice: Option<&str>,
) -> Result<Response, Problem> {
    let hosts: Api<Host> = Api::namespaced(visitor.client().clone(), namespace);
    let act = format!("get the host {name} in {namespace}");
    let found = hosts.get(name).await;
    let found = found.map_err(|error| Problem::of(&act, &error))?;
    let page = host(&found, Timestamp::now());
    let live = address(&[Kind::Hosts], Some(namespace));
    Ok(html(
        StatusCode::OK,
        object(visitor.viewer(), &page, &live, notice),
    ))
}

/// Changes how many machines a pool has.
pub(crate) async fn scale(Path((namespace, name)): Path<(String, String)>, sent: Sent) -> Response {
    let visitor = &sent.visitor;
    let answer = async {
        let (namespace, name) = named(&namespace, &name)?;
        let mut filled = Filled::read(&[REPLICAS], &sent.pairs);
        filled.judge(&[REPLICAS]);
        if let (true, Some(machines)) = (filled.mistakes.is_empty(), filled.number(REPLICAS.name)) {
            let pools: Api<NodePool> = Api::namespaced(visitor.client().clone(), namespace);
            let patch = Patch::Merge(scaled(machines));
            let act = format!("scale the node pool {name} in {namespace}");
            match pools.patch(name, &params(false), &patch).await {
                Ok(_) => {
                    let page = paths::object(Kind::Pools.word(), namespace, name);
                    return Ok(see(&format!("{page}?done=scaled")));
                }
                Err(error) => refuse(&mut filled, &error, &act)?,
            }
        }
        pool_page(visitor, namespace, name, Some(&filled), None).await
    };
    let answer = answer.await;
    visitor.answer(answer)
}

/// A refusal of what was filled in stands beside its field; all else has a page of its own.
fn refuse(filled: &mut Filled, error: &kube::Error, act: &str) -> Result<(), Problem> {
    let problem = Problem::of(act, error);
    match error {
        kube::Error::Api(status) if problem.status == StatusCode::UNPROCESSABLE_ENTITY => {
            filled.refuse(&[REPLICAS], Of::Pool, status);
            // There is one field, and beside it there is place.
            for mistake in &mut filled.mistakes {
                mistake.field = Some(REPLICAS.name);
            }
            Ok(())
        }
        _ => Err(problem),
    }
}
