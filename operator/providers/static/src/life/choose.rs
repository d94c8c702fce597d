//! Which Host a Machine takes, and how its claim is written.
//!
//! Invariant: only a Host that is proven clean, by a status that speaks of its spec as it is, is taken, or one whose
//! node is the very one that the Machine is made to take over; the claim
//! is one write that is guarded by the Host's resourceVersion.

use std::borrow::Borrow;
use std::net::IpAddr;

use api::condition::is_true;
use api::host::{HostClaim, HostPhase, HostStatus};
use api::node_pool::HostSelector;
use api::{ConditionStatus, ConditionType, Host, Machine, Reason, names, set_condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::observed::Twin;
use super::{adoption, identity};
use crate::programs::Archives;

/// Whether a Host may be taken by anybody.
#[must_use]
pub fn is_free(host: &Host) -> bool {
    let Some(status) = &host.status else {
        return false;
    };
    let conditions = [
        ConditionType::Reachable,
        ConditionType::Verified,
        ConditionType::Clean,
    ];
    status.phase == Some(HostPhase::Available)
        && status.claim.is_none()
        && status.observed_generation == host.metadata.generation
        && conditions
            .into_iter()
            .all(|condition| is_true(&status.conditions, condition))
        && !host.spec.maintenance
        && host.metadata.deletion_timestamp.is_none()
        && host
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == names::FINALIZER_HOST)
}

/// Whether a Host has all labels that a node pool asks for.
#[must_use]
pub fn has_labels(selector: &HostSelector, host: &Host) -> bool {
    let mut wanted = selector.match_labels.iter();
    wanted.all(|(key, value)| host.spec.labels.get(key) == Some(value))
}

/// Whether a Host is what a node pool asks for, and its kubelet is of this version (`1.35.4`), or one that is can be sent
/// there; one that was not seen yet is not.
#[must_use]
pub fn matches(
    selector: &HostSelector,
    (version, programs): (&str, &Archives),
    host: &Host,
) -> bool {
    let HostSelector {
        match_labels,
        architecture,
        cpu,
        memory,
    } = selector;
    let status = host.status.as_ref();
    let Some(facts) = status.and_then(|status| status.facts.as_ref()) else {
        return false;
    };
    let has_labels = match_labels
        .iter()
        .all(|(key, value)| host.spec.labels.get(key) == Some(value));
    let bytes = |text: &str| kit_objects::quantity::billionths(text);
    // An amount that cannot be read is never enough.
    let has_memory = memory.as_ref().is_none_or(|least| {
        let (has, least) = (bytes(&facts.memory.0), bytes(&least.0));
        has.zip(least).is_some_and(|(has, least)| has >= least)
    });
    has_labels
        && (facts.kubelet.as_deref() == Some(version) || programs.for_host(version, host).is_some())
        && architecture.is_none_or(|wanted| facts.architecture == wanted.as_str())
        && cpu.is_none_or(|least| facts.cpu >= i64::from(least))
        && has_memory
}

/// The Host that a Machine takes of those of its namespace: the one that was unused longest, then by name. One that
/// the Machine has already comes first, so that a claim whose answer was lost is found again.
#[must_use]
pub fn choose<'a, H: Borrow<Host>>(
    hosts: &'a [H],
    (selector, programs): (&HostSelector, &Archives),
    machine: &Machine,
) -> Option<&'a Host> {
    let all = || hosts.iter().map(Borrow::borrow);
    let uid = machine.uid().unwrap_or_default();
    if let Some(own) = all().find(|host| is_of(host, &uid)) {
        return Some(own);
    }
    // Nobody else's node, and no machine that would have to become one.
    if machine.adopts().is_some() {
        let mut found = all().filter(|host| adoption::is_for(machine, host));
        return found.find(|host| same_address(hosts, host, machine).is_none());
    }
    let twins: Vec<Twin> = all().filter_map(Twin::of).collect();
    let is_listed_once = |host: &&Host| {
        Twin::of(host).is_some_and(|this| identity::duplicate(&this, &twins).is_none())
    };
    let since = |host: &Host| {
        let status = host.status.as_ref();
        status.and_then(|status| status.available_since.clone())
    };
    all()
        .filter(|host| is_free(host) && matches(selector, (&machine.spec.version, programs), host))
        .filter(is_listed_once)
        .filter(|host| node_address(host, machine).is_some())
        .filter(|host| same_address(hosts, host, machine).is_none())
        .min_by_key(|host| (since(host).map(|time| time.0), host.name_any()))
}

/// By which address the tenant cluster is to know the node of a Machine on this Host, and whether that is the one in its
/// overlay: only there two sites may have the same range. A node that is taken over keeps the address that it has.
#[must_use]
pub fn node_address(host: &Host, machine: &Machine) -> Option<(IpAddr, bool)> {
    let member = machine.status.as_ref().and_then(|s| s.overlay.as_ref());
    let given = member.map(|member| member.address.parse::<IpAddr>().ok());
    if machine.adopts().is_some() {
        let own = host.spec.node_address()?;
        return Some((own, given == Some(Some(own))));
    }
    match given {
        // One that cannot be read is no reason to take another one.
        Some(given) => Some((given?, true)),
        None => Some((host.spec.node_address()?, false)),
    }
}

/// The Host whose node has the address already that a node on this one would have, in the Machine's tenant cluster. Logs
/// and commands go through the agent of the node that has an address, so of two that had the same one would get what is
/// the other's.
#[must_use]
pub fn same_address<'a, H: Borrow<Host>>(
    hosts: &'a [H],
    host: &Host,
    machine: &Machine,
) -> Option<&'a Host> {
    let (address, _) = node_address(host, machine)?;
    let is_node = |other: &&Host| {
        let claim = other.status.as_ref().and_then(|s| s.claim.as_ref());
        claim.is_some_and(|claim| claim.tenant_cluster_uid == machine.spec.cluster_uid)
    };
    let others = hosts.iter().map(Borrow::borrow).filter(is_node);
    let mut others = others.filter(|other| other.uid() != host.uid());
    others.find(|other| other.node_address() == Some(address))
}

/// Whether a Machine has it.
#[must_use]
pub fn is_of(host: &Host, machine_uid: &str) -> bool {
    let status = host.status.as_ref();
    let claim = status.and_then(|status| status.claim.as_ref());
    claim.is_some_and(|claim| claim.machine_uid == machine_uid)
}

/// The status with the claim of a Machine. None where the Host is not free, and not the Machine's. It has to be
/// written with the resourceVersion of `host`: of two that claim at once the second is refused, and looks again.
#[must_use]
pub fn claim(host: &Host, machine: &Machine, now: Timestamp) -> Option<HostStatus> {
    let uid = machine.uid()?;
    if is_of(host, &uid) {
        return host.status.clone();
    }
    let is_allowed = match machine.adopts() {
        Some(_) => adoption::is_for(machine, host),
        None => is_free(host),
    };
    if !is_allowed {
        return None;
    }
    let (address, in_overlay) = node_address(host, machine).unzip();
    let mut status = host.status.clone()?;
    status.phase = Some(HostPhase::Claimed);
    status.available_since = None;
    status.claim = Some(HostClaim {
        machine_name: machine.name_any(),
        machine_uid: uid,
        tenant_cluster_uid: machine.spec.cluster_uid.clone(),
        node_address: address.map(|address| address.to_string()),
        in_overlay: in_overlay.unwrap_or_default(),
    });
    set_condition(
        &mut status.conditions,
        ConditionType::Clean,
        ConditionStatus::False,
        Reason::InUse,
        &format!("Machine {} has it", machine.name_any()),
        host.metadata.generation,
        Time(now),
    );
    Some(status)
}

/// The status of a Host whose Machine goes and has been drained: everything is undone now. None where it is not
/// the Machine's, or is undone already. Written as [`claim`] is.
#[must_use]
pub fn release(host: &Host, machine_uid: &str) -> Option<HostStatus> {
    if !is_of(host, machine_uid) {
        return None;
    }
    let mut status = host.status.clone()?;
    match status.phase {
        Some(HostPhase::Resetting | HostPhase::Quarantined) => None,
        _ => {
            status.phase = Some(HostPhase::Resetting);
            Some(status)
        }
    }
}
