//! A tenant cluster whose spec is refused, or that is paused: what runs keeps running.
//!
//! Invariant: its certificates are renewed and its API is asked all the same, as they are, because what
//! is wanted of it now nobody can say.

use std::collections::BTreeSet;

use api::{ConditionStatus, ConditionType, Reason};
use jiff::Timestamp;
use kit::events::Notice;
use kit_objects::object::Object;
use tenant_cp::problem::Problem;
use tenant_cp::{certificates, generations, names};

use super::status::controllers;
use super::types::{Action, Part, Plan, rest_what_failed};
use super::{endpoint, status};
use crate::controllers::tenant_cluster::observed::{Observed, Tenant};
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::status::Waiting;

/// Why it is not planned as usual.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Halt {
    /// `spec.paused`.
    Paused,
    /// The spec cannot be built, a quota does not let it grow, or there is no address range.
    Refused { reason: Reason, message: String },
    /// Its namespace is somebody else's.
    Taken(Waiting),
}

impl Halt {
    pub(super) fn refused(problems: &[Problem]) -> Self {
        let sentences: Vec<_> = problems
            .iter()
            .map(|p| format!("{}: {}", p.field, p.message))
            .collect();
        Self::Refused {
            reason: problems.first().map_or(Reason::InvalidSpec, |p| p.reason),
            message: sentences.join("; "),
        }
    }
}

pub(super) fn plan(observed: &Observed, halt: &Halt, now: Timestamp) -> Plan {
    let mut plan = Plan::unchanged(observed);
    if !matches!(halt, Halt::Taken(_)) {
        plan.parts.push(renewals(observed, now));
    }
    rest_what_failed(&mut plan.parts, observed);
    if plan.is_settled() && !matches!(halt, Halt::Taken(_)) {
        plan.parts.push(probe(observed));
        rest_what_failed(&mut plan.parts, observed);
    }
    tell(plan, observed, halt, now)
}

/// What ends soon of the certificates that are there.
fn renewals(observed: &Observed, now: Timestamp) -> Part {
    let mut part = Part::new(PartName::Certificates);
    let material = &observed.material;
    let (wants, due) = certificates::renewals(material, now);
    if !due.is_empty() {
        let due = certificates::Plan {
            due,
            ..certificates::Plan::default()
        };
        part.actions.push(Action::Issue { wants, due });
        return part;
    }
    // What was made in this reconcile is in the material and not yet in the Secrets.
    let names: BTreeSet<_> = wants.into_iter().map(|want| want.name).collect();
    let secrets = observed.objects.iter();
    let secrets = secrets.filter(|(key, _)| key.kind == "Secret");
    let renewed: Vec<Object> = secrets
        .filter_map(|(_, live)| certificates::renewed_secret(live, material, &names))
        .collect();
    part.apply("certificates", observed, renewed);
    part
}

fn probe(observed: &Observed) -> Part {
    let mut part = Part::new(PartName::TenantObjects);
    let keys = &observed.material.store;
    let can_ask = generations::bundle(keys, names::CA).is_some() && keys.contains_key("operator");
    if let Some(address) = endpoint::observed_address(observed)
        && observed.tenant == Tenant::NotAsked
        && observed.has_been_ready()
        && can_ask
    {
        part.actions.push(Action::Probe {
            address,
            endpoint: None,
            published: observed
                .cluster
                .status
                .as_ref()
                .and_then(|s| s.endpoint.clone()),
            prove_write: !observed.answered_before(),
            apply: Vec::new(),
            list: None,
            provisional: false,
            workloads: Vec::new(),
            starts: false,
        });
    }
    part
}

fn tell(mut plan: Plan, observed: &Observed, halt: &Halt, now: Timestamp) -> Plan {
    let settled = plan.is_settled();
    // What cannot be read, or is somebody else's, says nothing of ours.
    if observed.readable && !matches!(halt, Halt::Taken(_)) {
        plan.status.certificates = certificates::status(&observed.material.store);
    }
    let (reason, message) = match halt {
        Halt::Paused => (
            Reason::Paused,
            "spec.paused is true; set it to false to go on".to_owned(),
        ),
        Halt::Refused { reason, message } => (*reason, message.clone()),
        Halt::Taken(why) => (why.reason, why.message.clone()),
    };
    let mut set = status::conditions(&mut plan, observed, now);
    let without_controllers = match halt {
        Halt::Paused | Halt::Refused { .. } if observed.has_been_ready() => {
            controllers::report(&mut set, observed);
            controllers::missing(&set, observed)
        }
        Halt::Paused | Halt::Refused { .. } | Halt::Taken(_) => None,
    };
    set.set(
        ConditionType::Progressing,
        ConditionStatus::False,
        reason,
        &message,
    );
    let degraded = !matches!(halt, Halt::Paused);
    if degraded {
        let value = ConditionStatus::True;
        set.set(ConditionType::Degraded, value, reason, &message);
    }
    match &observed.tenant {
        _ if !observed.has_been_ready() && degraded => {
            let value = ConditionStatus::False;
            set.set(ConditionType::Ready, value, reason, &message);
        }
        _ if !observed.has_been_ready() => {}
        Tenant::Answers { way, .. } => match &without_controllers {
            Some(message) => set.answers_without(Reason::ControllersNotReady, message),
            None => set.answered(way),
        },
        Tenant::Silent { message } => set.unreachable(message),
        Tenant::NotAsked if settled => {
            let missing = "its Service or the operator's key is missing";
            set.unreachable(&status::not_asked(observed, missing));
        }
        Tenant::NotAsked | Tenant::Postponed => {}
    }
    if degraded {
        plan.events.push(Notice::warning(reason, message));
    }
    status::transitions(&mut plan, observed);
    plan.requeue_after = Some(status::requeue(observed, None, now));
    plan
}
