//! Three members of etcd with their volumes, pods and start gates, and who looks after them: as a management
//! cluster and etcd behave, reduced to what a replacement goes by.
//!
//! Long because what happens, what is seen of it and what is lawful are of one world.
//! Invariant: a write is acknowledged only once a majority of the members that vote has it; one that is gone
//! later fails the test.

mod laws;
mod losses;

use api::tenant_cluster::{EtcdMemberStatus, EtcdStatus};
use jiff::{SignedDuration, Timestamp};
use kit_objects::known::Known;

use crate::etcd_replacement::facts::{Claim, Facts, Pod, Refusal, Seat, Set};
use crate::etcd_replacement::number::wanted;
use crate::etcd_replacement::patience::Patience;
use crate::etcd_replacement::plan::next;
use crate::etcd_replacement::step::{Next, Step};
use crate::tenant_session::etcd::answers::{ListedMember, MemberStatus};

const CLUSTER: &str = "cdf8";
/// More steps than any reconcile does.
const STEPS: usize = 64;

/// What a volume has: whose data, and how much of it.
#[derive(Clone, Debug)]
struct Data {
    member: u64,
    applied: u64,
    is_damaged: bool,
}

#[derive(Clone, Debug)]
struct Volume {
    uid: String,
    created: Timestamp,
    terminating: bool,
    /// Whether there is a PersistentVolume: a pod has used it.
    bound: bool,
    kept: bool,
    class: &'static str,
    data: Option<Data>,
}

#[derive(Clone, Debug)]
struct Running {
    uid: String,
    created: Timestamp,
    since: Timestamp,
    ready: bool,
    /// The volume that it mounts.
    mounts: String,
    refused: Option<Refusal>,
    /// The member that its process is.
    running: Option<u64>,
}

#[derive(Clone, Debug)]
struct Entry {
    id: u64,
    seat: usize,
    learner: bool,
    /// Whether anything was ever sent to it.
    has_begun: bool,
}

/// What an observer does not see.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hidden {
    pub(super) list: bool,
    pub(super) claims: bool,
    pub(super) pods: bool,
    pub(super) answers: Option<usize>,
}

/// What becomes of a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fate {
    Done,
    /// The request is lost.
    Lost,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    now: Timestamp,
    pub(super) status: EtcdStatus,
    /// What members are told that start.
    told: EtcdStatus,
    list: Vec<Entry>,
    volumes: [Option<Volume>; 3],
    pods: [Option<Running>; 3],
    up: [bool; 3],
    leader: Option<u64>,
    /// Newest acknowledged write.
    acknowledged: u64,
    made: u64,
    last_removal: Option<Timestamp>,
    /// Learners that were added, by us.
    pub(super) added: usize,
    pub(super) auto_replace: bool,
    /// How many members are asked for.
    pub(super) wanted: usize,
    /// The class that volumes are to have.
    pub(super) class: &'static str,
    /// The class of claims that the StatefulSet makes.
    set_class: &'static str,
    /// How many of them kube-apiservers ask.
    asked: usize,
    /// Whether learners are given no more of the data than they have.
    pub(super) learners_lag: bool,
    /// What was carried out.
    pub(super) done: Vec<Step>,
    /// Whether somebody meddled with etcd's members.
    pub(super) meddled: bool,
    /// Seat of the member whose disk is slow, and which member it was when that was seen: nobody looks again.
    slow: Option<(usize, u64)>,
}

impl World {
    /// A whole one that has run for an hour.
    pub(super) fn new() -> Self {
        Self::of(3)
    }

    /// The same with so many members.
    pub(super) fn of(members: usize) -> Self {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let mut world = Self {
            now,
            status: EtcdStatus {
                cluster_id: Some(CLUSTER.to_owned()),
                ..EtcdStatus::default()
            },
            told: EtcdStatus::default(),
            list: Vec::new(),
            volumes: [None, None, None],
            pods: [None, None, None],
            up: [true; 3],
            leader: None,
            acknowledged: 100,
            made: 0,
            last_removal: None,
            added: 0,
            auto_replace: true,
            wanted: members,
            class: "slow",
            set_class: "slow",
            asked: members,
            learners_lag: false,
            done: Vec::new(),
            meddled: false,
            slow: None,
        };
        for seat in 0..members {
            let id = world.make();
            let uid = format!("claim-{}", world.make());
            world.list.push(Entry {
                id,
                seat,
                learner: false,
                has_begun: true,
            });
            world.volumes[seat] = Some(Volume {
                uid: uid.clone(),
                created: now,
                terminating: false,
                bound: true,
                kept: false,
                class: "slow",
                data: Some(Data {
                    member: id,
                    applied: 100,
                    is_damaged: false,
                }),
            });
            world.status.members.push(EtcdMemberStatus {
                name: format!("etcd-{seat}"),
                volume_uid: uid,
                id: Some(format!("{id:x}")),
                started: true,
                ..EtcdMemberStatus::default()
            });
        }
        world.told = world.status.clone();
        world.pass(3600);
        world
    }

    fn make(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// Time goes by, and everybody but the operator does what there is to do.
    pub(super) fn pass(&mut self, seconds: i64) {
        self.play();
        self.now = self
            .now
            .checked_add(SignedDuration::from_secs(seconds))
            .unwrap();
        self.play();
    }

    fn play(&mut self) {
        self.told = self.status.clone();
        for seat in 0..3 {
            self.play_stateful_set(seat);
            self.play_gate(seat);
        }
        self.play_etcd();
        self.play_control_plane();
    }

    /// It asks members that are not wanted no more once those that stay are whole, and those that are once all of
    /// them vote.
    fn play_control_plane(&mut self) {
        let wanted = self.members();
        let whole = |member: &&EtcdMemberStatus| member.started && !member.learner;
        let whole = self.status.members.iter().filter(whole).count();
        let all = whole == wanted && self.status.members.len() == wanted;
        let stay = (0..wanted).all(|seat| self.is_kept(seat));
        if (wanted < self.asked && stay) || all {
            self.asked = wanted;
        }
    }

    /// Whether one votes by the status, and has the claim that it has there.
    fn is_kept(&self, seat: usize) -> bool {
        let name = format!("etcd-{seat}");
        let replacing = self.status.replacing.as_ref();
        let replacing = replacing.is_some_and(|replacing| replacing.member == name);
        let volume = self.volumes[seat].as_ref().filter(|v| !v.terminating);
        let whole = self.recorded(seat).filter(|r| r.started && !r.learner);
        let its = whole.zip(volume);
        !replacing && its.is_some_and(|(recorded, volume)| recorded.volume_uid == volume.uid)
    }

    /// How many members there are to be now.
    pub(super) fn members(&self) -> usize {
        self.members_by(&self.claim(0))
    }

    fn members_by(&self, first: &Known<Claim>) -> usize {
        wanted(self.wanted, Some(&self.class.to_owned()), first)
    }

    fn claim(&self, seat: usize) -> Known<Claim> {
        Known::found(self.volumes[seat].as_ref().map(|volume| Claim {
            uid: volume.uid.clone(),
            terminating: volume.terminating,
            volume: volume.bound.then(|| format!("pv-of-{}", volume.uid)),
            created: Some(volume.created),
            kept: volume.kept,
            class: Some(volume.class.to_owned()),
        }))
    }

    fn play_stateful_set(&mut self, seat: usize) {
        let last = self
            .status
            .members
            .last()
            .map(|last| self::seat(&last.name));
        if seat >= self.members().max(last.map_or(0, |last| last + 1)) {
            self.pods[seat] = None;
            return;
        }
        if let Some(volume) = self.volumes[seat]
            .as_mut()
            .filter(|_| self.pods[seat].is_some())
        {
            volume.bound = true;
        }
        if self.pods[seat].is_some() {
            return;
        }
        if self.volumes[seat]
            .as_ref()
            .is_some_and(|volume| volume.terminating)
        {
            self.volumes[seat] = None;
        }
        if self.volumes[seat].is_none() {
            self.make_claim(seat);
        }
        let uid = format!("pod-{}", self.make());
        let mounts = self.volumes[seat].as_ref().unwrap().uid.clone();
        self.pods[seat] = Some(Running {
            uid,
            created: self.now,
            since: self.now,
            ready: false,
            mounts,
            refused: None,
            running: None,
        });
    }

    fn make_claim(&mut self, seat: usize) {
        let uid = format!("claim-{}", self.make());
        self.volumes[seat] = Some(Volume {
            uid,
            created: self.now,
            terminating: false,
            bound: false,
            kept: false,
            class: self.set_class,
            data: None,
        });
    }

    /// The start gate, and etcd's own look at the cluster that it is to join.
    fn play_gate(&mut self, seat: usize) {
        let name = format!("etcd-{seat}");
        let member = self.told.members.iter().find(|m| m.name == name).cloned();
        let entry = self.list.iter().find(|entry| entry.seat == seat).cloned();
        // Its `--initial-cluster` are the members that the status knows.
        let whole = self.list.len() == self.told.members.len();
        let (Some(pod), Some(volume)) = (&mut self.pods[seat], &mut self.volumes[seat]) else {
            return;
        };
        if !self.up[seat] || pod.mounts != volume.uid {
            return;
        }
        if pod.running.is_some() {
            pod.refused = None;
            return;
        }
        let Some(member) = member else {
            // It is named nowhere.
            pod.refused = Some(Refusal::Other);
            return;
        };
        let is_its = |data: &Data| {
            let told = member.id.as_deref();
            told.is_none_or(|told| told == format!("{:x}", data.member))
        };
        pod.refused = match &volume.data {
            Some(data) if data.is_damaged => Some(Refusal::Lost),
            Some(data) if !is_its(data) => Some(Refusal::OfAnother),
            Some(_) => None,
            None => member.started.then_some(Refusal::Lost),
        };
        let may_join = volume.data.is_none() && !member.started && whole;
        if let Some(entry) = entry.filter(|_| may_join) {
            // etcd takes one that was sent something for one that has it, and ends.
            if !entry.has_begun {
                volume.data = Some(Data {
                    member: entry.id,
                    applied: 0,
                    is_damaged: false,
                });
            }
        }
    }

    /// Whether the process of a member runs.
    fn runs(&self, seat: usize) -> Option<u64> {
        let (pod, volume) = (self.pods[seat].as_ref()?, self.volumes[seat].as_ref()?);
        let data = volume.data.as_ref()?;
        // One that runs is asked no more.
        let starts = pod.running == Some(data.member) || pod.refused.is_none();
        let is_listed = self.list.iter().any(|entry| entry.id == data.member);
        let runs = self.up[seat] && pod.mounts == volume.uid && starts && is_listed;
        (runs && !data.is_damaged).then_some(data.member)
    }

    fn play_etcd(&mut self) {
        let running: Vec<_> = (0..3).map(|seat| self.runs(seat)).collect();
        let voters = self.list.iter().filter(|entry| !entry.learner);
        let voters: Vec<_> = voters.map(|entry| (entry.id, entry.seat)).collect();
        let alive = |id: u64| running.contains(&Some(id));
        let serving: Vec<_> = voters
            .iter()
            .filter(|(id, _)| alive(*id))
            .copied()
            .collect();
        let has_quorum = serving.len() * 2 > voters.len();
        if !has_quorum {
            self.leader = None;
        } else {
            let applied = |seat: usize| {
                self.volumes[seat]
                    .as_ref()?
                    .data
                    .as_ref()
                    .map(|d| d.applied)
            };
            let best = serving
                .iter()
                .max_by_key(|(_, seat)| applied(*seat))
                .unwrap();
            assert_eq!(
                applied(best.1),
                Some(self.acknowledged),
                "acknowledged writes are lost"
            );
            if !self
                .leader
                .is_some_and(|id| serving.iter().any(|(one, _)| *one == id))
            {
                self.leader = Some(best.0);
            }
            self.acknowledged += 10;
            for (id, seat) in self.list.iter().map(|entry| (entry.id, entry.seat)) {
                let is_learner = !voters.iter().any(|(voter, _)| *voter == id);
                if !alive(id) || (is_learner && self.learners_lag) {
                    continue;
                }
                let data = self.volumes[seat]
                    .as_mut()
                    .and_then(|volume| volume.data.as_mut());
                let data = data.unwrap();
                // It is sent a snapshot, however much there is.
                let step = if is_learner {
                    data.applied + 60.max(self.acknowledged / 8)
                } else {
                    self.acknowledged
                };
                data.applied = step.min(self.acknowledged);
            }
            for entry in self.list.iter_mut().filter(|entry| alive(entry.id)) {
                entry.has_begun = true;
            }
        }
        for (seat, runs) in running.into_iter().enumerate() {
            // A learner is never ready.
            let votes = voters.iter().any(|(id, _)| runs == Some(*id));
            let is_ready = votes && self.leader.is_some();
            let Some(pod) = &mut self.pods[seat] else {
                continue;
            };
            pod.running = runs;
            if pod.ready != is_ready {
                pod.ready = is_ready;
                pod.since = self.now;
            }
        }
    }

    pub(super) fn facts(&self, hidden: Hidden) -> Facts {
        let unknown = || Known::Unknown {
            why: "it is hidden",
        };
        let claim = |number| {
            if hidden.claims {
                unknown()
            } else {
                self.claim(number)
            }
        };
        let wanted = self.members_by(&claim(0));
        let seat = |number: usize| {
            let pod = Known::found(self.pods[number].as_ref().map(|pod| Pod {
                uid: pod.uid.clone(),
                ready: pod.ready,
                since: Some(pod.since),
                terminating: false,
                created: Some(pod.created),
                refusal: pod.refused,
            }));
            Seat {
                name: format!("etcd-{number}"),
                wanted: number < wanted,
                peer_url: url(number),
                claim: claim(number),
                pod: if hidden.pods {
                    Known::Unknown { why: "hidden" }
                } else {
                    pod
                },
                answer: self
                    .answer(number)
                    .filter(|_| hidden.answers != Some(number)),
            }
        };
        let listed = self.list.iter().map(|entry| ListedMember {
            id: format!("{:x}", entry.id),
            name: None,
            peer_urls: vec![url(entry.seat)],
            is_learner: entry.learner,
        });
        let is_known = !hidden.list && self.leader.is_some();
        Facts {
            now: self.now,
            patience: Patience::default(),
            may_begin: self.auto_replace,
            may_resize: true,
            is_on_the_way: self.asked != wanted,
            is_calm: true,
            is_unasked: self.asked <= wanted,
            class: Some(self.class.to_owned()),
            set: Known::Known(Set {
                uid: format!("set-of-{}", self.set_class),
                class: Some(self.set_class.to_owned()),
            }),
            is_told: self.told == self.status,
            known: self.status.clone(),
            seats: (0..3).map(seat).collect(),
            listed: is_known.then(|| listed.collect()),
            odd: None,
            slow: self
                .slow
                .filter(|_| wanted == 3)
                .map(|(seat, _)| format!("etcd-{seat}")),
        }
    }

    fn answer(&self, seat: usize) -> Option<MemberStatus> {
        let id = self.runs(seat)?;
        let data = self.volumes[seat].as_ref()?.data.as_ref()?;
        Some(MemberStatus {
            cluster_id: CLUSTER.to_owned(),
            member_id: format!("{id:x}"),
            leader: self.leader.map(|id| format!("{id:x}")),
            is_learner: self
                .list
                .iter()
                .any(|entry| entry.id == id && entry.learner),
            index: data.applied,
            applied: data.applied,
            ..MemberStatus::default()
        })
    }

    /// One reconcile: a step after the other, each of them with everything looked at anew.
    pub(super) fn reconcile(&mut self, hidden: Hidden, fate: Fate) {
        assert!(self.some_steps(hidden, fate, STEPS), "steps never end");
    }

    /// One that is cut off after so many; whether it was not.
    pub(super) fn some_steps(&mut self, hidden: Hidden, fate: Fate, most: usize) -> bool {
        for _ in 0..most {
            let facts = self.facts(hidden);
            let Some(step) = next(&facts).step else {
                return true;
            };
            assert!(!hidden.list, "a step by a list that is not known: {step:?}");
            self.is_lawful(&step, hidden);
            if fate == Fate::Lost || !self.carry_out(&step) {
                return true;
            }
            self.play();
        }
        false
    }

    fn seat_of(&self, id: &str) -> Option<&Entry> {
        self.list
            .iter()
            .find(|entry| format!("{:x}", entry.id) == id)
    }

    fn recorded(&self, seat: usize) -> Option<&EtcdMemberStatus> {
        let name = format!("etcd-{seat}");
        self.status
            .members
            .iter()
            .find(|member| member.name == name)
    }

    /// False where etcd refuses.
    fn carry_out(&mut self, step: &Step) -> bool {
        self.done.push(step.clone());
        match step {
            Step::Record(status) => {
                assert_ne!(*status, self.status, "written once more");
                self.status = status.clone();
            }
            Step::MoveLeader { from, to } => {
                let to = self.seat_of(to).expect("there is one");
                assert_eq!(self.runs(to.seat), Some(to.id));
                assert_eq!(self.runs(seat(from)), self.leader);
                self.leader = Some(to.id);
            }
            Step::Remove { id } => {
                let entry = self.seat_of(id).unwrap().clone();
                if !entry.learner {
                    self.last_removal = Some(self.now);
                }
                self.list.retain(|other| other.id != entry.id);
                if self.leader == Some(entry.id) {
                    self.leader = None;
                }
            }
            Step::Disarm { .. } => {}
            Step::Retire {
                member, pod_uid, ..
            } => {
                let seat = seat(member);
                self.volumes[seat].as_mut().unwrap().terminating = true;
                self.end(seat, pod_uid.as_deref());
            }
            Step::Release { .. } => self.set_class = self.class,
            Step::MakeClaim { member } => self.make_claim(seat(member)),
            Step::Keep { member, .. } => {
                self.volumes[seat(member)].as_mut().unwrap().kept = true;
            }
            Step::AddLearner { peer_url } => {
                if self.list.iter().any(|entry| entry.learner) {
                    return false;
                }
                let id = self.make();
                self.added += 1;
                self.list.push(Entry {
                    id,
                    seat: (0..3).find(|seat| url(*seat) == *peer_url).unwrap(),
                    learner: true,
                    has_begun: false,
                });
            }
            Step::Restart { member, pod_uid } => self.end(seat(member), Some(pod_uid)),
            Step::Promote { id } => {
                let entry = self.seat_of(id).unwrap().clone();
                let data = self.volumes[entry.seat]
                    .as_ref()
                    .and_then(|v| v.data.as_ref());
                if data.is_none_or(|data| data.applied * 10 < self.acknowledged * 9) {
                    return false;
                }
                let entry = self.list.iter_mut().find(|other| other.id == entry.id);
                entry.unwrap().learner = false;
            }
        }
        true
    }

    fn end(&mut self, seat: usize, uid: Option<&str>) {
        let is_it = |pod: &Running| uid.is_some_and(|uid| pod.uid == uid);
        if self.pods[seat].as_ref().is_some_and(is_it) {
            self.pods[seat] = None;
        }
    }

    /// As many members as are wanted vote, serve, and have everything, and there is nobody else.
    pub(super) fn is_whole(&self) -> Result<(), String> {
        match self.is_all_there() {
            true => Ok(()),
            false => Err(format!("{self:#?}")),
        }
    }

    /// Whether it is whole, and there is nothing to be done or waited for.
    pub(super) fn rests(&self) -> bool {
        self.is_all_there() && next(&self.facts(Hidden::default())) == Next::default()
    }

    fn is_all_there(&self) -> bool {
        let voters = self.list.iter().filter(|entry| !entry.learner);
        let serve = voters
            .filter(|entry| self.runs(entry.seat) == Some(entry.id))
            .count();
        let data = self.volumes[..self.wanted].iter().flatten();
        let have_all = data
            .filter_map(|volume| volume.data.as_ref())
            .filter(|data| data.applied == self.acknowledged)
            .count();
        let known = self
            .status
            .members
            .iter()
            .zip(&self.volumes)
            .all(|(member, volume)| {
                volume
                    .as_ref()
                    .is_some_and(|v| v.uid == member.volume_uid && !v.terminating)
                    && member.started
                    && !member.learner
            });
        let sizes = [
            serve,
            have_all,
            self.list.len(),
            self.status.members.len(),
            self.asked,
        ];
        let is_kept = |volume: &Volume| volume.kept || volume.terminating;
        let kept = self.volumes[self.wanted..].iter().flatten().all(is_kept);
        let mut volumes = self.volumes[..self.wanted].iter().flatten();
        let placed = volumes.all(|volume| volume.class == self.class);
        let is_over = known && kept && placed && self.status.replacing.is_none();
        sizes.iter().all(|size| *size == self.wanted) && is_over
    }

    pub(super) fn leader_seat(&self) -> usize {
        let id = self.leader.expect("there is one");
        self.list.iter().find(|entry| entry.id == id).unwrap().seat
    }

    pub(super) fn voters(&self) -> usize {
        self.list.iter().filter(|entry| !entry.learner).count()
    }
}

fn seat(member: &str) -> usize {
    member.rsplit('-').next().unwrap().parse().unwrap()
}

fn url(seat: usize) -> String {
    format!("https://etcd-{seat}:2380")
}
