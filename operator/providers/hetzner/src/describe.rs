//! What a server says of the machine that it is. Pure.
//!
//! Invariant: what the machine says of itself is not in here; a status that nobody knows is no end of a machine.

use api::Reason;
use api::machine::MachineAddress;
use jiff::{SignedDuration, Timestamp};
use providers::identity::{self, Owner};
use providers::{Description, Listed, State, Topology};

use crate::schema::{Action, Server};

/// How long after its creation a server that is off is taken for one that is about to start.
const BIRTH: SignedDuration = SignedDuration::from_mins(5);

/// What provider and node call a server, as Hetzner's own cloud controller manager does
/// (hcloud-cloud-controller-manager, `internal/providerid`).
#[must_use]
pub fn provider_id(id: u64) -> String {
    format!("hcloud://{id}")
}

/// Whether its last actions say more of it than its status: something may have gone wrong with its creation.
#[must_use]
pub fn is_unsettled(server: &Server) -> bool {
    !server.locked && matches!(server.status.as_str(), "initializing" | "starting" | "off")
}

/// The action that keeps a server from running; none where none does. `actions`: the newest first.
#[must_use]
pub fn failure(actions: &[Action]) -> Option<&Action> {
    let of_birth = |a: &&Action| matches!(a.command.as_str(), "create_server" | "start_server");
    let last = actions.iter().find(of_birth)?;
    (last.status == "error").then_some(last)
}

/// What a server says. `failed`: the action that keeps it from running.
#[must_use]
pub fn description(server: &Server, failed: Option<&Action>, now: Timestamp) -> Description {
    let topology = topology(server);
    Description {
        state: state(server, failed, now),
        instance: Some(server.id.to_string()),
        provider_id: Some(provider_id(server.id)),
        addresses: addresses(server),
        located: None,
        labelled: topology.clone(),
        topology: Some(topology),
        instance_type: Some(server.server_type.name.clone()).filter(|name| !name.is_empty()),
        evacuation: None,
        deleting: server.status == "deleting",
        foreign: false,
    }
}

/// A server in a list; none where it does not say whose it is.
#[must_use]
pub fn listed(server: &Server, now: Timestamp) -> Option<Listed> {
    let label = |key| server.labels.get(key).cloned();
    Some(Listed {
        name: label(identity::MACHINE).unwrap_or_else(|| server.name.clone()),
        machine_uid: label(identity::MACHINE_UID)?,
        description: description(server, None, now),
    })
}

fn state(server: &Server, failed: Option<&Action>, now: Timestamp) -> State {
    if let Some(failed) = failed {
        let error = failed.error.clone().unwrap_or_default();
        return State::Failing {
            reason: Reason::ProviderFailed.into(),
            message: format!(
                "Hetzner could not {} server {}: {} ({}); delete the Machine to have it replaced",
                failed.command.replace("_server", ""),
                server.id,
                error.code,
                error.message.chars().take(256).collect::<String>(),
            ),
        };
    }
    match server.status.as_str() {
        "initializing" | "starting" => State::Creating,
        "running" | "migrating" => State::Running,
        "off" if server.locked || is_young(server, now) => State::Creating,
        "off" | "stopping" | "deleting" => State::Stopped,
        status => State::Failing {
            reason: Reason::ProviderFailed.into(),
            message: format!("Hetzner says of server {} that it is {status}", server.id),
        },
    }
}

fn is_young(server: &Server, now: Timestamp) -> bool {
    let created = server.created.as_deref();
    let created = created.and_then(|text| text.parse::<Timestamp>().ok());
    created.is_some_and(|created| now.duration_since(created) < BIRTH)
}

/// A location fails as one; the zone of networks is what is near.
fn topology(server: &Server) -> Topology {
    let location = server.location.as_ref();
    let said = |text: &String| (!text.is_empty()).then(|| text.clone());
    Topology {
        zone: location.and_then(|location| said(&location.name)),
        region: location.and_then(|location| said(&location.network_zone)),
    }
}

/// Those in networks first, by which nodes reach each other.
fn addresses(server: &Server) -> Vec<MachineAddress> {
    let of = |type_: &str, address: &str| MachineAddress {
        type_: type_.to_owned(),
        address: address.to_owned(),
    };
    let private = server.private_net.iter().filter(|net| !net.ip.is_empty());
    let mut all: Vec<_> = private.map(|net| of("InternalIP", &net.ip)).collect();
    let public = match all.is_empty() {
        true => "InternalIP",
        false => "ExternalIP",
    };
    if let Some(v4) = server.public_net.ipv4.as_ref().filter(|a| !a.ip.is_empty()) {
        all.push(of(public, &v4.ip));
    }
    let v6 = server.public_net.ipv6.as_ref();
    if let Some(first) = v6.and_then(|v6| first_address(&v6.ip)) {
        all.push(of(public, &first));
    }
    all
}

/// The address that Hetzner's images give themselves: the first one of the network.
fn first_address(network: &str) -> Option<String> {
    let (network, _) = network.split_once('/')?;
    let network: std::net::Ipv6Addr = network.parse().ok()?;
    let first = u128::from(network) | 1;
    Some(std::net::Ipv6Addr::from(first).to_string())
}

/// Whether a server is a Machine's.
#[must_use]
pub fn is_of(server: &Server, owner: &Owner) -> bool {
    owner.has(&server.labels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Address, Fault, Location, PrivateNet, PublicNet, TypeName};

    fn now() -> Timestamp {
        "2026-07-01T12:00:00Z".parse().unwrap()
    }

    fn server(status: &str) -> Server {
        Server {
            id: 42,
            status: status.to_owned(),
            created: Some("2026-07-01T11:59:00+00:00".to_owned()),
            server_type: TypeName {
                name: "cx22".to_owned(),
            },
            location: Some(Location {
                name: "fsn1".to_owned(),
                network_zone: "eu-central".to_owned(),
            }),
            public_net: PublicNet {
                ipv4: Some(Address {
                    id: Some(1),
                    ip: "203.0.113.4".to_owned(),
                }),
                ipv6: Some(Address {
                    id: Some(2),
                    ip: "2001:db8::/64".to_owned(),
                }),
            },
            ..Server::default()
        }
    }

    #[test]
    fn statuses_of_the_documentation() {
        let of = |status: &str| description(&server(status), None, now());
        assert_eq!(of("initializing").state, State::Creating);
        assert_eq!(of("starting").state, State::Creating);
        assert_eq!(of("running").state, State::Running);
        assert_eq!(of("migrating").state, State::Running);
        assert_eq!(of("off").state, State::Creating, "it was made a minute ago");
        assert_eq!(of("stopping").state, State::Stopped);
        assert!(of("deleting").deleting);
        for odd in ["rebuilding", "unknown", "novel"] {
            assert!(matches!(of(odd).state, State::Failing { .. }), "{odd}");
            assert!(!of(odd).deleting);
        }
        let mut old = server("off");
        old.created = Some("2026-06-01T11:59:00+00:00".to_owned());
        assert_eq!(description(&old, None, now()).state, State::Stopped);
        old.created = Some("yesterday".to_owned());
        assert_eq!(description(&old, None, now()).state, State::Stopped);
    }

    #[test]
    fn addresses_in_a_network_come_first() {
        let mut server = server("running");
        let of = |server: &Server| {
            let all = description(server, None, now()).addresses;
            let all = all
                .into_iter()
                .map(|a| format!("{} {}", a.type_, a.address));
            all.collect::<Vec<_>>()
        };
        assert_eq!(
            of(&server),
            ["InternalIP 203.0.113.4", "InternalIP 2001:db8::1"]
        );
        server.private_net.push(PrivateNet {
            network: 7,
            ip: "10.0.0.2".to_owned(),
        });
        assert_eq!(
            of(&server),
            [
                "InternalIP 10.0.0.2",
                "ExternalIP 203.0.113.4",
                "ExternalIP 2001:db8::1"
            ]
        );
    }

    #[test]
    fn it_is_called_as_hetzners_own_controller_does_and_says_where_it_is() {
        let told = description(&server("running"), None, now());
        assert_eq!(told.provider_id.as_deref(), Some("hcloud://42"));
        assert_eq!(told.instance.as_deref(), Some("42"));
        let topology = told.topology.unwrap();
        assert_eq!(topology.zone.as_deref(), Some("fsn1"));
        assert_eq!(topology.region.as_deref(), Some("eu-central"));
        assert_eq!(topology, told.labelled);
    }

    #[test]
    fn failed_action_is_told_with_its_code() {
        let action = |id, command: &str, status: &str| Action {
            id,
            command: command.to_owned(),
            status: status.to_owned(),
            error: Some(Fault {
                code: "action_failed".to_owned(),
                message: "no host".to_owned(),
                details: None,
            }),
        };
        let failed = [action(1, "create_server", "error")];
        let told = description(&server("off"), failure(&failed), now());
        let State::Failing { message, .. } = told.state else {
            panic!("{:?}", told.state);
        };
        assert!(message.contains("action_failed (no host)"), "{message}");
        let mended = [
            action(2, "start_server", "success"),
            action(1, "start_server", "error"),
        ];
        assert_eq!(failure(&mended), None);
        let other = [action(3, "attach_iso", "error")];
        assert_eq!(failure(&other), None);
    }
}
