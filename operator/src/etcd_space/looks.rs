//! Looks at the members of tenants' etcds from time to time, outside of all reconciles: no watch tells that a
//! database fills up or a disk is slow, and a reconcile that only asks etcd would cost a dozen requests at the
//! management API.
//!
//! Invariant: one look at a time per tenant, at one member in turn, or at the next one that answers; nothing is
//! decided here but whether it is worth a reconcile. They end with the leadership.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::TenantCluster;
use jiff::Timestamp;
use kit::lease::Leadership;
use kit::panics;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::level::{Level, is_fragmented};
use crate::etcd_disks::speed::{Disks, Readings, Speed};
use crate::tenant_session::etcd;
use crate::tenant_session::etcd::answers::{Alarm, MemberStatus};
use crate::tenant_session::etcd::disk_times::DiskTimes;
use crate::tenant_session::session::Session;

/// Pause between two looks at a tenant's etcd. An alarm is the whole cluster's, so any member tells of it.
pub const PERIOD: Duration = Duration::from_secs(30);
/// A look takes no longer, nor does what is asked beside it.
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

/// Whether it is news how fast disks are: only where one is slow, or was.
fn are_news(now: &Speeds, before: &Speeds) -> bool {
    let is_slow = |speeds: &Speeds| speeds.values().any(|speed| speed.is_slow());
    let of = |member: &String| before.get(member).copied().unwrap_or_default();
    (is_slow(now) || is_slow(before)) && now.iter().any(|(name, speed)| !speed.is_like(of(name)))
}

/// How fast disks are, by name of the member.
type Speeds = BTreeMap<String, Speed>;

/// The looks at all tenants.
pub struct EtcdLooks {
    leadership: Leadership,
    clusters: mpsc::UnboundedSender<ObjectRef<TenantCluster>>,
    running: Mutex<HashMap<String, Running>>,
    /// When the lead was last taken from a member whose disk is slow.
    moved: Mutex<HashMap<String, Timestamp>>,
}

/// What a member last said of its log.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LastSaid {
    /// Identifier of its cluster, hexadecimal.
    pub cluster_id: String,
    /// Its own, hexadecimal.
    pub member_id: String,
    /// The newest entry that was in its database.
    pub applied: u64,
}

impl From<&MemberStatus> for LastSaid {
    fn from(member: &MemberStatus) -> Self {
        Self {
            cluster_id: member.cluster_id.clone(),
            member_id: member.member_id.clone(),
            applied: member.applied,
        }
    }
}

/// What was seen of one tenant's etcd.
#[derive(Debug, Default)]
struct Seen {
    glance: Glance,
    speeds: Speeds,
    said: BTreeMap<String, LastSaid>,
}

/// What one member was asked.
#[derive(Debug, Default)]
struct Looked {
    status: MemberStatus,
    times: Option<DiskTimes>,
}

struct Running {
    members: Vec<Session>,
    seen: Arc<Mutex<Seen>>,
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
            moved: Mutex::default(),
        }
    }

    /// Looks at these members of a tenant's etcd from now on.
    pub fn ensure(&self, uid: &str, cluster: ObjectRef<TenantCluster>, members: Vec<Session>) {
        let mut running = lock(&self.running);
        let same = |running: &Running| running.members == members && !running.task.is_finished();
        if members.is_empty() || running.get(uid).is_some_and(same) {
            return;
        }
        // Other addresses or certificates are no other members.
        let said = running
            .get(uid)
            .map(|before| lock(&before.seen).said.clone());
        let seen = Arc::new(Mutex::new(Seen {
            said: said.unwrap_or_default(),
            ..Seen::default()
        }));
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
            .map(|running| lock(&running.seen).glance)
            .unwrap_or_default()
    }

    /// What is known of the disks of its members.
    #[must_use]
    pub fn disks(&self, uid: &str) -> Disks {
        let running = lock(&self.running);
        let speeds = running.get(uid);
        Disks {
            speeds: speeds.map_or_else(Speeds::new, |running| lock(&running.seen).speeds.clone()),
            moved: lock(&self.moved).get(uid).copied(),
        }
    }

    /// What its members last said of their logs, by name.
    #[must_use]
    pub fn said(&self, uid: &str) -> BTreeMap<String, LastSaid> {
        let running = lock(&self.running);
        let seen = running.get(uid).map(|running| lock(&running.seen));
        seen.map(|seen| seen.said.clone()).unwrap_or_default()
    }

    /// Keeps what members said in a reconcile.
    pub fn note_answers<'a>(
        &self,
        uid: &str,
        answers: impl Iterator<Item = (&'a str, &'a MemberStatus)>,
    ) {
        let running = lock(&self.running);
        if let Some(running) = running.get(uid) {
            let said = answers.map(|(name, answer)| (name.to_owned(), LastSaid::from(answer)));
            lock(&running.seen).said.extend(said);
        }
    }

    /// Notes that the lead was taken from a member whose disk is slow.
    pub fn note_move(&self, uid: &str, now: Timestamp) {
        lock(&self.moved).insert(uid.to_owned(), now);
    }

    /// Ends the looks at one that falls asleep. What its members said of their logs stays known: it is noted when they are
    /// gone.
    pub fn rest(&self, uid: &str) {
        if let Some(running) = lock(&self.running).get_mut(uid) {
            running.task.abort();
            // The task may be in the middle of a look.
            let said = lock(&running.seen).said.clone();
            running.seen = Arc::new(Mutex::new(Seen {
                said,
                ..Seen::default()
            }));
        }
    }

    /// Ends the looks at one that is gone.
    pub fn forget(&self, uid: &str) {
        lock(&self.running).remove(uid);
        lock(&self.moved).remove(uid);
    }
}

async fn run(members: Vec<Session>, seen: Arc<Mutex<Seen>>, wake: impl Fn()) {
    let mut fragmented = vec![false; members.len()];
    let mut disks = vec![Readings::default(); members.len()];
    for turn in (0..members.len()).cycle() {
        tokio::time::sleep(PERIOD).await;
        let now = Timestamp::now();
        let asked = members.iter().zip(&disks);
        let asked: Vec<_> = asked
            .map(|(member, disk)| (member, disk.is_due(now)))
            .collect();
        let looked = first_of(&asked, turn, look).await;
        let status = looked.map(|(number, Looked { status, times })| {
            fragmented[number] = is_fragmented(&status);
            if let Some(times) = times {
                disks[number].take(now, times);
            }
            (&members[number].server_name, status)
        });
        let named = members.iter().zip(&disks);
        let speeds = named.map(|(member, disk)| (member.server_name.clone(), disk.speed(now)));
        let speeds: Speeds = speeds.collect();
        let is_worth_it = {
            let mut seen = lock(&seen);
            let before = seen.glance;
            let any = fragmented.contains(&true);
            let glance = status
                .as_ref()
                .map(|(_, status)| Glance::of(status, any, before));
            let is_news = glance.is_some_and(|glance| glance.is_worth_a_reconcile(before));
            let is_news = is_news || are_news(&speeds, &seen.speeds);
            seen.glance = glance.unwrap_or(before);
            seen.speeds = speeds;
            let said = status.iter();
            let said = said.map(|(name, status)| ((*name).clone(), LastSaid::from(status)));
            seen.said.extend(said);
            is_news
        };
        if is_worth_it {
            wake();
        }
    }
}

/// What the first member says that answers, from this one on, and its number.
async fn first_of<M, T>(
    members: &[M],
    turn: usize,
    look: impl AsyncFn(&M) -> Option<T>,
) -> Option<(usize, T)> {
    let numbered = members.iter().enumerate();
    for (number, member) in numbered.cycle().skip(turn).take(members.len()) {
        // A panic over what it answers ends one look.
        if let Ok(Some(looked)) = panics::contained(look(member)).await {
            return Some((number, looked));
        }
    }
    None
}

/// What a member says of itself and, where it `is_due`, how long its disk has taken.
async fn look((member, is_due): &(&Session, bool)) -> Option<Looked> {
    // A connection of its own each time: kept ones would cost more memory than this costs time.
    let client = member.client_without_budget(LIMIT).ok()?;
    let status = tokio::time::timeout(LIMIT, etcd::status(&client)).await;
    let status = status.ok()?.ok()?;
    let times = match is_due {
        true => tokio::time::timeout(LIMIT, etcd::disk_times(&client))
            .await
            .ok(),
        false => None,
    };
    Some(Looked {
        status,
        times: times.and_then(Result::ok),
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::etcd_disks::speed::Figures;

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
    fn speed_of_disks_is_told_where_one_is_slow_or_was() {
        let slow = |seconds| Speed::Slow {
            since: Timestamp::from_second(seconds).unwrap(),
            figures: Figures::default(),
        };
        let of = |speeds: [Speed; 2]| {
            let names = ["etcd-0", "etcd-1"].map(str::to_owned);
            names.into_iter().zip(speeds).collect::<Speeds>()
        };
        let told = |now, before| are_news(&of(now), &of(before));
        let (fast, unknown) = (Speed::Fast, Speed::Unknown);
        assert!(
            !told([fast, fast], [unknown, unknown]),
            "that is nothing to do"
        );
        assert!(told([fast, slow(1)], [fast, unknown]));
        assert!(!told([fast, slow(1)], [fast, slow(1)]));
        assert!(told([fast, slow(1)], [unknown, slow(1)]), "one may lead");
        assert!(told([fast, slow(2)], [fast, slow(1)]));
        assert!(told([fast, fast], [fast, slow(1)]));
    }

    #[test]
    fn next_member_is_looked_at_where_one_does_not_answer() {
        let first = |answer: [bool; 3], turn| {
            let look = async |answers: &bool| answers.then(Looked::default);
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
