//! Plan of one Service: from one observation to the next step. No I/O, no clock, no chance.
//!
//! A life: finalizer → mirror → EndpointSlices → address back into the tenant's status. Its end:
//! status emptied → mirror and slices deleted and seen gone → finalizer off. A mirror whose Service
//! is not there any more is an orphan, and goes the same way, unless a restore keeps it: then it is said of it
//! that it is one.
//!
//! Invariant: nothing is waited for here: an address that has not been allocated is something that
//! a watch will tell, and so is a place for a Service that is over a limit. What a plan cannot map stays as
//! it last was, and people are told why. Endpoints need no more of a mirror than that it is there, so they
//! come before its changes, and nothing that is refused holds up what comes after it.

use api::Reason;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service};
use kit::events::Notice;
use serde_json::{Value, json};

use self::types::{Action, Observed, Plan};
use crate::cache::services::{DesiredLoadBalancer, desired_load_balancer};
use crate::limits::{Limits, Over};
use crate::names;
use crate::settings::{Endpoints, IpMode, Settings};

pub mod endpoint_slices;
pub mod families;
pub mod mirror;
pub mod types;
pub mod unsupported;

/// The next step for one Service.
#[must_use]
pub fn plan(observed: &Observed, settings: &Settings) -> Plan {
    let mut plan = life(observed, settings);
    let steps = plan.actions.len();
    plan.actions.retain(|action| !observed.leaves_out(action));
    if plan.actions.len() < steps {
        // They speak of what is done here, and not all of it is.
        plan.events.clear();
    }
    plan
}

fn life(observed: &Observed, settings: &Settings) -> Plan {
    let Some(service) = &observed.service else {
        return sweep(observed);
    };
    let mut plan = of_service(observed, service, settings);
    // Last: what is wrong with a load balancer is nothing that this waits for, or holds up.
    let deletes = |action: &Action| matches!(action, Action::DeleteMirror { .. });
    if !plan.actions.iter().any(deletes) {
        plan.actions.append(&mut answer(observed, false).actions);
    }
    plan
}

fn of_service(observed: &Observed, service: &Service, settings: &Settings) -> Plan {
    match desired_load_balancer(service, settings) {
        DesiredLoadBalancer::Ours => ensure(observed, service, settings),
        DesiredLoadBalancer::Theirs(class) => {
            // The finalizer on it may be theirs as well: only what is ours goes.
            let mut plan = clean_up(observed);
            let message = format!(
                "its load balancer is left to whoever implements the class {class:?}; leave \
                 spec.loadBalancerClass out to have it mirrored into the management cluster"
            );
            plan.complaints
                .push(Notice::normal(Reason::OtherClass, message));
            plan
        }
        DesiredLoadBalancer::Copied => {
            let mut plan = release(observed, service);
            let message = format!(
                "this tenant cluster is a copy, and the load balancer of this Service is the other one's; take its \
                 annotation {} off to have one made for it here",
                names::ANNOTATION_COPIED
            );
            plan.complaints
                .push(Notice::normal(Reason::CopiedLoadBalancer, message));
            plan
        }
        DesiredLoadBalancer::None => release(observed, service),
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
    let (ports, complaints) = unsupported::check(service, settings);
    let mirror = mirror::choose(observed, settings);
    let goes = |m: &Service| m.metadata.deletion_timestamp.is_some();
    let mut plan = Plan {
        complaints,
        ..Plan::default()
    };
    let over = observed.over.filter(|_| !ports.is_empty());
    if ports.is_empty() || over.is_some() {
        plan.waiting_on = Some(Reason::NotMappable);
        let live = mirror.filter(|m| !goes(m));
        if let Some(over) = over {
            plan.waiting_on = Some(Reason::TooManyLoadBalancers);
            let notice = over_limit(over, ports.len(), live.is_some(), &settings.limits);
            plan.complaints.push(notice);
        }
        if let Some(live) = live {
            let ports = mirror::ports_that_it_has(ports, live);
            endpoints(observed, service, &ports, live, settings, &mut plan);
        }
        return report(observed, service, mirror, settings, plan);
    }
    if !has_finalizer(service) {
        plan.events.push(Notice::normal(
            Reason::EnsuringLoadBalancer,
            "Ensuring load balancer",
        ));
        plan.actions.push(finalizers(service, |all| {
            all.push(names::FINALIZER.to_owned());
        }));
        return plan;
    }
    if mirror.is_some_and(goes) {
        // Somebody deleted it; a watch tells when it is gone, and another one is made.
        plan.waiting_on = Some(Reason::MirrorIsDeleted);
        return report(observed, service, None, settings, plan);
    }
    let desired = mirror::desired(service, &ports, mirror, observed, settings);
    let Some(live) = mirror else {
        plan.actions.push(Action::ApplyMirror(desired));
        // What follows needs its UID.
        return report(observed, service, None, settings, plan);
    };
    endpoints(observed, service, &ports, live, settings, &mut plan);
    change(observed, &ports, desired, live, &mut plan);
    drop_selector(live, settings, &mut plan);
    let spare = |m: &&std::sync::Arc<Service>| m.metadata.uid != live.metadata.uid;
    let spares = observed.mirrors.iter().filter(spare);
    plan.actions.extend(spares.filter_map(|m| delete_mirror(m)));
    report(observed, service, mirror, settings, plan)
}

/// Which limit a Service is over, and what to do.
fn over_limit(over: Over, ports: usize, has: bool, limits: &Limits) -> Notice {
    let all = match over {
        Over::Services => format!(
            "this tenant cluster has as many load balancers as it may have ({})",
            limits.services
        ),
        Over::Ports => format!(
            "with the {ports} ports of this Service the load balancers of this tenant cluster would have \
             more than the {} that they may have together",
            limits.ports
        ),
    };
    let (way, until) = match has {
        true => ("take ports off it", "keeps the ports that it has"),
        false => (
            "give it another type",
            "gets none, until there is a place again",
        ),
    };
    let message = format!(
        "{all}: delete a Service of type LoadBalancer, or {way}, or ask whoever runs the management \
         cluster for more; this one {until}"
    );
    Notice::warning(Reason::TooManyLoadBalancers, message)
}

/// Brings a mirror to what it should be.
fn change(
    observed: &Observed,
    ports: &[unsupported::Port],
    desired: Value,
    live: &Service,
    plan: &mut Plan,
) {
    match mirror::judge(&desired, live, observed.accepted.as_ref()) {
        mirror::Verdict::AsDesired => {}
        mirror::Verdict::Accepted(field) => {
            let message = format!(
                "{field} of the load balancer is not as this Service asks for: the management \
                 cluster gives something else there; change the Service to what it gives, or ask \
                 whoever runs it"
            );
            plan.complaints
                .push(Notice::warning(Reason::LoadBalancerDiffers, message));
        }
        mirror::Verdict::Apply => {
            plan.actions
                .extend(drop_ports(observed, ports, &desired, live));
            let apply = Action::ApplyMirror(desired);
            if !observed.leaves_out(&apply) {
                let message = "the load balancer follows a change";
                plan.events
                    .push(Notice::normal(Reason::UpdatedLoadBalancer, message));
                plan.actions.push(apply);
            }
        }
    }
}

/// Whether a selector chooses the endpoints of a mirror.
fn is_selected(mirror: &Service) -> bool {
    let selector = mirror.spec.as_ref().and_then(|s| s.selector.as_ref());
    selector.is_some_and(|s| !s.is_empty())
}

/// Takes off the selector that somebody else's mirror came with.
fn drop_selector(mirror: &Service, settings: &Settings, plan: &mut Plan) {
    if is_selected(mirror) && settings.endpoints == Endpoints::Slices {
        plan.actions
            .push(patch(mirror, &json!({ "selector": null })));
    }
}

/// Takes the ports off somebody else's mirror that are not wanted any more: he has a share in them, so an apply
/// that leaves them out gives up ours alone, and what is left of them has no name, which is refused.
fn drop_ports(
    observed: &Observed,
    ports: &[unsupported::Port],
    desired: &Value,
    live: &Service,
) -> Option<Action> {
    let is_foreign = live.metadata.name == Some(names::legacy_mirror(&observed.uid));
    let has = live.spec.as_ref()?.ports.as_ref()?.len();
    let is_left = mirror::ports_that_it_has(ports.to_vec(), live).len() < has;
    (is_foreign && is_left).then(|| patch(live, &json!({ "ports": desired["spec"]["ports"] })))
}

/// A merge into the spec of the mirror as it was seen.
fn patch(mirror: &Service, spec: &Value) -> Action {
    Action::PatchMirror {
        name: mirror.metadata.name.clone().unwrap_or_default(),
        patch: json!({
            "metadata": { "resourceVersion": mirror.metadata.resource_version },
            "spec": spec,
        }),
    }
}

/// Slices of the mirror, or none where a selector does their work.
fn endpoints(
    observed: &Observed,
    service: &Service,
    ports: &[unsupported::Port],
    mirror: &Service,
    settings: &Settings,
    plan: &mut Plan,
) {
    let by_selector = matches!(settings.endpoints, Endpoints::Selector(_));
    let name = mirror.metadata.name.as_deref().unwrap_or_default();
    let selected = is_selected(mirror);
    if by_selector && !selected {
        // Until a selector does their work, slices do.
        return;
    }
    let (desired, fewer) = match by_selector {
        true => (Vec::new(), false),
        false => endpoint_slices::desired(service, ports, mirror, observed, settings),
    };
    let none = !by_selector && desired.iter().all(|slice| !slice.has_ready());
    if none {
        let mut message = "There are no available nodes for LoadBalancer".to_owned();
        if observed.unmapped_nodes > 0 {
            message.push_str(&format!(
                ": {} of them are on machines outside of the management cluster (Hosts), to which it sends no \
                 traffic; add a node pool of virtual machines, by whose nodes pods elsewhere are reached too",
                observed.unmapped_nodes
            ));
        }
        plan.complaints
            .push(Notice::warning(Reason::UnAvailableLoadBalancer, message));
    }
    if fewer {
        let message = format!(
            "the load balancer leads to {} nodes, which is the most for one; with \
             externalTrafficPolicy: Cluster pods on all others get traffic by way of those",
            settings.limits.endpoints
        );
        plan.complaints
            .push(Notice::normal(Reason::FewerEndpoints, message));
    }
    endpoint_slices::difference(&desired, observed, name, selected, plan);
}

/// Brings the mirror's addresses into the tenant's status.
fn report(
    observed: &Observed,
    service: &Service,
    mirror: Option<&Service>,
    settings: &Settings,
    mut plan: Plan,
) -> Plan {
    let mut wanted = mirror.map(ingress).unwrap_or_default();
    if settings.ip_mode == IpMode::Proxy {
        // The API wants none beside a host name.
        for address in wanted.iter_mut().filter(|address| address.ip.is_some()) {
            address.ip_mode = Some("Proxy".to_owned());
        }
    }
    let has = ingress(service);
    if wanted != has {
        if !wanted.is_empty() {
            let (reason, message) = match has.is_empty() {
                true => (Reason::EnsuredLoadBalancer, "Ensured load balancer"),
                false => (
                    Reason::UpdatedLoadBalancer,
                    "the load balancer's address changed",
                ),
            };
            plan.events.push(Notice::normal(reason, message));
        }
        plan.actions.push(status(&observed.uid, &wanted));
    }
    if wanted.is_empty() && plan.waiting_on.is_none() && observed.service.is_some() {
        plan.waiting_on = Some(Reason::NoAddressYet);
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
                .push(Notice::normal(Reason::DeletingLoadBalancer, message));
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
            Reason::DeletedLoadBalancer,
            "Deleted load balancer",
        )],
        ..Plan::act(finalizers(service, |all| {
            all.retain(|f| f != names::FINALIZER);
        }))
    }
}

/// The end of what has no Service any more. A tenant cluster that was brought back to a moment knows nothing of Services
/// that came later: what became of them stays until somebody has looked, because an address that is given back is another
/// one afterwards.
fn sweep(observed: &Observed) -> Plan {
    match observed.mirrors.iter().any(|mirror| kept(mirror).is_some()) {
        true => answer(observed, true),
        false => clean_up(observed),
    }
}

/// The Restore that a mirror is kept for.
fn kept(mirror: &Service) -> Option<&String> {
    let annotations = mirror.metadata.annotations.as_ref()?;
    annotations.get(names::ANNOTATION_KEPT)
}

/// Says of mirrors that a restore keeps whether a Service is there for them. Only the mirror that was seen, so that what
/// is said for one restore is not taken for the next.
fn answer(observed: &Observed, is_orphan: bool) -> Plan {
    let answers = observed.mirrors.iter().filter_map(|mirror| {
        let answer = api::names::orphan_answer(kept(mirror)?, is_orphan);
        let annotations = mirror.metadata.annotations.as_ref()?;
        let is_said = annotations.get(names::ANNOTATION_ORPHAN) == Some(&answer);
        let is_going = mirror.metadata.deletion_timestamp.is_some();
        (!is_said && !is_going).then(|| Action::PatchMirror {
            name: mirror.metadata.name.clone().unwrap_or_default(),
            patch: json!({ "metadata": {
                "resourceVersion": mirror.metadata.resource_version,
                "annotations": { names::ANNOTATION_ORPHAN: answer },
            } }),
        })
    });
    Plan {
        actions: answers.collect(),
        ..Plan::default()
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
        plan.waiting_on = Some(Reason::MirrorIsDeleted);
        return plan;
    }
    let mut left: Vec<_> = observed
        .slices
        .iter()
        .filter(|s| s.ours && !s.deleting)
        .collect();
    left.sort_by(|a, b| a.name.cmp(&b.name));
    plan.actions = left.into_iter().map(endpoint_slices::delete).collect();
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
