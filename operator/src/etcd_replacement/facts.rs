//! What the replacement of a member is decided by: a plain value, so that it can be tested on any world.
//!
//! Invariant: what was not seen is unknown, and is not absent.

use std::time::Duration;

use api::tenant_cluster::{EtcdMemberStatus, EtcdStatus};
use jiff::Timestamp;
use kit_objects::known::Known;

use crate::etcd_replacement::patience::Patience;
use crate::tenant_session::etcd::answers::{Alarm, ListedMember, MemberStatus};

/// Members of a cluster that survives the loss of one.
pub const MEMBERS: usize = 3;

/// Everything that it is decided by.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The time.
    pub now: Timestamp,
    /// How long something has to be so.
    pub patience: Patience,
    /// Whether one may be begun: the user wants it, and nothing else goes on that comes first.
    pub may_begin: bool,
    /// Whether members may be added or taken away because another number is wanted: nothing else goes on that comes
    /// first.
    pub may_resize: bool,
    /// Whether kube-apiservers do not ask all members yet that are wanted, or there are others.
    pub is_on_the_way: bool,
    /// Whether no rollout of kube-apiservers goes on.
    pub is_calm: bool,
    /// Whether no kube-apiserver asks a member that is not wanted.
    pub is_unasked: bool,
    /// The StorageClass that volumes are to have; none where any will do.
    pub class: Option<String>,
    /// The StatefulSet, which makes claims that are missing.
    pub set: Known<Set>,
    /// Whether members, when they start, are told what the status says.
    pub is_told: bool,
    /// What the status says.
    pub known: EtcdStatus,
    /// One for each member that there may be, wanted or not.
    pub seats: Vec<Seat>,
    /// etcd's own list, as a majority has it; none where it is not known.
    pub listed: Option<Vec<ListedMember>>,
    /// Name of the member whose data is not what the two others have.
    pub odd: Option<String>,
    /// Name of the member whose disk has been slow for so long that it is to be replaced.
    pub slow: Option<String>,
}

/// The StatefulSet of the members.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Set {
    /// Its UID.
    pub uid: String,
    /// The StorageClass of claims that it makes, where it names one. It cannot be changed.
    pub class: Option<String>,
}

/// The place of one member: what is there of it.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Its name, which is its pod's.
    pub name: String,
    /// Whether there is to be a member.
    pub wanted: bool,
    /// The only URL at which peers reach it.
    pub peer_url: String,
    /// Its claim.
    pub claim: Known<Claim>,
    /// Its pod.
    pub pod: Known<Pod>,
    /// What it says of itself; none where that is not known.
    pub answer: Option<MemberStatus>,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Claim {
    /// Its UID.
    pub uid: String,
    /// Whether it goes as soon as no pod uses it.
    pub terminating: bool,
    /// Name of its PersistentVolume, once it is bound.
    pub volume: Option<String>,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Whether it is that of a member that was taken away, and only kept.
    pub kept: bool,
    /// Its StorageClass, where it has one.
    pub class: Option<String>,
}

/// A pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pod {
    /// Its UID.
    pub uid: String,
    /// Whether it serves.
    pub ready: bool,
    /// Since when it is ready, or is not; none where it does not say.
    pub since: Option<Timestamp>,
    /// Whether it ends.
    pub terminating: bool,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// What the start gate says against its volume.
    pub refusal: Option<Refusal>,
}

/// What the start gate says against a volume.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// It has no data where there has to be some, or damaged data, or less than the member had.
    Lost,
    /// It was given to another member or claim.
    OfAnother,
    /// Something that a person has to look at.
    Other,
}

impl Facts {
    /// What the status says of a member.
    #[must_use]
    pub fn recorded(&self, seat: &Seat) -> Option<&EtcdMemberStatus> {
        self.known.members.iter().find(|m| m.name == seat.name)
    }

    /// Its entry in etcd's list.
    #[must_use]
    pub fn entry(&self, seat: &Seat) -> Option<&ListedMember> {
        let mut listed = self.listed.iter().flatten();
        listed.find(|entry| is_of(entry, seat))
    }

    /// Whether the status says that this one is being replaced.
    #[must_use]
    pub fn is_replacing(&self, seat: &Seat) -> bool {
        let replacing = self.known.replacing.as_ref();
        replacing.is_some_and(|replacing| replacing.member == seat.name)
    }

    /// When a member was last begun to be replaced, or had been.
    #[must_use]
    pub fn last_replacement(&self) -> Option<Timestamp> {
        self.known.last_replacement.as_ref()?.parse().ok()
    }

    /// Whether its pod is older than what the member is now.
    #[must_use]
    pub fn is_stale(&self, pod: &Pod) -> bool {
        let replacing = self.known.replacing.as_ref();
        let stale = replacing.and_then(|replacing| replacing.pod_uid.as_ref());
        stale == Some(&pod.uid)
    }

    /// Whether a member that votes served when its replacement was begun, and so has to be stopped before it is removed.
    #[must_use]
    pub fn is_to_be_stopped(&self, seat: &Seat) -> bool {
        let replacing = self.known.replacing.as_ref();
        let was_begun = replacing.is_some_and(|r| r.member == seat.name && r.pod_uid.is_some());
        // That of one that was added has its vote to come.
        let is_whole = self.recorded(seat).is_some_and(|r| r.started && !r.learner);
        was_begun && is_whole
    }

    /// Whether a member that votes runs, and says itself that it is this member of this cluster. While
    /// the alarm CORRUPT is raised none is ready, and neither is a learner ever (etcd's `/readyz`).
    #[must_use]
    pub fn is_alive(&self, seat: &Seat, id: &str) -> bool {
        let (Known::Known(pod), Some(answer)) = (&seat.pod, self.says(seat, id)) else {
            return false;
        };
        let is_ready = pod.ready || answer.is_learner || answer.alarms.contains(&Alarm::Corrupt);
        is_ready && !pod.terminating
    }

    /// What a member says of itself, if it is this one, and knows a leader.
    #[must_use]
    pub fn says<'a>(&'a self, seat: &'a Seat, id: &str) -> Option<&'a MemberStatus> {
        let answer = seat.answer.as_ref()?;
        let is_ours = Some(&answer.cluster_id) == self.known.cluster_id.as_ref();
        (is_ours && answer.member_id == id && answer.leader.is_some()).then_some(answer)
    }

    /// Time since then; zero where that is in the future.
    #[must_use]
    pub fn elapsed(&self, since: Timestamp) -> Duration {
        Duration::try_from(self.now.duration_since(since)).unwrap_or_default()
    }
}

/// Whether an entry of etcd's list is this member's.
#[must_use]
pub fn is_of(entry: &ListedMember, seat: &Seat) -> bool {
    entry.peer_urls.contains(&seat.peer_url)
}
