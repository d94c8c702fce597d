//! What is known of nodes: by the watches, and until those have listed, by what was known before this start.
//! And the file in which that is kept.
//!
//! Invariant: whoever waits is woken by every change, and by nothing else.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use api::names::OVERLAY_MEMBERS;
use futures::future::{BoxFuture, join};
use k8s_openapi::api::core::v1::{ConfigMap, Node as NodeObject};
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::entries::{self, Members, Node, Observed};
use crate::key::PublicKey;
use crate::listing::Listing;

/// Name of the file in which what was known is kept.
const NAME: &str = "kept.json";
/// Bytes that are read of it: more than the objects of the API may have.
const LONGEST: u64 = 16 << 20;

/// What the next start knows.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Kept {
    /// What was known of nodes.
    pub observed: Observed,
    /// Where peers were heard that nobody can dial.
    pub heard: BTreeMap<PublicKey, SocketAddr>,
}

/// The cache.
#[derive(Debug, Default)]
pub struct Cache {
    members: Mutex<Listing<Members>>,
    nodes: Mutex<Listing<Node>>,
    before: Observed,
    /// Woken by every change.
    pub changed: Notify,
}

impl Cache {
    /// A cache that knows what was known before.
    #[must_use]
    pub fn new(before: Observed) -> Self {
        Self {
            before,
            ..Self::default()
        }
    }

    /// Everything that is known.
    #[must_use]
    pub fn seen(&self) -> Observed {
        let members = lock(&self.members);
        // A ConfigMap that is not there says nothing of anybody: removing all members is emptying it.
        let members = members.known().and_then(|all| all.get(OVERLAY_MEMBERS));
        let nodes = lock(&self.nodes);
        Observed {
            members: members.or(self.before.members.as_ref()).cloned(),
            nodes: nodes.known().or(self.before.nodes.as_ref()).cloned(),
        }
    }

    /// Which lists have not come since this start.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let members = lock(&self.members).known().is_none();
        let nodes = lock(&self.nodes).known().is_none();
        let all = [(members, "members"), (nodes, "nodes")];
        let missing = all.into_iter().filter(|(missing, _)| *missing);
        missing.map(|(_, name)| name).collect()
    }

    /// Watches. Ends never.
    pub fn run(self: &Arc<Self>, client: &Client, namespace: &str) -> BoxFuture<'static, ()> {
        let maps = Api::<DeserializeGuard<ConfigMap>>::namespaced(client.clone(), namespace);
        let selected = format!("metadata.name={OVERLAY_MEMBERS}");
        let cache = Arc::clone(self);
        let maps = kit::watch::keep(
            maps,
            Config::default().fields(&selected),
            "members",
            move |event| {
                let read = |map: &ConfigMap| (map.metadata.name.clone(), entries::members(map));
                cache.told(lock(&cache.members).take(event, read));
            },
        );
        let cache = Arc::clone(self);
        let nodes = kit::watch::keep(
            Api::<DeserializeGuard<NodeObject>>::all(client.clone()),
            Config::default(),
            "nodes",
            move |event| {
                let read = |node: &NodeObject| (node.metadata.name.clone(), entries::node(node));
                cache.told(lock(&cache.nodes).take(event, read));
            },
        );
        Box::pin(async move {
            join(maps, nodes).await;
        })
    }

    fn told(&self, changed: bool) {
        if changed {
            self.changed.notify_one();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was known when it was saved last. A file that is not there, or cannot be read, says nothing.
#[must_use]
pub fn restore(folder: &Path) -> Kept {
    use std::io::Read as _;
    let path = folder.join(NAME);
    let Ok(file) = std::fs::File::open(&path) else {
        return Kept::default();
    };
    let mut text = String::new();
    let read = file.take(LONGEST).read_to_string(&mut text);
    let kept = read.map_err(anyhow::Error::from);
    let kept = kept.and_then(|_| Ok(serde_json::from_str(&text)?));
    kept.unwrap_or_else(|error: anyhow::Error| {
        tracing::warn!(
            file = %path.display(),
            error = kit_client::errors::chain(error.as_ref()),
            "what was known before cannot be read, and comes from the API alone",
        );
        Kept::default()
    })
}

/// Keeps what is known for the next start, whole or not at all.
///
/// # Errors
/// When it cannot be written.
pub fn save(folder: &Path, kept: &Kept) -> Result<()> {
    let text = serde_json::to_vec(kept).context("write what is known")?;
    let (path, beside) = (folder.join(NAME), folder.join(format!("{NAME}.new")));
    std::fs::write(&beside, text).with_context(|| format!("write {}", beside.display()))?;
    std::fs::rename(&beside, &path).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use kit::watch::Event;

    use super::*;

    fn some() -> Observed {
        Observed {
            members: Some(Members::default()),
            nodes: Some([("a".to_owned(), Node::default())].into()),
        }
    }

    #[test]
    fn what_was_known_counts_until_the_lists_have_come() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(restore(folder.path()), Kept::default());
        let kept = Kept {
            observed: some(),
            heard: [(PublicKey([7; 32]), SocketAddr::from(([192, 0, 2, 1], 7)))].into(),
        };
        save(folder.path(), &kept).unwrap();
        assert_eq!(restore(folder.path()), kept);
        let cache = Cache::new(restore(folder.path()).observed);
        assert_eq!(cache.seen(), some());
        assert_eq!(cache.missing(), ["members", "nodes"]);
        let read = |_: &()| (None, Node::default());
        lock(&cache.nodes).take(Event::<()>::Begin, read);
        assert_eq!(cache.seen(), some());
        lock(&cache.nodes).take(Event::<()>::End, read);
        assert_eq!(cache.seen().nodes, Some([].into()));
        assert_eq!(cache.missing(), ["members"]);
        std::fs::write(folder.path().join(NAME), "{").unwrap();
        assert_eq!(restore(folder.path()), Kept::default());
    }

    #[test]
    fn a_list_without_the_configmap_takes_no_member_away() {
        let cache = Cache::new(some());
        let read = |_: &()| (None, Members::default());
        for event in [Event::<()>::Begin, Event::End] {
            lock(&cache.members).take(event, read);
        }
        assert_eq!(cache.seen(), some());
        assert_eq!(cache.missing(), ["nodes"]);
    }
}
