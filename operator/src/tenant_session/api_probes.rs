//! Probes of tenants' APIs that nobody waits for: of each tenant cluster that starts for the first time, and of
//! each that does not answer (any more). They run outside of all reconciles, and have it reconciled as soon as
//! it answers.
//!
//! A start takes seconds, or never comes to an end, and one that died may stay away for ever; a reconcile that
//! waited for them would keep its place from others, and so would one that only finds out, with a dozen
//! requests at the management API, that it still may not wait. Whether an answer is good enough is for the
//! reconcile to find out: here anything counts that shows that somebody serves.
//!
//! Invariant: one probe at a time per tenant and purpose, with pauses that grow. Of a first start they run for
//! no longer than it may take ([`PATIENCE`]): so there are never more of them than starts that were admitted
//! in that time. They end with the leadership.

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

use super::budget::Exceeded;
use super::probe;
use super::session::{Error, Session};
use crate::rollouts::queue::PATIENCE;

/// First pause after an answer that was not good enough, doubled for each further one.
const AGAIN: Duration = Duration::from_millis(250);

/// What is asked for, and so how often.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Purpose {
    /// The first answer of all.
    Startup,
    /// An answer of one that gave none when it was last asked, or that nobody has a place to ask in.
    Recovery,
}

/// Pauses between two probes.
struct Pauses {
    shortest: Duration,
    /// They are this part of the time that it has taken.
    part: u32,
    longest: Duration,
    /// The longest after answers that were not good enough.
    longest_refused: Duration,
    /// It is not probed for longer.
    patience: Duration,
}

impl Purpose {
    fn pauses(self) -> Pauses {
        let (millis, seconds) = (Duration::from_millis, Duration::from_secs);
        match self {
            // They add next to nothing to the start.
            Self::Startup => Pauses {
                shortest: millis(30),
                part: 200,
                longest: seconds(30),
                longest_refused: seconds(30),
                patience: PATIENCE,
            },
            // Who is away for ten minutes may be found a minute later. A look of a reconcile costs more.
            Self::Recovery => Pauses {
                shortest: seconds(1),
                part: 10,
                longest: seconds(60),
                longest_refused: seconds(300),
                patience: Duration::MAX,
            },
        }
    }

    /// How long to wait before the next probe of one that has taken `elapsed` and whose answers were not
    /// good enough `refused` times; none when it is not probed any more.
    fn pause(self, elapsed: Duration, refused: u32) -> Option<Duration> {
        let pauses = self.pauses();
        if elapsed >= pauses.patience {
            return None;
        }
        let pause = (elapsed / pauses.part).clamp(pauses.shortest, pauses.longest);
        let again = match refused.checked_sub(1) {
            Some(doubled) => AGAIN.saturating_mul(2_u32.saturating_pow(doubled)),
            None => Duration::ZERO,
        };
        Some(pause.max(again.min(pauses.longest_refused)))
    }
}

/// What is known of one that is probed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Heard {
    /// It was not asked yet: it may answer well, or not, which is known in a few seconds.
    Nothing,
    /// Nobody serves; why, for people.
    Silence(String),
    /// Somebody serves.
    Answers,
    /// It takes too long to be waited for.
    Over,
}

/// One that is to be probed.
pub struct Probed<'a> {
    /// UID of the TenantCluster.
    pub uid: &'a str,
    /// The TenantCluster.
    pub cluster: ObjectRef<TenantCluster>,
    /// Who we are there. With another one it is probed anew.
    pub session: &'a Session,
    /// Ready pods of its control plane, where they are known. With other ones it is probed anew.
    pub pods: Option<i64>,
    /// How long it has taken so far.
    pub elapsed: Duration,
    /// How long a reconcile waits for all its answers. It needs three at least, so one that takes half of that
    /// for a single one counts as silent.
    pub wait: Duration,
    /// Where it is, looked up before each probe.
    pub dial: Box<dyn Fn() -> SocketAddr + Send>,
}

/// Asks for a reconcile, because of what was heard.
pub type Wake = Arc<dyn Fn(&ObjectRef<TenantCluster>, &Heard) + Send + Sync>;

/// The probes of all tenants for one purpose.
pub struct ApiProbes {
    purpose: Purpose,
    leadership: Leadership,
    wake: Wake,
    running: Mutex<HashMap<String, Running>>,
}

struct Running {
    session: Session,
    pods: Option<i64>,
    known: Arc<Mutex<Known>>,
    task: JoinHandle<()>,
}

impl Running {
    fn heard(&self) -> Heard {
        lock(&self.known).heard.clone()
    }

    fn is_with(&self, session: &Session, pods: Option<i64>) -> bool {
        let same_pods = self
            .pods
            .zip(pods)
            .is_none_or(|(ours, theirs)| ours == theirs);
        same_pods && self.session == *session
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a probe heard, and what became of it.
#[derive(Debug)]
struct Known {
    heard: Heard,
    refused: u32,
}

impl ApiProbes {
    /// None yet. `wake` is called for those that answer, and for those of whom that is not known yet once it
    /// is.
    #[must_use]
    pub fn new(purpose: Purpose, leadership: Leadership, wake: Wake) -> Self {
        Self {
            purpose,
            leadership,
            wake,
            running: Mutex::default(),
        }
    }

    /// What is known of one. It is probed from now on, if it is not already; then `known` is what is known of
    /// it until it was asked.
    ///
    /// # Errors
    /// [`Error::BuildClient`].
    pub fn ensure(&self, probed: Probed<'_>, known: Heard) -> Result<Heard, Error> {
        let mut running = lock(&self.running);
        if let Some(known) = running.get_mut(probed.uid) {
            if known.is_with(probed.session, probed.pods) {
                known.pods = known.pods.or(probed.pods);
                return Ok(known.heard());
            }
            running.remove(probed.uid);
        }
        if self.purpose.pause(probed.elapsed, 0).is_none() {
            return Ok(Heard::Over);
        }
        let uid = probed.uid.to_owned();
        let new = self.start(probed, known)?;
        let heard = new.heard();
        running.insert(uid, new);
        Ok(heard)
    }

    /// One was asked in a reconcile, and did not answer, or not well enough: `message`. It is probed from now
    /// on, or more slowly.
    ///
    /// # Errors
    /// [`Error::BuildClient`].
    pub fn fell_silent(&self, probed: Probed<'_>, message: &str) -> Result<(), Error> {
        let uid = probed.uid;
        match self.ensure(probed, Heard::Silence(message.to_owned()))? {
            Heard::Silence(_) => {}
            Heard::Nothing | Heard::Answers | Heard::Over => self.refused(uid, message),
        }
        Ok(())
    }

    /// The answer of one was not good enough; why, for people. It is probed on, more slowly.
    pub fn refused(&self, uid: &str, message: &str) {
        if let Some(running) = lock(&self.running).get(uid) {
            let mut known = lock(&running.known);
            if matches!(known.heard, Heard::Answers | Heard::Nothing) {
                known.heard = Heard::Silence(message.to_owned());
                known.refused = known.refused.saturating_add(1);
            }
        }
    }

    /// What was heard of one, with this session and so many ready pods; none when it is not probed with these.
    #[must_use]
    pub fn heard(&self, uid: &str, session: &Session, pods: Option<i64>) -> Option<Heard> {
        let mut running = lock(&self.running);
        let known = running.get_mut(uid)?;
        if !known.is_with(session, pods) {
            return None;
        }
        known.pods = known.pods.or(pods);
        Some(known.heard())
    }

    /// Why one is silent, however it is reached; none when it is not probed, or may answer, or answers others
    /// better than a reconcile.
    #[must_use]
    pub fn silence(&self, uid: &str) -> Option<String> {
        let running = lock(&self.running);
        let known = lock(&running.get(uid)?.known);
        match &known.heard {
            Heard::Silence(message) if known.refused == 0 => Some(message.clone()),
            Heard::Silence(_) | Heard::Nothing | Heard::Answers | Heard::Over => None,
        }
    }

    /// How one that is probed is reached.
    #[must_use]
    pub fn session(&self, uid: &str) -> Option<Session> {
        let running = lock(&self.running);
        Some(running.get(uid)?.session.clone())
    }

    /// Ends the probe of one that is up, or gone.
    pub fn forget(&self, uid: &str) {
        lock(&self.running).remove(uid);
    }

    /// Number of those that are probed.
    #[must_use]
    pub fn len(&self) -> usize {
        let running = lock(&self.running);
        running.values().filter(|r| !r.task.is_finished()).count()
    }

    /// True when none is probed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn start(&self, probed: Probed<'_>, heard: Heard) -> Result<Running, Error> {
        let (mut session, mut client) = (probed.session.clone(), probed.session.probing_client()?);
        let dial = probed.dial;
        let ask = move || {
            let address = dial();
            if session.address != address {
                session.address = address;
                client = session.probing_client().unwrap_or_else(|_| client.clone());
            }
            let client = client.clone();
            async move { probe::serves(&client).await }
        };
        let known = Arc::new(Mutex::new(Known { heard, refused: 0 }));
        let begun = Instant::now().checked_sub(probed.elapsed);
        let probing = {
            let (purpose, wait, known) = (self.purpose, probed.wait, Arc::clone(&known));
            let (wake, cluster) = (Arc::clone(&self.wake), probed.cluster);
            async move {
                let begun = begun.unwrap_or_else(Instant::now);
                run(purpose, begun, wait, &known, ask, |heard| {
                    wake(&cluster, heard);
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
        Ok(Running {
            session: probed.session.clone(),
            pods: probed.pods,
            known,
            task,
        })
    }
}

/// Probes one, which began at `begun`, until it has taken too long.
async fn run<F>(
    purpose: Purpose,
    begun: Instant,
    wait: Duration,
    known: &Mutex<Known>,
    mut ask: impl FnMut() -> F,
    wake: impl Fn(&Heard),
) where
    F: Future<Output = Result<(), Error>>,
{
    loop {
        let (heard, refused) = {
            let known = lock(known);
            (known.heard.clone(), known.refused)
        };
        let Some(pause) = purpose.pause(begun.elapsed(), refused) else {
            lock(known).heard = Heard::Over;
            // Somebody has to go on asking, if seldom.
            wake(&Heard::Over);
            return;
        };
        match heard {
            Heard::Answers => {
                // A reconcile is on its way to find out whether that is good enough.
                tokio::time::sleep(pause.max(AGAIN)).await;
                continue;
            }
            Heard::Nothing => {}
            Heard::Silence(_) | Heard::Over => tokio::time::sleep(pause).await,
        }
        let asked = Instant::now();
        let answer = match panics::contained(ask()).await {
            Ok(answer) => answer.map_err(|error| kit_client::errors::chain(&error)),
            Err(panicked) => Err(kit_client::errors::chain(&panicked)),
        };
        let is_too_slow = purpose == Purpose::Recovery && asked.elapsed() >= wait / 2;
        let now = match answer {
            Ok(()) if is_too_slow => Heard::Silence(Exceeded::Time(wait).to_string()),
            Ok(()) => Heard::Answers,
            Err(why) => Heard::Silence(why),
        };
        let before = std::mem::replace(&mut lock(known).heard, now.clone());
        if now == Heard::Answers || before == Heard::Nothing {
            wake(&now);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in there is valid after any single statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
