//! How a Machine goes: its node is drained, then its virtual machine deleted.

use kit_objects::known::Known;

use super::*;
use crate::controllers::machine::plan::plan;

#[test]
fn evacuated_machine_deletes_itself_and_drains_first() {
    let mut world = World::running();
    world.pods = vec![pod("a")];
    world.vm.as_mut().unwrap().evacuation = Some(Evacuation::default());
    world.settle();
    assert_eq!(world.told("Evacuating"), 1);
    world.settle();
    assert_eq!(world.phase(), MachinePhase::Draining);
    assert!(!world.vm.clone().unwrap().deleting && world.pods[0].going);
    world.goes();
}

/// What a provider said of the end of it, `seconds` from now.
fn evacuated(seconds: i64) -> World {
    let mut world = World::running();
    let mut end = world.clone();
    end.later(seconds);
    let deadline = Some(end.now);
    world.vm.as_mut().unwrap().evacuation = Some(Evacuation { deadline });
    world.pods = vec![pod("a")];
    world.protected = true;
    world
}

#[test]
fn evacuated_machine_is_not_drained_beyond_its_deadline() {
    let mut world = evacuated(120);
    let took = world.goes();
    assert!((120..125).contains(&took.as_secs()), "{took:?}");
    assert_eq!(world.condition("Drained"), said("False", "DrainGivenUp"));
    let mut late = evacuated(3600);
    let took = late.goes();
    assert!(
        (300..310).contains(&took.as_secs()),
        "its drainTimeout is sooner: {took:?}"
    );
    let mut over = evacuated(-1);
    assert!(over.goes().as_secs() <= 3);
}

#[test]
fn evacuated_machine_waits_for_nothing_beyond_its_deadline() {
    for api in [Api::Silent, Api::NotAsked, Api::Postponed] {
        let mut world = evacuated(20);
        world.api = api;
        world.delete();
        world.settle();
        assert!(!world.vm.clone().unwrap().deleting, "{api:?}");
        let wait = world.plan().requeue_after.unwrap();
        assert!(wait.as_secs() <= 20, "{api:?}: {wait:?}");
        world.later(20);
        world.settle();
        assert!(world.vm.clone().unwrap().deleting, "{api:?}");
    }
    let mut world = evacuated(3);
    let cluster = world.cluster.as_mut().unwrap();
    cluster.spec.addons.cloud_controller.enabled = true;
    world.pods.clear();
    world.delete();
    world.settle();
    assert!(
        !world.vm.clone().unwrap().deleting,
        "load balancers turn away"
    );
    world.later(3);
    world.settle();
    assert!(world.vm.clone().unwrap().deleting);
}

/// Nobody can say that it is drained.
#[test]
fn evacuated_machine_whose_pods_are_not_known_is_not_called_drained() {
    let mut world = evacuated(20);
    world.delete();
    world.later(20);
    let mut blind = world.observe();
    blind.seen_mut().unwrap().pods = Known::default();
    let plan = plan(&blind, world.now);
    let drained = plan.status.conditions.iter().find(|c| c.type_ == "Drained");
    let drained = drained.map(|c| (c.status.as_str(), c.reason.as_str()));
    assert_eq!(drained, Some(("False", "DrainGivenUp")));
    assert!(
        plan.actions.contains(&Action::DeleteVm),
        "{:?}",
        plan.actions
    );
}

#[test]
fn drain_cordons_evicts_and_waits_and_only_then_the_virtual_machine_goes() {
    let mut world = World::running();
    world.pods = vec![pod("a"), pod("b")];
    world.delete();
    world.settle();
    assert!(world.node.clone().unwrap().unschedulable);
    assert!(world.pods.iter().all(|p| p.going));
    assert_eq!(world.condition("Drained"), said("False", "Draining"));
    assert_eq!(world.condition("Ready"), said("False", "Draining"));
    world.settle();
    assert!(!world.vm.clone().unwrap().deleting);
    world.pods.clear();
    world.settle();
    assert_eq!(world.condition("Drained"), said("True", "Drained"));
    assert!(world.vm.clone().unwrap().deleting);
    assert_eq!(world.phase(), MachinePhase::Deleting);
    world.settle();
    assert!(!world.gone && world.node.is_some());
    world.vm = None;
    world.settle();
    assert!(world.gone && world.node.is_none() && world.user_data.is_none());
    assert_eq!(world.told("Draining"), 1);
}

#[test]
fn load_balancers_turn_away_before_the_virtual_machine_goes() {
    let mut world = World::running();
    let cluster = world.cluster.as_mut().unwrap();
    cluster.spec.addons.cloud_controller.enabled = true;
    world.pods = vec![pod("a")];
    world.delete();
    world.settle();
    assert!(
        !world.node.clone().unwrap().excluded,
        "its pod still serves"
    );
    world.pods.clear();
    world.settle();
    assert!(world.node.clone().unwrap().excluded);
    assert_eq!(world.condition("Drained"), said("True", "Drained"));
    assert!(!world.vm.clone().unwrap().deleting);
    let wait = world.plan().requeue_after.unwrap();
    assert!(wait <= LEAVE, "{wait:?}");
    world.later(LEAVE.as_secs() as i64);
    world.settle();
    assert!(world.vm.clone().unwrap().deleting);
}

#[test]
fn pods_that_nobody_ends_are_ended_once_nothing_of_the_machine_is_left() {
    let mut world = World::running();
    let cluster = world.cluster.as_mut().unwrap();
    cluster.spec.addons.cloud_controller.enabled = true;
    let going = Pod {
        going: true,
        ..pod("a")
    };
    world.pods = vec![going, pod("b")];
    world.node.as_mut().unwrap().volumes_attached = true;
    world.delete();
    (world.vm.as_mut().unwrap().state, world.api) = (State::Stopped, Api::Up);
    world.settle();
    assert!(world.vm.clone().unwrap().deleting && world.pods.len() == 2);
    world.vm = None;
    world.settle();
    assert_eq!(world.pods.len(), 2, "nobody has proven anything");
    world.node.as_mut().unwrap().out_of_service = true;
    world.settle();
    assert_eq!(world.pods, [pod("b")]);
    assert!(world.node.is_some() && !world.gone);
    world.node.as_mut().unwrap().volumes_attached = false;
    world.settle();
    assert!(world.gone);
}

#[test]
fn drain_that_a_budget_blocks_ends_with_its_time_out() {
    let mut world = World::running();
    world.pods = vec![pod("a")];
    world.protected = true;
    let took = world.goes();
    assert!((300..310).contains(&took.as_secs()), "{took:?}");
    assert_eq!(world.told("DrainGivenUp"), 1);
    assert_eq!(world.condition("Drained"), said("False", "DrainGivenUp"));
    let mut world = World::running();
    world.machine.spec.drain_timeout = "0s".into();
    world.pods = vec![pod("a")];
    world.protected = true;
    assert!(world.goes().as_secs() <= 3);
}

#[test]
fn pods_that_end_on_a_dead_node_are_not_waited_for() {
    let mut world = World::running();
    world.pods = vec![Pod {
        going: true,
        ..pod("a")
    }];
    world.node_is(None);
    world.delete();
    world.settle();
    assert!(world.vm.clone().unwrap().deleting);
}

#[test]
fn volumes_are_detached_before_the_virtual_machine_goes() {
    let mut world = World::running();
    world.pods = vec![pod("a")];
    world.node.as_mut().unwrap().volumes_attached = true;
    world.delete();
    world.settle();
    world.pods.clear();
    world.settle();
    assert!(!world.vm.clone().unwrap().deleting);
    world.node.as_mut().unwrap().volumes_attached = false;
    world.settle();
    assert!(world.vm.clone().unwrap().deleting);
    let mut stuck = World::running();
    stuck.node.as_mut().unwrap().volumes_attached = true;
    let took = stuck.goes();
    assert!((300..310).contains(&took.as_secs()), "{took:?}");
}

#[test]
fn node_of_a_machine_that_died_stays_for_its_volumes_where_somebody_detaches_them() {
    for helped in [true, false] {
        let mut world = World::running();
        let cluster = world.cluster.as_mut().unwrap();
        cluster.spec.addons.cloud_controller.enabled = helped;
        world.node.as_mut().unwrap().volumes_attached = true;
        // Whatever else there is to be done for it.
        world.published = Some(located("instance-1", "a", "10.0.1.7"));
        world.vm = None;
        world.settle();
        world.delete();
        world.settle();
        assert_eq!(world.node.is_some(), helped);
        if let Some(node) = &mut world.node {
            node.volumes_attached = false;
        }
        world.settle();
        assert!(world.gone && world.node.is_none());
    }
}

#[test]
fn machine_that_was_started_anew_is_not_drained() {
    let mut world = World::running();
    world.pods = vec![pod("a")];
    world.protected = true;
    world.vm.as_mut().unwrap().instance = Some("another".to_owned());
    world.settle();
    assert_eq!(world.phase(), MachinePhase::Failed);
    assert!(world.goes().as_secs() <= 3);
    assert_eq!(world.told("Draining"), 0);
}

#[test]
fn api_that_does_not_answer_holds_a_deletion_up_for_its_patience_only() {
    for api in [Api::Silent, Api::NotAsked] {
        let mut world = World::running();
        world.api = api;
        world.delete();
        world.settle();
        assert!(!world.vm.clone().unwrap().deleting);
        let took = world.goes();
        assert!(took.as_secs() >= PATIENCE.as_secs() as i64);
        assert!(
            took.as_secs() <= 2 * PATIENCE.as_secs() as i64 + 10,
            "{took:?}"
        );
        assert_eq!(world.told("NodeLeftBehind"), 1);
    }
}

#[test]
fn machine_that_never_joined_goes_without_asking_anybody() {
    let mut world = World::new();
    world.settle();
    world.vm_runs();
    world.settle();
    assert!(world.goes().as_secs() <= 3);
    assert!(world.token.is_none());
    let mut world = World::new();
    assert!(world.goes().as_secs() <= 1);
}

#[test]
fn machine_of_a_cluster_that_goes_is_not_drained() {
    let mut world = World::running();
    world.pods = vec![pod("a")];
    world.protected = true;
    world.cluster.as_mut().unwrap().metadata.deletion_timestamp = Some(Time(world.now));
    world.api = Api::Silent;
    assert!(world.goes().as_secs() <= 3);
    let mut world = World::running();
    (world.cluster, world.namespace) = (None, false);
    assert!(
        world.goes().as_secs() <= 1,
        "its namespace took everything along"
    );
}

#[test]
fn virtual_machine_of_another_is_not_deleted() {
    let mut world = World::new();
    world.vm = Some(Description {
        foreign: true,
        ..Description::default()
    });
    world.settle();
    assert_eq!(
        world.condition("Ready"),
        said("False", "VirtualMachineTaken")
    );
    world.goes();
    assert!(!world.vm.unwrap().deleting);
}
