//! All objects of a kind as a watch tells them, for tests of hundreds.
//!
//! Invariant: what is waited for is looked at once per change, in memory.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What there is.
#[derive(Debug)]
pub struct Seen<K> {
    /// By name.
    pub all: BTreeMap<String, K>,
    /// As many as there ever were at a time.
    pub most: usize,
}

/// A watch of objects that are in one namespace, or in none; it goes on until this is dropped.
#[derive(Debug)]
pub struct Watched<K> {
    seen: watch::Receiver<Seen<K>>,
    task: JoinHandle<()>,
}

impl<K> Watched<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Begins it, on the runtime of the caller. Nothing is seen yet.
    #[must_use]
    pub fn start(api: Api<K>) -> Self {
        let (tell, seen) = watch::channel(Seen {
            all: BTreeMap::new(),
            most: 0,
        });
        let task = tokio::spawn(async move {
            let mut events = watcher(api, Config::default()).default_backoff().boxed();
            let mut listed = BTreeMap::new();
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Init) => listed.clear(),
                    Ok(Event::InitApply(object)) => {
                        listed.insert(object.name_any(), object);
                    }
                    Ok(Event::InitDone) => change(&tell, |all| *all = std::mem::take(&mut listed)),
                    Ok(Event::Apply(object)) => {
                        change(&tell, |all| drop(all.insert(object.name_any(), object)));
                    }
                    Ok(Event::Delete(object)) => {
                        change(&tell, |all| drop(all.remove(&object.name_any())));
                    }
                    // It begins anew.
                    Err(_) => {}
                }
            }
        });
        Self { seen, task }
    }

    /// Waits until what there is is as wanted.
    ///
    /// # Errors
    /// When it is not within `patience`: how many objects there are then.
    pub async fn until(
        &self,
        what: &str,
        patience: Duration,
        mut wanted: impl FnMut(&Seen<K>) -> bool,
    ) -> Result<()> {
        let mut seen = self.seen.clone();
        let waited = tokio::time::timeout(patience, seen.wait_for(|seen| wanted(seen))).await;
        let last = || {
            let there = self.seen.borrow().all.len();
            format!("{what}: not so after {patience:?}, of {there} objects")
        };
        waited.with_context(last)?.context("the watch ended")?;
        Ok(())
    }

    /// Reads what was seen up to now.
    pub fn read<T>(&self, read: impl FnOnce(&Seen<K>) -> T) -> T {
        read(&self.seen.borrow())
    }
}

fn change<K>(seen: &watch::Sender<Seen<K>>, change: impl FnOnce(&mut BTreeMap<String, K>)) {
    seen.send_modify(|seen| {
        change(&mut seen.all);
        seen.most = seen.most.max(seen.all.len());
    });
}

impl<K> Drop for Watched<K> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
