//! The status that follows from an observation, and the plans that only change the status.
//!
//! Invariant: Ready is True only when the tenant's API answered an authenticated request in this
//! very reconcile; it is never replica arithmetic.

use std::time::Duration;

use api::condition::is_true;
use api::{ConditionStatus, ConditionType, TenantClusterStatus, set_condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kit::events::Notice;
use tenant_cp::validate::Problem;
use tenant_cp::{Validated, certificates};

use super::{Plan, addresses, has_been_ready, sentences, unchanged};
use crate::controllers::tenant_cluster::observed::{Observed, Tenant};
use crate::status::Waiting;

/// Longest time between two reconciles of a tenant cluster where nothing happens.
pub const SLOW_SWEEP: Duration = Duration::from_secs(10 * 3600);
/// Longest time between two lists of the objects inside a tenant cluster: a little less, so that the
/// slow sweep lists them too.
pub const LIST_SWEEP: Duration = Duration::from_secs(9 * 3600);
const BREAKER_PAUSE: Duration = Duration::from_secs(30);

/// The cloud controller manager was switched off, and holds back what is to be done inside.
pub(super) const REMOVING_CLOUD_CONTROLLER: &str = "RemovingCloudController";
/// Pause between two looks at load balancers that go: nobody is woken by them.
const REMOVING_PAUSE: Duration = Duration::from_secs(5);

mod addons;

/// Sets one condition of the status.
struct Conditions<'a> {
    status: &'a mut TenantClusterStatus,
    generation: Option<i64>,
    now: Timestamp,
}

impl Conditions<'_> {
    fn set(&mut self, type_: ConditionType, value: ConditionStatus, reason: &str, message: &str) {
        let now = Time(self.now);
        let list = &mut self.status.conditions;
        set_condition(list, type_, value, reason, message, self.generation, now);
    }

    /// From silence to broken addons Ready stays False, and is a transition all the same: its time says
    /// since when the API answers.
    fn answers_again(&mut self) {
        let silent =
            |c: &Condition| c.type_ == ConditionType::Ready.as_str() && c.status == "False";
        let list = &mut self.status.conditions;
        list.retain(|c| !silent(c) || c.reason == TenantClusterStatus::ADDONS_NOT_READY);
    }

    fn remove(&mut self, type_: ConditionType) {
        api::remove_condition(&mut self.status.conditions, type_);
    }
}

fn conditions<'a>(plan: &'a mut Plan, observed: &Observed, now: Timestamp) -> Conditions<'a> {
    let generation = observed.cluster.metadata.generation;
    plan.status.observed_generation = generation;
    Conditions {
        status: &mut plan.status,
        generation,
        now,
    }
}

/// Fills in everything that follows from the observation.
pub(super) fn report(
    mut plan: Plan,
    valid: &Validated,
    observed: &Observed,
    now: Timestamp,
) -> Plan {
    let was_ready = is_true(&plan.status.conditions, ConditionType::Ready);
    facts(&mut plan, valid, observed);
    let addons = addons::states(valid, observed);
    let settled = plan.is_settled();
    let lost = !plan.lost.is_empty();
    let waiting = waiting(&plan, valid, observed);
    let mut set = conditions(&mut plan, observed, now);
    parts(&mut set, valid, observed);
    addons::report(&mut set, &addons);
    // With lost keys both are set by `authority_lost`; set here too they would change twice.
    if !lost {
        let reason = if settled { "Issued" } else { "Issuing" };
        set.set(ConditionType::CertificatesReady, settled.into(), reason, "");
        set.set(
            ConditionType::Degraded,
            ConditionStatus::False,
            "AsExpected",
            "",
        );
    }
    let progressing = !settled || waiting.is_some();
    let (reason, message) = match &waiting {
        Some(waiting) => (waiting.reason, waiting.message.as_str()),
        None if progressing => ("Applying", "writes what differs from the wanted state"),
        None => ("AsDesired", ""),
    };
    set.set(
        ConditionType::Progressing,
        progressing.into(),
        reason,
        message,
    );
    match &observed.tenant {
        Tenant::Answers { .. } => match addons::missing(&addons) {
            Some(message) => {
                set.answers_again();
                set.set(
                    ConditionType::Ready,
                    ConditionStatus::False,
                    TenantClusterStatus::ADDONS_NOT_READY,
                    &message,
                );
            }
            None => set.set(
                ConditionType::Ready,
                ConditionStatus::True,
                "Answering",
                "the API answered an authenticated request",
            ),
        },
        Tenant::Silent { message } => {
            let reason = if was_ready || has_been_ready(observed) {
                "ApiUnreachable"
            } else {
                reason
            };
            set.set(
                ConditionType::Ready,
                ConditionStatus::False,
                reason,
                message,
            );
        }
        Tenant::NotAsked if was_ready => {}
        Tenant::NotAsked => {
            set.set(
                ConditionType::Ready,
                ConditionStatus::False,
                reason,
                message,
            );
        }
    }
    authority_lost(&mut plan, valid, observed, now);
    transitions(&mut plan, observed, was_ready);
    plan.requeue_after = Some(requeue(observed, waiting.as_ref(), now));
    plan.waiting_on = waiting;
    plan
}

fn facts(plan: &mut Plan, valid: &Validated, observed: &Observed) {
    let ns = &valid.tenant_namespace;
    let status = &mut plan.status;
    if observed.object("Namespace", "", ns).is_some() {
        status.namespace = Some(ns.clone());
    }
    let secret = api::names::kubeconfig_secret(&valid.name);
    let there = observed
        .object("Secret", &valid.namespace, &secret)
        .is_some();
    status.kubeconfig_secret = there.then_some(secret);
    status.certificates = certificates::status(&observed.material.store);
    let service = observed.object("Service", ns, "control-plane");
    status.endpoint = service
        .and_then(|s| addresses(valid, s))
        .and_then(|a| a.endpoint);
    if let Some(hash) = &plan.in_place {
        status.bootstrap_hash = Some(hash.clone());
    }
    if let Tenant::Answers { version, .. } = &observed.tenant {
        // While old pods still serve, the old version stays: it is never reported early. The first
        // answer of all comes from the only version there is.
        if status.version.is_none() || rolled_out(valid, observed) {
            status.version = Some(version.clone());
        }
    }
}

/// Every pod of the Deployment is of the newest template and ready, and none is left over.
pub(super) fn rolled_out(valid: &Validated, observed: &Observed) -> bool {
    let number = |pointer: &str| {
        observed.number(
            "Deployment",
            &valid.tenant_namespace,
            "control-plane",
            pointer,
        )
    };
    let replicas = i64::from(valid.replicas);
    number("/status/observedGeneration") >= number("/metadata/generation")
        && number("/status/updatedReplicas") == replicas
        && number("/status/replicas") == replicas
        && number("/status/readyReplicas") == replicas
}

fn parts(set: &mut Conditions<'_>, valid: &Validated, observed: &Observed) {
    let ns = &valid.tenant_namespace;
    let ready = observed.number("StatefulSet", ns, "etcd", "/status/readyReplicas");
    let wanted = i64::from(valid.etcd.replicas);
    let message = format!("{ready} of {wanted} members are ready");
    let reason = if ready >= wanted {
        "MembersReady"
    } else {
        "MembersNotReady"
    };
    set.set(
        ConditionType::EtcdReady,
        (ready >= wanted).into(),
        reason,
        &message,
    );

    let ready = observed.number("Deployment", ns, "control-plane", "/status/readyReplicas");
    let wanted = i64::from(valid.replicas);
    let message = format!("{ready} of {wanted} pods are ready");
    let reason = if ready >= wanted {
        "PodsReady"
    } else {
        "PodsNotReady"
    };
    set.set(
        ConditionType::ControlPlaneReady,
        (ready >= wanted).into(),
        reason,
        &message,
    );

    let endpoint = set.status.endpoint.is_some();
    let (reason, message) = match endpoint {
        true => ("HasAddress", String::new()),
        false => (
            "WaitingForAddress",
            format!(
                "the Service {ns}/control-plane has no address yet; a load balancer of the management \
             cluster has to give it one"
            ),
        ),
    };
    set.set(
        ConditionType::EndpointReady,
        endpoint.into(),
        reason,
        &message,
    );
    let done = set.status.bootstrap_hash.is_some();
    let reason = if done { "InPlace" } else { "WaitingForApi" };
    set.set(ConditionType::BootstrapReady, done.into(), reason, "");
}

fn waiting(plan: &Plan, valid: &Validated, observed: &Observed) -> Option<Waiting> {
    if plan.waiting_on.is_some() {
        return plan.waiting_on.clone();
    }
    if let Tenant::Silent { message } = &observed.tenant {
        let (reason, message) = match has_been_ready(observed) {
            true => ("ApiUnreachable", message.clone()),
            false => (
                "Starting",
                format!("the API does not answer yet: {message}"),
            ),
        };
        return Some(Waiting { reason, message });
    }
    if matches!(observed.tenant, Tenant::Answers { .. }) && !rolled_out(valid, observed) {
        let message = "pods of an older template still serve, or new ones are not ready yet";
        return Some(Waiting {
            reason: "RollingOut",
            message: message.to_owned(),
        });
    }
    None
}

fn transitions(plan: &mut Plan, observed: &Observed, was_ready: bool) {
    let is_ready = is_true(&plan.status.conditions, ConditionType::Ready);
    match &observed.tenant {
        Tenant::Answers { version, .. } if is_ready && !was_ready => {
            let message = format!("the API answers and serves Kubernetes {version}");
            plan.events.push(Notice::normal("Ready", message));
        }
        Tenant::Silent { message } if was_ready => {
            plan.events.push(Notice::warning("ApiUnreachable", message));
        }
        _ => {}
    }
}

/// Without an event: soon while the API is silent, otherwise before a certificate is due.
fn requeue(observed: &Observed, waiting: Option<&Waiting>, now: Timestamp) -> Duration {
    match waiting.map(|w| w.reason) {
        Some("Starting") => return Duration::from_secs(1),
        Some("ApiUnreachable") => return BREAKER_PAUSE,
        Some("WaitingForStart") => return crate::rollouts::queue::PATIENCE,
        Some(REMOVING_CLOUD_CONTROLLER) => return REMOVING_PAUSE,
        _ => {}
    }
    let ends = observed
        .material
        .store
        .values()
        .filter_map(|pair| pki::not_after(&pair.certificate));
    let left = ends.min().map_or(SLOW_SWEEP, |end| {
        // Half of what is left: the check after the last one before a third is left renews.
        Duration::try_from(end.duration_since(now) / 2).unwrap_or_default()
    });
    left.clamp(Duration::from_secs(30), SLOW_SWEEP)
}

pub(super) fn paused(observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = unchanged(observed);
    let message = "spec.paused is true; set it to false to go on";
    let mut set = conditions(&mut plan, observed, now);
    set.set(
        ConditionType::Progressing,
        ConditionStatus::False,
        "Paused",
        message,
    );
    plan
}

/// The spec cannot be built; what runs keeps running as it is.
pub(super) fn refused(observed: &Observed, problems: &[Problem], now: Timestamp) -> Plan {
    let mut plan = unchanged(observed);
    let reason = problems.first().map_or("InvalidSpec", |p| p.reason);
    let message = sentences(problems);
    let running = has_been_ready(observed);
    let mut set = conditions(&mut plan, observed, now);
    set.set(
        ConditionType::Degraded,
        ConditionStatus::True,
        reason,
        &message,
    );
    set.set(
        ConditionType::Progressing,
        ConditionStatus::False,
        reason,
        &message,
    );
    if !running {
        set.set(
            ConditionType::Ready,
            ConditionStatus::False,
            reason,
            &message,
        );
    }
    plan.events.push(Notice::warning(reason, message));
    plan
}

/// Keys are lost that must not be made anew: said, while everything else goes on.
fn authority_lost(plan: &mut Plan, valid: &Validated, observed: &Observed, now: Timestamp) {
    if plan.lost.is_empty() {
        return;
    }
    let what: Vec<_> = plan
        .lost
        .iter()
        .map(|p| format!("Secret {} ({:?})", p.secret, p.reason))
        .collect();
    let message = format!(
        "{} in namespace {} cannot be rebuilt; restore it from a backup, because a new one would \
         change the identity of the tenant cluster",
        what.join(", "),
        valid.tenant_namespace
    );
    let reason = "CertificateAuthorityLost";
    let mut set = conditions(plan, observed, now);
    set.set(
        ConditionType::CertificatesReady,
        ConditionStatus::False,
        reason,
        &message,
    );
    set.set(
        ConditionType::Degraded,
        ConditionStatus::True,
        reason,
        &message,
    );
    plan.events.push(Notice::warning(reason, message));
}

/// The tenant namespace is being deleted although the TenantCluster is not.
pub(super) fn namespace_lost(valid: &Validated, observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = unchanged(observed);
    let message = format!(
        "the tenant namespace {} is being deleted by somebody; everything in it, the data of etcd \
         included, goes with it, and a new and empty tenant cluster is made afterwards",
        valid.tenant_namespace
    );
    let reason = "NamespaceDeleted";
    let mut set = conditions(&mut plan, observed, now);
    set.set(
        ConditionType::Ready,
        ConditionStatus::False,
        reason,
        &message,
    );
    set.set(
        ConditionType::Degraded,
        ConditionStatus::True,
        reason,
        &message,
    );
    plan.status.bootstrap_hash = None;
    plan.status.version = None;
    plan.events.push(Notice::warning(reason, &message));
    plan.waiting_on = Some(Waiting { reason, message });
    plan
}

pub(super) fn deleting(mut plan: Plan, observed: &Observed, now: Timestamp) -> Plan {
    let waiting = plan.waiting_on.clone();
    let message = waiting.map(|w| w.message).unwrap_or_default();
    let mut set = conditions(&mut plan, observed, now);
    set.set(
        ConditionType::Ready,
        ConditionStatus::False,
        "Deleting",
        &message,
    );
    set.set(
        ConditionType::Progressing,
        ConditionStatus::True,
        "Deleting",
        &message,
    );
    plan.requeue_after = Some(BREAKER_PAUSE);
    plan
}
