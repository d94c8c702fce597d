//! What a virtual machine says of the machine that it is. Pure.
//!
//! Invariant: what the machine says of itself is not in here; a state that nobody knows is no end of a machine.

use api::Reason;
use api::machine::MachineAddress;
use providers::identity::{MACHINE, MACHINE_UID};
use providers::{Description, Evacuation, Listed, State, Topology};

use crate::plan::failure;
use crate::schema::{Address, Nic, Vm};
use crate::settings::{Kind, Place};
use providers::tags;

/// What provider and node call a machine, as Azure's own cloud controller manager does (kubernetes-sigs/cloud-provider-azure,
/// which writes the resource group in lower case).
#[must_use]
pub fn provider_id(place: &Place, name: &str) -> String {
    let lower = Place {
        group: place.group.to_lowercase(),
        ..place.clone()
    };
    format!("azure://{}", lower.id_of(Kind::Vm, name))
}

/// What a virtual machine says; its addresses are its interface's.
#[must_use]
pub fn description(vm: &Vm, place: &Place, addresses: Vec<MachineAddress>) -> Description {
    let zone = vm.zones.first().or(place.zone.as_ref());
    let topology = Topology {
        zone: zone.map(|zone| place.label_of(zone)),
        region: Some(place.location.clone()),
    };
    let deleting = vm.properties.provisioning_state == "Deleting";
    Description {
        state: state(vm),
        instance: Some(vm.properties.vm_id.clone()),
        provider_id: Some(provider_id(place, &vm.name)),
        addresses,
        located: None,
        labelled: topology.clone(),
        topology: Some(topology),
        instance_type: vm.properties.hardware_profile.vm_size.clone(),
        // Nobody says by when; it is half a minute at least (documentation, "Azure Spot Virtual Machines").
        evacuation: is_taken_back(vm).then(Evacuation::default),
        deleting,
        foreign: false,
    }
}

/// A virtual machine in a list; none where it does not say whose it is.
#[must_use]
pub fn listed(vm: &Vm, place: &Place) -> Option<Listed> {
    let labels = tags::read(&vm.tags);
    let name = labels.get(MACHINE).unwrap_or(&vm.name);
    Some(Listed {
        name: name.clone(),
        machine_uid: labels.get(MACHINE_UID)?.clone(),
        description: description(vm, place, Vec::new()),
    })
}

/// The one in the subnet first, by which nodes reach each other.
#[must_use]
pub fn addresses(nic: Option<&Nic>, public: Option<&Address>) -> Vec<MachineAddress> {
    let of = |type_: &str, address: &String| MachineAddress {
        type_: type_.to_owned(),
        address: address.clone(),
    };
    let internal = nic.into_iter();
    let internal = internal
        .flat_map(|nic| &nic.properties.ip_configurations)
        .filter_map(|ip| ip.properties.private_ip_address.as_ref());
    let public = public.and_then(|public| public.properties.ip_address.as_ref());
    internal
        .map(|address| of("InternalIP", address))
        .chain(public.map(|address| of("ExternalIP", address)))
        .collect()
}

/// A spot machine that goes: nobody of ours deletes one that is wanted.
fn is_taken_back(vm: &Vm) -> bool {
    let is_spot = vm.properties.priority.as_deref() == Some("Spot");
    is_spot && vm.properties.provisioning_state == "Deleting"
}

fn state(vm: &Vm) -> State {
    let view = vm.properties.instance_view.as_ref();
    let mut statuses = view.iter().flat_map(|view| &view.statuses);
    let power = statuses.find_map(|status| status.code.strip_prefix("PowerState/"));
    if let Some(fault) = failure(vm) {
        return failing(vm, &format!("{} ({})", fault.code, fault.message));
    }
    match (power, vm.properties.provisioning_state.as_str()) {
        (Some("running"), _) => State::Running,
        (Some("starting"), _) => State::Creating,
        (Some("stopping" | "stopped" | "deallocating" | "deallocated"), _) => State::Stopped,
        (None, "Creating" | "Updating" | "Migrating") => State::Creating,
        (None, "Deleting") => State::Stopped,
        // It was made, and nobody asked whether it runs, or nobody knows yet.
        (None, "Succeeded") => match view {
            None => State::Running,
            Some(_) => State::Creating,
        },
        (power, state) => failing(vm, power.unwrap_or(state)),
    }
}

fn failing(vm: &Vm, what: &str) -> State {
    State::Failing {
        reason: Reason::ProviderFailed.into(),
        message: format!(
            "Azure says of virtual machine {} that it is {what}",
            vm.name
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{InstanceView, IpConfiguration, IpProperties, Status};

    fn vm(state: &str, power: Option<&str>) -> Vm {
        let mut vm = Vm {
            name: "a-1".to_owned(),
            ..Vm::default()
        };
        vm.properties.provisioning_state = state.to_owned();
        let status = |power: &str| Status {
            code: format!("PowerState/{power}"),
            message: None,
        };
        vm.properties.instance_view = Some(InstanceView {
            statuses: power.map(status).into_iter().collect(),
        });
        vm
    }

    fn place() -> Place {
        Place {
            subscription: "s".to_owned(),
            group: "Workers".to_owned(),
            location: "westeurope".to_owned(),
            zone: Some("1".to_owned()),
            ..Place::default()
        }
    }

    fn told(vm: &Vm) -> Description {
        description(vm, &place(), Vec::new())
    }

    #[test]
    fn states_of_the_documentation() {
        for (state, power, expected) in [
            ("Creating", None, State::Creating),
            ("Succeeded", None, State::Creating),
            ("Succeeded", Some("starting"), State::Creating),
            ("Succeeded", Some("running"), State::Running),
            ("Updating", Some("running"), State::Running),
            ("Failed", Some("running"), State::Running),
            ("Succeeded", Some("stopped"), State::Stopped),
            ("Succeeded", Some("deallocated"), State::Stopped),
            ("Deleting", None, State::Stopped),
        ] {
            assert_eq!(told(&vm(state, power)).state, expected, "{state} {power:?}");
        }
        for (state, power) in [
            ("Failed", None),
            ("Novel", None),
            ("Succeeded", Some("novel")),
        ] {
            let state = told(&vm(state, power)).state;
            assert!(matches!(state, State::Failing { .. }), "{state:?}");
        }
    }

    #[test]
    fn spot_machine_that_is_taken_back_leaves_and_runs_until_then() {
        let mut spot = vm("Deleting", Some("running"));
        assert_eq!(told(&spot).evacuation, None);
        spot.properties.priority = Some("Spot".to_owned());
        assert_eq!(told(&spot).evacuation, Some(Evacuation::default()));
        assert_eq!(told(&spot).state, State::Running);
        spot.properties.provisioning_state = "Succeeded".to_owned();
        assert_eq!(told(&spot).evacuation, None);
    }

    #[test]
    fn it_is_called_as_azures_own_controller_does_and_says_where_it_is() {
        let told = told(&vm("Succeeded", Some("running")));
        let id = told.provider_id.as_deref();
        let expected = "azure:///subscriptions/s/resourceGroups/workers/providers/Microsoft.Compute/virtualMachines/a-1";
        assert_eq!(id, Some(expected));
        let topology = told.topology.unwrap();
        assert_eq!(topology.zone.as_deref(), Some("westeurope-1"));
        let mut nic = Nic::default();
        nic.properties.ip_configurations = vec![IpConfiguration {
            properties: IpProperties {
                private_ip_address: Some("10.1.0.4".to_owned()),
            },
        }];
        let mut public = Address::default();
        public.properties.ip_address = Some("203.0.113.4".to_owned());
        let all = addresses(Some(&nic), Some(&public));
        let all: Vec<_> = all
            .iter()
            .map(|a| format!("{} {}", a.type_, a.address))
            .collect();
        assert_eq!(all, ["InternalIP 10.1.0.4", "ExternalIP 203.0.113.4"]);
    }
}
