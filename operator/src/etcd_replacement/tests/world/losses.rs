//! What happens to members, and what people do to them.
//!
//! Invariant: nobody takes the last data of what etcd acknowledged.

use super::{Entry, World, seat};

impl World {
    /// Whether the others can do without this one's data.
    pub(in super::super) fn can_lose(&self, seat: usize) -> bool {
        // Of a member that is not there somebody may lose what there is of it.
        if self
            .list
            .iter()
            .all(|entry| entry.seat != seat || entry.learner)
        {
            return self.list.iter().filter(|entry| !entry.learner).count() != 1 || seat != 0;
        }
        let mut others = self.list.iter().filter(|entry| entry.seat != seat);
        let serve = others.all(|o| self.runs(o.seat) == Some(o.id) && !o.learner);
        serve && self.list.iter().filter(|entry| entry.seat != seat).count() == 2
    }

    /// Somebody deletes its claim and its pod.
    pub(in super::super) fn lose_claim(&mut self, seat: usize) {
        if self.can_lose(seat) {
            self.volumes[seat] = None;
            self.pods[seat] = None;
        }
    }

    /// Somebody deletes the claim and the pod of one that has no vote.
    pub(in super::super) fn delete_claim_and_pod(&mut self, member: &str) {
        let seat = seat(member);
        assert!(
            self.list
                .iter()
                .any(|entry| entry.seat == seat && entry.learner)
        );
        self.volumes[seat] = None;
        self.pods[seat] = None;
    }

    /// Somebody deletes its claim; the pod that uses it goes on.
    pub(in super::super) fn mark_claim(&mut self, seat: usize) {
        if let Some(volume) = self.volumes[seat].as_mut().filter(|_| true) {
            volume.terminating = true;
        }
    }

    /// What is on its volume is gone, or damaged.
    pub(in super::super) fn spoil(&mut self, seat: usize, is_gone: bool) {
        if !self.can_lose(seat) {
            return;
        }
        if let Some(volume) = &mut self.volumes[seat] {
            match is_gone {
                true => volume.data = None,
                false => {
                    if let Some(data) = &mut volume.data {
                        data.is_damaged = true;
                    }
                }
            }
        }
        if let Some(pod) = &mut self.pods[seat] {
            pod.running = None;
            pod.ready = false;
            pod.since = self.now;
        }
    }

    /// The disk of the member that votes there has been slow for long.
    pub(in super::super) fn slow_down(&mut self, seat: usize) {
        let mut votes = self.list.iter().filter(|entry| !entry.learner);
        let entry = votes.find(|entry| entry.seat == seat);
        self.slow = entry.map(|entry| (seat, entry.id)).or(self.slow);
    }

    pub(in super::super) fn delete_pod(&mut self, seat: usize) {
        let goes = self.volumes[seat]
            .as_ref()
            .is_some_and(|volume| volume.terminating);
        if !goes || self.can_lose(seat) {
            self.pods[seat] = None;
        }
    }

    pub(in super::super) fn set_up(&mut self, seat: usize, up: bool) {
        self.up[seat] = up;
    }

    /// Somebody removes a member with etcdctl, which etcd lets them do down to a single one. Nobody can replace that
    /// one, so its claim is to stay.
    pub(in super::super) fn remove_by_hand(&mut self, seat: usize) {
        let is_there = self.list.iter().any(|entry| entry.seat == seat);
        let others = self.list.iter();
        let others = others.filter(|entry| entry.seat != seat && !entry.learner);
        let others: Vec<_> = others.collect();
        // A majority has to have written that it goes, so of two both have everything.
        let has_all = |seat: usize| {
            let volume = self.volumes[seat].as_ref();
            let data = volume.and_then(|volume| volume.data.as_ref());
            data.is_some_and(|data| data.applied == self.acknowledged)
        };
        let serve = others
            .iter()
            .all(|o| self.runs(o.seat) == Some(o.id) && has_all(o.seat));
        let stays = |o: &&&Entry| {
            self.volumes[o.seat]
                .as_ref()
                .is_some_and(|v| !v.terminating)
        };
        let is_enough = others.len() > 1 || others.iter().filter(stays).count() == 1;
        if is_there && serve && is_enough {
            self.list.retain(|entry| entry.seat != seat);
            self.leader = None;
            self.meddled = true;
        }
    }

    /// Somebody adds one.
    pub(in super::super) fn add_by_hand(&mut self, seat: usize) {
        let has_learner = self.list.iter().any(|entry| entry.learner);
        if self.list.iter().all(|entry| entry.seat != seat) && !has_learner {
            let id = self.make();
            self.list.push(Entry {
                id,
                seat,
                learner: true,
                has_begun: false,
            });
        }
    }

    /// The phase is lost; what cannot be seen again stays.
    pub(in super::super) fn erase_phase(&mut self) {
        self.status.replacing = None;
    }
}
