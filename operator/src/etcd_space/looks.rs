//! Looks at the members of tenants' etcds from time to time, outside of all reconciles: no watch tells that a
//! database fills up, and a reconcile that only asks etcd would cost a dozen requests at the management API.
//!
//! Invariant: one look at a time per tenant, at one member in turn, or at the next one that answers; nothing is
//! decided here but whether it is worth a reconcile. They end with the leadership.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::TenantCluster;
use kit::lease::Leadership;
use kit::panics;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::level::{Level, is_fragmented};
use crate::tenant_session::etcd;
use crate::tenant_session::etcd::answers::{Alarm, MemberStatus};
use crate::tenant_session::session::Session;

/// Pause between two looks at a tenant's etcd. An alarm is the whole cluster's, so any member tells of it.
pub const PERIOD: Duration = Duration::from_secs(30);
/// A look takes no longer.
const LIMIT: Duration = Duration::from_secs(3);

/// What was seen, as far as it may be worth a reconcile.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Glance {
    /// How full it is.
    pub level: Level,
    /// Whether much of the file of any member is free.
    pub is_fragmented: bool,
    /// Whether members have different data.
    pub is_corrupt: bool,
}

impl Glance {
    fn of(member: &MemberStatus, is_fragmented: bool, before: Self) -> Self {
        Self {
            level: Level::of(std::iter::once(member), before.level),
            is_fragmented,
            is_corrupt: member.alarms.contains(&Alarm::Corrupt),
        }
    }

    /// Whether it is news, or an alarm: one that was taken away may have been raised again since the last look.
    fn is_worth_a_reconcile(self, before: Self) -> bool {
        self != before || self.level == Level::Full || self.is_corrupt
    }

    /// Whether nobody has to look again.
    #[must_use]
    pub fn is_well(self) -> bool {
        self == Self::default()
    }
}

/// The looks at all tenants.
pub struct EtcdLooks {
    leadership: Leadership,
    clusters: mpsc::UnboundedSender<ObjectRef<TenantCluster>>,
    running: Mutex<HashMap<String, Running>>,
}

struct Running {
    members: Vec<Session>,
    seen: Arc<Mutex<Glance>>,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl EtcdLooks {
    /// None yet; `clusters` is woken by what is seen.
    #[must_use]
    pub fn new(
        leadership: Leadership,
        clusters: mpsc::UnboundedSender<ObjectRef<TenantCluster>>,
    ) -> Self {
        Self {
            leadership,
            clusters,
            running: Mutex::default(),
        }
    }

    /// Looks at these members of a tenant's etcd from now on.
    pub fn ensure(&self, uid: &str, cluster: ObjectRef<TenantCluster>, members: Vec<Session>) {
        let mut running = lock(&self.running);
        let same = |running: &Running| running.members == members && !running.task.is_finished();
        if members.is_empty() || running.get(uid).is_some_and(same) {
            return;
        }
        let seen = Arc::new(Mutex::new(Glance::default()));
        let looks = {
            let (members, seen) = (members.clone(), Arc::clone(&seen));
            let clusters = self.clusters.clone();
            run(members, seen, move || {
                // Fails only once the controller has ended.
                let _ = clusters.send(cluster.clone());
            })
        };
        let lost = self.leadership.lost();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = looks => {}
                () = lost => {}
            }
        });
        let new = Running {
            members,
            seen,
            task,
        };
        running.insert(uid.to_owned(), new);
    }

    /// What was seen last.
    #[must_use]
    pub fn seen(&self, uid: &str) -> Glance {
        let running = lock(&self.running);
        running
            .get(uid)
            .map(|running| *lock(&running.seen))
            .unwrap_or_default()
    }

    /// Ends the looks at one that is gone.
    pub fn forget(&self, uid: &str) {
        lock(&self.running).remove(uid);
    }
}

async fn run(members: Vec<Session>, seen: Arc<Mutex<Glance>>, wake: impl Fn()) {
    let mut fragmented = vec![false; members.len()];
    for turn in (0..members.len()).cycle() {
        tokio::time::sleep(PERIOD).await;
        let Some((number, status)) = first_of(&members, turn, look).await else {
            continue;
        };
        fragmented[number] = is_fragmented(&status);
        let any = fragmented.contains(&true);
        let is_worth_it = {
            let mut seen = lock(&seen);
            let now = Glance::of(&status, any, *seen);
            now.is_worth_a_reconcile(std::mem::replace(&mut *seen, now))
        };
        if is_worth_it {
            wake();
        }
    }
}

/// What the first member says that answers, from this one on, and its number.
async fn first_of<M>(
    members: &[M],
    turn: usize,
    look: impl AsyncFn(&M) -> Option<MemberStatus>,
) -> Option<(usize, MemberStatus)> {
    let numbered = members.iter().enumerate();
    for (number, member) in numbered.cycle().skip(turn).take(members.len()) {
        // A panic over what it answers ends one look.
        if let Ok(Some(status)) = panics::contained(look(member)).await {
            return Some((number, status));
        }
    }
    None
}

async fn look(member: &Session) -> Option<MemberStatus> {
    // A connection of its own each time: kept ones would cost more memory than this costs time.
    let client = member.client_without_budget(LIMIT).ok()?;
    tokio::time::timeout(LIMIT, etcd::status(&client))
        .await
        .ok()?
        .ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn alarm_is_told_at_each_look_and_all_else_once() {
        let of = |level| Glance {
            level,
            ..Glance::default()
        };
        let told = |level| of(level).is_worth_a_reconcile(of(level));
        assert!(of(Level::Low).is_worth_a_reconcile(Glance::default()));
        assert!(Glance::default().is_worth_a_reconcile(of(Level::Low)));
        assert!(told(Level::Full), "it may be full again");
        assert!(!told(Level::Critical) && !told(Level::Enough));
        let corrupt = Glance {
            is_corrupt: true,
            ..Glance::default()
        };
        assert!(corrupt.is_worth_a_reconcile(corrupt));
    }

    #[test]
    fn next_member_is_looked_at_where_one_does_not_answer() {
        let first = |answer: [bool; 3], turn| {
            let look = async |answers: &bool| answers.then(MemberStatus::default);
            let found = first_of(&answer, turn, look).now_or_never();
            found
                .expect("nothing is waited for")
                .map(|(number, _)| number)
        };
        assert_eq!(first([true, true, true], 1), Some(1));
        assert_eq!(first([true, false, true], 1), Some(2));
        assert_eq!(first([true, false, false], 1), Some(0));
        assert_eq!(first([false, false, false], 2), None);
    }
}
