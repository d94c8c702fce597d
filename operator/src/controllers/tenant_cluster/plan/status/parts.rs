//! Conditions of the parts of a control plane: etcd, the API's pods, the endpoint, certificates.
//!
//! Invariant: what is not known stays said as it was: a namespace that cannot be looked into has neither no
//! pods nor no address.

use api::{ConditionStatus, ConditionType, Reason};
use kit_objects::known::Known;
use tenant_cp::Validated;
use tenant_cp::names;

use super::super::types::{Part, Plan};
use super::super::{awaited, endpoint, etcd, pods};
use super::conditions::Conditions;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::restoring::begin;
use crate::status::reason_of;

/// None: as it was.
pub(super) fn certificates(
    plan: &Plan,
    observed: &Observed,
) -> Option<(ConditionStatus, Reason, String)> {
    let mut parts = plan.parts.iter();
    let part = parts.find(|part| part.name == PartName::Certificates);
    let waits = part.and_then(|part| part.waiting.as_ref());
    let problem = part.and_then(|part| part.problem.as_ref()).or(waits);
    let failure = observed.failures.get(&PartName::Certificates);
    match (problem, failure) {
        (Some(problem), _) => Some((
            ConditionStatus::False,
            problem.reason,
            problem.message.clone(),
        )),
        (None, Some(failure)) => Some((
            ConditionStatus::False,
            reason_of(failure.class),
            failure.message.clone(),
        )),
        (None, None) => {
            let authority = observed.find("Secret", &observed.tenant_namespace(), names::CA);
            if part.is_none() && authority.is_unknown() {
                return None;
            }
            Some(match part.is_some_and(Part::is_settled) {
                true => (ConditionStatus::True, Reason::Issued, String::new()),
                false => (ConditionStatus::False, Reason::Issuing, String::new()),
            })
        }
    }
}

pub(super) fn report(set: &mut Conditions<'_>, valid: &Validated, observed: &Observed) {
    let ns = &valid.tenant_namespace;
    let ready = |kind: &str, name: &str| {
        let ready = observed.number(kind, ns, name, "/status/readyReplicas");
        ready.or_absent(0)
    };
    if let Some(ready) = ready("StatefulSet", names::ETCD) {
        members(set, i64::from(valid.etcd.replicas), ready, observed);
    }
    if let Some(ready) = ready("Deployment", names::CONTROL_PLANE) {
        control_plane(set, i64::from(valid.replicas), ready, observed);
    }
    match endpoint::published(valid, observed) {
        Known::Known(_) => address(set, valid, true),
        Known::Absent => address(set, valid, false),
        Known::Unknown { .. } => {}
    }
    let done = set.status.bootstrap_hash.is_some();
    let reason = match done {
        true => Reason::InPlace,
        false => Reason::WaitingForApi,
    };
    set.set(ConditionType::BootstrapReady, done.into(), reason, "");
}

fn members(set: &mut Conditions<'_>, wanted: i64, ready: i64, observed: &Observed) {
    let message = format!("{ready} of {wanted} members are ready");
    let alarm = etcd::alarm(observed);
    let works = ready >= wanted && alarm.is_none();
    let (reason, message) = match (alarm, pods::failure(observed, names::ETCD)) {
        (Some(alarm), _) => (alarm.reason, alarm.message),
        _ if begin::awaits(&observed.cluster) => {
            let waits = awaited::waiting(observed);
            (waits.reason, waits.message)
        }
        _ if ready >= wanted => (Reason::MembersReady, message),
        (None, Some(failure)) => (failure.reason, format!("{message}; {}", failure.message)),
        (None, None) => (Reason::MembersNotReady, message),
    };
    set.set(ConditionType::EtcdReady, works.into(), reason, &message);
}

fn control_plane(set: &mut Conditions<'_>, wanted: i64, ready: i64, observed: &Observed) {
    let message = format!("{ready} of {wanted} pods are ready");
    let (reason, message) = match pods::failure(observed, names::CONTROL_PLANE) {
        _ if ready >= wanted => (Reason::PodsReady, message),
        Some(failure) => (failure.reason, format!("{message}; {}", failure.message)),
        None => (Reason::PodsNotReady, message),
    };
    let type_ = ConditionType::ControlPlaneReady;
    set.set(type_, (ready >= wanted).into(), reason, &message);
}

fn address(set: &mut Conditions<'_>, valid: &Validated, published: bool) {
    let ns = &valid.tenant_namespace;
    let (reason, message) = match (published, &set.status.endpoint) {
        (true, _) => (Reason::HasAddress, String::new()),
        (false, None) => (
            Reason::WaitingForAddress,
            format!(
                "the Service {ns}/control-plane has no address yet; a load balancer of the management \
                 cluster has to give it one"
            ),
        ),
        (false, Some(last)) => (
            Reason::AddressLost,
            format!(
                "the Service {ns}/control-plane has no address any more; it was {}, which stays in \
                 certificates and kubeconfigs until a load balancer of the management cluster gives it \
                 one",
                last.host
            ),
        ),
    };
    let type_ = ConditionType::EndpointReady;
    set.set(type_, published.into(), reason, &message);
}
