//! `covey upgrade`: another version of Kubernetes.
//!
//! Invariant: whether it may be is the API's to say, and it is asked before anything is changed: a webhook that refuses
//! one object leaves all as they were.

use api::{NodePool, TenantCluster};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::change::MANAGER;
use super::describe::find;
use super::wait::until;
use crate::args::{Global, Upgrade};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::judge::Goal;
use crate::output::{result, say};
use insight_read::request;

pub(super) async fn run(global: &Global, args: &Upgrade) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let (client, namespace) = (&connection.client, connection.namespace.as_str());
    let (name, to) = (&args.name, args.to.trim_start_matches('v'));
    let cluster = find(client, namespace, name).await?;
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), namespace);
    let pools: Api<NodePool> = Api::namespaced(client.clone(), namespace);
    let listed = request::all(&pools, ListParams::default(), request::PAGES).await;
    let mut ours = listed.map_err(|why| Failure::unread("list the NodePools", &why))?;
    ours.retain(|pool| pool.spec.cluster_name == *name);
    result(&plan(&cluster, &ours, to, args.workers))?;

    let patch = json!({ "spec": { "version": to } });
    let asked = write(&clusters, name, &patch, true).await?;
    if args.dry_run || asked.spec.version == cluster.spec.version {
        return Ok(Exit::Done);
    }
    let changed = write(&clusters, name, &patch, false).await?;
    // After the cluster, because a pool must not be newer than what is asked of its control plane.
    for pool in ours
        .iter()
        .filter(|pool| args.workers && is_pinned(pool, to))
    {
        write(&pools, &pool.name_any(), &patch, false).await?;
    }
    if !args.waiting.wait {
        if !global.quiet {
            say(&format!(
                "how it goes: covey wait {name} --for version={to}"
            ));
        }
        return Ok(Exit::Done);
    }
    until(
        &clusters,
        &changed,
        &Goal::Version(to.to_owned()),
        args.waiting.timeout,
        global,
    )
    .await
}

async fn write<K>(api: &Api<K>, name: &str, patch: &Value, dry_run: bool) -> Result<K, Failure>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let params = PatchParams {
        dry_run,
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let act = format!("change the version of the {} {name}", K::kind(&()));
    let written = api.patch(name, &params, &Patch::Merge(patch)).await;
    written.map_err(|error| Failure::of(&act, &error))
}

/// Whether a pool names a version of its own that is not this one.
fn is_pinned(pool: &NodePool, to: &str) -> bool {
    pool.spec
        .version
        .as_deref()
        .is_some_and(|version| version != to)
}

/// What changes, a line for each object.
fn plan(cluster: &TenantCluster, pools: &[NodePool], to: &str, with_workers: bool) -> String {
    let from = &cluster.spec.version;
    let name = cluster.name_any();
    let status = cluster.status.as_ref();
    let runs = status.and_then(|status| status.version.as_ref());
    let mut first = match from == to {
        true => format!("TenantCluster {name}: {to} is asked for already"),
        false => format!("TenantCluster {name}: {from} -> {to}"),
    };
    if let Some(runs) = runs.filter(|runs| *runs != from) {
        first.push_str(&format!("; it still runs {runs}"));
    }
    let mut lines = vec![first];
    for pool in pools {
        let name = pool.name_any();
        lines.push(match &pool.spec.version {
            None => format!("NodePool {name}: follows, and its machines are replaced"),
            Some(version) if version == to => format!("NodePool {name}: {to} already"),
            Some(version) if with_workers => {
                format!("NodePool {name}: {version} -> {to}, and its machines are replaced")
            }
            Some(version) => format!("NodePool {name}: stays at {version}; `--workers` changes it"),
        });
    }
    lines
        .iter()
        .map(|line| insight::text::shown(line) + "\n")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn it_is_said_what_follows_and_what_stays() {
        let facts = fixture::facts();
        let cluster = &facts.clusters.as_ref().there().unwrap()[0];
        let follows = facts.pools.as_ref().there().unwrap()[0].clone();
        let mut stays = follows.clone();
        stays.metadata.name = Some("old".to_owned());
        stays.spec.version = Some("1.34.2".to_owned());
        let pools = [follows, stays];
        let expected = "\
TenantCluster demo: 1.35.4 -> 1.36.1
NodePool demo-workers: follows, and its machines are replaced
NodePool old: stays at 1.34.2; `--workers` changes it
";
        assert_eq!(plan(cluster, &pools, "1.36.1", false), expected);
        let all = plan(cluster, &pools, "1.36.1", true);
        assert!(all.contains("NodePool old: 1.34.2 -> 1.36.1"), "{all}");
        let none = plan(cluster, &[], "1.35.4", false);
        assert_eq!(none, "TenantCluster demo: 1.35.4 is asked for already\n");
    }
}
