//! What a Host says of the machine that a Machine has. Pure.
//!
//! Invariant: that a machine does not answer says nothing of what runs on it; a Machine that is wanted has its Host
//! for as long as the Host says so.

use std::net::IpAddr;

use api::condition::is_true;
use api::host::HostPhase;
use api::machine::MachineAddress;
use api::{ConditionReason, ConditionType, Host, Machine, names};
use kube::ResourceExt;
use providers::{Description, Evacuation, Presence, Proof, State, Topology};

use crate::life::choose::is_of;
use crate::life::plan::lets_go;

/// What is there of a Machine. `hosts`: all of its namespace, in their newest state.
pub(super) fn presence(hosts: &[Host], machine: &Machine) -> Presence {
    let uid = machine.uid().unwrap_or_default();
    let own = |host: &&Host| is_of(host, &uid);
    let is_going = machine.metadata.deletion_timestamp.is_some();
    let held = |host: &&Host| !(is_going && lets_go(host, &uid));
    // A claim is given up by the Host alone, once it is proven that nothing of the Machine is left.
    if !hosts.iter().any(|host| own(&host)) {
        return Presence::Absent(Proof::Authoritative);
    }
    match hosts.iter().filter(own).find(held) {
        Some(host) => Presence::Present(Box::new(description(host, &machine.name_any()))),
        None => Presence::Absent(Proof::Quarantined),
    }
}

/// What a Host says of its machine. `machine`: name of the Machine that has it.
pub(super) fn description(host: &Host, machine: &str) -> Description {
    let phase = phase(host);
    let facts = host
        .status
        .as_ref()
        .and_then(|status| status.facts.as_ref());
    // Until the machine itself has said whose it is, another Host may be taken, and a providerID is for good.
    let is_certain = !matches!(
        phase,
        HostPhase::Unverified | HostPhase::Available | HostPhase::Adoptable | HostPhase::Claimed
    );
    let is_going = phase == HostPhase::Resetting;
    let id = || names::static_provider_id(&host.name_any(), machine);
    Description {
        state: state(host, phase),
        instance: facts.map(|facts| facts.machine_id.clone()),
        provider_id: is_certain.then(id),
        addresses: addresses(host),
        // Whoever maps traffic onto machines believes it, and this address is what a user wrote.
        located: None,
        topology: Some(topology(host)),
        labelled: topology(host),
        instance_type: label(host, names::LABEL_INSTANCE_TYPE),
        evacuation: (host.spec.maintenance && !is_going).then(Evacuation::default),
        deleting: is_going,
        ..Description::default()
    }
}

fn phase(host: &Host) -> HostPhase {
    let status = host.status.as_ref();
    status.and_then(|status| status.phase).unwrap_or_default()
}

/// A node whose machine does not answer runs on as far as anybody knows.
fn state(host: &Host, phase: HostPhase) -> State {
    match phase {
        HostPhase::Joined | HostPhase::Resetting => State::Running,
        HostPhase::Claimed | HostPhase::Joining => failing(host).unwrap_or(State::Creating),
        HostPhase::Unverified
        | HostPhase::Available
        | HostPhase::Adoptable
        | HostPhase::Quarantined => failing(host).unwrap_or_default(),
    }
}

/// What keeps it from becoming a node.
fn failing(host: &Host) -> Option<State> {
    let conditions = &host.status.as_ref()?.conditions;
    let of = |type_: ConditionType| {
        conditions
            .iter()
            .find(|known| known.type_ == type_.as_str())
    };
    let bad = [ConditionType::Reachable, ConditionType::Verified]
        .into_iter()
        .filter(|type_| !is_true(conditions, *type_))
        .filter_map(of)
        .find(|known| known.status == "False")?;
    Some(State::Failing {
        reason: ConditionReason::passed_on(&bad.reason),
        message: format!("Host {}: {}", host.name_any(), bad.message),
    })
}

/// What its user says of where it is, as nodes are labelled.
fn topology(host: &Host) -> Topology {
    Topology {
        zone: label(host, names::LABEL_ZONE),
        region: label(host, names::LABEL_REGION),
    }
}

/// A label of the Host that a node may have, too; what is no value of a label would be refused there for ever.
fn label(host: &Host, key: &str) -> Option<String> {
    let value = host.spec.labels.get(key)?;
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let mut all = value.chars();
    let is_value = is_end(value.chars().next())
        && is_end(value.chars().last())
        && all.all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    is_value.then(|| value.clone())
}

/// What the Host says, and never the machine.
fn addresses(host: &Host) -> Vec<MachineAddress> {
    let internal = |address: IpAddr| MachineAddress {
        type_: "InternalIP".to_owned(),
        address: address.to_string(),
    };
    host.node_address().into_iter().map(internal).collect()
}

#[cfg(test)]
mod tests;
