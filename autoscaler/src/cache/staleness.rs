//! Staleness of the cache: whether what the watches told can still be believed.
//!
//! Invariant: an API is asked only while a watch of it broke off and nothing was heard since, so that
//! nothing is sent while all is well; what lasts shorter than the patience is nobody's concern.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::state::Kind;
use crate::settings::Settings;

/// Pause between two questions to an API that does not answer.
const PAUSE: Duration = Duration::from_secs(2);
/// An answer must come within this.
const WITHIN: Duration = Duration::from_secs(5);

/// Tells what time it is.
pub type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// Which watches broke off, and since when nothing is known.
pub struct Staleness {
    clock: Clock,
    broken: Mutex<BTreeMap<Kind, Instant>>,
    doubt: Notify,
}

impl Default for Staleness {
    fn default() -> Self {
        Self::new(Arc::new(Instant::now))
    }
}

impl Staleness {
    /// All is well, and time goes by as this says.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            broken: Mutex::default(),
            doubt: Notify::new(),
        }
    }

    /// The watch of this kind broke off, or cannot be begun.
    pub fn interrupted(&self, kind: Kind) {
        self.lock().entry(kind).or_insert_with(|| (self.clock)());
        self.doubt.notify_one();
    }

    /// Something of this kind was heard.
    pub fn heard(&self, kind: Kind) {
        self.lock().remove(&kind);
    }

    /// Since when something that is needed is not known; none while all is well.
    #[must_use]
    pub fn broken_for(&self) -> Option<Duration> {
        let since = self.lock().values().min().copied();
        since.map(|since| (self.clock)().saturating_duration_since(since))
    }

    fn broken(&self) -> Vec<Kind> {
        self.lock().keys().copied().collect()
    }

    /// Asks the management cluster's API for as long as a watch of it is broken off. Ends never.
    pub fn probe(
        self: Arc<Self>,
        management: &Client,
        settings: &Settings,
    ) -> BoxFuture<'static, ()> {
        let ns = &settings.user_namespace;
        let pools = Api::<api::NodePool>::namespaced(management.clone(), ns);
        let machines = Api::<api::Machine>::namespaced(management.clone(), ns);
        Box::pin(async move {
            let one = ListParams::default().limit(1);
            loop {
                let broken = self.broken();
                if broken.is_empty() {
                    self.doubt.notified().await;
                    continue;
                }
                for kind in broken {
                    let asked = async {
                        match kind {
                            Kind::Pool => pools.list_metadata(&one).await.is_ok(),
                            Kind::Machine => machines.list_metadata(&one).await.is_ok(),
                            // The tenant's; nothing is answered from it.
                            Kind::Node => true,
                        }
                    };
                    if tokio::time::timeout(WITHIN, asked).await == Ok(true) {
                        self.heard(kind);
                    }
                }
                tokio::time::sleep(PAUSE).await;
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Kind, Instant>> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_counts_from_the_first_interruption_until_something_is_heard() {
        let staleness = Staleness::default();
        assert_eq!(staleness.broken_for(), None);
        staleness.interrupted(Kind::Pool);
        tokio::time::advance(Duration::from_secs(30)).await;
        staleness.interrupted(Kind::Pool);
        staleness.interrupted(Kind::Machine);
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(staleness.broken_for(), Some(Duration::from_secs(60)));
        staleness.heard(Kind::Pool);
        assert_eq!(staleness.broken_for(), Some(Duration::from_secs(30)));
        staleness.heard(Kind::Machine);
        assert_eq!(staleness.broken_for(), None);
    }
}
