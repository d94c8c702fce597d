//! Replicas that share the work: each holds a seat (a Lease), says in it with whom it shares, and looks at the others'.
//!
//! Seats are read with the API's own answer every two seconds, and not watched: a watch that stands still would look as if
//! everybody else were dead. Where one replica works alone nothing of this runs, but one look at its beginning.
//!
//! Invariant: the decisions are in [`crate::shards::plan`]; what is said of shares is said only once nothing of another one's
//! is under way here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kit::lease::{Candidate, Election, LeaseConfig, Notes, Timing};
use kit::metrics::ShareMetrics;
use kit_client::errors::chain;
use kube::api::ListParams;
use kube::runtime::reflector::store::WriterDropped;
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

use crate::context::Context;
use crate::controllers;
use crate::manager::LEASE;
use crate::shards::plan::{self, INSTALLATION, Member, Roster, Seat, Seats, View};
use crate::shards::{INCARNATION, LABEL, SHARES};
use crate::state;

/// Most seats that are read: more than there ever are.
const MOST: u32 = 64;
/// How long one look may take.
const LOOK: Duration = Duration::from_secs(4);
/// How long it may take to read anew what others wrote.
const RELIST: Duration = Duration::from_secs(15);

/// Where the seats are, and who takes one.
#[derive(Clone, Debug)]
pub struct Membership {
    /// The operator's namespace.
    pub namespace: String,
    /// Name of this process.
    pub identity: String,
    /// How many seats there are for replicas of this configuration, at least two.
    pub seats: u16,
    /// Spans of the Leases.
    pub timing: Timing,
}

/// A replica that wants to share the work.
pub struct Seeker {
    membership: Membership,
    incarnation: String,
    notes: watch::Sender<Notes>,
    seat: watch::Receiver<Option<String>>,
}

impl Membership {
    /// Campaigns for a seat, at once.
    #[must_use]
    pub fn seek(self, candidate: Candidate, client: &Client) -> (Election, Seeker) {
        // No two processes of one name begin in the same nanosecond.
        let begun = Timestamp::now().as_nanosecond();
        let incarnation = format!("{}.{begun}", self.identity);
        let (notes, said) = watch::channel(notes(&incarnation, &BTreeSet::new()));
        let seats = (0..self.seats).map(|number| LeaseConfig {
            namespace: self.namespace.clone(),
            name: seat_name(number),
            identity: self.identity.clone(),
            timing: self.timing,
        });
        let (election, seat) = candidate.campaign_for_a_seat(client, seats.collect(), said);
        let seeker = Seeker {
            membership: self,
            incarnation,
            notes,
            seat,
        };
        (election, seeker)
    }
}

/// The Lease of a seat; that of the first is the one by which one replica leads where the work is not shared.
#[must_use]
pub fn seat_name(number: u16) -> String {
    match number {
        0 => LEASE.to_owned(),
        _ => format!("{LEASE}-{number}"),
    }
}

fn notes(incarnation: &str, shares_with: &BTreeSet<Member>) -> Notes {
    let annotations = [
        (INCARNATION.to_owned(), incarnation.to_owned()),
        (SHARES.to_owned(), plan::written(shares_with)),
    ];
    Notes {
        labels: [(LABEL.to_owned(), "true".to_owned())].into(),
        annotations: annotations.into(),
    }
}

impl Seeker {
    /// Shares the work from the moment on at which this replica has a seat; never ends.
    pub async fn run(mut self, context: Arc<Context>, client: Client, metrics: ShareMetrics) {
        let leases = Api::namespaced(client, &self.membership.namespace);
        let timing = self.membership.timing;
        let mut ticks = tokio::time::interval(timing.retry);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seats = Seats::new(timing.duration);
        let seat = loop {
            tokio::select! {
                seat = seat_of(&mut self.seat) => break seat,
                _ = ticks.tick() => {
                    if let Some((asked, listed)) = look(&leases).await {
                        seats.observe(asked, Instant::now(), listed);
                    }
                }
            }
        };
        let Some(name) = seat else {
            // It never had one: its process ends.
            return std::future::pending().await;
        };
        let me = Member {
            seat: name,
            incarnation: self.incarnation.clone(),
        };
        tracing::info!(shard.seat = me.seat, "shares the work of the operator");
        context.shards.sit_down(me.clone());
        let mut roster = Roster::new(me, seats);
        ticks.reset_immediately();
        let mut view = View::default();
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    if let Some((asked, listed)) = look(&leases).await {
                        view = roster.observe(asked, Instant::now(), listed);
                        self.follow(&context, &view).await;
                    }
                    metrics.set(view.members.len(), owned(&context));
                }
                () = context.shards.ended() => {}
            }
            if !view.members.is_empty() && context.shards.is_drained() {
                self.say(&view);
            }
        }
    }

    /// Ends what is another one's now, and begins what is this one's.
    async fn follow(&self, context: &Arc<Context>, view: &View) {
        if context.shards.aim(view) {
            let members: Vec<_> = view.members.iter().map(ToString::to_string).collect();
            tracing::info!(
                shard.ready = view.is_ready,
                "the work is shared by {}",
                members.join(", ")
            );
            leave(context);
        }
        if context.shards.is_drained() {
            // Others wait for it.
            self.say(view);
        }
        let held = context.shards.held();
        if !view.is_ready || held.is_all_of(view) {
            return;
        }
        // What they wrote last may not be in the stores.
        let read = async {
            context.stores.wait_until_ready().await?;
            context.stores.relist().await;
            Ok::<_, WriterDropped>(())
        };
        match tokio::time::timeout(RELIST, read).await {
            Ok(Ok(())) => {
                context.shards.take_up(view);
                controllers::take_up(context, |namespace| {
                    context.shards.owns(namespace) && !held.owns(namespace)
                });
                let (owned, all) = (owned(context), context.stores.clusters.len());
                tracing::info!(
                    shard.installation = context.shards.owns(INSTALLATION),
                    "has the work of {owned} of {all} TenantClusters"
                );
            }
            Ok(Err(_)) | Err(_) => {
                tracing::warn!("what others wrote could not be read anew; it is tried again");
            }
        }
    }

    /// Says with whom it shares the work.
    fn say(&self, view: &View) {
        let wanted = notes(&self.incarnation, &view.members);
        self.notes.send_if_modified(|said| {
            let is_new = *said != wanted;
            *said = wanted;
            is_new
        });
    }
}

/// The seat, once there is one; none where there never is.
async fn seat_of(seat: &mut watch::Receiver<Option<String>>) -> Option<String> {
    let seat = seat.wait_for(Option::is_some).await;
    seat.ok().and_then(|seat| seat.clone())
}

/// How many TenantClusters are this replica's work.
fn owned(context: &Context) -> usize {
    let clusters = context.stores.clusters.state();
    let mine = clusters.iter().filter(|cluster| {
        let namespace = cluster.namespace().unwrap_or_default();
        context.shards.owns(&namespace)
    });
    mine.count()
}

/// Forgets what was remembered of tenant clusters and Hosts that are not this replica's work, and ends what runs for them.
fn leave(context: &Context) {
    for cluster in context.stores.clusters.state() {
        let namespace = cluster.namespace().unwrap_or_default();
        if !context.shards.owns(&namespace) {
            let uid = cluster.identity_uid();
            context.forget_identity(&cluster);
            context.throttle.forget(&state::key_of(&*cluster), uid);
        }
    }
    for host in context.stores.hosts.state() {
        if !context.shards.owns(&host.namespace().unwrap_or_default()) {
            context.hosts.forget(&host.uid().unwrap_or_default());
        }
    }
}

/// The seats, and when they were asked for.
async fn look(leases: &Api<Lease>) -> Option<(Instant, Vec<Seat>)> {
    let asked = Instant::now();
    match tokio::time::timeout(LOOK, seats(leases)).await {
        Ok(Ok(listed)) => Some((asked, listed)),
        Ok(Err(error)) => {
            tracing::warn!(error = %chain(&error), "could not read the Leases of other replicas");
            None
        }
        Err(_) => {
            tracing::warn!("no answer to a list of the Leases of other replicas");
            None
        }
    }
}

async fn seats(leases: &Api<Lease>) -> Result<Vec<Seat>, kube::Error> {
    let labelled = ListParams::default().labels(LABEL).limit(MOST);
    // Whoever works alone has no label.
    let (all, first) = futures::try_join!(leases.list(&labelled), leases.get_opt(LEASE))?;
    let others = all.items.into_iter();
    let others = others.filter(|lease| lease.name_any() != LEASE);
    Ok(others.chain(first).map(seat).collect())
}

fn seat(lease: Lease) -> Seat {
    let annotations = lease.annotations();
    let incarnation = annotations.get(INCARNATION).cloned();
    let shares_with = annotations.get(SHARES).and_then(|text| plan::read(text));
    let (name, spec) = (lease.name_any(), lease.spec.unwrap_or_default());
    let seconds = spec.lease_duration_seconds;
    Seat {
        name,
        is_held: spec
            .holder_identity
            .is_some_and(|holder| !holder.is_empty()),
        incarnation,
        shares_with,
        lasts: seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map(Duration::from_secs),
        resource_version: lease.metadata.resource_version.unwrap_or_default(),
    }
}

/// Waits until nobody shares the work any more: a replica that works alone follows others that shared it.
pub async fn wait_until_alone(client: Client, namespace: &str, timing: Timing) {
    let leases = Api::namespaced(client, namespace);
    let me = Member {
        seat: LEASE.to_owned(),
        incarnation: String::new(),
    };
    let mut roster = Roster::new(me, Seats::new(timing.duration));
    let mut ticks = tokio::time::interval(timing.retry);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some((asked, listed)) = look(&leases).await else {
            continue;
        };
        let view = roster.observe(asked, Instant::now(), listed);
        if view.members.len() == 1 {
            return;
        }
        tracing::info!("waits for replicas that share the work to end");
    }
}
