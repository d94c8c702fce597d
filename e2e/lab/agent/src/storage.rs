//! The lab's storage: directories of one node as persistent volumes. For the lab alone.
//!
//! Invariant: what to do is decided from the API server's state only, so an agent that was away
//! goes on where it stopped. Sizes are promised, not enforced: a directory has no quota.
//!
//! With several nodes every agent answers a claim and the first volume wins; the annotation
//! `volume.kubernetes.io/selected-node` on the claim reserves it for one of them.

mod apply;
pub mod plan;
pub mod quantity;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::{Api, Client, runtime::watcher};
use tokio::sync::Notify;

use self::plan::Place;
use super::watch;

/// Name of the storage class, the default one of the lab.
pub const CLASS: &str = "lab-local";
/// Provisioner of the storage class.
pub const PROVISIONER: &str = "covey.dev/lab-local";

/// How long to wait before doing again what failed.
const RETRY: Duration = Duration::from_secs(1);
/// How many actions run at once: a few tenants' claims come together.
const AT_ONCE: usize = 8;

/// Provides storage until the process ends.
///
/// # Errors
/// When the watches end, which they do not while the process lives.
pub async fn run(client: Client, place: Place) -> anyhow::Result<()> {
    while let Err(error) = apply::class(&client).await {
        tracing::warn!(error = format!("{error:#}"), "trying again");
        tokio::time::sleep(RETRY).await;
    }
    let changed = Arc::new(Notify::new());
    let claims = watch::follow(
        Api::<PersistentVolumeClaim>::all(client.clone()),
        watcher::Config::default(),
        Arc::clone(&changed),
        |_| {},
    );
    let volumes = watch::follow(
        Api::<PersistentVolume>::all(client.clone()),
        watcher::Config::default(),
        Arc::clone(&changed),
        |_| {},
    );
    claims.wait_until_ready().await?;
    volumes.wait_until_ready().await?;
    let mut known_refusals = BTreeSet::new();
    loop {
        let plan = plan::plan(&place, &claims.state(), &volumes.state());
        for refusal in plan.refusals {
            if known_refusals.insert(refusal.clone()) {
                tracing::warn!(refusal, "left alone");
            }
        }
        let (client, place) = (&client, &place);
        let failures: usize = stream::iter(plan.actions)
            .map(|action| async move {
                match apply::apply(client, place, &action).await {
                    Ok(()) => {
                        tracing::info!(action = action.summary(), "done");
                        0
                    }
                    Err(error) => {
                        let error = format!("{error:#}");
                        tracing::warn!(action = action.summary(), error, "trying again");
                        1
                    }
                }
            })
            .buffer_unordered(AT_ONCE)
            .fold(0, |sum, failed| async move { sum + failed })
            .await;
        if failures == 0 {
            changed.notified().await;
        } else {
            tokio::time::sleep(RETRY).await;
        }
    }
}
