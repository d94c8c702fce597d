//! An election for one of several Leases ("seats"): each candidate holds one of them, for as long as it runs.
//!
//! Invariant: a seat is held once. Who let it lapse, for however short a time, never holds it again in this campaign: others
//! may have taken over its work by then without any write to its Lease.

use std::sync::Arc;

use kube::Client;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior};

use super::client::LeaseClient;
use super::config::Notes;
use super::plan::Elector;
use super::{Campaign, Candidate, Election, LeaseConfig};

impl Candidate {
    /// Campaigns for any of `seats`, which are tried in their order; at once. `notes` are written with each renewal, and as
    /// soon as they change. The second answer is the name of the Lease that is held, once one is.
    pub fn campaign_for_a_seat(
        self,
        client: &Client,
        seats: Vec<LeaseConfig>,
        notes: watch::Receiver<Notes>,
    ) -> (Election, watch::Receiver<Option<String>>) {
        let (release, released) = oneshot::channel();
        let (held, seat) = watch::channel(None);
        let (until, gap) = (Arc::new(self.until), Arc::new(self.gap));
        let seats = seats.into_iter().map(|config| Campaign {
            elector: Elector::new(config.identity.clone(), config.timing),
            lease: LeaseClient::new(client.clone(), &config),
            config,
            until: Arc::clone(&until),
            gap: Arc::clone(&gap),
            forfeits: true,
        });
        let seats = Seats {
            all: seats.collect(),
            notes,
            held,
        };
        let election = Election {
            release: Some(release),
            task: tokio::spawn(seats.run(released)),
        };
        (election, seat)
    }
}

struct Seats {
    all: Vec<Campaign>,
    notes: watch::Receiver<Notes>,
    held: watch::Sender<Option<String>>,
}

impl Seats {
    async fn run(mut self, mut released: oneshot::Receiver<()>) {
        let Some(first) = self.all.first() else {
            return;
        };
        let mut ticks = tokio::time::interval(first.config.timing.retry);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut mine: Option<Campaign> = None;
        loop {
            tokio::select! {
                biased;
                asked = &mut released => match asked {
                    Ok(()) => break,
                    Err(_) => return,
                },
                _ = ticks.tick() => {}
                // Who cannot be told anything any more renews all the same.
                Ok(()) = self.notes.changed(), if mine.is_some() => {}
            }
            let notes = self.notes.borrow_and_update().clone();
            match &mut mine {
                Some(seat) => {
                    if seat.leads() {
                        seat.lease.notes = notes;
                        seat.attempt().await;
                    }
                    if !seat.leads() {
                        seat.until.send_replace(None);
                        return;
                    }
                }
                None => mine = self.take(&notes).await,
            }
        }
        if let Some(seat) = mine {
            seat.step_down().await;
        }
    }

    /// One try for each seat, until one is taken.
    async fn take(&mut self, notes: &Notes) -> Option<Campaign> {
        for place in 0..self.all.len() {
            let seat = &mut self.all[place];
            seat.lease.notes = notes.clone();
            seat.attempt().await;
            if seat.leads() {
                let seat = self.all.swap_remove(place);
                self.held.send_replace(Some(seat.config.name.clone()));
                return Some(seat);
            }
        }
        None
    }
}

impl Campaign {
    fn leads(&self) -> bool {
        self.until
            .borrow()
            .is_some_and(|until| Instant::now() < until)
    }
}
