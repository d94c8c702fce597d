//! The replacement of a lost member, as a part of the plan of etcd: when it may be begun, what it does now, and
//! what people are told of it.
//!
//! Invariant: one reconcile does a few steps and no more; what it waits for is said in words that stay.

use api::{ConditionType, Reason};
use jiff::Timestamp;
use kit::events::Notice;
use kit_objects::known::Known;
use kit_objects::object::Object;
use tenant_cp::{Validated, names};

use super::facts::{facts, has_to_be_listed};
use super::identity::{addresses, identity, is_told};
use super::sizes::names_members;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::plan::types::Action;
use crate::etcd_replacement::facts::{Facts, Seat};
use crate::etcd_replacement::plan::next;
use crate::etcd_replacement::step::{Next, Step};
use crate::etcd_replacement::wait::Wait;
use crate::status::Waiting;

/// Steps of one reconcile, so that it ends; the next one goes on.
const MOST_STEPS: usize = 3;

/// What is to be done about members that are lost.
#[derive(Debug, Default)]
pub(super) struct Replacing {
    /// Whether etcd's list of its members has to be known.
    pub(super) has_to_be_listed: bool,
    /// The member whose claim is to be made.
    claim: Option<String>,
    /// The step, where it is none of a claim.
    pub(super) action: Option<Action>,
    /// What is waited for.
    pub(super) waiting: Option<Waiting>,
    /// What is wrong.
    pub(super) problem: Option<Waiting>,
    is_due: bool,
}

impl Replacing {
    /// Whether it makes this claim.
    pub(super) fn makes(&self, object: &Object) -> bool {
        let member = self.claim.as_deref();
        object.kind == "PersistentVolumeClaim"
            && member.is_some_and(|member| names::volume_of(member) == object.name)
    }

    /// Whether a member is lost, or replaced for its slow disk, so that none that serves may be taken away.
    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }
}

/// `is_lost`: the claim of a member is not the one that the status knows.
pub(super) fn plan(
    valid: &Validated,
    observed: &Observed,
    is_lost: bool,
    now: Timestamp,
) -> Replacing {
    let has_to_be_listed = has_to_be_listed(valid, observed, is_lost, now);
    if !has_to_be_listed || observed.etcd_listing.is_none() {
        return Replacing {
            has_to_be_listed,
            is_due: is_lost,
            ..Replacing::default()
        };
    }
    let told = is_told(valid, observed) && names_members(valid, observed);
    let may_begin = pods_stay(observed);
    let seen = facts(valid, observed, (may_begin, told), now);
    let next = next(&seen);
    // A member that moves is missed by nobody before it is removed.
    let resizes = resizes(&seen, &next) || moves(&seen, &next);
    let is_slow = is_slow(&seen, &next);
    let waiting = waiting(observed, &next, resizes, is_slow);
    // One that only could be replaced holds nothing up.
    let is_held = is_slow && waiting.is_none();
    let is_due = is_lost || (next.member.is_some() && !is_held);
    let mut replacing = Replacing {
        has_to_be_listed,
        is_due,
        waiting,
        problem: problem(valid, &next, resizes).filter(|_| !is_slow),
        ..Replacing::default()
    };
    if observed.etcd_steps.refusal.is_some() || observed.etcd_steps.done >= MOST_STEPS {
        return replacing;
    }
    match next.step {
        Some(Step::MakeClaim { member }) => replacing.claim = Some(member),
        Some(step) => {
            let members = addresses(valid, observed);
            replacing.action = Some(Action::ReplaceMember { members, step });
        }
        None => {}
    }
    replacing
}

/// Whether a replacement came to its end since the status told of it.
pub(in super::super) fn is_over(observed: &Observed) -> bool {
    let status = observed.cluster.status.as_ref();
    let conditions = status.iter().flat_map(|status| &status.conditions);
    let mut told = conditions.filter(|c| c.type_ == ConditionType::Progressing.as_str());
    let told = told.find(|told| {
        let reason = told.reason.as_str();
        [Reason::MemberLost, Reason::ReplacingMember]
            .iter()
            .any(|r| reason == r.as_str())
    });
    let etcd = identity(observed).filter(|etcd| etcd.replacing.is_none());
    let ended: Option<Timestamp> = etcd
        .and_then(|etcd| etcd.last_replacement.as_ref())
        .and_then(|last| last.parse().ok());
    // One that came back by itself was not replaced. Conditions have whole seconds.
    ended
        .zip(told)
        .is_some_and(|(ended, told)| ended >= told.last_transition_time.0)
}

/// What people are told then.
pub(in super::super) fn told_at_the_end() -> Notice {
    Notice::normal(
        Reason::MemberReplaced,
        "a member of etcd is replaced; all members serve, and have all of the data",
    )
}

/// No member's pod is being replaced now, by us or by somebody else.
pub(super) fn pods_stay(observed: &Observed) -> bool {
    let mut pods = observed.pods.iter().flatten();
    !pods.any(|pod| pod.component == names::ETCD && pod.terminating)
}

/// Whether it is about another number of members, and not about one that is lost.
fn resizes(facts: &Facts, next: &Next) -> bool {
    let named = |seat: &&Seat| Some(&seat.name) == next.member.as_ref();
    let seat = facts.seats.iter().find(named);
    let is_new =
        |seat: &Seat| facts.recorded(seat).is_none_or(|r| r.learner) && facts.is_on_the_way;
    seat.is_some_and(|seat| !seat.wanted || is_new(seat))
}

/// Whether it is about a member that serves and is to have a volume of another class.
fn moves(facts: &Facts, next: &Next) -> bool {
    let named = |seat: &&Seat| Some(&seat.name) == next.member.as_ref();
    let seat = facts.seats.iter().find(named);
    seat.is_some_and(|seat| {
        let differs = match &seat.claim {
            Known::Known(claim) => facts.class.is_some() && claim.class != facts.class,
            Known::Absent | Known::Unknown { .. } => false,
        };
        let entry = facts.entry(seat);
        differs && entry.is_some_and(|entry| facts.is_alive(seat, &entry.id))
    })
}

/// Whether it is about one that serves, and whose disk is slow: of that people are told with its figures.
fn is_slow(facts: &Facts, next: &Next) -> bool {
    let named = |seat: &&Seat| Some(&seat.name) == next.member.as_ref();
    let seat = facts.seats.iter().find(named);
    let votes = |seat: &Seat| facts.entry(seat).is_some_and(|entry| !entry.is_learner);
    facts.slow.is_some() && facts.slow == next.member && seat.is_some_and(votes)
}

/// Whether members were added or taken away, and the status still tells of it.
pub(in super::super) fn is_resized(valid: &Validated, observed: &Observed) -> bool {
    let members = identity(observed).map_or(0, |known| known.members.len());
    let wanted = usize::try_from(valid.etcd.wanted).unwrap_or(0);
    let status = observed.cluster.status.as_ref();
    let conditions = status.iter().flat_map(|status| &status.conditions);
    let mut told = conditions.filter(|c| c.type_ == ConditionType::Progressing.as_str());
    members == wanted && told.any(|told| told.reason == Reason::ResizingEtcd.as_str())
}

/// What people are told then.
pub(in super::super) fn told_of_the_number() -> Notice {
    Notice::normal(
        Reason::EtcdResized,
        "etcd has as many members as are wanted, and all serve",
    )
}

fn waiting(observed: &Observed, next: &Next, resizes: bool, is_slow: bool) -> Option<Waiting> {
    let is_begun = identity(observed).is_some_and(|known| known.replacing.is_some());
    let is_overdue = matches!(next.wait, Some(Wait::Overdue(_)));
    let is_under_way = (is_begun || next.step.is_some()) && !is_overdue;
    let is_nothing = next.member.is_none() && next.wait.is_none();
    if is_nothing || (is_slow && !is_under_way) {
        return None;
    }
    let reason = match is_under_way {
        _ if resizes => Reason::ResizingEtcd,
        true => Reason::ReplacingMember,
        false => Reason::MemberLost,
    };
    let member = next.member.as_deref().unwrap_or("etcd");
    let what = match &next.wait {
        Some(wait) => wait.text(),
        None if resizes => "it is added to etcd, or taken away".to_owned(),
        None => "an empty member takes its place".to_owned(),
    };
    let refusal = observed.etcd_steps.refusal.as_ref();
    let refusal = refusal.map_or_else(String::new, |why| format!("; it is tried again: {why}"));
    Some(Waiting {
        reason,
        message: format!("{member}: {what}{refusal}"),
    })
}

fn problem(valid: &Validated, next: &Next, resizes: bool) -> Option<Waiting> {
    let member = next.member.as_ref()?;
    if resizes {
        let overdue = next
            .wait
            .as_ref()
            .filter(|wait| matches!(wait, Wait::Overdue(_)))?;
        return Some(Waiting {
            reason: Reason::ResizingEtcd,
            message: format!(
                "{member} in namespace {}: {}",
                valid.tenant_namespace,
                overdue.text()
            ),
        });
    }
    let overdue = match &next.wait {
        Some(wait @ Wait::Overdue(_)) => format!("; {}", wait.text()),
        _ => String::new(),
    };
    Some(Waiting {
        reason: Reason::MemberLost,
        message: format!(
            "{member} in namespace {} is one member of etcd less: it is not one that serves with all of its \
             data; the other members serve on{overdue}",
            valid.tenant_namespace
        ),
    })
}
