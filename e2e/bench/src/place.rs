//! Where benches work: one namespace with [`LABEL`].
//!
//! Invariant: it goes at the end whatever happens, and at the next begin should the process have
//! been killed.

use std::time::Duration;

use anyhow::{Result, bail};
use api::{NodePool, TenantCluster};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams},
};

use suites::cluster::{Management, suffix, wait::wait_gone};

/// Namespaces of benches.
const LABEL: &str = "covey.dev/bench";
/// How long everything of a bench may take to go.
const PATIENCE: Duration = Duration::from_secs(600);

/// Makes a namespace and returns its name.
pub(super) async fn create(management: &Management) -> Result<String> {
    let name = format!("bench-{}", suffix());
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        labels: Some([(LABEL.to_owned(), "true".to_owned())].into()),
        ..ObjectMeta::default()
    };
    let namespaces: Api<Namespace> = Api::all(management.client.clone());
    let namespace = Namespace {
        metadata,
        ..Namespace::default()
    };
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    Ok(name)
}

/// Deletes whatever benches left.
pub(super) async fn sweep(management: &Management, say: &(dyn Fn(String) + Sync)) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(management.client.clone());
    for namespace in namespaces
        .list(&ListParams::default().labels(LABEL))
        .await?
    {
        let name = namespace.name_any();
        say(format!("removing {name}"));
        let clusters: Api<TenantCluster> = Api::namespaced(management.client.clone(), &name);
        let pools: Api<NodePool> = Api::namespaced(management.client.clone(), &name);
        let all = ListParams::default();
        let background = DeleteParams::background();
        clusters.delete_collection(&background, &all).await?;
        pools.delete_collection(&background, &all).await?;
        for cluster in clusters.list(&all).await? {
            wait_gone(&clusters, &cluster.name_any(), None, PATIENCE).await?;
        }
        for pool in pools.list(&all).await? {
            wait_gone(&pools, &pool.name_any(), None, PATIENCE).await?;
        }
        namespaces.delete(&name, &background).await?;
        wait_gone(&namespaces, &name, None, PATIENCE).await?;
    }
    Ok(())
}

/// Works until it is done or somebody wants the bench to end, which is an error.
pub(super) async fn unless_interrupted<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        done = Box::pin(work) => done,
        signal = interrupted() => bail!("ended by {}", signal?),
    }
}

/// Ends when somebody wants the bench to end, and says by what.
async fn interrupted() -> Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => Ok("Ctrl-C"),
        _ = terminate.recv() => Ok("SIGTERM"),
    }
}
