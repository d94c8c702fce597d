//! What the cloud controller manager is told of machines that it does not see itself.

use api::machine::MachineAddress;
use api::machine_addresses::RemoteState;
use base64::Engine as _;
use kit_objects::known::Known;
use providers::{State, Topology};
use serde_json::json;
use tenant_cp::node::bootstrap_token::Token;

use super::world::{Api, World, read};
use crate::controllers::machine::plan::{Action, plan};

const ID: &str = "static://rack-a-1/demo-workers-1";

/// A machine that joined, of a provider whose machines nobody sees.
fn elsewhere() -> World {
    let mut world = World::new();
    world.capabilities = provider_static::provider::CAPABILITIES;
    world.provider_id = None;
    world.settle();
    world.vm_runs();
    let vm = world.vm.as_mut().unwrap();
    vm.provider_id = Some(ID.to_owned());
    vm.topology = Some(Topology {
        zone: Some("rack-a".to_owned()),
        region: None,
    });
    vm.labelled = vm.topology.clone().unwrap();
    vm.addresses = vec![MachineAddress {
        type_: "InternalIP".to_owned(),
        address: "192.0.2.10".to_owned(),
    }];
    world.settle();
    world.node_joins();
    world.node.as_mut().unwrap().provider_id = ID.to_owned();
    world.node_is(Some(true));
    world.settle();
    world
}

#[test]
fn machine_elsewhere_is_told_of_once_its_name_at_its_provider_is_known() {
    let world = elsewhere();
    let told = world.remote.clone().unwrap();
    assert_eq!(told.provider_id, ID);
    assert_eq!(told.addresses, ["192.0.2.10"]);
    assert_eq!(told.zone.as_deref(), Some("rack-a"));
    assert_eq!(world.told_states, [RemoteState::Present], "once");
    // A virtual machine of the management cluster is read by the cloud controller manager itself.
    assert_eq!(World::running().told_states, []);
}

#[test]
fn what_changes_is_told_with_its_time_and_what_is_lost_is_told_again() {
    let mut world = elsewhere();
    let before = world.remote.clone().unwrap().since;
    world.now += jiff::SignedDuration::from_secs(60);
    world.vm.as_mut().unwrap().addresses[0].address = "192.0.2.11".to_owned();
    world.settle();
    let moved = world.remote.clone().unwrap();
    assert_eq!(moved.addresses, ["192.0.2.11"]);
    assert_eq!(moved.since, before, "it is as it was since then");
    world.vm.as_mut().unwrap().state = State::Stopped;
    world.settle();
    let stopped = world.remote.take().unwrap();
    assert_eq!(stopped.state, RemoteState::Stopped);
    assert!(stopped.since.0 > before.0);
    world.settle();
    assert_eq!(
        world.remote.map(|told| told.state),
        Some(RemoteState::Stopped)
    );
}

#[test]
fn machine_is_told_to_be_gone_only_where_that_is_proven_and_then_no_more_once_its_node_is_gone() {
    let mut world = elsewhere();
    let mut blind = world.observe();
    blind.vm = Known::default();
    let tells = |action: &Action| matches!(action, Action::PublishMachine(_));
    assert!(!plan(&blind, world.now).actions.iter().any(tells));
    world.goes();
    assert!(world.gone);
    assert_eq!(world.told_states, [RemoteState::Present, RemoteState::Gone]);
    assert_eq!((world.remote, world.node), (None, None));
}

#[test]
fn that_a_machine_is_gone_stays_where_nobody_knows_whether_its_node_is() {
    let mut world = elsewhere();
    world.api = Api::Silent;
    world.delete();
    world.settle();
    world.vm = None;
    for _ in 0..20 {
        world.now += jiff::SignedDuration::from_secs(60);
        world.settle();
    }
    assert!(world.gone);
    assert_eq!(world.remote.map(|told| told.state), Some(RemoteState::Gone));
}

#[test]
fn node_of_a_machine_elsewhere_is_labelled_so_and_no_other_one() {
    for is_elsewhere in [false, true] {
        let mut world = World::new();
        if is_elsewhere {
            world.machine.spec.provider = read(json!({ "static": {} }));
        }
        world.settle();
        world.vm_runs();
        world.settle();
        world.node_joins();
        world.settle();
        let labels = &world.node.as_ref().unwrap().labels;
        assert!(
            labels.contains_key(api::names::LABEL_NODE_POOL),
            "{labels:?}"
        );
        assert_eq!(
            labels.contains_key(api::names::LABEL_ELSEWHERE),
            is_elsewhere
        );
    }
}

#[test]
fn kubelet_of_a_host_is_started_for_the_cloud_controller_where_there_is_one() {
    for is_on in [false, true] {
        let mut world = World::new();
        world.machine.spec.provider = read(json!({ "static": {} }));
        world.capabilities = provider_static::provider::CAPABILITIES;
        let cluster = world.cluster.as_mut().unwrap();
        cluster.spec.addons.cloud_controller.enabled = is_on;
        let mut observed = world.observe();
        observed.drawn = Some(Token::from_random(&[7; 16], "uid"));
        let actions = plan(&observed, world.now).actions;
        let told = actions.iter().find_map(|action| match action {
            Action::CreateUserData(secret) => secret.value["data"]["userdata"].as_str(),
            _ => None,
        });
        let told = base64::engine::general_purpose::STANDARD.decode(told.unwrap());
        let told = String::from_utf8(told.unwrap()).unwrap();
        assert_eq!(told.contains("cloud-provider"), is_on, "{told}");
    }
}
