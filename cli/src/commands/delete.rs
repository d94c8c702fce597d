//! `covey delete`: what goes is said before, and asked for.
//!
//! Invariant: without a terminal to ask at, and without `--yes`, nothing is deleted; only the object that was shown is
//! deleted, not another one of its name.

use std::io::{self, BufRead as _, IsTerminal as _};

use api::{Machine, NodePool, TenantCluster};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use kube::api::{Api, DeleteParams, ListParams, Preconditions};
use kube::{Client, ResourceExt as _};

use super::describe::find;
use super::wait::{Watched, until};
use crate::args::{DeleteOne, Global};
use crate::connect::{Connection, connect};
use crate::exit::{Exit, Failure};
use crate::judge::Goal;
use crate::output::say;
use insight_read::request;

const NOTHING: &str = "nothing was deleted";

pub(super) async fn cluster(global: &Global, args: &DeleteOne) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let name = &args.name;
    let cluster = find(&connection.client, &connection.namespace, name).await?;
    let machines = machines(&connection, |machine| machine.spec.cluster_name == *name).await;
    let space = cluster.status.as_ref().and_then(|s| s.namespace.as_deref());
    let goes = format!(
        "TenantCluster {name} in {}: its control plane, etcd with all data, {} and {machines}",
        connection.namespace,
        within(&connection.client, space).await
    );
    let clusters: Api<TenantCluster> = Api::namespaced(connection.client, &connection.namespace);
    Box::pin(one(global, args, &clusters, &cluster, &goes)).await
}

pub(super) async fn pool(global: &Global, args: &DeleteOne) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let name = &args.name;
    let pools: Api<NodePool> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let act = format!("get the NodePool {name} in {}", connection.namespace);
    let pool = pools.get(name).await;
    let pool = pool.map_err(|error| Failure::of(&act, &error))?;
    let machines = machines(&connection, |machine| machine.spec.pool_name == *name).await;
    let goes = format!("NodePool {name} in {}: {machines}", connection.namespace);
    Box::pin(one(global, args, &pools, &pool, &goes)).await
}

/// What else goes with a tenant namespace. That it is not known keeps nobody from deleting.
async fn within(client: &Client, space: Option<&str>) -> String {
    let Some(space) = space else {
        return "volumes, load balancers".to_owned();
    };
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), space);
    let services: Api<Service> = Api::namespaced(client.clone(), space);
    let all = ListParams::default;
    let (claims, services) = tokio::join!(
        request::all(&claims, all(), request::PAGES),
        request::all(&services, all(), request::PAGES),
    );
    let balancers = services.map(|all| all.iter().filter(|one| is_balancer(one)).count());
    format!(
        "{}, {}",
        counted(claims.map(|all| all.len()).ok(), "volume"),
        counted(balancers.ok(), "load balancer")
    )
}

fn is_balancer(service: &Service) -> bool {
    let type_ = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    type_ == Some("LoadBalancer")
}

/// `1 volume`, `3 volumes`, and `volumes` where nobody knows how many.
fn counted(count: Option<usize>, what: &str) -> String {
    match count {
        Some(1) => format!("1 {what}"),
        Some(count) => format!("{count} {what}s"),
        None => format!("{what}s"),
    }
}

/// How many machines go; that it is not known does not keep anybody from deleting.
async fn machines(connection: &Connection, is_of: impl Fn(&Machine) -> bool) -> String {
    let api: Api<Machine> = Api::namespaced(connection.client.clone(), &connection.namespace);
    match request::all(&api, ListParams::default(), request::PAGES).await {
        Ok(all) => match all.iter().filter(|machine| is_of(machine)).count() {
            1 => "1 machine".to_owned(),
            count => format!("{count} machines"),
        },
        Err(_) => "its machines, whose number is not known".to_owned(),
    }
}

async fn one<K>(
    global: &Global,
    args: &DeleteOne,
    api: &Api<K>,
    object: &K,
    goes: &str,
) -> Result<Exit, Failure>
where
    K: Watched + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    say(&format!("this deletes {goes}"));
    if !args.yes && !is_confirmed(&args.name, "delete it", NOTHING)? {
        return Err(Failure::new(Exit::Failed, NOTHING, ""));
    }
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: object.uid(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let deleted = api.delete(&args.name, &params).await;
    deleted.map_err(|error| Failure::of(&format!("delete {}", args.name), &error))?;
    if !args.waiting.wait {
        return Ok(Exit::Done);
    }
    until(api, object, &Goal::Deleted, args.waiting.timeout, global).await
}

/// Asks at the terminal whether to `act` (`delete it`); where there is none nobody can say yes, and what was not done
/// (`nothing`) is the failure.
pub(super) fn is_confirmed(name: &str, act: &str, nothing: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        let what = format!("{nothing}: there is no terminal to ask at");
        return Err(Failure::new(Exit::Usage, &what, "say `--yes`"));
    }
    say(&format!("write {name} to {act}:"));
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    Ok(read.is_ok() && line.trim() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_counted_has_no_number() {
        assert_eq!(counted(Some(1), "volume"), "1 volume");
        assert_eq!(counted(Some(0), "volume"), "0 volumes");
        assert_eq!(counted(None, "load balancer"), "load balancers");
    }
}
