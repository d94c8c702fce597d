//! Circuit breaker of tenants that do not answer.
//!
//! Invariant: one dead tenant is asked by Machines once per [`Breaker::PAUSE`] at most, besides its probe
//! ([`super::api_probes`]), and delays nobody; whoever waits is woken when it answers again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Who did not answer lately. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct Breaker {
    open: Arc<Mutex<HashMap<String, Tripped>>>,
    closes: Arc<Notify>,
}

#[derive(Debug)]
struct Tripped {
    at: Instant,
    /// Ready pods, where their number matters.
    pods: Option<i64>,
    message: String,
}

impl Breaker {
    /// Time between two questions to one that does not answer.
    pub const PAUSE: Duration = Duration::from_secs(30);
    /// For how long watches of one that does not answer are not tried: they are a dozen, and one probe finds out
    /// as well ([`super::api_probes`]).
    pub const LONGEST: Duration = Duration::from_secs(600);

    /// The message of the last failure, while it is too early to ask again. `pods` is the number of
    /// ready pods: when that is another than it was tripped with, it is not too early.
    pub fn message(&self, uid: &str, pods: i64) -> Option<String> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let tripped = open.get(uid)?;
        let early = tripped.at.elapsed() < Self::PAUSE && tripped.pods == Some(pods);
        early.then(|| tripped.message.clone())
    }

    /// The message of the last failure, while it is too early to ask again. Who is let through when
    /// it no longer is has the one probe: others wait until it [`Self::close`]s this, or trips it
    /// again.
    pub fn claim(&self, uid: &str) -> Option<String> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let tripped = open.get_mut(uid)?;
        if tripped.at.elapsed() < Self::PAUSE {
            return Some(tripped.message.clone());
        }
        tripped.at = Instant::now();
        None
    }

    /// Whether one did not answer when it was last asked, however long ago.
    pub fn is_open(&self, uid: &str) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.contains_key(uid)
    }

    /// Notes a failure.
    pub fn trip(&self, uid: &str, message: &str) {
        self.open(uid, None, message);
    }

    /// Notes a failure, with so many ready pods.
    pub fn trip_with(&self, uid: &str, pods: i64, message: &str) {
        self.open(uid, Some(pods), message);
    }

    fn open(&self, uid: &str, pods: Option<i64>, message: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let tripped = Tripped {
            at: Instant::now(),
            pods,
            message: message.to_owned(),
        };
        open.insert(uid.to_owned(), tripped);
    }

    /// Notes an answer, or that the tenant is gone, or that something changed there.
    pub fn close(&self, uid: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.remove(uid).is_some() {
            self.closes.notify_waiters();
        }
    }

    /// Waits until a tenant answers again, but no longer than [`Self::LONGEST`].
    pub async fn closed(&self, uid: &str) {
        let closed = async {
            loop {
                // Registered before it is asked, so that a close in between is not missed.
                let closes = self.closes.notified();
                if !self.is_open(uid) {
                    return;
                }
                closes.await;
            }
        };
        // The end of that time will do as well.
        let _ = tokio::time::timeout(Self::LONGEST, closed).await;
    }
}
