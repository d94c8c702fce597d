//! Which part of the work is this replica's, where replicas share it (docs/fleet.md).
//!
//! The work of a user's namespace goes together: its TenantClusters, NodePools, Machines, Hosts, ProviderConfigs, backups and
//! restores are each other's business, and so are the quota and the Hosts that they take from. What is of no namespace is of
//! one replica, too: quotas, backup targets, fleet policies, tenant namespaces that are left over, the webhook's certificate.
//!
//! [`plan`] decides who has what; `membership` reads and writes the Leases.
//!
//! Invariant: work begins only while it is this replica's; it has ended, and not merely been told to, before this replica says
//! that another one may have it. Where replicas do not share, all is this one's, and none of this costs anything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use kit::lease::Claim;
use tokio::sync::{Notify, watch};

use self::plan::{Member, View};

pub mod plan;
#[cfg(test)]
mod tests;

/// Annotation of a seat: which of those that had it holds it.
pub const INCARNATION: &str = "covey.dev/shard-incarnation";
/// Annotation of a seat: with whom its holder shares the work.
pub const SHARES: &str = "covey.dev/shares-with";
/// Label of a seat.
pub const LABEL: &str = "covey.dev/operator-seat";

/// Which part of the work is this replica's. Default: all of it.
#[derive(Debug, Default)]
pub struct Shards(OnceLock<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Some work has ended.
    ended: Arc<Notify>,
    /// What is this replica's may be something else.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    /// What is to be so.
    target: View,
    /// By what work is begun.
    held: Held,
    /// What is under way, by key: the last is in force, those before it were revoked and have not ended.
    claims: HashMap<String, Vec<Claim>>,
}

/// What a replica has in hand: work that was its own in a view before which it had read anew what others wrote, and in all
/// views since.
#[derive(Clone, Debug, Default)]
pub struct Held {
    me: Option<Member>,
    views: Vec<View>,
}

impl Held {
    /// Whether the work of `key` is among it.
    #[must_use]
    pub fn owns(&self, key: &str) -> bool {
        let me = self.me.as_ref().filter(|_| !self.views.is_empty());
        me.is_some_and(|me| self.views.iter().all(|view| view.owns(me, key)))
    }

    /// Whether it is all that is this replica's in that view.
    #[must_use]
    pub fn is_all_of(&self, view: &View) -> bool {
        self.views == std::slice::from_ref(view)
    }
}

impl Shards {
    /// From now on replicas share the work, and nothing is this one's until it has a seat.
    pub fn share(&self) {
        self.0.get_or_init(|| Shared {
            state: Mutex::default(),
            ended: Arc::default(),
            changed: watch::Sender::new(()),
        });
    }

    /// Whether replicas share the work.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.0.get().is_some()
    }

    /// How many share it; one where nobody does.
    #[must_use]
    pub fn members(&self) -> usize {
        let members = self.lock().map(|state| state.target.members.len());
        members.unwrap_or(1).max(1)
    }

    /// The seat of whom the work of `key` is; none where replicas do not share, or nobody is known.
    #[must_use]
    pub fn owner(&self, key: &str) -> Option<String> {
        let state = self.lock()?;
        plan::owner(&state.target.members, key).map(|member| member.seat.clone())
    }

    /// Whether the work of `key` is this replica's now.
    #[must_use]
    pub fn owns(&self, key: &str) -> bool {
        self.lock().is_none_or(|state| state.held.owns(key))
    }

    /// This replica has a seat.
    pub fn sit_down(&self, me: Member) {
        if let Some(mut state) = self.lock() {
            state.held.me = Some(me);
        }
    }

    /// Whom the work is shared with from now on: what is another one's is ended. True where it was others until now.
    pub fn aim(&self, view: &View) -> bool {
        let Some(mut state) = self.lock() else {
            return false;
        };
        let is_new = state.target != *view;
        if is_new {
            state.target = view.clone();
            if !state.held.views.is_empty() {
                state.held.views.push(view.clone());
            }
        }
        let State { held, claims, .. } = &*state;
        for (key, claims) in claims {
            if !held.owns(key) {
                claims.iter().for_each(Claim::revoke);
            }
        }
        drop(state);
        self.tell(is_new);
        is_new
    }

    /// What came to this replica may be begun: it has read anew what others wrote until then. `view` is what it aimed at when
    /// it began to read.
    pub fn take_up(&self, view: &View) {
        if let Some(mut state) = self.lock() {
            state.held.views = vec![view.clone()];
        }
        self.tell(true);
    }

    /// What this replica has in hand; nothing where replicas do not share.
    #[must_use]
    pub fn held(&self) -> Held {
        self.lock()
            .map(|state| state.held.clone())
            .unwrap_or_default()
    }

    fn tell(&self, is_new: bool) {
        if let Some(shared) = self.0.get().filter(|_| is_new) {
            shared.changed.send_replace(());
        }
    }

    /// Whether nothing is under way any more that is another one's.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let Some(mut state) = self.lock() else {
            return true;
        };
        for claims in state.claims.values_mut() {
            claims.retain(|claim| !claim.is_idle());
        }
        state.claims.retain(|_, claims| !claims.is_empty());
        !state.claims.values().flatten().any(Claim::is_revoked)
    }

    /// Resolves when some work has ended since the last time; never where replicas do not share.
    pub async fn ended(&self) {
        match self.0.get() {
            Some(shared) => shared.ended.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Does `work`, if that of `key` is this replica's; else none, and nothing of it is begun.
    pub async fn run<T>(&self, key: &str, work: impl Future<Output = T>) -> Option<T> {
        let Some(shared) = self.0.get() else {
            return Some(Box::pin(work).await);
        };
        let claim = self.claim(key)?;
        // Told also where the work is dropped.
        let _told = Told(&shared.ended);
        Some(claim.scope(work).await)
    }

    /// Does `work` while that of `key` is this replica's, each time from the beginning, until it ends by itself.
    pub async fn run_while_owned<T, F>(&self, key: &str, work: impl Fn() -> F) -> T
    where
        F: Future<Output = T>,
    {
        loop {
            self.becomes(key, true).await;
            tokio::select! {
                biased;
                () = self.becomes(key, false) => {}
                Some(done) = self.run(key, work()) => return done,
            }
        }
    }

    /// Resolves once the work of `key` is this replica's, or is not any more.
    pub async fn becomes(&self, key: &str, wanted: bool) {
        let mut changed = self.0.get().map(|shared| shared.changed.subscribe());
        while self.owns(key) != wanted {
            match &mut changed {
                // The sender lives as long as this.
                Some(changed) => {
                    let _ = changed.changed().await;
                }
                None => std::future::pending().await,
            }
        }
    }

    fn claim(&self, key: &str) -> Option<Claim> {
        let mut state = self.lock()?;
        if !state.held.owns(key) {
            return None;
        }
        let claims = state.claims.entry(key.to_owned()).or_default();
        let last = claims.last().filter(|claim| !claim.is_revoked()).cloned();
        if last.is_some() {
            return last;
        }
        let claim = Claim::default();
        claims.push(claim.clone());
        Some(claim)
    }

    fn lock(&self) -> Option<MutexGuard<'_, State>> {
        let shared = self.0.get()?;
        // The state is valid after any single statement, so a panic elsewhere does not spoil it.
        Some(shared.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Tells that some work has ended, when it is dropped.
struct Told<'a>(&'a Notify);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}
