//! Waiting by watches.
//!
//! Invariant: the predicate sees every state the watch delivers, the first one included; a
//! time-out says what was waited for and the last state seen, without the contents of Secrets.

use std::{collections::BTreeMap, fmt::Debug, time::Duration};

use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use kube::{
    Api, Resource, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        watcher::{Config, Event, watcher},
    },
};
use serde::{Serialize, de::DeserializeOwned};

/// What can be watched.
pub trait Watched:
    Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + 'static
{
}

impl<K> Watched for K where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + 'static
{
}

/// Waits until `check` makes something of the objects that `config` selects, by name.
///
/// # Errors
/// When it takes longer than `timeout`.
pub async fn wait_list<K: Watched, T>(
    api: &Api<K>,
    config: Config,
    what: &str,
    timeout: Duration,
    mut check: impl FnMut(&BTreeMap<String, K>) -> Option<T>,
) -> Result<T> {
    let mut objects = BTreeMap::new();
    let mut trouble = None;
    let mut events = Box::pin(watcher(api.clone(), config).default_backoff());
    let watch = async {
        let mut listed = BTreeMap::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => {
                    listed.clear();
                    continue;
                }
                Ok(Event::InitApply(object)) => {
                    listed.insert(object.name_any(), object);
                    continue;
                }
                Ok(Event::InitDone) => objects = std::mem::take(&mut listed),
                Ok(Event::Apply(object)) => {
                    objects.insert(object.name_any(), object);
                }
                Ok(Event::Delete(object)) => {
                    objects.remove(&object.name_any());
                }
                Err(error) => {
                    trouble = Some(error);
                    continue;
                }
            }
            if let Some(found) = check(&objects) {
                return Ok(found);
            }
        }
        bail!("the watch ended")
    };
    match tokio::time::timeout(timeout, watch).await {
        Ok(result) => result.with_context(|| format!("cannot wait for {what}")),
        Err(_) => {
            let kind = K::kind(&());
            let seen: Vec<_> = objects.values().map(describe).collect();
            let trouble = trouble.map_or(String::new(), |e| format!("\nlast trouble: {e}"));
            bail!(
                "{what}: not within {timeout:?}; {} {kind} last seen:\n{}{trouble}",
                seen.len(),
                seen.join("\n")
            )
        }
    }
}

/// Waits until `check` makes something of one object.
///
/// # Errors
/// When it takes longer than `timeout`.
pub async fn wait_for<K: Watched, T>(
    api: &Api<K>,
    name: &str,
    what: &str,
    timeout: Duration,
    mut check: impl FnMut(&K) -> Option<T>,
) -> Result<T> {
    let what = format!("{} {name}: {what}", K::kind(&()));
    wait_list(api, only(name), &what, timeout, |all| {
        all.get(name).and_then(&mut check)
    })
    .await
}

/// Waits until an object is gone, or another one has taken its name.
///
/// # Errors
/// When it takes longer than `timeout`.
pub async fn wait_gone<K: Watched>(
    api: &Api<K>,
    name: &str,
    uid: Option<&str>,
    timeout: Duration,
) -> Result<()> {
    let what = format!("{} {name} is to be gone", K::kind(&()));
    wait_list(api, only(name), &what, timeout, |all| {
        let same = |object: &&K| uid.is_none() || object.meta().uid.as_deref() == uid;
        all.get(name).filter(same).is_none().then_some(())
    })
    .await
}

fn only(name: &str) -> Config {
    Config::default().fields(&format!("metadata.name={name}"))
}

/// An object as text, without managed fields and without what Secrets hold.
pub fn describe<K: Serialize>(object: &K) -> String {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    let secret = value["kind"] == "Secret" || value.get("type").is_some();
    if secret && let Some(object) = value.as_object_mut() {
        let keys = object.remove("data");
        let keys = keys.as_ref().and_then(|data| data.as_object());
        let keys: Vec<_> = keys
            .into_iter()
            .flat_map(|data| data.keys())
            .cloned()
            .collect();
        object.insert("keys".to_owned(), keys.into());
    }
    serde_json::to_string_pretty(&value).unwrap_or_default()
}
