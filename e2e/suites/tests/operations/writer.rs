//! A client that writes, or asks, all the time, and remembers what was acknowledged.
//!
//! Invariant: a write counts as acknowledged only when the API answered it with success.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client,
    api::{ListParams, ObjectMeta, PostParams},
};
use tokio::{sync::Notify, task::JoinHandle, time::interval};

/// Time between two writes or questions.
const PERIOD: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Log {
    acknowledged: Vec<String>,
    failed: Vec<String>,
    /// Greatest time between two successes.
    gap: Duration,
    last: Option<Instant>,
}

impl Log {
    fn success(&mut self) {
        let now = Instant::now();
        if let Some(last) = self.last {
            self.gap = self.gap.max(now - last);
        }
        self.last = Some(now);
    }
}

/// Creates ConfigMaps in `default`, one after another, until it is stopped.
pub(crate) struct Writer {
    log: Arc<Mutex<Log>>,
    changed: Arc<Notify>,
    task: JoinHandle<()>,
    client: Client,
}

impl Writer {
    pub(crate) fn start(client: Client) -> Self {
        let log = Arc::new(Mutex::new(Log::default()));
        let changed = Arc::new(Notify::new());
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        let (shared, notify) = (Arc::clone(&log), Arc::clone(&changed));
        let task = tokio::spawn(async move {
            let mut ticks = interval(PERIOD);
            for number in 0_u64.. {
                ticks.tick().await;
                let name = format!("write-{number}");
                let metadata = ObjectMeta {
                    name: Some(name.clone()),
                    ..ObjectMeta::default()
                };
                let map = ConfigMap {
                    metadata,
                    ..ConfigMap::default()
                };
                let answer = maps.create(&PostParams::default(), &map).await;
                let mut log = shared.lock().unwrap_or_else(PoisonError::into_inner);
                match answer {
                    Ok(_) => {
                        log.success();
                        log.acknowledged.push(name);
                    }
                    Err(error) => log.failed.push(format!("{name}: {error}")),
                }
                notify.notify_waiters();
            }
        });
        Self {
            log,
            changed,
            task,
            client,
        }
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .acknowledged
            .len()
    }

    /// Waits until so many more writes are acknowledged.
    pub(crate) async fn more(&self, count: usize, timeout: Duration) -> Result<()> {
        let wanted = self.acknowledged() + count;
        let reached = async {
            loop {
                let changed = self.changed.notified();
                if self.acknowledged() >= wanted {
                    return;
                }
                changed.await;
            }
        };
        let result = tokio::time::timeout(timeout, reached).await;
        result.with_context(|| {
            let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            let last = log.failed.last().cloned().unwrap_or_default();
            format!("writes do not go on within {timeout:?}; last refusal: {last}")
        })
    }

    /// Stops, and proves that every acknowledged write is there.
    pub(crate) async fn finish(self) -> Result<()> {
        self.task.abort();
        let _ = self.task.await;
        let maps: Api<ConfigMap> = Api::namespaced(self.client, "default");
        let there = maps.list_metadata(&ListParams::default()).await?;
        let there: std::collections::HashSet<_> = there
            .items
            .into_iter()
            .filter_map(|map| map.metadata.name)
            .collect();
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let lost: Vec<_> = log
            .acknowledged
            .iter()
            .filter(|name| !there.contains(*name))
            .collect();
        ensure!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        eprintln!(
            "{} writes acknowledged, {} refused, longest gap {:?}",
            log.acknowledged.len(),
            log.failed.len(),
            log.gap
        );
        Ok(())
    }
}

/// Asks for the namespaces all the time; every answer counts.
pub(crate) struct Asker {
    log: Arc<Mutex<Log>>,
    task: JoinHandle<()>,
}

impl Asker {
    pub(crate) fn start(client: Client) -> Self {
        let log = Arc::new(Mutex::new(Log::default()));
        let shared = Arc::clone(&log);
        let namespaces: Api<Namespace> = Api::all(client);
        let task = tokio::spawn(async move {
            let mut ticks = interval(PERIOD);
            loop {
                ticks.tick().await;
                let answer = namespaces.get("kube-system").await;
                let mut log = shared.lock().unwrap_or_else(PoisonError::into_inner);
                match answer {
                    Ok(_) => {
                        log.success();
                        log.acknowledged.push(String::new());
                    }
                    Err(error) => log.failed.push(error.to_string()),
                }
            }
        });
        Self { log, task }
    }

    /// Stops; fails when a question was not answered, or none was asked.
    pub(crate) async fn finish(self, least: usize) -> Result<()> {
        self.task.abort();
        let _ = self.task.await;
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let (answered, failed) = (log.acknowledged.len(), &log.failed);
        eprintln!("{answered} questions answered, longest gap {:?}", log.gap);
        ensure!(
            failed.is_empty(),
            "{} of {answered} questions failed: {failed:?}",
            failed.len()
        );
        ensure!(answered >= least, "only {answered} questions were asked");
        Ok(())
    }
}
