//! What is done on machines, outside of all reconciles: one errand per Host at a time, and of all Hosts as many
//! sessions as `provider_static::session::Limits` says. [`keys`]: from a Host and its Secrets to where one goes;
//! [`orders`]: from its claim to what is asked of its machine; [`programs`]: what can be sent there; [`contacts`]: who
//! answers at all.
//!
//! Invariant: whatever becomes of an errand, a panic too, its Host is reconciled again; what came of it is kept until
//! the next one, and with the Host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use api::{ConditionType, Host, Reason};
use jiff::Timestamp;
use kit::lease::{Claim, Leadership};
use kit::panics;
use kube::runtime::reflector::ObjectRef;
use kube::{Client, ResourceExt};
use placement::sites::Contact;
use provider_static::errands::{self, Order};
use provider_static::join;
use provider_static::life::{Errand, Failure, Finding, Outcome};
use provider_static::session::{AddressRules, Connector, Error, Limits};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::AbortHandle;

use crate::reserved_ranges::ReservedRanges;

mod contacts;
pub mod keys;
mod orders;
pub mod programs;

use programs::Digests;

/// Hosts whose Secrets are read at the same time.
const READS: usize = 4;

/// All errands, and what came of the last one of each Host.
pub struct Sessions {
    client: Client,
    leadership: Leadership,
    ranges: Arc<ReservedRanges>,
    shared: Arc<Shared>,
    connector: Arc<Connector>,
    reads: Arc<Semaphore>,
    /// Places of those that are tried only to know whether they answer.
    tries: Arc<Semaphore>,
    /// UID of the installation, once it was read.
    installation: Arc<OnceCell<String>>,
    digests: Arc<Digests>,
}

struct Shared {
    /// From here on the times of [`Known::contact`] are counted.
    began: Instant,
    hosts: Mutex<HashMap<String, Known>>,
    triggers: UnboundedSender<ObjectRef<Host>>,
}

#[derive(Default)]
struct Known {
    look: Option<Finding>,
    running: Option<AbortHandle>,
    contact: Contact,
    /// It is tried only to know whether it answers.
    is_tried: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sessions {
    /// None yet. `leadership`: whose work it is; `ranges`: what is never dialled; `triggers`: who is told at the end of
    /// each.
    #[must_use]
    pub fn new(
        client: Client,
        leadership: Leadership,
        ranges: Arc<ReservedRanges>,
        triggers: UnboundedSender<ObjectRef<Host>>,
    ) -> Self {
        // What is dialled is decided by the rules of the day, which are given with each errand.
        let rules = AddressRules::outside([]);
        Self {
            client,
            leadership,
            ranges,
            shared: Arc::new(Shared {
                began: Instant::now(),
                hosts: Mutex::default(),
                triggers,
            }),
            connector: Arc::new(Connector::new(Limits::default(), rules)),
            reads: Arc::new(Semaphore::new(READS)),
            tries: Arc::new(Semaphore::new(contacts::TRIES)),
            installation: Arc::default(),
            digests: Arc::default(),
        }
    }

    /// What came of the last errand of a Host.
    #[must_use]
    pub fn finding(&self, uid: &str) -> Option<Finding> {
        self.shared.lock().get(uid)?.look.clone()
    }

    /// How many errands are under way.
    #[must_use]
    pub fn running(&self) -> usize {
        let hosts = self.shared.lock();
        hosts
            .values()
            .filter(|known| known.running.is_some())
            .count()
    }

    /// Forgets a Host that is gone; what is under way for it ends.
    pub fn forget(&self, uid: &str) {
        let known = self.shared.lock().remove(uid);
        if let Some(running) = known.and_then(|known| known.running) {
            running.abort();
        }
    }

    /// Notes an errand that is not begun as one that failed, unless one is under way for the Host.
    pub fn refuse(&self, host: &Arc<Host>, errand: Errand, failure: Failure) {
        let mut hosts = self.shared.lock();
        let known = hosts.entry(host.uid().unwrap_or_default()).or_default();
        if known.running.is_some() {
            return;
        }
        let look = finding(host, errand, Outcome::Failed(failure));
        known.look = Some(look.after(known.look.as_ref()));
        drop(hosts);
        // Fails only once the controller has ended.
        let _ = self.shared.triggers.send(ObjectRef::from_obj(&**host));
    }

    /// Begins an errand, unless one is under way for the Host.
    pub fn begin(&self, host: &Arc<Host>, errand: Errand) {
        let uid = host.uid().unwrap_or_default();
        let mut hosts = self.shared.lock();
        let known = hosts.entry(uid.clone()).or_default();
        if known.running.is_some() {
            return;
        }
        let is_again = known.look.as_ref().is_some_and(|look| {
            look.errand == errand && look.is_of(host) && look.has_ended_badly()
        });
        let work = Work {
            client: self.client.clone(),
            leadership: self.leadership.clone(),
            ranges: Arc::clone(&self.ranges),
            connector: Arc::clone(&self.connector),
            reads: Arc::clone(&self.reads),
            shared: Arc::clone(&self.shared),
            installation: Arc::clone(&self.installation),
            digests: Arc::clone(&self.digests),
            host: Arc::clone(host),
            errand,
            is_again,
        };
        let (shared, claim) = (Arc::clone(&self.shared), Claim::current());
        let task = async move {
            let look = work.run().await;
            let mut hosts = shared.lock();
            // A Host that was forgotten meanwhile stays so.
            if let Some(known) = hosts.get_mut(&uid) {
                known.running = None;
                known.look = Some(look.after(known.look.as_ref()));
            }
            drop(hosts);
            // Fails only once the controller has ended.
            let _ = shared.triggers.send(ObjectRef::from_obj(&*work.host));
        };
        // What it is part of has not ended before it has.
        let task = async move {
            match claim {
                Some(claim) => claim.scope(task).await,
                None => task.await,
            }
        };
        known.running = Some(tokio::spawn(task).abort_handle());
    }
}

/// What came of an errand that ends now; it is counted by [`Finding::after`].
fn finding(host: &Host, errand: Errand, outcome: Outcome) -> Finding {
    let status = host.status.as_ref();
    let claim = status.and_then(|status| status.claim.as_ref());
    Finding {
        errand,
        generation: host.metadata.generation,
        machine: claim.map(|claim| claim.machine_uid.clone()),
        at: Timestamp::now(),
        failures: 0,
        polls: 0,
        outcome,
    }
}

/// One errand.
struct Work {
    client: Client,
    leadership: Leadership,
    ranges: Arc<ReservedRanges>,
    connector: Arc<Connector>,
    reads: Arc<Semaphore>,
    shared: Arc<Shared>,
    installation: Arc<OnceCell<String>>,
    digests: Arc<Digests>,
    host: Arc<Host>,
    errand: Errand,
    is_again: bool,
}

impl Work {
    async fn run(&self) -> Finding {
        let done = panics::contained(Box::pin(self.outcome())).await;
        let outcome = match done {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(failure)) => Outcome::Failed(failure),
            Err(panicked) => Outcome::Failed(Failure {
                reason: Reason::InternalError,
                message: panicked.to_string(),
                about: ConditionType::Reachable,
            }),
        };
        finding(&self.host, self.errand, outcome)
    }

    async fn outcome(&self) -> Result<Outcome, Failure> {
        let settings = self.ranges.settings();
        let (mut order, target) = {
            let _place = self.reads.acquire().await;
            let order = orders::order(
                &self.client,
                &settings.providers.static_,
                &self.installation,
                &self.host,
                self.errand,
            );
            let order = Order {
                is_again: self.is_again,
                ..order.await?
            };
            (order, keys::target(&self.client, &self.host).await?)
        };
        if let Some(archive) = &order.programs
            && let Err(words) = self.digests.check(archive).await
        {
            order.join = Err(join::Error::Programs(words));
        }
        if let Some(unknown) = &settings.network.reserved_unknown {
            return Err(Failure {
                reason: Reason::ReservedRangesUnknown,
                message: unknown.to_string(),
                about: ConditionType::Reachable,
            });
        }
        let rules = AddressRules::outside(settings.network.reserved.iter().copied());
        let session = loop {
            let opened = Box::pin(self.connector.connect_by(&target, &rules)).await;
            self.shared.hear(&self.host, contacts::word(&opened));
            match opened {
                Ok(session) => break session,
                // Others have all places: that says nothing of this machine.
                Err(Error::Busy { .. }) => {}
                Err(error) => return Err(Failure::from(&error)),
            }
        };
        for passed in session.passed_over() {
            tracing::info!(
                host.name = self.host.name_any(),
                host.namespace = self.host.namespace().unwrap_or_default(),
                error = passed.to_string(),
                "a jump host does not lead to the machine, and another one does"
            );
        }
        // It may have taken long to get here.
        self.leadership.ensure().map_err(|error| Failure {
            reason: Reason::TransientFailure,
            message: error.to_string(),
            about: ConditionType::Reachable,
        })?;
        let done = Box::pin(errands::run(&session, &order)).await;
        done.map_err(|error| Failure::from(&error))
    }
}
