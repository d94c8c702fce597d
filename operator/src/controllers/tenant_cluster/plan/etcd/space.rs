//! Space in etcd's database, as a part of the plan of etcd: what is done about one that is full, and what people
//! are told of it and before.
//!
//! Invariant: one reconcile does a few steps and no more; what is told does not change while nothing else does.

use std::net::IpAddr;

use api::{ConditionType, Reason};
use kit::events::Notice;
use tenant_cp::Validated;

use super::super::endpoint;
use super::super::types::Action;
use super::identity::addresses;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::etcd_space::level::Level;
use crate::etcd_space::plan::{Facts, Next, is_full, next};
use crate::status::Waiting;
use crate::tenant_session::etcd::answers::{Alarm, MemberStatus};

/// Steps of one reconcile, so that it ends: what three members need at most, but for the last alarms.
const MOST_STEPS: usize = 6;
const MIB: u64 = 1 << 20;

/// What is done about a database that is full.
#[derive(Debug, Default)]
pub(super) struct Relief {
    /// The next step.
    pub(super) action: Option<Action>,
    /// What is waited for.
    pub(super) waiting: Option<Waiting>,
}

impl Relief {
    /// Whether something is done, so that no member may be taken away.
    pub(super) fn goes_on(&self) -> bool {
        self.action.is_some() || self.waiting.is_some()
    }
}

/// `is_full`: people are told that it is.
pub(super) fn plan(valid: &Validated, observed: &Observed, is_full: bool) -> Relief {
    let facts = Facts {
        wanted: usize::try_from(valid.etcd.replicas).unwrap_or(0),
        members: observed.etcd.answers().collect(),
        is_compacted: observed.etcd_space.is_compacted,
    };
    let message = match is_full {
        true => {
            "etcd's database is full: it is compacted, and members write theirs anew, one after the other, the \
             one that leads last"
        }
        false => {
            "etcd's database is close to its most bytes, much of which is free: its only member writes it \
             anew, and requests wait meanwhile"
        }
    };
    let goes_on = || {
        Some(Waiting {
            reason: Reason::Defragmenting,
            message: message.to_owned(),
        })
    };
    if observed.etcd_space.is_left {
        return Relief {
            action: None,
            waiting: goes_on(),
        };
    }
    match next(&facts) {
        // Of too few it is asked again as of every alarm.
        Next::Nothing | Next::TooFew => Relief::default(),
        Next::IsFull => Relief {
            action: api_address(valid, observed)
                .filter(|_| observed.etcd_space.largest.is_none())
                .map(|address| Action::AskLargest { address }),
            waiting: None,
        },
        // What it refuses is tried again as seldom as alarms are asked for.
        Next::Step(_) if observed.etcd_steps.refusal.is_some() => Relief::default(),
        Next::Step(step) => Relief {
            action: (observed.etcd_steps.done < MOST_STEPS).then(|| Action::RelieveEtcd {
                members: addresses(valid, observed),
                step,
            }),
            waiting: goes_on(),
        },
    }
}

fn api_address(valid: &Validated, observed: &Observed) -> Option<(IpAddr, u16)> {
    let addresses = endpoint::addresses(valid, observed)?;
    Some((addresses.cluster_ip, endpoint::service_port(valid)))
}

/// What the alarm of one that is full means now, and what it needs.
pub(super) fn told_of_alarm(observed: &Observed, before: Option<Waiting>) -> String {
    let answers = || observed.etcd.answers().map(|(_, member)| member);
    // How much is in use is not known before what was overwritten is dropped.
    let before = before.filter(|told| told.reason == Reason::NoSpace);
    if let Some(told) = before.filter(|_| !observed.etcd_space.is_compacted) {
        return told.message;
    }
    const WHAT: &str = "etcd's database has its most bytes, and only reads and deletions go on; ";
    if !observed.etcd_space.is_compacted || !is_full(answers()) {
        return format!(
            "{WHAT}it is compacted and defragmented, and takes writes again as soon as a tenth of them is free"
        );
    }
    let largest = observed.etcd_space.largest.iter().flatten();
    let largest = largest.map(|size| {
        let mib = in_round_numbers(size.bytes / MIB);
        format!("{} (about {mib} MiB)", size.resource)
    });
    let largest: Vec<_> = largest.collect();
    let which = match largest.is_empty() {
        true => String::new(),
        false => format!(", most of it {}", largest.join(", ")),
    };
    format!(
        "{WHAT}compacted, more than nine tenths of its {} MiB are in use{which}: delete what is not needed, or \
         make spec.etcd.storage.size (and quotaBackendBytes) larger; it then takes writes again by itself",
        quota(answers())
    )
}

/// With two digits and zeros: kube-apiservers do not count alike, and what is told is to stay.
pub(super) fn in_round_numbers(number: u64) -> u64 {
    let unit = 10_u64.pow(
        number
            .checked_ilog10()
            .unwrap_or_default()
            .saturating_sub(1),
    );
    number / unit * unit
}

/// The least of what members may have, in MiB.
fn quota<'a>(members: impl Iterator<Item = &'a MemberStatus>) -> u64 {
    members.map(|member| member.quota).min().unwrap_or_default() / MIB
}

/// What is told before it is full.
pub(super) fn low(observed: &Observed) -> Option<Waiting> {
    let members = || observed.etcd.answers().map(|(_, member)| member);
    let (told, message) = match told_before(observed) {
        Some((level, message)) => (level, Some(message)),
        None => (Level::Enough, None),
    };
    // What is not known stays.
    if members().next().is_none() {
        let message = message?.to_owned();
        return Some(Waiting {
            reason: Reason::SpaceLow,
            message,
        });
    }
    let much = match Level::of(members(), told) {
        Level::Enough | Level::Full => return None,
        Level::Low => LOW,
        Level::Critical => CRITICAL,
    };
    Some(Waiting {
        reason: Reason::SpaceLow,
        message: format!(
            "{much} of the {} MiB that etcd's database may have are in use; with all of them only reads and \
             deletions go on: delete what is not needed, or make spec.etcd.storage.size (and \
             quotaBackendBytes) larger",
            quota(members())
        ),
    })
}

/// How the messages of the two levels begin.
const LOW: &str = "more than four fifths";
const CRITICAL: &str = "more than nine tenths";

/// The level that people were told of, and how.
fn told_before(observed: &Observed) -> Option<(Level, &str)> {
    let conditions = observed.cluster.status.iter().flat_map(|s| &s.conditions);
    let mut told = conditions.filter(|c| c.type_ == ConditionType::Degraded.as_str());
    let told = told.find(|told| told.reason == Reason::SpaceLow.as_str())?;
    let level = match told.message.starts_with(CRITICAL) {
        true => Level::Critical,
        false => Level::Low,
    };
    Some((level, &told.message))
}

/// Whether there may be something to be done about its space, or to be told.
pub(super) fn is_asked(observed: &Observed) -> bool {
    !observed.etcd_glance.is_well() || told_before(observed).is_some()
}

/// Whether one that was full takes writes again.
pub(in super::super) fn is_relieved(observed: &Observed) -> bool {
    let conditions = observed.cluster.status.iter().flat_map(|s| &s.conditions);
    let mut told = conditions.filter(|c| c.type_ == ConditionType::EtcdReady.as_str());
    let was_full = told.any(|told| told.reason == Reason::NoSpace.as_str());
    let mut members = observed.etcd.answers().peekable();
    was_full
        && members.peek().is_some()
        && members.all(|(_, member)| !member.alarms.contains(&Alarm::NoSpace))
}

/// What people are told then.
pub(in super::super) fn told_at_the_end() -> Notice {
    Notice::normal(
        Reason::SpaceRelieved,
        "etcd's database was full: it is compacted and defragmented, and takes writes again",
    )
}
