//! Budget of one reconcile for one tenant: time, requests, bytes and items of all its questions together.
//!
//! Invariant: whatever the tenant answers, a reconcile waits for it no longer than [`Budget::WAIT`], sends no
//! more than so many requests and keeps no more than so many bytes; what was exceeded is told in a
//! sentence.

use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kit_client::body_limit::{BodyLimitLayer, BodyLimits, ByteCounter};
use kube::Client;
use tokio::time::Instant;
use tower::filter::Filter;
use tower::{BoxError, Layer};

/// Namespace of requests that name none; there are no such.
pub(super) const NAMESPACE: &str = "default";
/// Objects in one page of a list.
pub const PAGE: u32 = 50;
/// Pages of one list.
pub const MOST_PAGES: u32 = 20;
/// Items of all lists together.
const MOST_ITEMS: u32 = 4000;
/// Bytes of all answers together.
const MOST_BYTES: u64 = 16 << 20;
/// Requests together: more than a whole list of the objects inside, reading and writing them all.
const MOST_REQUESTS: u32 = 1000;

/// A tenant took more than one reconcile has for it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Exceeded {
    /// It answers too slowly.
    #[error(
        "the tenant's API did not answer within the {} s that one reconcile waits for it; see whether its \
         pods run, and what makes it slow (webhooks, load, its etcd)", .0.as_secs()
    )]
    Time(Duration),
    /// There is too much to ask or to write.
    #[error(
        "one reconcile may send the tenant's API {0} requests; see whether somebody makes objects there with \
         Covey's labels, the rest is done later"
    )]
    Requests(u32),
    /// There are too many objects.
    #[error("{what} are more than {most} in the tenant cluster; delete those that are not needed")]
    Items {
        /// What was listed.
        what: String,
        /// How many are looked at.
        most: u32,
    },
}

/// What one reconcile may take of one tenant. Clones are one.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Spent>);

#[derive(Debug)]
struct Spent {
    wait: Duration,
    waited: Mutex<Duration>,
    requests: AtomicU32,
    answers: AtomicU32,
    items: AtomicU32,
    bytes: ByteCounter,
    permit: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Default for Budget {
    fn default() -> Self {
        Self::waiting(Self::WAIT)
    }
}

impl Budget {
    /// How long one reconcile waits for one tenant.
    pub const WAIT: Duration = Duration::from_secs(5);

    /// One that waits so long.
    #[must_use]
    pub fn waiting(wait: Duration) -> Self {
        Self(Arc::new(Spent {
            wait,
            waited: Mutex::default(),
            requests: AtomicU32::new(0),
            answers: AtomicU32::new(0),
            items: AtomicU32::new(0),
            bytes: ByteCounter::new(MOST_BYTES),
            permit: Mutex::default(),
        }))
    }

    /// Holds a permit until the reconcile is over: whoever had it once asks the tenant on, as often as it
    /// likes.
    pub(super) fn hold(&self, permit: impl Any + Send) {
        *self.permit() = Some(Box::new(permit));
    }

    /// Whether it holds a permit.
    pub(super) fn has_permit(&self) -> bool {
        self.permit().is_some()
    }

    /// How long one reconcile waits for a tenant that answers promptly.
    #[must_use]
    pub fn promptly(&self) -> Duration {
        self.0.wait / 5
    }

    /// How long the tenant was waited for so far.
    #[must_use]
    pub fn waited(&self) -> Duration {
        *self.spent()
    }

    /// Does work that waits for the tenant, as long as there is time left.
    ///
    /// # Errors
    /// [`Exceeded::Time`]; then it was cut off where it was.
    pub async fn within<T>(&self, work: impl Future<Output = T>) -> Result<T, Exceeded> {
        let begun = Instant::now();
        let left = self.0.wait.saturating_sub(self.waited());
        if left.is_zero() {
            return Err(Exceeded::Time(self.0.wait));
        }
        let done = tokio::time::timeout(left, work).await;
        *self.spent() += begun.elapsed();
        done.map_err(|_| Exceeded::Time(self.0.wait))
    }

    /// Counts what a list gave.
    ///
    /// # Errors
    /// [`Exceeded::Items`].
    pub fn take_items(&self, what: &str, items: usize) -> Result<(), Exceeded> {
        let items = u32::try_from(items).unwrap_or(u32::MAX);
        let before = self.0.items.fetch_add(items, Ordering::Relaxed);
        match before.saturating_add(items) > MOST_ITEMS {
            true => Err(Exceeded::Items {
                what: what.to_owned(),
                most: MOST_ITEMS,
            }),
            false => Ok(()),
        }
    }

    /// Bytes of all answers so far.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.0.bytes.received()
    }

    /// A client whose requests this budget pays.
    #[must_use]
    pub fn client(&self, client: &Client) -> Client {
        let (client, answered) = (client.clone(), self.clone());
        let service = tower::service_fn(move |request| {
            let (client, answered) = (client.clone(), answered.clone());
            async move {
                let answer = client.send(request).await;
                if answer.is_ok() {
                    answered.count_answer();
                }
                answer
            }
        });
        let limits = BodyLimitLayer::new(BodyLimits::default(), self.0.bytes.clone());
        let budget = self.clone();
        let paid = Filter::new(limits.layer(service), move |request| {
            budget.take_request().map(|()| request)
        });
        Client::new(paid, NAMESPACE)
    }

    /// Whether the tenant answers, and takes no longer for each answer than a twentieth of what a prompt one has
    /// for all (50 ms): there is much to ask, or the machine is busy.
    pub(super) fn is_brisk(&self) -> bool {
        let answers = self.0.answers.load(Ordering::Relaxed);
        answers > 0 && self.waited() < (self.promptly() / 20).saturating_mul(answers)
    }

    pub(super) fn count_answer(&self) {
        self.0.answers.fetch_add(1, Ordering::Relaxed);
    }

    fn take_request(&self) -> Result<(), BoxError> {
        match self.0.requests.fetch_add(1, Ordering::Relaxed) >= MOST_REQUESTS {
            true => Err(Exceeded::Requests(MOST_REQUESTS).into()),
            false => Ok(()),
        }
    }

    fn permit(&self) -> std::sync::MutexGuard<'_, Option<Box<dyn Any + Send>>> {
        self.0.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spent(&self) -> std::sync::MutexGuard<'_, Duration> {
        self.0.waited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
