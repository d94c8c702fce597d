//! `covey describe`: one tenant cluster on one screen.
//!
//! Invariant: at most six requests.

use api::{ConditionType, TenantCluster};
use insight::description::types::State;
use insight::description::{Detail, describe};
use insight::facts::Facts;
use insight_read::cluster::{about_cluster, described};
use insight_read::reader::Reader;
use kube::api::{Api, ListParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};

use super::near::nearest;
use crate::args::read::Describe;
use crate::args::{Format, Global};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::kinds::name_of;
use crate::output::{result, say, structured};
use crate::render::{Symbols, describe as render};
use crate::terminal::fitted;
use insight_read::request;

pub(super) async fn run(global: &Global, args: &Describe) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let (client, namespace) = (&connection.client, connection.namespace.as_str());
    // It is large, because many requests are made side by side.
    let read = Box::pin(described(client, namespace, &args.name)).await;
    let (cluster, facts, events) = match read {
        Ok(read) => read,
        Err(error) => return Err(missing(client, namespace, &args.name, &error).await),
    };
    let detail = Detail {
        events: args.events,
        is_all: args.all,
    };
    let described = describe(&cluster, &facts, &events, detail);
    let text = match global.output {
        Format::Json | Format::Yaml => structured(&described, global.output)?,
        Format::Name => name_of(&ApiResource::erase::<TenantCluster>(&()), &args.name) + "\n",
        Format::Table | Format::Wide => {
            let symbols = Symbols::of(global);
            let text = render::describe(&described, args.depth, facts.now, symbols);
            fitted(text, global)
        }
    };
    result(&text)?;
    Ok(match described.state {
        State::Ok => Exit::Done,
        _ => Exit::Answered,
    })
}

/// A tenant cluster with its pools and machines, whose lists have at most `pages` pages. What is not allowed is said.
///
/// # Errors
/// When the TenantCluster itself cannot be read.
pub(super) async fn about(
    client: &Client,
    namespace: &str,
    name: &str,
    pages: usize,
) -> Result<(TenantCluster, Facts), Failure> {
    let reader = Reader::default();
    // Large, because many requests are made side by side.
    let read = Box::pin(about_cluster(&reader, client, namespace, name, pages)).await;
    let read = match read {
        Ok(read) => read,
        Err(error) => return Err(missing(client, namespace, name, &error).await),
    };
    for what in reader.not_allowed() {
        say(&format!("(not allowed to {what})"));
    }
    Ok(read)
}

/// Why a tenant cluster could not be read; with a guess where it is not there.
pub(super) async fn missing(
    client: &Client,
    namespace: &str,
    name: &str,
    error: &kube::Error,
) -> Failure {
    let mut failure = Failure::of(
        &format!("get the TenantCluster {name} in {namespace}"),
        error,
    );
    if failure.exit != Exit::NotFound {
        return failure;
    }
    failure.what = format!("no TenantCluster {name} in {namespace}");
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), namespace);
    // The first page is enough for a guess.
    let all = request::all(&clusters, ListParams::default(), 1).await;
    let names: Vec<_> = all
        .unwrap_or_default()
        .iter()
        .map(|c| c.name_any())
        .collect();
    if let Some(near) = nearest(name, names.iter().map(String::as_str)) {
        failure.what.push_str(&format!("; did you mean {near}?"));
    }
    failure.mend = "`covey get` lists those of the namespace, `covey get -A` all".to_owned();
    failure
}

/// The tenant cluster, or why not.
pub(super) async fn find(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<TenantCluster, Failure> {
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), namespace);
    match clusters.get(name).await {
        Ok(cluster) => Ok(cluster),
        Err(error) => Err(missing(client, namespace, name, &error).await),
    }
}

/// The condition Ready, said in one line.
pub(super) fn readiness(cluster: &TenantCluster) -> String {
    let status = cluster.status.as_ref();
    let conditions = status.map(|status| status.conditions.as_slice());
    let mut conditions = conditions.unwrap_or_default().iter();
    let ready = conditions.find(|c| c.type_ == ConditionType::Ready.as_str());
    ready.map_or(
        "it says nothing of itself yet".to_owned(),
        crate::judge::sentence,
    )
}
