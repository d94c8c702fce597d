//! A marker in each tenant cluster of a test: written through its API as soon as it is Ready, and found again at the end of
//! the test.
//!
//! Invariant: nothing is asked of a test, so none can forget it. One that is gone, or is another one, fails the test, unless a
//! Restore went back to before it; what could not be written, or does not answer at the end, is no failure.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::{ConditionType, Restore, TenantCluster, condition};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::MissedTickBehavior;

use crate::cluster::tenant::Tenant;

/// How long an API may take to take or to show a marker; one that is kept from it by a test takes longer.
const SOON: Duration = Duration::from_secs(30);
/// Time between two tries.
const TRY_EVERY: Duration = Duration::from_millis(500);
/// Where markers are: tests write elsewhere, and count what is there.
const NAMESPACE: &str = "kube-public";

/// UIDs of markers, by name and UID of the TenantCluster; none of one that is being written.
type Written = BTreeMap<(String, String), Option<String>>;

/// What was written. More is, until it is dropped.
pub(super) struct Markers {
    written: Arc<Mutex<Written>>,
    watch: JoinHandle<()>,
}

impl Markers {
    /// Begins to write.
    pub(super) fn watch(client: &Client, namespace: &str) -> Self {
        let written = Arc::<Mutex<Written>>::default();
        let (noted, client) = (Arc::clone(&written), client.clone());
        let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), namespace);
        let watch = tokio::spawn(async move {
            // They end with this task.
            let mut writers = JoinSet::new();
            let events = watcher(clusters, watcher::Config::default()).default_backoff();
            // It comes back by itself after an error; suites of the lab itself do without the kind.
            let mut changes = Box::pin(events.touched_objects());
            while let Some(cluster) = changes.next().await {
                let tenant = cluster.ok().and_then(|cluster| ready(&client, &cluster));
                let Some(tenant) = tenant else { continue };
                let key = (tenant.name.clone(), tenant.uid.clone());
                if lock(&noted).contains_key(&key) {
                    continue;
                }
                lock(&noted).insert(key, None);
                writers.spawn(mark(tenant, Arc::clone(&noted)));
            }
        });
        Self { written, watch }
    }

    /// Fails where one that is Ready has its marker no more, and no Restore says why.
    ///
    /// # Errors
    /// With its name and what was found instead.
    pub(super) async fn check(&self, client: &Client, namespace: &str) -> Result<()> {
        let written = lock(&self.written).clone();
        let all = written.into_iter();
        let written: Vec<_> = all.filter_map(|(of, uid)| Some((of, uid?))).collect();
        if written.is_empty() {
            return Ok(());
        }
        let restores: Api<Restore> = Api::namespaced(client.clone(), namespace);
        let restores = restores.list(&ListParams::default()).await?.items;
        let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), namespace);
        for ((name, uid), wanted) in written {
            let mut restores = restores.iter();
            if restores.any(|restore| restore.spec.cluster_name == name) {
                continue;
            }
            let cluster = clusters.get_opt(&name).await?;
            let tenant = cluster.and_then(|cluster| ready(client, &cluster));
            let Some(tenant) = tenant.filter(|tenant| tenant.uid == uid) else {
                continue;
            };
            match find(&tenant).await {
                Ok(found) => ensure!(
                    found.as_ref() == Some(&wanted),
                    "TenantCluster {name} has lost what was acknowledged: its marker is {found:?}, and was {wanted}"
                ),
                Err(error) => eprintln!("the marker of {name} could not be read: {error:#}"),
            }
        }
        Ok(())
    }
}

impl Drop for Markers {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

/// One that is Ready, and is to stay.
fn ready(management: &Client, cluster: &TenantCluster) -> Option<Tenant> {
    let status = cluster.status.as_ref()?;
    let is_ready = condition::is_true(&status.conditions, ConditionType::Ready);
    let stays = cluster.metadata.deletion_timestamp.is_none();
    (is_ready && stays).then_some(())?;
    Some(Tenant {
        management: management.clone(),
        namespace: cluster.namespace()?,
        name: cluster.name_any(),
        uid: cluster.uid()?,
        created: Instant::now(),
    })
}

async fn mark(tenant: Tenant, written: Arc<Mutex<Written>>) {
    match write(&tenant).await {
        Ok(marker) => {
            let key = (tenant.name, tenant.uid);
            lock(&written).insert(key, Some(marker));
        }
        Err(error) => eprintln!("{} got no marker: {error:#}", tenant.name),
    }
}

/// A copy of another tenant cluster has that one's, too.
fn name(tenant: &Tenant) -> String {
    format!("covey-test-marker-{}", tenant.uid)
}

/// Writes one; its UID.
async fn write(tenant: &Tenant) -> Result<String> {
    let maps = maps(tenant).await?;
    let name = name(tenant);
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    let made = soon(|| async {
        match maps.create(&PostParams::default(), &map).await {
            // The answer to an earlier try was lost.
            Err(kube::Error::Api(status)) if status.code == 409 => maps.get(&name).await,
            made => made,
        }
    });
    made.await?
        .uid()
        .context("the API gives every object a UID")
}

/// UID of its marker; none where it has none.
async fn find(tenant: &Tenant) -> Result<Option<String>> {
    let maps = maps(tenant).await?;
    let name = name(tenant);
    let found = soon(|| maps.get_opt(&name)).await?;
    Ok(found.and_then(|map| map.uid()))
}

async fn maps(tenant: &Tenant) -> Result<Api<ConfigMap>> {
    let admin = tenant.admin(SOON).await?;
    Ok(Api::namespaced(admin, NAMESPACE))
}

/// Asks until there is an answer.
async fn soon<T, F>(mut ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = kube::Result<T>>,
{
    let begun = Instant::now();
    let mut ticks = tokio::time::interval(TRY_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match tokio::time::timeout(SOON, ask()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) if begun.elapsed() > SOON => return Err(error.into()),
            Ok(Err(_)) => {}
            Err(elapsed) => return Err(elapsed).context("its API does not answer"),
        }
    }
}

fn lock(written: &Mutex<Written>) -> MutexGuard<'_, Written> {
    written.lock().unwrap_or_else(PoisonError::into_inner)
}
