//! The next call of a creation and of a deletion. Pure: no I/O, no clock, no chance.
//!
//! A creation: addresses, each with labels, then the server with them. A deletion: servers, and once none is left the
//! addresses, which go along by themselves as a rule (`auto_delete`).
//!
//! Invariant: nothing is made while something of the Machine may be there that was not seen; nothing is deleted but
//! what bears both UIDs; planning again after a call gives the next one, or none, and never the same thing twice.

use providers::identity::{Family, Owner, ours};

use crate::schema::{CreatePrimaryIp, CreateServer, FirewallRef, PrimaryIp, Server, WantedNet};
use crate::settings::{Project, Resolved, USER_DATA_LIMIT, Wanted};

/// What there is of one Machine.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Seen {
    /// Servers that bear its labels.
    pub servers: Vec<Server>,
    /// Addresses that bear its labels.
    pub addresses: Vec<PrimaryIp>,
}

/// The next step of a creation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Creation {
    /// Make an address.
    Address(Family, Box<CreatePrimaryIp>),
    /// Make the server.
    Server(Box<CreateServer>),
    /// It is there.
    There(Box<Server>),
    /// It cannot be made as it is.
    Impossible(String),
    /// An address of it belongs to something else at the moment.
    Busy(String),
}

/// The next step of a deletion.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Deletion {
    /// Delete this server.
    Server(u64),
    /// Delete this address.
    Address(u64),
    /// Something is done to it already, so nobody has to ask.
    Wait,
    /// Somebody protected it.
    Protected(String),
    /// Nothing is left.
    Nothing,
}

/// Which addresses a server of a project has.
#[must_use]
pub fn families(project: &Project) -> Vec<Family> {
    let v4 = project.ipv4.then_some(Family::V4);
    let v6 = project.ipv6.then_some(Family::V6);
    v4.into_iter().chain(v6).collect()
}

/// The Machine's own of several servers: the one that was there first.
#[must_use]
pub fn own<'a>(owner: &Owner, servers: &'a [Server]) -> Option<&'a Server> {
    let own = servers.iter().filter(|server| owner.has(&server.labels));
    own.min_by_key(|server| server.id)
}

/// The Machine's own server whose labels somebody took off: it has the name and the ID that the Machine's had, and bears
/// nobody else's labels.
#[must_use]
pub fn stray<'a>(
    owner: &Owner,
    instance: Option<u64>,
    named: Option<&'a Server>,
) -> Option<&'a Server> {
    named.filter(|server| {
        Some(server.id) == instance
            && server.name == owner.name()
            && ours(&server.labels).is_empty()
    })
}

/// The next step towards a server, after what was seen.
#[must_use]
pub fn creation(wanted: &Wanted, project: &Project, resolved: &Resolved, seen: &Seen) -> Creation {
    let owner = &wanted.owner;
    // Even one that is deleted at the moment: nothing is made twice.
    if let Some(server) = own(owner, &seen.servers) {
        return Creation::There(Box::new(server.clone()));
    }
    if let Some(why) = impossible(wanted, project) {
        return Creation::Impossible(why);
    }
    let mut net = WantedNet::default();
    for family in families(project) {
        let mut own = seen
            .addresses
            .iter()
            .filter(|address| owner.has(&address.labels) && address.type_ == family.as_str());
        let Some(address) = own.next() else {
            return Creation::Address(family, Box::new(address(owner, project, family)));
        };
        if address.assignee_id.is_some() {
            return Creation::Busy(address.name.clone());
        }
        match family {
            Family::V4 => (net.enable_ipv4, net.ipv4) = (true, Some(address.id)),
            Family::V6 => (net.enable_ipv6, net.ipv6) = (true, Some(address.id)),
        }
    }
    let firewall = |id: &u64| FirewallRef { firewall: *id };
    Creation::Server(Box::new(CreateServer {
        name: owner.name(),
        server_type: wanted.server_type.clone(),
        image: wanted.image.clone(),
        location: project.location.clone(),
        ssh_keys: project.ssh_keys.clone(),
        networks: resolved.network.into_iter().collect(),
        firewalls: resolved.firewalls.iter().map(firewall).collect(),
        user_data: wanted.user_data.clone(),
        labels: owner.labels(),
        public_net: net,
        start_after_create: true,
    }))
}

/// Why it cannot be made, which would only be found out by asking; none where it can.
fn impossible(wanted: &Wanted, project: &Project) -> Option<String> {
    let size = wanted.user_data.len();
    if size > USER_DATA_LIMIT {
        return Some(format!(
            "its user data have {size} bytes and may have {USER_DATA_LIMIT}: give the node pool fewer labels, taints \
             and SSH keys"
        ));
    }
    if project.ssh_keys.is_empty() {
        return Some(
            "spec.hetzner.sshKeys of the ProviderConfig names no SSH key: without one a password is made and sent by \
             mail, and the project is not known again"
                .to_owned(),
        );
    }
    if !project.ipv4 && !project.ipv6 && project.network.is_none() {
        return Some(
            "it would have no address: set publicIPv4, publicIPv6 or network below spec.hetzner of the ProviderConfig"
                .to_owned(),
        );
    }
    wanted.owner.unusable()
}

fn address(owner: &Owner, project: &Project, family: Family) -> CreatePrimaryIp {
    CreatePrimaryIp {
        name: owner.address_name(family),
        type_: family.as_str(),
        assignee_type: "server",
        location: project.location.clone(),
        auto_delete: true,
        labels: owner.labels(),
    }
}

/// The next step until nothing is left, after what was seen.
#[must_use]
pub fn deletion(owner: &Owner, seen: &Seen) -> Deletion {
    let own: Vec<_> = seen
        .servers
        .iter()
        .filter(|s| owner.has(&s.labels))
        .collect();
    let ready = own
        .iter()
        .find(|s| !s.locked && s.status != "deleting" && !s.protection.delete);
    if let Some(server) = ready {
        return Deletion::Server(server.id);
    }
    if let Some(server) = own.iter().find(|s| s.protection.delete) {
        return Deletion::Protected(format!("server {}", server.name));
    }
    if !own.is_empty() {
        return Deletion::Wait;
    }
    let own: Vec<_> = seen
        .addresses
        .iter()
        .filter(|address| owner.has(&address.labels))
        .collect();
    let free = |a: &&&PrimaryIp| a.assignee_id.is_none() && !a.protection.delete;
    if let Some(address) = own.iter().find(free) {
        return Deletion::Address(address.id);
    }
    if let Some(address) = own.iter().find(|a| a.protection.delete) {
        return Deletion::Protected(format!("primary IP {}", address.name));
    }
    match own.is_empty() {
        true => Deletion::Nothing,
        false => Deletion::Wait,
    }
}

#[cfg(test)]
mod tests;
