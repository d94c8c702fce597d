//! What an instance says of the machine that it is. Pure.
//!
//! Invariant: what the machine says of itself is not in here; a status that nobody knows is no end of a machine.

use api::Reason;
use api::machine::MachineAddress;
use providers::identity::{MACHINE, MACHINE_UID};
use providers::{Description, Evacuation, Listed, State, Topology};

use crate::labels;
use crate::schema::Instance;
use crate::settings::Project;

/// What provider and node call an instance, as Google's own cloud controller manager does
/// (kubernetes/cloud-provider-gcp, `providers/gce`).
#[must_use]
pub fn provider_id(project: &Project, name: &str) -> String {
    format!("gce://{}/{}/{name}", project.project, project.zone)
}

/// What an instance says.
#[must_use]
pub fn description(instance: &Instance, project: &Project) -> Description {
    let topology = Topology {
        zone: Some(project.zone.clone()),
        region: Some(project.region().to_owned()),
    };
    let size = instance.machine_type.rsplit('/').next().unwrap_or_default();
    Description {
        state: state(instance),
        instance: Some(instance.id.clone()),
        provider_id: Some(provider_id(project, &instance.name)),
        addresses: addresses(instance),
        located: None,
        labelled: topology.clone(),
        topology: Some(topology),
        instance_type: Some(size.to_owned()).filter(|size| !size.is_empty()),
        // Nobody says by when; it is half a minute (documentation, "Preemption process").
        evacuation: is_taken_back(instance).then(Evacuation::default),
        // What is stopped by hand and what is deleted look alike.
        deleting: false,
        foreign: false,
    }
}

/// An instance in a list; none where it does not say whose it is.
#[must_use]
pub fn listed(instance: &Instance, project: &Project) -> Option<Listed> {
    let labels = labels::read(&instance.labels);
    let name = labels.get(MACHINE).unwrap_or(&instance.name);
    Some(Listed {
        name: name.clone(),
        machine_uid: labels.get(MACHINE_UID)?.clone(),
        description: description(instance, project),
    })
}

fn is_taken_back(instance: &Instance) -> bool {
    let scheduling = instance.scheduling.as_ref();
    let is_spot = scheduling.is_some_and(|s| s.provisioning_model == "SPOT");
    is_spot && instance.status == "STOPPING"
}

fn state(instance: &Instance) -> State {
    match instance.status.as_str() {
        "PENDING" | "PROVISIONING" | "STAGING" => State::Creating,
        // It runs until it is taken back, and is drained meanwhile.
        "STOPPING" if is_taken_back(instance) => State::Running,
        "RUNNING" => State::Running,
        "STOPPING" | "PENDING_STOP" | "SUSPENDING" | "SUSPENDED" | "TERMINATED" => State::Stopped,
        status => State::Failing {
            reason: Reason::ProviderFailed.into(),
            message: format!(
                "Google says of instance {} that it is {status}",
                instance.name
            ),
        },
    }
}

/// The one in the subnet first, by which nodes reach each other.
fn addresses(instance: &Instance) -> Vec<MachineAddress> {
    let of = |type_: &str, address: &String| MachineAddress {
        type_: type_.to_owned(),
        address: address.clone(),
    };
    let nets = || instance.network_interfaces.iter();
    let internal = nets().filter_map(|net| net.network_ip.as_ref());
    let public = nets().flat_map(|net| &net.access_configs);
    let public = public.filter_map(|access| access.nat_ip.as_ref());
    internal
        .map(|address| of("InternalIP", address))
        .chain(public.map(|address| of("ExternalIP", address)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{AccessConfig, Interface, Scheduling};

    fn instance(status: &str) -> Instance {
        Instance {
            id: "42".to_owned(),
            name: "a-1".to_owned(),
            status: status.to_owned(),
            machine_type: "https://x/zones/z/machineTypes/e2-medium".to_owned(),
            network_interfaces: vec![Interface {
                network_ip: Some("10.132.0.2".to_owned()),
                access_configs: vec![AccessConfig {
                    nat_ip: Some("203.0.113.4".to_owned()),
                }],
            }],
            ..Instance::default()
        }
    }

    fn project() -> Project {
        Project {
            project: "demo".to_owned(),
            zone: "europe-west1-b".to_owned(),
            ..Project::default()
        }
    }

    #[test]
    fn statuses_of_the_documentation() {
        let of = |status: &str| description(&instance(status), &project()).state;
        for status in ["PROVISIONING", "STAGING"] {
            assert_eq!(of(status), State::Creating, "{status}");
        }
        assert_eq!(of("RUNNING"), State::Running);
        for status in ["STOPPING", "SUSPENDING", "SUSPENDED", "TERMINATED"] {
            assert_eq!(of(status), State::Stopped, "{status}");
        }
        for status in ["REPAIRING", "NOVEL", ""] {
            assert!(matches!(of(status), State::Failing { .. }), "{status}");
        }
    }

    #[test]
    fn spot_instance_that_is_taken_back_leaves_and_runs_until_then() {
        let mut spot = instance("STOPPING");
        assert_eq!(description(&spot, &project()).evacuation, None);
        spot.scheduling = Some(Scheduling {
            provisioning_model: "SPOT".to_owned(),
            ..Scheduling::default()
        });
        let told = description(&spot, &project());
        assert_eq!(told.evacuation, Some(Evacuation::default()));
        assert_eq!(told.state, State::Running);
        spot.status = "RUNNING".to_owned();
        assert_eq!(description(&spot, &project()).evacuation, None);
    }

    #[test]
    fn it_is_called_as_googles_own_controller_does_and_says_where_it_is() {
        let told = description(&instance("RUNNING"), &project());
        let id = told.provider_id.as_deref();
        assert_eq!(id, Some("gce://demo/europe-west1-b/a-1"));
        assert_eq!(told.instance.as_deref(), Some("42"));
        assert_eq!(told.instance_type.as_deref(), Some("e2-medium"));
        let region = told.topology.unwrap().region;
        assert_eq!(region.as_deref(), Some("europe-west1"));
        let all = told.addresses.iter();
        let all: Vec<_> = all.map(|a| format!("{} {}", a.type_, a.address)).collect();
        assert_eq!(all, ["InternalIP 10.132.0.2", "ExternalIP 203.0.113.4"]);
    }
}
