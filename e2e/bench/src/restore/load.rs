//! Writes to a tenant's API at a rate, each acknowledged one remembered.
//!
//! Invariant: of one object one write is under way at a time, so that what was acknowledged last is what it has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::figures::{Ack, noise};

/// Objects are written by so many at a time.
const WRITERS: usize = 16;
/// Objects of each.
const OWN: usize = 8;
/// In front of the objects' numbers.
const PREFIX: &str = "load-";
/// Bytes of one object of the data.
const OBJECT: usize = 256 * 1024;
const MIB: usize = 1024 * 1024;
/// Objects of the data that are deleted at a time.
const AT_ONCE: usize = 8;
/// How often it is looked whether there were enough.
const LOOK: Duration = Duration::from_millis(50);

/// What was written.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Acknowledged.
    pub(super) acks: Vec<Ack>,
    /// Refused, or not answered.
    pub(super) failed: usize,
}

/// Objects that are written, in a namespace of the tenant cluster.
#[derive(Clone)]
pub(super) struct Load {
    maps: Api<ConfigMap>,
    counted: Arc<AtomicU64>,
}

impl Load {
    pub(super) fn new(maps: Api<ConfigMap>) -> Self {
        let counted = Arc::default();
        Self { maps, counted }
    }

    /// So many writes, at so many a second.
    pub(super) async fn write(&self, count: u64, rate: u32) -> Result<Written> {
        let wanted = self.counted.load(Ordering::Relaxed) + count;
        let enough = async {
            let mut ticks = interval(LOOK);
            while self.counted.load(Ordering::Relaxed) < wanted {
                ticks.tick().await;
            }
            Ok(())
        };
        Ok(self.write_during(rate, enough).await?.1)
    }

    /// At so many a second until something else is over.
    pub(super) async fn write_during<T>(
        &self,
        rate: u32,
        work: impl Future<Output = Result<T>>,
    ) -> Result<(T, Written)> {
        let (stop, stopped) = watch::channel(false);
        let period = Duration::from_secs(1) * u32::try_from(WRITERS)? / rate.max(1);
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            writers.spawn(self.clone().writer(writer, period, stopped.clone()));
        }
        let done = work.await;
        let _ = stop.send(true);
        let mut all = Written::default();
        while let Some(written) = writers.join_next().await {
            let written = written?;
            all.acks.extend(written.acks);
            all.failed += written.failed;
        }
        Ok((done?, all))
    }

    async fn writer(self, own: usize, period: Duration, stopped: watch::Receiver<bool>) -> Written {
        let mut written = Written::default();
        let mut ticks = interval(period);
        // A pause of the API is not made up for: the rate is a most.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for turn in 0.. {
            ticks.tick().await;
            if *stopped.borrow() {
                break;
            }
            let object = own + WRITERS * (turn % OWN);
            let number = self.counted.fetch_add(1, Ordering::Relaxed) + 1;
            match self.put(object, number).await {
                Ok(revision) => written.acks.push(Ack {
                    object,
                    number,
                    revision,
                    at_ms: now_ms(),
                }),
                Err(_) => written.failed += 1,
            }
        }
        written
    }

    /// The revision that it has then.
    async fn put(&self, object: usize, number: u64) -> Result<u64> {
        let name = format!("{PREFIX}{object}");
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                ..ObjectMeta::default()
            },
            data: Some([("number".to_owned(), number.to_string())].into()),
            ..ConfigMap::default()
        };
        let params = PostParams::default();
        // Without a resource version: there is no other writer.
        let put = match self.maps.replace(&name, &params, &map).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.maps.create(&params, &map).await?
            }
            put => put?,
        };
        let revision = put.metadata.resource_version.context("no revision")?;
        Ok(revision.parse()?)
    }

    /// What each object has now.
    pub(super) async fn found(&self) -> Result<BTreeMap<usize, u64>> {
        let all = self.maps.list(&ListParams::default()).await?;
        let one = |map: &ConfigMap| {
            let object = map.name_any().strip_prefix(PREFIX)?.parse().ok()?;
            let number = map.data.as_ref()?.get("number")?.parse().ok()?;
            Some((object, number))
        };
        Ok(all.items.iter().filter_map(one).collect())
    }
}

/// Objects that no compression makes small.
pub(super) async fn fill(maps: &Api<ConfigMap>, mib: usize) -> Result<()> {
    for number in 0..objects(mib) {
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(data(number)),
                ..ObjectMeta::default()
            },
            data: Some([("noise".to_owned(), noise(number as u64, OBJECT))].into()),
            ..ConfigMap::default()
        };
        let made = maps.create(&PostParams::default(), &map).await;
        made.with_context(|| format!("write object {number} of the data"))?;
    }
    Ok(())
}

/// Takes them away again.
pub(super) async fn drain(maps: &Api<ConfigMap>, mib: usize) -> Result<()> {
    let gone = |number: usize| async move {
        let deleted = maps.delete(&data(number), &DeleteParams::default()).await;
        deleted.with_context(|| format!("delete object {number} of the data"))
    };
    stream::iter((0..objects(mib)).map(gone))
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await
}

const fn objects(mib: usize) -> usize {
    mib * MIB / OBJECT
}

fn data(number: usize) -> String {
    format!("data-{number}")
}

pub(super) fn now_ms() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default()
}
