//! Keeps as many control planes waiting as the configuration says.
//!
//! Invariant: nothing is asked while nothing changes.

use std::sync::Arc;
use std::time::Duration;

use api::{TenantCluster, names};
use jiff::Timestamp;
use kit::shutdown::Shutdown;
use kit_client::errors::chain;
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams, Preconditions};

use super::fit::is_standby;
use super::pool::{self, Step};
use crate::FIELD_MANAGER;
use crate::context::Context;

/// How long to wait after something could not be done.
const AGAIN: Duration = Duration::from_secs(5);
/// Changes that come together are looked at once.
const TOGETHER: Duration = Duration::from_millis(100);

/// Works until the shutdown starts.
pub async fn run(ctx: &Arc<Context>, shutdown: &Shutdown) {
    let end = shutdown.triggered();
    tokio::pin!(end);
    let mut wait = Some(TOGETHER);
    loop {
        let waited = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = &mut end => return,
            () = waited => {}
            () = ctx.clusters_changed.notified() => tokio::time::sleep(TOGETHER).await,
        }
        wait = look(ctx).await;
    }
}

/// One look; gives when to look again although nothing changes.
async fn look(ctx: &Context) -> Option<Duration> {
    let settings = &ctx.settings;
    let namespace = settings.standby_namespace();
    if !ctx.shards.owns(&namespace) || ctx.leadership.ensure().is_err() {
        return None;
    }
    let all = ctx.stores.clusters.state();
    if settings.standby.is_empty() && !all.iter().any(|cluster| is_standby(cluster, settings)) {
        return None;
    }
    let counts = ctx.rollout_queue.counts();
    let is_quiet = counts.running + counts.waiting == 0;
    let (steps, again) = pool::plan(&all, settings, is_quiet, Timestamp::now());
    let clusters = Api::<TenantCluster>::namespaced(ctx.client.clone(), &namespace);
    for step in &steps {
        if let Err(error) = carry_out(&clusters, step).await {
            let error = chain(&error);
            tracing::warn!(?step, error, "a control plane in waiting stays as it is");
            return Some(AGAIN);
        }
    }
    again.and_then(|again| Duration::try_from(again).ok())
}

async fn carry_out(clusters: &Api<TenantCluster>, step: &Step) -> Result<(), kube::Error> {
    let done = match step {
        Step::Make { name, version } => {
            let mut made = TenantCluster::new(name, pool::spec(version));
            made.metadata = ObjectMeta {
                labels: Some([(names::LABEL_STANDBY.to_owned(), "true".to_owned())].into()),
                ..made.metadata
            };
            let params = PostParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PostParams::default()
            };
            clusters.create(&params, &made).await.map(drop)
        }
        Step::Delete { name, uid } => {
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: Some(uid.clone()),
                    resource_version: None,
                }),
                ..DeleteParams::background()
            };
            clusters.delete(name, &params).await.map(drop)
        }
    };
    match done {
        // It was made, or is gone, and that was not seen yet.
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
        done => done,
    }
}
