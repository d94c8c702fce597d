//! Disks of etcd's members that are slow, as a part of the plan of etcd: what people are told, the lead that goes to a
//! member whose disk is fast, and who is to be replaced.
//!
//! Invariant: what is told does not change while the same members are slow; the lead is taken from a member only while
//! nothing else is done to any.

use std::time::Duration;

use api::{ConditionType, Reason};
use jiff::Timestamp;
use tenant_cp::{Validated, names};

use super::super::types::Action;
use super::identity::{addresses, identity};
use super::space::in_round_numbers;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::etcd_disks::plan;
use crate::etcd_disks::speed::{Figures, Speed, elapsed};
use crate::etcd_replacement::facts::MEMBERS;
use crate::etcd_replacement::step::Step;
use crate::status::Waiting;

/// Pause between two looks at one that people were told of: nobody is woken when all that could be done can be.
const PAUSE: Duration = Duration::from_mins(5);

/// What people are told of slow disks; what was told of one that is not known now stays.
pub(super) fn told(valid: &Validated, observed: &Observed) -> Option<Waiting> {
    let disks = &observed.etcd_disks;
    let before = told_before(observed);
    let slow: Vec<_> = disks.slow().collect();
    if slow.is_empty() {
        return before
            .filter(|message| is_any_unknown(valid, observed, message))
            .map(waiting);
    }
    let names: Vec<_> = slow.iter().map(|(name, ..)| *name).collect();
    let start = format!("the disk of {} is slow: ", names.join(" and that of "));
    if let Some(before) = before.filter(|message| message.starts_with(&start)) {
        return Some(waiting(before));
    }
    let each: Vec<_> = slow.iter().map(|(_, _, figures)| text(*figures)).collect();
    let then = match is_one_of_three(valid, observed) {
        true => {
            "; where it is one of three, it does not lead, and is replaced if that lasts for half an hour \
             (spec.etcd.autoReplace)"
        }
        false => "",
    };
    Some(waiting(&format!(
        "{start}of a hundred writes the slowest take {}, and all that the tenant cluster writes waits for it; see \
         the volume, its StorageClass, its node, and who else writes there{then}",
        each.join("; ")
    )))
}

fn waiting(message: &str) -> Waiting {
    Waiting {
        reason: Reason::SlowDisk,
        message: message.to_owned(),
    }
}

fn text(figures: Figures) -> String {
    let part = |what: &str, took: Option<Duration>| {
        let millis = u64::try_from(took?.as_millis()).unwrap_or(u64::MAX);
        Some(format!("{} ms {what}", in_round_numbers(millis)))
    };
    let parts = [
        part("to the log", figures.fsync),
        part("to the database", figures.commit),
    ];
    parts
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" and ")
}

fn told_before(observed: &Observed) -> Option<&str> {
    let conditions = observed.cluster.status.iter().flat_map(|s| &s.conditions);
    let mut told = conditions.filter(|c| c.type_ == ConditionType::Degraded.as_str());
    let told = told.find(|told| told.reason == Reason::SlowDisk.as_str())?;
    Some(&told.message)
}

fn is_any_unknown(valid: &Validated, observed: &Observed, message: &str) -> bool {
    let mut members = (0..valid.etcd.replicas).map(names::etcd_member);
    members.any(|name| message.contains(&name) && observed.etcd_disks.of(&name) == Speed::Unknown)
}

/// Whether there are three members, as wanted, so that one can stand in for another.
fn is_one_of_three(valid: &Validated, observed: &Observed) -> bool {
    let is_three = |members: i32| usize::try_from(members) == Ok(MEMBERS);
    let known = identity(observed).map_or(0, |known| known.members.len());
    is_three(valid.etcd.wanted) && is_three(valid.etcd.replicas) && known == MEMBERS
}

/// Whether members have to be asked who leads.
pub(super) fn is_asked(valid: &Validated, observed: &Observed) -> bool {
    is_one_of_three(valid, observed) && observed.etcd_disks.slow().next().is_some()
}

/// The lead of a member whose disk alone is slow goes to another one.
pub(super) fn lead(valid: &Validated, observed: &Observed, now: Timestamp) -> Option<Action> {
    if !is_one_of_three(valid, observed) || observed.etcd_steps.refusal.is_some() {
        return None;
    }
    let members = observed.etcd.answers().collect();
    let pause = observed.etcd_patience.lead;
    let step = plan::lead(&members, &observed.etcd_disks, pause, now)?;
    Some(Action::ReplaceMember {
        members: addresses(valid, observed),
        step: Step::MoveLeader {
            from: step.from,
            to: step.to,
        },
    })
}

/// Name of the one of three that is to be replaced for its slow disk.
pub(super) fn to_replace(valid: &Validated, observed: &Observed, now: Timestamp) -> Option<String> {
    if !is_one_of_three(valid, observed) {
        return None;
    }
    let members: Vec<_> = (0..valid.etcd.wanted).map(names::etcd_member).collect();
    let members = members.iter().map(String::as_str);
    let long = observed.etcd_patience.slow;
    plan::slow_for(members, &observed.etcd_disks, long, now).map(str::to_owned)
}

/// When to look again although nothing happened: at one that is slow, or was and is not known to be.
pub(in super::super) fn again(
    valid: &Validated,
    observed: &Observed,
    now: Timestamp,
) -> Option<Duration> {
    let patience = observed.etcd_patience.slow;
    let left = |since| patience.saturating_sub(elapsed(since, now));
    let slow = observed.etcd_disks.slow().map(|(_, since, _)| left(since));
    // At once would be over and over.
    let slow = slow.map(|left| {
        if left.is_zero() {
            PAUSE
        } else {
            left.min(PAUSE)
        }
    });
    let before = told_before(observed).filter(|told| is_any_unknown(valid, observed, told));
    slow.chain(before.map(|_| PAUSE)).min()
}
