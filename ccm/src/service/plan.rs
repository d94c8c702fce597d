//! Turns one observation of one Service into the next step. No I/O, no clock, no chance.
//!
//! A life: finalizer → mirror → EndpointSlices → address back into the tenant's status. Its end:
//! status emptied → mirror and slices deleted and seen gone → finalizer off. A mirror whose Service
//! is not there any more is an orphan, and goes the same way.
//!
//! Invariant: nothing is waited for here: an address that has not been allocated is something that
//! a watch will tell. What a plan cannot map stays as it last was, and people are told why.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service};
use serde_json::{Value, json};

use crate::names;
use crate::settings::{Endpoints, Settings};
use kit::events::Notice;

pub mod mirror;
pub mod refusal;
pub mod slices;

pub use slices::{Family, Presence, Slice, Target};

/// Everything that a plan depends on.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// UID of the tenant's Service.
    pub uid: String,
    /// The tenant's Service; none when it is gone, or never was of concern.
    pub service: Option<Arc<Service>>,
    /// What is in the tenant namespace for it: one, as a rule.
    pub mirrors: Vec<Arc<Service>>,
    /// EndpointSlices in the tenant namespace that belong to one of those, or carry the UID.
    pub slices: Vec<Slice>,
    /// The API, asked for it by name, said that there is no mirror.
    pub certain: bool,
    /// The machines that traffic may be sent to.
    pub targets: Arc<Vec<Target>>,
    /// Nodes with endpoints of the tenant's Service.
    pub local: BTreeMap<Arc<str>, Presence>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ask the management API for the mirror, by name.
    MakeSure,
    /// Merge this into the tenant's Service, if it is still at the resource version in it.
    PatchService(Value),
    /// Merge this into the status of the tenant's Service.
    PatchStatus(Value),
    /// Apply the mirror.
    ApplyMirror(Value),
    /// Take the selector off a mirror that somebody else made: a merge patch.
    DropSelector {
        /// Its name.
        name: String,
        /// The patch, with the resource version.
        patch: Value,
    },
    /// Delete a mirror.
    DeleteMirror {
        /// Its name.
        name: String,
        /// Only this one.
        uid: String,
    },
    /// Apply an EndpointSlice.
    ApplySlice(Value),
    /// Delete an EndpointSlice.
    DeleteSlice {
        /// Its name.
        name: String,
        /// Only this one.
        uid: String,
    },
}

/// The next step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What is to be done, one after the other.
    pub actions: Vec<Action>,
    /// Events to publish once that is done.
    pub events: Vec<Notice>,
    /// What is wrong with the Service: told once for as long as it does not change.
    pub complaints: Vec<Notice>,
    /// What keeps it from having an address, or being gone; waiting is not an error.
    pub waiting_on: Option<&'static str>,
}

impl Plan {
    fn act(action: Action) -> Self {
        Self {
            actions: vec![action],
            ..Self::default()
        }
    }
}

/// What a Service is to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It wants a load balancer of ours.
    Ours,
    /// It wants one of another class.
    Theirs(String),
    /// It wants none, or none any more.
    None,
}

/// What the Service asks for.
#[must_use]
pub fn wish(service: &Service, settings: &Settings) -> Wish {
    let Some(spec) = &service.spec else {
        return Wish::None;
    };
    if spec.type_.as_deref() != Some("LoadBalancer") {
        return Wish::None;
    }
    match spec.load_balancer_class.as_deref() {
        Some(class) if !settings.classes.contains(class) => Wish::Theirs(class.to_owned()),
        _ if service.metadata.deletion_timestamp.is_some() => Wish::None,
        _ => Wish::Ours,
    }
}

/// The next step for one Service.
#[must_use]
pub fn plan(observed: &Observed, settings: &Settings) -> Plan {
    let Some(service) = &observed.service else {
        return clean_up(observed);
    };
    match wish(service, settings) {
        Wish::Ours => ensure(observed, service, settings),
        Wish::Theirs(class) => {
            // The finalizer on it may be theirs as well: only what is ours goes.
            let mut plan = clean_up(observed);
            let message = format!(
                "its load balancer is left to whoever implements the class {class:?}; leave \
                 spec.loadBalancerClass out to have it mirrored into the management cluster"
            );
            plan.complaints.push(Notice::normal("OtherClass", message));
            plan
        }
        Wish::None => release(observed, service),
    }
}

fn has_finalizer(service: &Service) -> bool {
    let finalizers = service.metadata.finalizers.iter().flatten();
    finalizers.into_iter().any(|f| f == names::FINALIZER)
}

/// The tenant's Service with other finalizers, at the resource version that was seen.
fn finalizers(service: &Service, change: impl FnOnce(&mut Vec<String>)) -> Action {
    let mut finalizers = service.metadata.finalizers.clone().unwrap_or_default();
    change(&mut finalizers);
    Action::PatchService(json!({ "metadata": {
        "resourceVersion": service.metadata.resource_version,
        "finalizers": finalizers,
    } }))
}

fn ensure(observed: &Observed, service: &Service, settings: &Settings) -> Plan {
    let (ports, complaints) = refusal::check(service, settings);
    let mirror = mirror::choose(observed, settings);
    if ports.is_empty() {
        return Plan {
            complaints,
            waiting_on: Some("NotMappable"),
            ..report(observed, service, mirror, Plan::default())
        };
    }
    if !has_finalizer(service) {
        return Plan {
            events: vec![Notice::normal(
                "EnsuringLoadBalancer",
                "Ensuring load balancer",
            )],
            complaints,
            ..Plan::act(finalizers(service, |all| {
                all.push(names::FINALIZER.to_owned());
            }))
        };
    }
    let mut plan = Plan {
        complaints,
        ..Plan::default()
    };
    if mirror.is_some_and(|m| m.metadata.deletion_timestamp.is_some()) {
        // Somebody deleted it; a watch tells when it is gone, and another one is made.
        plan.waiting_on = Some("MirrorIsDeleted");
        return report(observed, service, None, plan);
    }
    let desired = mirror::desired(service, &ports, mirror, observed, settings);
    match mirror {
        Some(live) if mirror::is_as_desired(&desired, live) => {}
        Some(_) => {
            let message = "the load balancer follows a change";
            plan.events
                .push(Notice::normal("UpdatedLoadBalancer", message));
            plan.actions.push(Action::ApplyMirror(desired));
        }
        None => {
            plan.actions.push(Action::ApplyMirror(desired));
            // What follows needs its UID.
            return report(observed, service, mirror, plan);
        }
    }
    if let Some(live) = mirror {
        endpoints(observed, service, &ports, live, settings, &mut plan);
        for spare in observed
            .mirrors
            .iter()
            .filter(|m| m.metadata.uid != live.metadata.uid)
        {
            plan.actions.extend(delete_mirror(spare));
        }
    }
    report(observed, service, mirror, plan)
}

/// Slices of the mirror, or none where a selector does their work.
fn endpoints(
    observed: &Observed,
    service: &Service,
    ports: &[refusal::Port],
    mirror: &Service,
    settings: &Settings,
    plan: &mut Plan,
) {
    let by_selector = matches!(settings.endpoints, Endpoints::Selector(_));
    let name = mirror.metadata.name.as_deref().unwrap_or_default();
    let selected = mirror
        .spec
        .as_ref()
        .and_then(|s| s.selector.as_ref())
        .is_some_and(|s| !s.is_empty());
    if selected && !by_selector {
        plan.actions.push(Action::DropSelector {
            name: name.to_owned(),
            patch: json!({
                "metadata": { "resourceVersion": mirror.metadata.resource_version },
                "spec": { "selector": null },
            }),
        });
    }
    let desired = match by_selector {
        true => Vec::new(),
        false => slices::desired(service, ports, mirror, observed, settings),
    };
    let none = !by_selector && desired.iter().all(|slice| !slice.has_ready());
    if none {
        plan.complaints.push(Notice::warning(
            "UnAvailableLoadBalancer",
            "There are no available nodes for LoadBalancer",
        ));
    }
    slices::difference(&desired, observed, name, selected, plan);
}

/// Brings the mirror's addresses into the tenant's status.
fn report(
    observed: &Observed,
    service: &Service,
    mirror: Option<&Service>,
    mut plan: Plan,
) -> Plan {
    let wanted = mirror.map(ingress).unwrap_or_default();
    let has = ingress(service);
    if wanted != has {
        if !wanted.is_empty() {
            let (reason, message) = match has.is_empty() {
                true => ("EnsuredLoadBalancer", "Ensured load balancer"),
                false => ("UpdatedLoadBalancer", "the load balancer's address changed"),
            };
            plan.events.push(Notice::normal(reason, message));
        }
        plan.actions.push(status(&observed.uid, &wanted));
    }
    if wanted.is_empty() && plan.waiting_on.is_none() && observed.service.is_some() {
        plan.waiting_on = Some("NoAddressYet");
    }
    plan
}

fn ingress(service: &Service) -> Vec<LoadBalancerIngress> {
    let status = service.status.as_ref();
    let balancer = status.and_then(|s| s.load_balancer.as_ref());
    balancer.and_then(|b| b.ingress.clone()).unwrap_or_default()
}

/// The UID makes the API refuse it for another Service of the same name.
fn status(uid: &str, ingress: &[LoadBalancerIngress]) -> Action {
    let ingress = match ingress.is_empty() {
        true => Value::Null,
        false => json!(ingress),
    };
    Action::PatchStatus(json!({
        "metadata": { "uid": uid },
        "status": { "loadBalancer": { "ingress": ingress } },
    }))
}

/// The end of a Service that has a load balancer of ours, or had one.
fn release(observed: &Observed, service: &Service) -> Plan {
    let mut plan = clean_up(observed);
    if !has_finalizer(service) {
        return plan;
    }
    if !plan.actions.is_empty() || plan.waiting_on.is_some() {
        if !plan.actions.is_empty() {
            let message = "Deleting load balancer";
            plan.events
                .push(Notice::normal("DeletingLoadBalancer", message));
        }
        if !ingress(service).is_empty() {
            plan.actions.insert(0, status(&observed.uid, &[]));
        }
        return plan;
    }
    if !ingress(service).is_empty() {
        return Plan::act(status(&observed.uid, &[]));
    }
    if !observed.certain {
        return Plan::act(Action::MakeSure);
    }
    Plan {
        events: vec![Notice::normal(
            "DeletedLoadBalancer",
            "Deleted load balancer",
        )],
        ..Plan::act(finalizers(service, |all| {
            all.retain(|f| f != names::FINALIZER);
        }))
    }
}

/// Deletes mirrors, and their slices once those are gone.
fn clean_up(observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    if !observed.mirrors.is_empty() {
        let mut mirrors: Vec<_> = observed.mirrors.iter().collect();
        mirrors.sort_by_key(|m| m.metadata.name.clone());
        plan.actions = mirrors
            .into_iter()
            .filter_map(|m| delete_mirror(m))
            .collect();
        // Whoever allocated the address may hold it until that is given back.
        plan.waiting_on = Some("MirrorIsDeleted");
        return plan;
    }
    let mut left: Vec<_> = observed
        .slices
        .iter()
        .filter(|s| s.ours && !s.deleting)
        .collect();
    left.sort_by(|a, b| a.name.cmp(&b.name));
    plan.actions = left.into_iter().map(Slice::delete).collect();
    plan
}

fn delete_mirror(mirror: &Service) -> Option<Action> {
    let meta = &mirror.metadata;
    meta.deletion_timestamp
        .is_none()
        .then(|| Action::DeleteMirror {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
        })
}
