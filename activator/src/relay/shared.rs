//! What all connections share, and what is asked for them together.
//!
//! Invariant: of those that ask at the same time to wake one sleeper, one does.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::sleepers::Waited;
use crate::wakes::{Outcome, Request, Waker};

/// How much is waited for, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections of one sleeper that are held, and as many that have not sent a ClientHello yet.
    pub connections: usize,
    /// Connections of all sleepers, those that are handed on too.
    pub all: usize,
    /// How long a client may take for its ClientHello.
    pub hello: Duration,
    /// From a connection to its pod.
    pub held: Duration,
    /// How long a pod may take to accept.
    pub connect: Duration,
    /// Between two tries to reach a pod, or the API.
    pub pause: Duration,
    /// So long an answer to a question is one to all that ask the same.
    pub asked: Duration,
    /// Who waits for longer asks again.
    pub again: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            all: 4096,
            hello: Duration::from_secs(5),
            held: Duration::from_secs(20),
            connect: Duration::from_secs(2),
            pause: Duration::from_millis(100),
            asked: Duration::from_secs(5),
            again: Duration::from_secs(5),
        }
    }
}

/// Who is waited for at which port, as far as it is known.
pub type Sleepers = Arc<BTreeMap<u16, Waited>>;

/// What all connections share.
#[derive(Debug)]
pub struct Relay<W> {
    waker: W,
    pub(super) limits: Limits,
    pub(super) sleepers: watch::Receiver<Sleepers>,
    pub(super) metrics: Metrics,
    pub(super) all: Arc<Semaphore>,
    asked: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<Option<Heard>>>>>,
}

/// What the last answer about a sleeper was.
#[derive(Clone, Copy, Debug)]
struct Heard {
    since: Timestamp,
    outcome: Outcome,
    until: Instant,
}

/// One sleeper's port.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) number: u16,
    pub(super) uid: String,
    pub(super) greeting: Arc<Semaphore>,
    pub(super) held: Arc<Semaphore>,
}

impl<W: Waker> Relay<W> {
    /// One for these sleepers; nothing is open yet.
    #[must_use]
    pub fn new(
        waker: W,
        sleepers: watch::Receiver<Sleepers>,
        limits: Limits,
        metrics: Metrics,
    ) -> Arc<Self> {
        Arc::new(Self {
            waker,
            limits,
            sleepers,
            metrics,
            all: Arc::new(Semaphore::new(limits.all)),
            asked: Mutex::default(),
        })
    }

    /// What is known of whom the port is for; none when it is another's or nobody's now.
    pub(super) fn waited(&self, port: &Port) -> Option<Waited> {
        let sleepers = self.sleepers.borrow();
        sleepers
            .get(&port.number)
            .filter(|waited| waited.uid == port.uid)
            .cloned()
    }

    /// Asks to wake, once for all that ask at the same time; tries until it is answered.
    pub(super) async fn wake(&self, waited: &Waited, client: IpAddr) -> Outcome {
        let turn = Arc::clone(self.lock_asked().entry(waited.uid.clone()).or_default());
        loop {
            {
                let mut heard = turn.lock().await;
                if let Some(heard) = *heard
                    && heard.since == waited.since
                    && Instant::now() < heard.until
                {
                    return heard.outcome;
                }
                if let Some(outcome) = self.ask(waited, client).await {
                    *heard = Some(Heard {
                        since: waited.since,
                        outcome,
                        until: Instant::now() + self.limits.asked,
                    });
                    return outcome;
                }
            }
            tokio::time::sleep(self.limits.pause).await;
        }
    }

    async fn ask(&self, waited: &Waited, client: IpAddr) -> Option<Outcome> {
        let request = Request {
            uid: waited.uid.clone(),
            since: waited.since,
            client: client.to_string(),
        };
        let answer = self.waker.wake(request).await;
        match &answer {
            Ok(Outcome::Woken) => {
                tracing::info!(uid = waited.uid, %client, "woken by a request");
                self.metrics
                    .woke_by(&waited.uid, &client.to_string(), Timestamp::now());
            }
            Ok(Outcome::Asked) => {}
            Ok(Outcome::TooOften { until }) => {
                tracing::warn!(uid = waited.uid, %client, %until, "woken too often by requests, stays asleep");
                self.metrics.woke("limited");
            }
            Err(error) => {
                let error = kit_client::errors::chain(error);
                tracing::warn!(uid = waited.uid, error, "cannot ask to wake yet");
                self.metrics.woke("failed");
            }
        }
        answer.ok()
    }

    /// Forgets of whom there is no port any more.
    pub fn forget(&self, wanted: &BTreeMap<u16, Waited>) {
        self.lock_asked()
            .retain(|uid, _| wanted.values().any(|waited| waited.uid == *uid));
    }

    fn lock_asked(
        &self,
    ) -> MutexGuard<'_, BTreeMap<String, Arc<tokio::sync::Mutex<Option<Heard>>>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a connection takes.
#[derive(Debug)]
pub(super) struct Permits {
    pub(super) all: OwnedSemaphorePermit,
    pub(super) greeting: OwnedSemaphorePermit,
}
