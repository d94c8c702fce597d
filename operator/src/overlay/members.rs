//! Members of an overlay: what `link-node` is told of each node, out of what is known of Machines and Hosts.
//!
//! No I/O, no clock, no chance. Invariant: who is a member depends on Machines alone, never on what a tenant's API
//! answers, so that one that is silent takes nobody away; no two members have one address or one key.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use api::machine::MachinePhase;
use api::{Host, Machine, Reason};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use provider_static::life::choose;
use serde::Serialize;
use tenant_cp::network::overlay;

/// Bytes of a public key (Curve25519).
const KEY: usize = 32;

/// A member, as the ConfigMap has it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Its address in the overlay.
    pub address: IpAddr,
    /// Where it is: nodes of one site dial each other where they say.
    pub site: String,
    /// Where everybody reaches it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<SocketAddr>,
    /// The only key that is accepted for it; none before its node said one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
}

/// The overlay of one tenant cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Overlay {
    /// Members by the name of their node.
    pub members: BTreeMap<String, Member>,
    /// What a person has to mend.
    pub trouble: Option<(Reason, String)>,
}

impl Overlay {
    /// What the ConfigMap holds.
    #[must_use]
    pub fn texts(&self) -> BTreeMap<String, String> {
        let text = |member: &Member| serde_json::to_string(member).unwrap_or_default();
        let all = self.members.iter();
        all.map(|(name, member)| (name.clone(), text(member)))
            .collect()
    }
}

/// The overlay of a tenant cluster, by all Machines and Hosts, in any order.
#[must_use]
pub fn overlay<M: Borrow<Machine>, H: Borrow<Host>>(
    cluster_uid: &str,
    machines: &[M],
    hosts: &[H],
    range: &IpNet,
) -> Overlay {
    let machines = machines.iter().map(Borrow::borrow);
    let mut machines: Vec<&Machine> = machines.filter(|m| is_of(m, cluster_uid)).collect();
    machines.sort_by_key(|machine| order(machine));
    let (mut addresses, mut keys) = (BTreeSet::new(), BTreeSet::new());
    let mut members = BTreeMap::new();
    let mut without = None;
    for machine in machines {
        // It never becomes a node again, and somebody else may have what it was given.
        let phase = machine.status.as_ref().and_then(|status| status.phase);
        if phase == Some(MachinePhase::Failed) {
            continue;
        }
        let Some(address) = address_of(machine).filter(|address| range.contains(address)) else {
            without.get_or_insert(machine);
            continue;
        };
        if !addresses.insert(address) {
            continue;
        }
        let status = machine.status.as_ref().and_then(|s| s.overlay.as_ref());
        let key = status.and_then(|status| status.public_key.clone());
        let member = Member {
            address,
            site: site(machine),
            endpoint: endpoint(machine, hosts),
            public_key: key.filter(|key| is_key(key) && keys.insert(key.clone())),
        };
        members.insert(machine.name_any(), member);
    }
    let held = u128::try_from(addresses.len()).unwrap_or(u128::MAX);
    let is_full = held >= overlay::capacity(range);
    let full = without.filter(|_| is_full).map(|machine| {
        let message = format!(
            "{range} has no address left for Machine {}: {held} others have one each",
            machine.name_any()
        );
        (Reason::OverlayRangeFull, message)
    });
    let trouble = full.or_else(|| without_way(&members));
    Overlay { members, trouble }
}

/// Two nodes of different sites that nobody can dial.
fn without_way(members: &BTreeMap<String, Member>) -> Option<(Reason, String)> {
    let mut silent = members.iter().filter(|(_, m)| m.endpoint.is_none());
    let (one, first) = silent.next()?;
    let (other, second) = silent.find(|(_, other)| other.site != first.site)?;
    let message = format!(
        "nodes {one} ({}) and {other} ({}) have no way to each other, because neither can be dialled: set \
         spec.overlayEndpoint of the Host of one, or of each node of its site",
        first.site, second.site
    );
    Some((Reason::OverlayWithoutWay, message))
}

/// Where a machine is: virtual machines are in the management cluster's network wherever they run; others where
/// their pool's location says, else where their pool is.
fn site(machine: &Machine) -> String {
    let spec = &machine.spec;
    match &spec.location {
        _ if spec.provider.kubevirt.is_some() => "management-cluster".to_owned(),
        Some(location) => format!("location {location}"),
        None => format!("pool {}", spec.pool_name),
    }
}

fn endpoint<H: Borrow<Host>>(machine: &Machine, hosts: &[H]) -> Option<SocketAddr> {
    machine.spec.provider.static_.as_ref()?;
    let uid = machine.uid()?;
    let mut hosts = hosts.iter().map(Borrow::borrow);
    let host = hosts.find(|host| choose::is_of(host, &uid))?;
    host.spec.overlay_endpoint.as_ref()?.parse().ok()
}

/// Whether a Machine was made for a tenant cluster.
pub(super) fn is_of(machine: &Machine, cluster_uid: &str) -> bool {
    machine.spec.cluster_uid == cluster_uid
}

/// The address that a Machine's status says.
pub(super) fn address_of(machine: &Machine) -> Option<IpAddr> {
    let status = machine.status.as_ref()?;
    status.overlay.as_ref()?.address.parse().ok()
}

/// By age; the name decides between the same second.
pub(super) fn order(machine: &Machine) -> (Option<Time>, String) {
    (machine.creation_timestamp(), machine.name_any())
}

/// Whether this is a public key as `link-node` writes it.
#[must_use]
pub fn is_key(text: &str) -> bool {
    STANDARD.decode(text).is_ok_and(|key| key.len() == KEY)
}

#[cfg(test)]
pub(super) mod tests;
