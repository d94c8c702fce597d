//! One watch per session and kind, whatever number of pages listens.
//!
//! Invariant: a watch is the user's own, knows nothing but that something changed, and ends with its last listener; their
//! number is bounded. A listener that is too slow is told that something changed, and never waited for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;

use crate::kinds::Kind;

pub mod stream;

/// Most watches of one session.
const MOST: usize = 24;
/// Changes that a slow listener may be behind.
const BEHIND: usize = 64;
/// Objects of one page of the list that a watch begins with: their metadata alone.
const PAGE: u32 = 500;
/// Seconds after which a watch is begun anew.
const LASTS: u32 = 280;
/// How long a watch stays without a listener, so that the next page finds it.
const LINGERS: Duration = Duration::from_secs(30);

/// What is watched: a kind, in a namespace or in all.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Scope {
    /// The kind.
    pub kind: Kind,
    /// The namespace; none: all of them.
    pub namespace: Option<String>,
}

/// What a watch tells.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Change {
    /// Something is otherwise than it was.
    Changed(Scope),
    /// It may not be watched: a page stays as it is.
    Refused(Scope),
    /// The user's token is not taken any more.
    Unauthorized,
}

struct Watch {
    /// One owner more for each listener.
    listeners: Arc<()>,
    /// Whether its first list is read: from then on no change is missed.
    is_synced: watch::Receiver<bool>,
    task: AbortHandle,
}

/// The watches of a session.
pub struct Live {
    changes: broadcast::Sender<Change>,
    watches: Mutex<HashMap<Scope, Watch>>,
    streams: Arc<()>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            changes: broadcast::Sender::new(BEHIND),
            watches: Mutex::default(),
            streams: Arc::default(),
        }
    }
}

/// Somebody who listens.
pub struct Listener {
    changes: broadcast::Receiver<Change>,
    scopes: Vec<Scope>,
    synced: Vec<watch::Receiver<bool>>,
    _listens: Vec<Arc<()>>,
}

/// There are as many as there may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("too much is watched at once: close other pages of the dashboard")]
pub struct TooMany;

impl Live {
    /// Listens to these; what is not watched yet is from now on.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn listen(
        self: &Arc<Self>,
        client: &Client,
        scopes: Vec<Scope>,
    ) -> Result<Listener, TooMany> {
        let changes = self.changes.subscribe();
        let mut watches = lock(&self.watches);
        let (mut listens, mut synced) = (vec![Arc::clone(&self.streams)], Vec::new());
        for scope in &scopes {
            if !watches.contains_key(scope) {
                // What lingers makes place.
                if watches.len() >= MOST {
                    drop_one(&mut watches);
                }
                if watches.len() >= MOST {
                    return Err(TooMany);
                }
                watches.insert(scope.clone(), self.begin(client, scope));
            }
            if let Some(watch) = watches.get(scope) {
                listens.push(Arc::clone(&watch.listeners));
                synced.push(watch.is_synced.clone());
            }
        }
        drop(watches);
        Ok(Listener {
            changes,
            scopes,
            synced,
            _listens: listens,
        })
    }

    /// Streams that are open.
    #[must_use]
    pub fn streams(&self) -> usize {
        Arc::strong_count(&self.streams) - 1
    }

    /// Watches that there are.
    #[must_use]
    pub fn watches(&self) -> usize {
        lock(&self.watches).len()
    }

    /// Ends all watches.
    pub fn end(&self) {
        for (_, watch) in lock(&self.watches).drain() {
            watch.task.abort();
        }
    }

    fn begin(self: &Arc<Self>, client: &Client, scope: &Scope) -> Watch {
        let (synced, is_synced) = watch::channel(false);
        let (live, client, scope) = (Arc::downgrade(self), client.clone(), scope.clone());
        let changes = self.changes.clone();
        let task = tokio::spawn(async move {
            let watched = run(&client, &scope, &changes, &synced);
            tokio::pin!(watched);
            loop {
                tokio::select! {
                    () = &mut watched => break,
                    () = tokio::time::sleep(LINGERS) => {}
                }
                let Some(live) = live.upgrade() else { break };
                if live.is_lonely(&scope) {
                    break;
                }
            }
            // Whoever asks next begins it anew.
            if let Some(live) = live.upgrade() {
                lock(&live.watches).remove(&scope);
            }
        });
        Watch {
            listeners: Arc::default(),
            is_synced,
            task: task.abort_handle(),
        }
    }

    /// Takes a watch without listeners out, so that nobody begins to listen to one that ends.
    fn is_lonely(&self, scope: &Scope) -> bool {
        let mut watches = lock(&self.watches);
        let found = watches.get(scope);
        let is_lonely = found.is_none_or(|watch| Arc::strong_count(&watch.listeners) == 1);
        if is_lonely {
            watches.remove(scope);
        }
        is_lonely
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.end();
    }
}

fn drop_one(watches: &mut HashMap<Scope, Watch>) {
    let lonely = watches
        .iter()
        .find(|(_, watch)| Arc::strong_count(&watch.listeners) == 1);
    let lonely = lonely.map(|(scope, _)| scope.clone());
    if let Some(watch) = lonely.and_then(|scope| watches.remove(&scope)) {
        watch.task.abort();
    }
}

/// Watches until it may not, or the token ends.
async fn run(
    client: &Client,
    scope: &Scope,
    changes: &broadcast::Sender<Change>,
    synced: &watch::Sender<bool>,
) {
    let resource = scope.kind.resource();
    let api: Api<PartialObjectMeta<DynamicObject>> = match &scope.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let config = watcher::Config::default().page_size(PAGE).timeout(LASTS);
    let mut events = watcher(api, config).default_backoff().boxed();
    // Nobody listening is no error: the next one reads the page anyway.
    let tell = |change: Change| drop(changes.send(change));
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => {}
            Ok(watcher::Event::InitDone) => {
                // What changed while nothing was watched is not known.
                if synced.send_replace(true) {
                    tell(Change::Changed(scope.clone()));
                }
            }
            Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_)) => {
                tell(Change::Changed(scope.clone()));
            }
            Err(error) => match code(&error) {
                Some(401) => return tell(Change::Unauthorized),
                Some(403 | 404) => {
                    synced.send_replace(true);
                    return tell(Change::Refused(scope.clone()));
                }
                _ => {
                    let error = kit_client::errors::chain(&error);
                    tracing::debug!(kind = scope.kind.word(), error, "a watch is interrupted");
                }
            },
        }
    }
}

/// The status of the API's answer, where it gave one.
fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
