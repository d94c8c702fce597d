//! Startup probes: ask the API of each tenant cluster that starts for the first time whether it answers
//! yet, outside of all reconciles, and have it reconciled as soon as it does.
//!
//! A start takes seconds, or never comes to an end; a reconcile that waited for it would keep its place
//! from others. Whether an answer is good enough is for the reconcile to find out: here anything counts
//! that shows that somebody serves.
//!
//! Invariant: probes run only during a first start, one at a time per tenant, with pauses that grow, and
//! for no longer than a start may take ([`PATIENCE`]): so there are never more of them than starts that
//! were admitted in that time. They end with the leadership.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::TenantCluster;
use kit::lease::Leadership;
use kit::panics;
use kube::runtime::reflector::ObjectRef;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::probe;
use super::session::{Error, Session};
use crate::rollouts::queue::PATIENCE;

/// Shortest pause between two probes.
const SHORTEST: Duration = Duration::from_millis(30);
/// Pauses are this part of the time that the start has taken, so they add next to nothing to it.
const PART: u32 = 200;
/// First pause after an answer that was not good enough, doubled for each further one.
const AGAIN: Duration = Duration::from_millis(250);
/// Longest pause.
const LONGEST: Duration = Duration::from_secs(30);

/// How long to wait before the next probe of a start that has taken `elapsed` and whose answers were not
/// good enough `refused` times; none when it is not probed any more.
fn pause(elapsed: Duration, refused: u32) -> Option<Duration> {
    if elapsed >= PATIENCE {
        return None;
    }
    let again = match refused.checked_sub(1) {
        Some(doubled) => AGAIN.saturating_mul(2_u32.saturating_pow(doubled)),
        None => Duration::ZERO,
    };
    Some((elapsed / PART).max(SHORTEST).max(again).min(LONGEST))
}

/// What is known of a first start.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Start {
    /// Nobody serves yet; why, for people.
    Waits(String),
    /// Somebody serves.
    Answers,
    /// It takes too long to be waited for.
    Over,
}

/// Asks for a reconcile, now.
pub type Wake = Arc<dyn Fn(&ObjectRef<TenantCluster>) + Send + Sync>;

/// The probes of all first starts.
pub struct StartupProbes {
    leadership: Leadership,
    wake: Wake,
    running: Mutex<HashMap<String, Running>>,
}

struct Running {
    session: Session,
    heard: Arc<Mutex<Heard>>,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a probe heard, and what became of it.
#[derive(Debug)]
struct Heard {
    start: Start,
    refused: u32,
}

impl StartupProbes {
    /// None yet. `wake` is called for those that answer.
    #[must_use]
    pub fn new(leadership: Leadership, wake: Wake) -> Self {
        Self {
            leadership,
            wake,
            running: Mutex::default(),
        }
    }

    /// What is known of a start that has taken `elapsed` so far. It is probed from now on, if it is not
    /// already, at what `dial` gives each time.
    ///
    /// # Errors
    /// [`Error::BuildClient`].
    pub fn ensure(
        &self,
        uid: &str,
        cluster: &ObjectRef<TenantCluster>,
        session: &Session,
        elapsed: Duration,
        dial: impl Fn() -> SocketAddr + Send + 'static,
    ) -> Result<Start, Error> {
        let mut running = lock(&self.running);
        if let Some(known) = running.get(uid).filter(|known| known.session == *session) {
            return Ok(lock(&known.heard).start.clone());
        }
        if elapsed >= PATIENCE {
            running.remove(uid);
            return Ok(Start::Over);
        }
        let (mut known, mut client) = (session.clone(), session.probing_client()?);
        let ask = move || {
            let address = dial();
            if known.address != address {
                known.address = address;
                client = known.probing_client().unwrap_or_else(|_| client.clone());
            }
            let client = client.clone();
            async move { probe::serves(&client).await }
        };
        let heard = Heard {
            start: Start::Waits("its pods were asked for a moment ago".to_owned()),
            refused: 0,
        };
        let start = heard.start.clone();
        let heard = Arc::new(Mutex::new(heard));
        let begun = Instant::now().checked_sub(elapsed);
        let probing = {
            let (heard, wake, cluster) =
                (Arc::clone(&heard), Arc::clone(&self.wake), cluster.clone());
            async move {
                run(begun.unwrap_or_else(Instant::now), &heard, ask, || {
                    wake(&cluster);
                })
                .await;
            }
        };
        let lost = self.leadership.lost();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = probing => {}
                () = lost => {}
            }
        });
        let new = Running {
            session: session.clone(),
            heard,
            task,
        };
        running.insert(uid.to_owned(), new);
        Ok(start)
    }

    /// The answer of one was not good enough; why, for people. It is probed on, more slowly.
    pub fn refused(&self, uid: &str, message: &str) {
        if let Some(known) = lock(&self.running).get(uid) {
            let mut heard = lock(&known.heard);
            if heard.start == Start::Answers {
                heard.start = Start::Waits(message.to_owned());
                heard.refused = heard.refused.saturating_add(1);
            }
        }
    }

    /// Ends the probe of one that is up, or gone.
    pub fn forget(&self, uid: &str) {
        lock(&self.running).remove(uid);
    }

    /// Number of starts that are probed.
    #[must_use]
    pub fn len(&self) -> usize {
        let running = lock(&self.running);
        running.values().filter(|r| !r.task.is_finished()).count()
    }

    /// True when no start is probed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Probes one start, which began at `begun`, until it has taken too long.
async fn run<F>(begun: Instant, heard: &Mutex<Heard>, mut ask: impl FnMut() -> F, wake: impl Fn())
where
    F: Future<Output = Result<(), Error>>,
{
    loop {
        let refused = lock(heard).refused;
        let Some(pause) = pause(begun.elapsed(), refused) else {
            lock(heard).start = Start::Over;
            // Somebody has to go on asking, if seldom.
            wake();
            return;
        };
        if lock(heard).start == Start::Answers {
            // A reconcile is on its way to find out whether that is good enough.
            tokio::time::sleep(pause.max(AGAIN)).await;
            continue;
        }
        tokio::time::sleep(pause).await;
        let asked = match panics::contained(ask()).await {
            Ok(asked) => asked.map_err(|error| kit_client::errors::chain(&error)),
            Err(panicked) => Err(kit_client::errors::chain(&panicked)),
        };
        match asked {
            Ok(()) => {
                lock(heard).start = Start::Answers;
                wake();
            }
            Err(why) => lock(heard).start = Start::Waits(why),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in there is valid after any single statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
