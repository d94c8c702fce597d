//! Bulkhead: how many of a controller's places tenants hold together that do not answer promptly.
//!
//! A reconcile holds a place while it waits for a tenant's API. A tenant that answered promptly when it
//! was last asked is asked without more ado, and so is one that was late because there was much to ask, but
//! gave each answer soon. Others, and those that this process never asked, need one of few permits, and so
//! does any as soon as a reconcile waits for long and answers do not come one soon after the other. A permit
//! is for all that a reconcile asks: its budget holds it to the end.
//!
//! Who gets none goes on without the tenant's answer and is woken when a permit is given back: first who gave
//! each answer soon, then the tenant that had permits for the shortest time since it is slow. So one that was
//! slow once, or starts, waits for no hundred that are always so. For a moment none that had them for longer
//! takes it away.
//!
//! Invariant: without a permit no reconcile waits for a tenant longer than [`Budget::promptly`], unless it
//! answers all the while ([`Budget::is_brisk`]), and there are never more permits than a quarter of the places
//! ([`most`]); nobody waits for one in a place.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::budget::{Budget, Exceeded};

/// For how long a tenant that was slow needs a permit, though it may answer promptly again.
const LATELY: Duration = Duration::from_secs(300);

/// For how long a permit is kept for one that was woken: its reconcile waits for a place, and for the dozen
/// requests at the management API that it makes before it asks the tenant.
const INVITED: Duration = Duration::from_secs(5);

/// How many of so many places are for tenants that do not answer promptly.
#[must_use]
pub fn most(places: usize) -> usize {
    (places / 4).max(1)
}

/// How a tenant answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Standing {
    /// In time.
    Prompt,
    /// Not in time.
    Late {
        /// When that was last so.
        at: Instant,
        /// For how long it had permits since it is.
        held: Duration,
        /// It answered all the same, and each time soon ([`Budget::is_brisk`]).
        brisk: bool,
    },
}

/// Whether one needs a permit to be asked.
fn needs_permit(standing: Option<Standing>) -> bool {
    !matches!(
        standing,
        Some(Standing::Prompt | Standing::Late { brisk: true, .. })
    )
}

/// Who of those that wait is before others: the lesser.
type Rank = (bool, Duration);

/// The first of all.
const FIRST: Rank = (false, Duration::ZERO);
/// After all.
const LAST: Rank = (true, Duration::MAX);

/// What is thought of one after it was asked, and was `late` or not, and `brisk` or not.
fn after(before: Option<Standing>, late: bool, brisk: bool, now: Instant) -> Standing {
    let held = match before {
        Some(Standing::Late { held, .. }) => held,
        Some(Standing::Prompt) | None => Duration::ZERO,
    };
    match (late, before) {
        (true, _) => Standing::Late {
            at: now,
            held,
            brisk,
        },
        (false, Some(Standing::Late { at, .. })) if now.duration_since(at) < LATELY => {
            Standing::Late { at, held, brisk }
        }
        (false, _) => Standing::Prompt,
    }
}

/// How tenants answered lately, by UID; all bulkheads share it. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct Standings(Arc<Mutex<HashMap<String, Standing>>>);

impl Standings {
    /// Notes that one answered in time that nobody waited for in a place.
    pub fn answered(&self, uid: &str) {
        let mut all = lock(&self.0);
        all.entry(uid.to_owned()).or_insert(Standing::Prompt);
    }

    /// Forgets one that is gone.
    pub fn forget(&self, uid: &str) {
        lock(&self.0).remove(uid);
    }

    fn of(&self, uid: &str) -> Option<Standing> {
        lock(&self.0).get(uid).copied()
    }

    fn rank(&self, uid: &str) -> Rank {
        match self.of(uid) {
            Some(Standing::Late { held, brisk, .. }) => (!brisk, held),
            Some(Standing::Prompt) => FIRST,
            None => (true, Duration::ZERO),
        }
    }

    /// Notes that one had a permit for so long.
    fn had(&self, uid: &str, time: Duration) {
        if let Some(Standing::Late { held, .. }) = lock(&self.0).get_mut(uid) {
            *held = held.saturating_add(time);
        }
    }

    fn note(&self, uid: &str, late: bool, brisk: bool) {
        let mut all = lock(&self.0);
        let standing = after(all.get(uid).copied(), late, brisk, Instant::now());
        all.insert(uid.to_owned(), standing);
    }
}

/// Why a tenant's answer was not waited for (any longer).
#[derive(Debug)]
pub enum Interrupted {
    /// All permits are given away. Nothing is known of the tenant; the reconcile is woken.
    Busy,
    /// The tenant took more than one reconcile has for it.
    Exceeded(Exceeded),
}

/// Asks for another reconcile of one that got no permit.
pub type Wake = Box<dyn FnOnce() + Send>;

/// The permits of one controller.
#[derive(Clone)]
pub struct Bulkhead {
    standings: Standings,
    permits: Arc<Mutex<Permits>>,
}

struct Permits {
    most: usize,
    held: usize,
    /// Who got none, the first first.
    waiting: Vec<Waiting>,
    /// For whom permits are kept, by object.
    invited: HashMap<String, Invited>,
}

struct Invited {
    until: Instant,
    rank: Rank,
}

struct Waiting {
    object: String,
    uid: String,
    wake: Wake,
}

impl Permits {
    /// Whether there is a permit for one of this rank that is kept for nobody before it.
    fn is_free(&mut self, rank: Rank, now: Instant) -> bool {
        self.invited.retain(|_, invited| invited.until > now);
        let before = self.invited.values().filter(|one| one.rank < rank).count();
        self.held + before < self.most
    }

    /// Who is to be woken, as many as there are permits for, by their rank.
    fn invite(&mut self, standings: &Standings, now: Instant) -> Vec<Wake> {
        let mut wakes = Vec::new();
        while self.is_free(LAST, now) {
            let each = self.waiting.iter().enumerate();
            let each = each.map(|(place, waiting)| (standings.rank(&waiting.uid), place));
            let Some((rank, place)) = each.min() else {
                break;
            };
            let Waiting { object, wake, .. } = self.waiting.remove(place);
            let until = now + INVITED;
            self.invited.insert(object, Invited { until, rank });
            wakes.push(wake);
        }
        wakes
    }
}

impl Bulkhead {
    /// The bulkhead of a controller with so many places.
    #[must_use]
    pub fn new(standings: Standings, places: usize) -> Self {
        Self {
            standings,
            permits: Arc::new(Mutex::new(Permits {
                most: most(places),
                held: 0,
                waiting: Vec::new(),
                invited: HashMap::new(),
            })),
        }
    }

    /// The controller has so many places.
    pub fn resize(&self, places: usize) {
        lock(&self.permits).most = most(places);
    }

    /// Permits that are given away, and reconciles that wait for one.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let permits = lock(&self.permits);
        (permits.held, permits.waiting.len())
    }

    /// Lets the reconcile of `object` (`namespace/name`) ask the tenant `uid`; none when that needs a permit
    /// and there is none: then `wake` is called when there is one. `budget`: the reconcile's, which holds the
    /// permit to its end.
    #[must_use]
    pub fn enter(&self, uid: &str, object: &str, budget: &Budget, wake: Wake) -> Option<Pass> {
        let mut pass = Pass {
            bulkhead: self.clone(),
            uid: uid.to_owned(),
            object: object.to_owned(),
            budget: budget.clone(),
            wake: Some(wake),
        };
        let may = !needs_permit(self.standings.of(uid)) || pass.take_permit();
        may.then_some(pass)
    }
}

/// One of the permits.
struct Permit {
    bulkhead: Bulkhead,
    uid: String,
    since: Instant,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let (now, standings) = (Instant::now(), &self.bulkhead.standings);
        standings.had(&self.uid, now.duration_since(self.since));
        let mut permits = lock(&self.bulkhead.permits);
        permits.held = permits.held.saturating_sub(1);
        wake_next(permits, standings, now);
    }
}

/// Allows a reconcile to ask a tenant.
pub struct Pass {
    bulkhead: Bulkhead,
    uid: String,
    object: String,
    budget: Budget,
    wake: Option<Wake>,
}

impl Pass {
    /// Takes a permit, if the reconcile has none; false when there is none left, and it is woken later.
    fn take_permit(&mut self) -> bool {
        if self.budget.has_permit() {
            return true;
        }
        let now = Instant::now();
        let mut permits = lock(&self.bulkhead.permits);
        permits.waiting.retain(|one| one.object != self.object);
        permits.invited.remove(&self.object);
        let rank = self.bulkhead.standings.rank(&self.uid);
        if permits.is_free(rank, now) {
            permits.held += 1;
            drop(permits);
            self.budget.hold(Permit {
                bulkhead: self.bulkhead.clone(),
                uid: self.uid.clone(),
                since: now,
            });
            return true;
        }
        if let Some(wake) = self.wake.take() {
            permits.waiting.push(Waiting {
                object: self.object.clone(),
                uid: self.uid.clone(),
                wake,
            });
        }
        // Some that were woken may not have come.
        wake_next(permits, &self.bulkhead.standings, now);
        false
    }

    /// Does work that waits for the tenant, as long as the budget allows, and longer than that of a prompt
    /// one only with a permit.
    ///
    /// # Errors
    /// [`Interrupted`]; then it was cut off where it was.
    pub async fn within<T>(mut self, work: impl Future<Output = T>) -> Result<T, Interrupted> {
        tokio::pin!(work);
        let budget = self.budget.clone();
        while !budget.has_permit() {
            let promptly = match budget.is_brisk() {
                true => budget.promptly(),
                false => budget.promptly().saturating_sub(budget.waited()),
            };
            let begun = budget.within(tokio::time::timeout(promptly, &mut work));
            let done = begun.await.map_err(Interrupted::Exceeded)?;
            let brisk = budget.is_brisk();
            if let Ok(done) = done {
                self.bulkhead.standings.note(&self.uid, false, brisk);
                return Ok(done);
            }
            if !brisk {
                self.bulkhead.standings.note(&self.uid, true, false);
                if !self.take_permit() {
                    return Err(Interrupted::Busy);
                }
            }
        }
        let result = budget.within(work).await;
        let brisk = budget.is_brisk();
        let late = !brisk && budget.waited() >= budget.promptly();
        self.bulkhead.standings.note(&self.uid, late, brisk);
        result.map_err(Interrupted::Exceeded)
    }
}

/// Wakes those for whom there are permits, once nobody is locked out any more.
fn wake_next(mut permits: MutexGuard<'_, Permits>, standings: &Standings, now: Instant) {
    let next = permits.invite(standings, now);
    drop(permits);
    next.into_iter().for_each(|wake| wake());
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in there is valid after any single statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
