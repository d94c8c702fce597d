//! Scenarios of the plan, and in [`laws`] what holds in any life of a Machine.
//!
//! Invariant: a test says what happens around the Machine and looks at what became of it.

use api::machine::MachinePhase;
use api::machine_addresses::PublishedAddresses;
use base64::Engine as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use providers::{Description, Evacuation, State, Topology};
use serde_json::json;

use super::observed::{Node, Pod};
use super::plan::{Action, LEAVE, PATIENCE};
use world::{Api, NAME, World};

mod adopting;
mod asking;
mod capabilities;
mod joining;
mod laws;
mod leaving;
mod overlay;
mod remote;
mod renewal;
mod restarts;
mod tokens;
mod world;

fn said(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

fn pod(name: &str) -> Pod {
    Pod {
        namespace: "default".into(),
        name: name.into(),
        uid: name.into(),
        going: false,
    }
}

#[test]
fn machine_goes_through_its_phases_and_then_writes_nothing() {
    let mut world = World::new();
    world.settle();
    assert_eq!(world.phase(), MachinePhase::Creating);
    assert_eq!(world.condition("Ready"), said("False", "Starting"));
    world.vm_runs();
    world.settle();
    assert_eq!(world.phase(), MachinePhase::Booting);
    assert_eq!(world.condition("Ready"), said("False", "Booting"));
    world.node_joins();
    world.settle();
    assert_eq!(world.phase(), MachinePhase::Joining);
    assert_eq!(world.condition("Ready"), said("False", "NodeNotReady"));
    world.node_is(Some(true));
    world.settle();
    assert_eq!(world.phase(), MachinePhase::Running);
    assert_eq!(world.condition("Ready"), said("True", "NodeReady"));
    let status = world.machine.status.clone().unwrap();
    assert_eq!(status.node_name.as_deref(), Some(NAME));
    assert_eq!(
        status.provider_id.as_deref(),
        Some("kubevirt://workers-x2k9p")
    );
    assert_eq!(status.instance.as_deref(), Some("instance-1"));
    assert_eq!(status.addresses[0].address, "10.0.1.7");
    assert_eq!(world.told("Joined"), 1);
    // What is asked for, user data, token, virtual machine; labels, token, user data; and four times the status.
    assert_eq!(world.writes, 11);
    for _ in 0..20 {
        world.settle();
        world.later(3600);
    }
    assert_eq!(world.writes, 11);
}

#[test]
fn no_copy_of_the_token_is_left_once_the_node_joined() {
    let mut world = World::new();
    world.settle();
    let token = world.token.clone().unwrap().token;
    assert_eq!(world.user_data.clone().unwrap().token, Some(token));
    world.comes_up();
    assert!(world.token.is_none());
    assert_eq!(world.user_data.clone().unwrap().token, None);
    let node = world.node.clone().unwrap();
    assert!(node.labels.contains_key("node-role.kubernetes.io/worker"));
    assert_eq!(node.labels["covey.dev/node-pool"], "workers");
    assert!(
        !node.labels.contains_key("tier"),
        "the kubelet sets that itself"
    );
}

#[test]
fn token_is_made_valid_for_longer_while_the_machine_has_not_joined() {
    let mut world = World::new();
    world.settle();
    let first = world.token.clone().unwrap();
    for _ in 0..5 {
        let wait = world.plan().requeue_after.unwrap();
        assert!(wait.as_secs() <= 20 * 60 + 1);
        world.later(wait.as_secs() as i64 + 1);
        world.settle();
        let token = world.token.clone().unwrap();
        assert_eq!(token.token, first.token);
        assert!(token.expires.unwrap().duration_since(world.now).as_mins() > 10);
    }
    // Kubernetes removed it, because nobody made it valid for longer.
    world.token = None;
    world.settle();
    assert_eq!(world.token.clone().unwrap().token, first.token);
    world.comes_up();
}

#[test]
fn user_data_that_somebody_deleted_comes_back_with_the_same_token() {
    let mut world = World::new();
    world.settle();
    let token = world.token.clone().unwrap().token;
    world.user_data = None;
    world.settle();
    assert_eq!(world.user_data.clone().unwrap().token, Some(token));
    assert_eq!(world.drawn, 1);
}

#[test]
fn kubelet_is_told_of_a_cloud_provider_only_where_there_is_a_cloud_controller() {
    for enabled in [false, true] {
        let mut world = World::new();
        world.settle();
        let addons = &mut world.cluster.as_mut().unwrap().spec.addons;
        addons.cloud_controller.enabled = enabled;
        let before = world.writes;
        world.settle();
        assert_eq!(world.writes, before, "what was made to boot with stays");
        world.user_data = None;
        let plan = world.plan();
        let found = plan.actions.iter().find_map(|action| match action {
            Action::CreateUserData(secret) => secret.value["data"]["userdata"].as_str(),
            _ => None,
        });
        let data = base64::engine::general_purpose::STANDARD.decode(found.unwrap());
        let data = String::from_utf8(data.unwrap()).unwrap();
        assert_eq!(data.contains("cloud-provider"), enabled, "{data}");
    }
}

#[test]
fn crash_after_any_write_ends_in_the_same_world() {
    let mut cut = 0;
    loop {
        let mut world = World::new();
        let mut died = false;
        for step in 0..6 {
            let mut budget = if died {
                usize::MAX
            } else {
                cut - world.writes.min(cut)
            };
            died |= !world.reconcile(&mut budget);
            match step {
                1 => world.vm_runs(),
                2 => world.node_joins(),
                3 => world.node_is(Some(true)),
                _ => {}
            }
        }
        world.comes_up();
        assert_eq!(world.vms_made, 1, "cut after write {cut}");
        assert_eq!(
            (world.token.clone(), world.user_data.clone().unwrap().token),
            (None, None)
        );
        assert_eq!(world.condition("Ready"), said("True", "NodeReady"));
        if !died {
            break;
        }
        cut += 1;
    }
    assert_eq!(cut, 11);
    for cut in 0..9 {
        let mut world = World::running();
        world.pods = vec![pod("a"), pod("b")];
        world.delete();
        let _ = world.reconcile(&mut cut.clone());
        world.goes();
        assert!(world.node.is_none() && world.vm.is_none() && world.user_data.is_none());
    }
}

#[test]
fn machine_is_placed_where_its_host_is_and_follows_it() {
    let mut world = World::running();
    for zone in [Some("a"), Some("b"), None] {
        let at = Topology {
            zone: zone.map(str::to_owned),
            region: Some("here".into()),
        };
        world.vm.as_mut().unwrap().topology = Some(at.clone());
        world.settle();
        assert_eq!(world.vm.as_ref().unwrap().labelled, at);
    }
    // Nobody knows where the host is: what was known is better than nothing.
    let before = world.writes;
    world.vm.as_mut().unwrap().topology = None;
    world.settle();
    assert_eq!(world.writes, before);
}

/// Findings D3 and S2: who maps traffic onto a machine may read no pods, and believed what the guest said.
#[test]
fn addresses_of_a_machine_are_published_and_follow_it() {
    let mut world = World::running();
    for (node, address) in [("a", "10.0.1.7"), ("b", "10.0.2.7")] {
        let located = located("instance-1", node, address);
        world
            .vm
            .as_mut()
            .unwrap()
            .locate(Some(located.clone()), None);
        world.settle();
        assert_eq!(world.published, Some(located));
        assert_eq!(
            world.machine.status.as_ref().unwrap().addresses[0].address,
            address
        );
    }
    let (before, published) = (world.writes, world.published.clone());
    world.vm.as_mut().unwrap().locate(None, published.as_ref());
    world.settle();
    assert_eq!(
        world.writes, before,
        "what was known is better than nothing"
    );
    // Somebody took it away.
    let known = published.clone();
    world.published = None;
    world.vm.as_mut().unwrap().locate(known, None);
    world.settle();
    assert_eq!(world.published, published);
}

#[test]
fn machine_that_went_or_runs_anew_has_no_addresses_of_before() {
    let mut world = World::running();
    let first = located("instance-1", "a", "10.0.1.7");
    world.vm.as_mut().unwrap().locate(Some(first.clone()), None);
    world.settle();
    let mut anew = world.clone();
    let vm = anew.vm.as_mut().unwrap();
    vm.instance = Some("instance-2".to_owned());
    vm.locate(None, Some(&first));
    let plan = anew.plan();
    assert!(
        plan.status.phase == Some(MachinePhase::Failed),
        "it is replaced"
    );
    world.goes();
    assert_eq!((world.gone, &world.published), (true, &None));
}

fn located(instance: &str, node: &str, address: &str) -> PublishedAddresses {
    PublishedAddresses {
        instance: instance.to_owned(),
        node: node.to_owned(),
        addresses: vec![address.parse().unwrap()],
    }
}

#[test]
fn nothing_is_made_while_the_control_plane_does_not_answer() {
    for api in [Api::Silent, Api::NotAsked] {
        let mut world = World::new();
        world.api = api;
        world.settle();
        assert_eq!(
            world.condition("Ready"),
            said("False", "WaitingForControlPlane")
        );
        assert!(world.vm.is_none() && world.user_data.is_none());
        assert!(world.plan().requeue_after.is_some());
        world.api = Api::Up;
        world.comes_up();
    }
}

#[test]
fn what_is_to_be_asked_later_keeps_its_conditions() {
    let mut world = World::running();
    for api in [Api::Up, Api::Silent] {
        world.api = api;
        world.settle();
        let before = (world.writes, world.machine.status.clone());
        world.api = Api::Postponed;
        world.settle();
        assert_eq!((world.writes, world.machine.status.clone()), before);
        assert!(world.plan().requeue_after.is_some());
    }
}

#[test]
fn outage_of_the_api_costs_a_running_machine_no_write() {
    let mut world = World::running();
    let before = world.writes;
    world.api = Api::Silent;
    world.settle();
    world.api = Api::NotAsked;
    world.settle();
    assert_eq!(world.writes, before);
    assert_eq!(world.condition("NodeReady").0, "True");
}

#[test]
fn words_of_a_tenant_alone_cause_no_write() {
    let mut world = World::running();
    world.node_is(Some(false));
    world.settle();
    let before = world.writes;
    for n in 0..5 {
        world.node.as_mut().unwrap().message = format!("something else {n}");
        world.settle();
    }
    assert_eq!(world.writes, before);
}

#[test]
fn node_that_goes_silent_and_comes_back_is_told_of() {
    let mut world = World::running();
    world.node_is(None);
    world.settle();
    assert_eq!(world.condition("NodeReady"), said("False", "NodeNotReady"));
    assert_eq!(world.phase(), MachinePhase::Running);
    world.node = None;
    world.settle();
    assert_eq!(world.condition("NodeReady"), said("False", "NodeGone"));
}

#[test]
fn node_of_the_same_name_with_another_provider_id_is_not_the_machine() {
    let mut world = World::new();
    world.node = Some(Node {
        uid: "foreign".into(),
        provider_id: "kubevirt://another".into(),
        ready: Some(true),
        ..Node::default()
    });
    world.settle();
    world.vm_runs();
    world.settle();
    assert_eq!(world.condition("NodeReady"), said("False", "NodeOfAnother"));
    assert!(world.token.is_some());
    world.goes();
    assert_eq!(world.node.unwrap().uid, "foreign");
}

#[test]
fn virtual_machine_that_vanishes_before_it_ran_is_made_again() {
    let mut world = World::new();
    world.settle();
    world.vm = None;
    world.settle();
    assert_eq!(world.vms_made, 2);
    world.comes_up();
}

#[test]
fn virtual_machine_that_is_lost_later_fails_the_machine() {
    for (vm, reason) in [
        (None, "VirtualMachineGone"),
        (
            Some(Description {
                deleting: true,
                ..Description::default()
            }),
            "VirtualMachineGone",
        ),
        (
            Some(Description {
                instance: Some("instance-2".into()),
                ..Description::default()
            }),
            "InstanceReplaced",
        ),
        (
            Some(Description {
                state: State::Stopped,
                ..Description::default()
            }),
            "VirtualMachineStopped",
        ),
        (
            Some(Description {
                foreign: true,
                ..Description::default()
            }),
            "VirtualMachineTaken",
        ),
    ] {
        let mut world = World::running();
        world.vm = vm;
        world.settle();
        assert_eq!(world.phase(), MachinePhase::Failed);
        assert_eq!(world.condition("Ready"), said("False", reason));
        assert_eq!(world.told(reason), 1);
        let (made, writes) = (world.vms_made, world.writes);
        world.settle();
        assert_eq!(
            (world.vms_made, world.writes),
            (made, writes),
            "it stays as it is"
        );
        world.goes();
    }
}

#[test]
fn virtual_machine_that_fails_is_told_of_with_the_reason() {
    let mut world = World::new();
    world.settle();
    world.vm.as_mut().unwrap().state = State::Failing {
        reason: api::ConditionReason::passed_on("ErrImagePull"),
        message: "no such image".into(),
    };
    world.settle();
    world.settle();
    assert_eq!(world.condition("Ready"), said("False", "ErrImagePull"));
    assert_eq!(world.told("VirtualMachineFailing"), 1);
    world.comes_up();
}

#[test]
fn paused_cluster_leaves_its_machines_alone_but_lets_them_go() {
    let mut world = World::new();
    world.cluster.as_mut().unwrap().spec.paused = true;
    world.settle();
    assert!(world.vm.is_none());
    assert_eq!(world.condition("Ready"), said("False", "Paused"));
    world.goes();
}

#[test]
fn request_of_a_stranger_for_a_serving_certificate_is_denied() {
    let mut world = World::running();
    let request = |user: &str| {
        json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": { "name": "csr-1" },
            "spec": {
                "signerName": "kubernetes.io/kubelet-serving", "username": user, "request": "",
                "groups": ["system:nodes"], "usages": ["digital signature", "server auth"],
            },
        })
    };
    world.requests = vec![request("system:node:another")];
    world.settle();
    assert_eq!(world.decided, [("csr-1".to_owned(), false)]);
    assert_eq!(world.told("CertificateDenied"), 1);
}
