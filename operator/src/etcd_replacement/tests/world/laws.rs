//! What no step may do.
//!
//! Invariant: it is held against the world as it is, and not as it was seen.

use std::time::Duration;

use super::{Entry, Hidden, World, seat, url};
use crate::etcd_replacement::patience::Patience;
use crate::etcd_replacement::step::Step;

impl World {
    /// Whether its pod ended since it was noted that it has to be stopped.
    fn was_stopped(&self, seat: usize) -> bool {
        let noted = self.status.replacing.as_ref();
        let noted = noted.and_then(|replacing| replacing.pod_uid.as_ref());
        let pod = self.pods[seat].as_ref().map(|pod| &pod.uid);
        noted.is_some() && noted != pod
    }

    pub(super) fn is_lawful(&self, step: &Step, hidden: Hidden) {
        let serves = |entry: &Entry| self.runs(entry.seat) == Some(entry.id);
        match step {
            Step::Remove { id } => {
                let entry = self.seat_of(id).expect("it is removed once");
                let others = self.list.iter().filter(|o| o.id != entry.id && !o.learner);
                let others: Vec<_> = others.collect();
                assert!(
                    others.iter().all(|other| serves(other)),
                    "{step:?}: another is not well"
                );
                assert!(
                    !hidden.claims && !hidden.pods,
                    "what is unknown is not lost"
                );
                let since = self.last_removal.map(|last| self.now.duration_since(last));
                let since = since.map_or(Duration::MAX, |since| Duration::try_from(since).unwrap());
                if entry.seat >= self.members() {
                    let is_calm = since >= Patience::default().shrinking;
                    let is_unasked = self.asked <= entry.seat;
                    if entry.learner || (is_calm && is_unasked && self.leader_seat() == 0) {
                        return;
                    }
                }
                let recorded = self.recorded(entry.seat);
                let is_whole = self.volumes[entry.seat].as_ref().is_some_and(|volume| {
                    let has_data = volume.data.as_ref();
                    let has_data = has_data.is_some_and(|d| d.member == entry.id && !d.is_damaged);
                    // Another one that somebody added there is nobody's yet.
                    let is_known = recorded.and_then(|r| r.id.as_ref()) == Some(id);
                    let is_its = recorded.is_some_and(|r| volume.uid == r.volume_uid);
                    let is_its = is_its && (is_known || !entry.learner);
                    let is_placed = volume.class == self.class;
                    has_data && !volume.terminating && is_its && is_placed
                });
                let is_slow = self.slow == Some((entry.seat, entry.id));
                assert!(!is_whole || is_slow, "{step:?}: it has all its data");
                if entry.learner {
                    return;
                }
                assert!(others.len() >= 2, "{step:?}: too few are left");
                // Nobody asks one that has not said that it is ready.
                let pod = self.pods[entry.seat].as_ref();
                let is_asked = serves(entry) && pod.is_some_and(|pod| pod.ready);
                assert!(
                    !is_asked || self.was_stopped(entry.seat),
                    "{step:?}: requests are with it"
                );
                assert!(since >= Patience::default().between, "{step:?}: {since:?}");
            }
            Step::Retire {
                member, claim_uid, ..
            } => {
                let seat = seat(member);
                let volume = self.volumes[seat].as_ref().unwrap();
                assert_eq!(&volume.uid, claim_uid);
                let recorded = self.recorded(seat);
                let is_known = recorded.is_some_and(|r| &r.volume_uid == claim_uid);
                assert!(is_known || volume.kept, "nobody knows it");
                let data = volume.data.as_ref();
                let is_used = data.is_some_and(|d| self.list.iter().any(|e| e.id == d.member));
                assert!(!is_used, "{step:?}: a member has its data there");
            }
            Step::MakeClaim { member } => {
                assert!(
                    self.volumes[seat(member)].is_none(),
                    "{step:?}: there is one"
                );
            }
            Step::AddLearner { peer_url } => {
                let is_there = self.list.iter().any(|entry| url(entry.seat) == *peer_url);
                assert!(!is_there, "{step:?}: it is there");
                let seat = (0..3).find(|seat| url(*seat) == *peer_url).unwrap();
                let is_known = self.recorded(seat).is_some();
                assert!(
                    seat < self.members() || is_known,
                    "{step:?}: it is not wanted"
                );
                if self.recorded(seat).is_none() {
                    let mut new = (0..self.members()).filter(|seat| {
                        let is_listed = self.list.iter().any(|entry| entry.seat == *seat);
                        !is_listed && self.recorded(*seat).is_none()
                    });
                    let is_bound =
                        |seat: usize| self.volumes[seat].as_ref().is_some_and(|v| v.bound);
                    assert!(new.all(is_bound), "{step:?}: volumes are missing");
                }
            }
            Step::Promote { id } => {
                let voters = self.list.iter().filter(|entry| !entry.learner);
                assert!(
                    voters.into_iter().all(serves),
                    "{step:?}: another is not well"
                );
                assert!(self.seat_of(id).is_some_and(serves));
            }
            Step::Record(_)
            | Step::MoveLeader { .. }
            | Step::Release { .. }
            | Step::Disarm { .. }
            | Step::Restart { .. } => {}
            Step::Keep {
                member, claim_uid, ..
            } => {
                let seat = seat(member);
                assert!(seat >= self.members() && self.recorded(seat).is_none());
                assert!(self.list.iter().all(|entry| entry.seat != seat));
                assert_eq!(&self.volumes[seat].as_ref().unwrap().uid, claim_uid);
            }
        }
    }
}
