//! Leader election by a Lease, and the handle that fences writes with it.
//!
//! Decisions are in [`plan`]; this file reads and writes the Lease and publishes until when we
//! lead. Invariant: [`Leadership::is_leader`] turns false by itself, by local monotonic time, so a
//! process that is paused, starved or cut off stops writing before another may start.
//!
//! Written here rather than taken from the kube-lease-manager crate, because that one compares the
//! holder's renew time with the local clock, which lets a clock that runs ahead take the Lease
//! from a living leader.

mod claim;
mod client;
mod config;
mod gap;
mod gate;
pub mod plan;
mod seats;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kit_client::errors;
use kit_objects::rbac::Rule;
use kube::Client;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

pub use self::claim::Claim;
use self::client::LeaseClient;
pub use self::config::{LeaseConfig, Notes};
pub use self::gap::Gap;
pub use self::plan::Timing;
use self::plan::{Elector, Step};

/// Rights that an election needs, in the Lease's namespace only.
pub const RULES: [Rule; 2] = [
    // "create" cannot be limited by name.
    Rule::new(&["coordination.k8s.io"], &["leases"], &["create"]),
    Rule::new(&["coordination.k8s.io"], &["leases"], &["get", "update"]),
];

/// We do not lead, so nothing may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the leader any more, so nothing is written")]
pub struct NotLeader;

impl errors::Classify for NotLeader {
    fn class(&self) -> errors::Class {
        errors::Class::Transient
    }
}

/// Whether this process leads. Cheap to clone; every clone sees the same.
#[derive(Clone, Debug)]
pub struct Leadership {
    until: watch::Receiver<Option<Instant>>,
    gap: watch::Receiver<Option<Gap>>,
}

impl Leadership {
    /// A leadership that never ends, for tools and tests that need no election.
    pub fn always() -> Self {
        Self::until(Instant::now() + Duration::from_secs(100 * 365 * 24 * 3600))
    }

    /// A leadership that ends then, for tools and tests that need no election.
    pub fn until(end: Instant) -> Self {
        Self {
            until: watch::Sender::new(Some(end)).subscribe(),
            gap: watch::Sender::new(None).subscribe(),
        }
    }

    /// The time before this leadership in which nobody is known to have led; `None` where another one led until just
    /// before. It is told as soon as [`Leadership::is_leader`] is true. Where several seats are shared it is that of
    /// the own seat.
    #[must_use]
    pub fn gap(&self) -> Option<Gap> {
        *self.gap.borrow()
    }

    /// True while nobody else can lead.
    pub fn is_leader(&self) -> bool {
        self.until
            .borrow()
            .is_some_and(|until| Instant::now() < until)
    }

    /// The fence: call it right before each write. It is closed, too, for what runs in the scope of a [`Claim`] that was
    /// revoked.
    ///
    /// # Errors
    /// [`NotLeader`], when the write must not happen.
    pub fn ensure(&self) -> Result<(), NotLeader> {
        let may = self.is_leader() && !Claim::is_current_revoked();
        may.then_some(()).ok_or(NotLeader)
    }

    /// Waits until [`Leadership::is_leader`] differs from what it is now; gives the new value.
    /// Never resolves once the election is over and lost.
    pub async fn changed(&self) -> bool {
        let before = self.is_leader();
        self.becomes(!before).await;
        !before
    }

    /// Resolves once this process leads.
    pub fn acquired(&self) -> impl Future<Output = ()> + Send + 'static {
        let this = self.clone();
        async move { this.becomes(true).await }
    }

    /// Resolves once this process does not lead: at once, when it does not lead now.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let this = self.clone();
        async move { this.becomes(false).await }
    }

    async fn becomes(&self, wanted: bool) {
        let mut receiver = self.until.clone();
        loop {
            let until = *receiver.borrow_and_update();
            let leads = until.is_some_and(|until| Instant::now() < until);
            if leads == wanted {
                return;
            }
            tokio::select! {
                () = expiry(until), if leads => {}
                changed = receiver.changed() => if changed.is_err() {
                    // Nothing is published any more; only time can still end a leadership.
                    match leads {
                        true => expiry(until).await,
                        false => std::future::pending().await,
                    }
                },
            }
        }
    }
}

async fn expiry(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Who will campaign: its leadership is there before the client that campaigns, so that this client's
/// writes can be fenced by it ([`crate::client::connect_fenced`]).
#[derive(Debug)]
pub struct Candidate {
    until: watch::Sender<Option<Instant>>,
    gap: watch::Sender<Option<Gap>>,
}

impl Candidate {
    /// One that does not lead, and does not yet try to.
    pub fn new() -> (Leadership, Self) {
        let (until, ends) = watch::channel(None);
        let (gap, told) = watch::channel(None);
        let leadership = Leadership {
            until: ends,
            gap: told,
        };
        (leadership, Self { until, gap })
    }

    /// Starts to campaign, at once. Keep the handle until everything that writes has stopped.
    pub fn campaign(self, client: Client, config: LeaseConfig) -> Election {
        let (release, released) = oneshot::channel();
        let campaign = Campaign {
            elector: Elector::new(config.identity.clone(), config.timing),
            lease: LeaseClient::new(client, &config),
            config,
            until: Arc::new(self.until),
            gap: Arc::new(self.gap),
            forfeits: false,
        };
        Election {
            release: Some(release),
            task: tokio::spawn(campaign.run(released)),
        }
    }
}

/// A running election. Dropping it stops renewing without a release: others then wait for the
/// Lease to run out.
#[derive(Debug)]
pub struct Election {
    release: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Election {
    /// Starts to campaign, at once. Keep the handle until everything that writes has stopped.
    pub fn start(client: Client, config: LeaseConfig) -> (Leadership, Self) {
        let (leadership, candidate) = Candidate::new();
        (leadership, candidate.campaign(client, config))
    }

    /// Ends the leadership and clears the holder, so that another leads at once. Call it after the
    /// last write: from here on [`Leadership::is_leader`] is false.
    pub async fn release(mut self) {
        if let Some(release) = self.release.take() {
            // Both fail only when the campaign has ended, which is what is wanted.
            let _ = release.send(());
            let _ = (&mut self.task).await;
        }
    }
}

impl Drop for Election {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Campaign {
    elector: Elector,
    lease: LeaseClient,
    config: LeaseConfig,
    until: Arc<watch::Sender<Option<Instant>>>,
    gap: Arc<watch::Sender<Option<Gap>>>,
    /// Whether a leadership that lapsed is over for good, whatever is written later.
    forfeits: bool,
}

impl Campaign {
    async fn run(mut self, mut released: oneshot::Receiver<()>) {
        let mut ticks = tokio::time::interval(self.config.timing.retry);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                asked = &mut released => match asked {
                    Ok(()) => break,
                    Err(_) => return,
                },
                _ = ticks.tick() => {}
            }
            // Not raced against the release: an answer that nobody read would leave us holder.
            self.attempt().await;
        }
        self.step_down().await;
    }

    /// One try, within one retry span more than the deadline allows at most.
    async fn attempt(&mut self) {
        let led = self
            .until
            .borrow()
            .is_some_and(|until| Instant::now() < until);
        if let Err(error) = self.try_once().await {
            if error.is_conflict() {
                // Somebody wrote in between. What we hold by our last write stays ours until its
                // deadline, but the next try must read first.
                self.elector.must_read();
            }
            let lease = &self.config.name;
            tracing::warn!(lease.name = %lease, error = %errors::chain(&error),
                "could not write or read Lease {lease}");
        }
        self.publish(led);
    }

    async fn try_once(&mut self) -> Result<(), client::Error> {
        let now = Instant::now();
        let step = match self.elector.renewable() {
            Some(record) => self.elector.observe(now, Some(record)),
            None => {
                let record = self.lease.read().await?;
                self.elector.observe(Instant::now(), record)
            }
        };
        let is_renewal = matches!(step, Step::Renew { .. });
        if self.forfeits && !is_renewal && self.until.borrow().is_some() {
            // Somebody deleted or took the Lease of a leader.
            self.elector.forget();
            return Ok(());
        }
        let seen = self.elector.seen();
        let (renewed, told) = seen.map_or((None, None), |seen| (seen.renewed, seen.gap));
        self.lease.gap = gap::gap(renewed, told, Timestamp::now());
        let sent = Instant::now();
        let record = match step {
            Step::Create => self.lease.create().await?,
            Step::Take {
                resource_version,
                transitions,
            } => {
                self.lease
                    .write(resource_version, transitions, true)
                    .await?
            }
            Step::Renew {
                resource_version,
                transitions,
            } => {
                self.lease
                    .write(resource_version, transitions, false)
                    .await?
            }
            Step::Wait => return Ok(()),
        };
        let former = *self.until.borrow();
        if self.forfeits && former.is_some_and(|until| until <= Instant::now()) {
            self.elector.forget();
            return Ok(());
        }
        self.elector.wrote(sent, record);
        // Also at a renewal: what is stored may have been brought back to before it.
        if let Some(found) = self.lease.gap {
            self.gap.send_modify(|known| {
                *known = Some(known.map_or(found, |known| known.with(found)));
            });
        }
        Ok(())
    }

    fn publish(&self, led: bool) {
        let until = self.elector.leads_until();
        self.until.send_replace(until);
        let leads = until.is_some_and(|until| Instant::now() < until);
        let LeaseConfig { name, identity, .. } = &self.config;
        match (led, leads) {
            (false, true) => tracing::info!(lease.name = %name, "{identity} leads by Lease {name}"),
            (true, false) => tracing::warn!(lease.name = %name, "{identity} lost Lease {name}"),
            _ => {}
        }
    }

    async fn step_down(mut self) {
        let leads = self.elector.leads_until().is_some();
        let known = self.elector.renewable();
        self.elector.forget();
        self.until.send_replace(None);
        let name = &self.config.name;
        let record = match known {
            // The last write may have ended in doubt: look who holds the Lease.
            None if leads => self.lease.read().await.ok().flatten(),
            known => known,
        };
        let identity = Some(self.config.identity.as_str());
        let Some(record) = record.filter(|record| record.holder.as_deref() == identity) else {
            return;
        };
        match self.lease.clear(record).await {
            Ok(()) => tracing::info!(lease.name = %name, "released Lease {name}"),
            Err(error) => tracing::warn!(lease.name = %name, error = %errors::chain(&error),
                "could not release Lease {name}; others wait for it to run out"),
        }
    }
}

#[cfg(test)]
mod tests;
