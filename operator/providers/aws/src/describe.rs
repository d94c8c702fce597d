//! What an instance says of the machine that it is. Pure.
//!
//! Invariant: what the machine says of itself is not in here; a state that nobody knows is no end of a machine.

use api::Reason;
use api::machine::MachineAddress;
use jiff::{SignedDuration, Timestamp};
use providers::identity::{MACHINE, MACHINE_UID};
use providers::{Description, Evacuation, Listed, State, Topology, tags};

use crate::schema::{Instance, SpotStatus};

/// Between the notice that a spot instance is taken back and its end (documentation, "Spot Instance interruption notices").
const NOTICE: SignedDuration = SignedDuration::from_mins(2);

/// What provider and node call a machine, as AWS's own cloud controller manager does.
#[must_use]
pub fn provider_id(instance: &Instance) -> String {
    format!("aws:///{}/{}", instance.zone, instance.id)
}

/// What an instance says. `spot`: how its request stands, where it may be taken back.
#[must_use]
pub fn description(instance: &Instance, region: &str, spot: Option<&SpotStatus>) -> Description {
    let zone = Some(instance.zone.clone()).filter(|zone| !zone.is_empty());
    let topology = Topology {
        zone,
        region: Some(region.to_owned()),
    };
    Description {
        state: state(instance),
        instance: Some(instance.id.clone()),
        provider_id: Some(provider_id(instance)),
        addresses: addresses(instance),
        located: None,
        labelled: topology.clone(),
        topology: Some(topology),
        instance_type: Some(instance.type_.clone()).filter(|type_| !type_.is_empty()),
        evacuation: evacuation(instance, spot),
        deleting: matches!(instance.state.as_str(), "shutting-down" | "terminated"),
        foreign: false,
    }
}

/// An instance in a list; none where it does not say whose it is.
#[must_use]
pub fn listed(instance: &Instance, region: &str) -> Option<Listed> {
    let labels = tags::read(&instance.tags);
    let name = labels.get(MACHINE).unwrap_or(&instance.id);
    Some(Listed {
        name: name.clone(),
        machine_uid: labels.get(MACHINE_UID)?.clone(),
        description: description(instance, region, None),
    })
}

/// The one in the subnet first, by which nodes reach each other.
fn addresses(instance: &Instance) -> Vec<MachineAddress> {
    let of = |type_: &str, address: &Option<String>| {
        let address = address.clone().filter(|address| !address.is_empty())?;
        Some(MachineAddress {
            type_: type_.to_owned(),
            address,
        })
    };
    let internal = of("InternalIP", &instance.private_ip);
    let external = of("ExternalIP", &instance.public_ip);
    internal.into_iter().chain(external).collect()
}

/// Whether it is taken back: its request says so two minutes before, and the instance itself once it ends.
fn evacuation(instance: &Instance, spot: Option<&SpotStatus>) -> Option<Evacuation> {
    let reason = instance.reason.as_ref().map(|(code, _)| code.as_str());
    if let Some(marked) = spot.filter(|spot| spot.code == "marked-for-termination") {
        let since = marked.since.as_deref();
        let since: Option<Timestamp> = since.and_then(|since| since.parse().ok());
        let deadline = since.and_then(|since| since.saturating_add(NOTICE).ok());
        return Some(Evacuation { deadline });
    }
    let ends = reason == Some("Server.SpotInstanceTermination");
    ends.then(Evacuation::default)
}

fn state(instance: &Instance) -> State {
    match instance.state.as_str() {
        "pending" => State::Creating,
        "running" => State::Running,
        "stopping" | "stopped" | "shutting-down" | "terminated" => State::Stopped,
        other => State::Failing {
            reason: Reason::ProviderFailed.into(),
            message: format!("EC2 says of instance {} that it is {other}", instance.id),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(state: &str) -> Instance {
        Instance {
            id: "i-0123456789abcdef0".to_owned(),
            state: state.to_owned(),
            zone: "eu-central-1a".to_owned(),
            private_ip: Some("10.1.0.4".to_owned()),
            public_ip: Some("203.0.113.4".to_owned()),
            ..Instance::default()
        }
    }

    fn told(instance: &Instance, spot: Option<&SpotStatus>) -> Description {
        description(instance, "eu-central-1", spot)
    }

    #[test]
    fn states_of_the_documentation() {
        for (state, expected) in [
            ("pending", State::Creating),
            ("running", State::Running),
            ("stopping", State::Stopped),
            ("stopped", State::Stopped),
            ("shutting-down", State::Stopped),
            ("terminated", State::Stopped),
        ] {
            assert_eq!(told(&instance(state), None).state, expected, "{state}");
        }
        let novel = told(&instance("novel"), None).state;
        assert!(matches!(novel, State::Failing { .. }), "{novel:?}");
    }

    #[test]
    fn it_is_called_as_awss_own_controller_does_and_says_where_it_is() {
        let told = told(&instance("running"), None);
        let id = "aws:///eu-central-1a/i-0123456789abcdef0";
        assert_eq!(told.provider_id.as_deref(), Some(id));
        let topology = told.topology.unwrap();
        assert_eq!(topology.zone.as_deref(), Some("eu-central-1a"));
        assert_eq!(topology.region.as_deref(), Some("eu-central-1"));
        let all = told.addresses.iter();
        let all: Vec<_> = all.map(|a| format!("{} {}", a.type_, a.address)).collect();
        assert_eq!(all, ["InternalIP 10.1.0.4", "ExternalIP 203.0.113.4"]);
    }

    #[test]
    fn spot_instance_that_is_marked_leaves_within_two_minutes() {
        let mut spot = SpotStatus {
            code: "fulfilled".to_owned(),
            since: Some("2026-09-21T14:13:20Z".to_owned()),
        };
        let running = instance("running");
        assert_eq!(told(&running, Some(&spot)).evacuation, None);
        spot.code = "marked-for-termination".to_owned();
        let evacuation = told(&running, Some(&spot)).evacuation.unwrap();
        let deadline = evacuation.deadline.unwrap().to_string();
        assert_eq!(deadline, "2026-09-21T14:15:20Z");
        let mut ends = instance("shutting-down");
        ends.reason = Some(("Server.SpotInstanceTermination".to_owned(), String::new()));
        let told = told(&ends, None);
        assert_eq!(told.evacuation, Some(Evacuation::default()));
        assert!(told.deleting);
    }
}
