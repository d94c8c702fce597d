//! A world in which every step is carried out at once, and what has to hold in it at any time.

use api::foreign::kubevirt::{VirtualMachine, VirtualMachineInstance};
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Time};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::*;
use crate::machines::objects::tests::{fresh, vm};

const ADDRESS: &str = "172.16.0.7";

/// What there is of one virtual machine.
#[derive(Clone)]
struct World {
    vm: Option<VirtualMachine>,
    instance: Option<VirtualMachineInstance>,
    pod: Option<Pod>,
    life: Life<'static>,
    /// What was done, by name.
    done: Vec<&'static str>,
    instances: usize,
}

fn now() -> Time {
    Time(Timestamp::UNIX_EPOCH)
}

/// As the API server merges (RFC 7386).
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else if value.is_object() && into[key].is_object() {
            merge(&mut into[key], value);
        } else {
            into[key] = value.clone();
        }
    }
}

fn patched<K: Serialize + DeserializeOwned>(object: &K, patch: &Value) -> K {
    let mut value = serde_json::to_value(object).unwrap();
    merge(&mut value, patch);
    serde_json::from_value(value).unwrap()
}

impl World {
    fn new() -> Self {
        let mut vm = vm();
        vm.metadata.finalizers = None;
        Self {
            vm: Some(vm),
            instance: None,
            pod: None,
            life: Life::Missing,
            done: Vec::new(),
            instances: 0,
        }
    }

    fn next(&self) -> Option<Step> {
        next(Seen {
            vm: self.vm.as_ref(),
            instance: self.instance.as_ref(),
            pod: self.pod.as_ref(),
            life: self.life,
        })
    }

    /// What the node does: a pod runs, or is gone.
    fn kubelet(&mut self) {
        let Some(pod) = &mut self.pod else { return };
        if pod.metadata.deletion_timestamp.is_some() {
            self.pod = None;
            return;
        }
        let status = json!({
            "spec": { "nodeName": "management-0" },
            "status": { "phase": "Running", "podIP": ADDRESS },
        });
        *pod = patched(pod, &status);
    }

    fn carry_out(&mut self, step: Step) {
        let name = match step {
            Step::VmFinalizers(all) => {
                let vm = self.vm.as_mut().unwrap();
                let goes = all.is_empty() && is_going(vm);
                vm.metadata.finalizers = Some(all);
                if goes {
                    assert!(self.instance.is_none(), "its instance outlives it");
                    self.vm = None;
                }
                "vm finalizers"
            }
            Step::VmStatus(patch) => {
                self.vm = self.vm.as_ref().map(|vm| patched(vm, &patch));
                "vm status"
            }
            Step::MakeInstance(_) => {
                assert!(self.instance.is_none() && self.pod.is_none());
                assert_eq!(self.life, Life::Missing, "two machines of one name");
                self.instance = self.vm.as_ref().map(fresh);
                self.instances += 1;
                "make instance"
            }
            Step::InstanceStatus(patch) => {
                let failed = patch["status"]["phase"] == "Failed";
                assert!(
                    !failed || self.life == Life::Missing,
                    "it is said to be gone and runs"
                );
                self.instance = self.instance.as_ref().map(|one| patched(one, &patch));
                "instance status"
            }
            Step::InstanceFinalizers(all) => {
                assert!(all.is_empty() && self.pod.is_none());
                assert_eq!(self.life, Life::Missing, "it outlives its instance");
                self.instance = None;
                "instance finalizers"
            }
            Step::DeleteInstance => {
                let instance = self.instance.as_mut().unwrap();
                instance.metadata.deletion_timestamp = Some(now());
                "delete instance"
            }
            Step::MakePod(pod) => {
                assert!(self.pod.is_none());
                self.pod = Some(serde_json::from_value(pod).unwrap());
                "make pod"
            }
            Step::DeletePod => {
                assert_eq!(self.life, Life::Missing, "it is cut off while it runs");
                self.pod.as_mut().unwrap().metadata.deletion_timestamp = Some(now());
                "delete pod"
            }
            Step::Start => {
                assert!(self.pod.is_some());
                self.life = Life::Runs;
                "start"
            }
            Step::End => {
                self.life = Life::Missing;
                "end"
            }
        };
        self.done.push(name);
    }

    /// Until nothing happens any more.
    fn settle(&mut self) {
        for _ in 0..60 {
            match self.next() {
                Some(step) => self.carry_out(step),
                None => {
                    let before = serde_json::to_value(&self.pod).unwrap();
                    self.kubelet();
                    if serde_json::to_value(&self.pod).unwrap() == before {
                        return;
                    }
                }
            }
            if self.next().is_none() {
                self.kubelet();
            }
        }
        panic!("it comes to no rest: {:?}", self.done);
    }

    fn phase(&self) -> &str {
        self.instance.as_ref().map_or("none", phase)
    }

    fn settled() -> Self {
        let mut world = Self::new();
        world.settle();
        world.done.clear();
        world
    }
}

#[test]
fn a_virtual_machine_runs_and_then_nothing_is_written() {
    let mut world = World::new();
    world.settle();
    let status = world.instance.as_ref().unwrap().status.clone().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.node_name.as_deref(), Some("management-0"));
    let interfaces = status.interfaces.unwrap();
    assert_eq!(interfaces[0].ip_address.as_deref(), Some(ADDRESS));
    let vm = world.vm.as_ref().unwrap().status.clone().unwrap();
    assert_eq!(vm.printable_status.as_deref(), Some("Running"));
    assert_eq!((world.life, world.next()), (Life::Runs, None));
    assert_eq!(
        world.done.first(),
        Some(&"vm finalizers"),
        "held before anything is made"
    );
}

#[test]
fn one_that_is_deleted_goes_from_the_inside_out() {
    let mut world = World::settled();
    world.vm.as_mut().unwrap().metadata.deletion_timestamp = Some(now());
    world.settle();
    assert!(world.vm.is_none() && world.instance.is_none() && world.pod.is_none());
    assert_eq!(
        world.done,
        [
            "delete instance",
            "end",
            "delete pod",
            "instance finalizers",
            "vm finalizers"
        ]
    );
}

#[test]
fn what_is_deleted_at_any_moment_leaves_nothing() {
    // After so many steps of its creation.
    for steps in 0..20 {
        let mut world = World::new();
        for _ in 0..steps {
            match world.next() {
                Some(step) => world.carry_out(step),
                None => world.kubelet(),
            }
        }
        let vm = world.vm.as_mut().unwrap();
        if vm.finalizers().is_empty() {
            continue; // It would be gone at once.
        }
        vm.metadata.deletion_timestamp = Some(now());
        world.settle();
        let left = (
            world.vm.is_some(),
            world.instance.is_some(),
            world.pod.is_some(),
        );
        assert_eq!(left, (false, false, false), "after {steps} steps");
        assert_eq!(world.life, Life::Missing, "after {steps} steps");
    }
}

#[test]
fn a_machine_that_ends_or_loses_its_pod_is_replaced_by_a_new_instance() {
    let ended = |world: &mut World| world.life = Life::Ended;
    let no_pod = |world: &mut World| world.pod = None;
    let evicted = |world: &mut World| {
        world.pod.as_mut().unwrap().metadata.deletion_timestamp = Some(now());
    };
    let failed = |world: &mut World| {
        let status = json!({ "status": { "phase": "Failed" } });
        world.pod = world.pod.as_ref().map(|pod| patched(pod, &status));
    };
    for harm in [ended, no_pod, evicted, failed] {
        let mut world = World::settled();
        harm(&mut world);
        world.settle();
        assert_eq!(world.instances, 2, "{:?}", world.done);
        assert_eq!((world.phase(), world.life), ("Running", Life::Runs));
        let position = |name| world.done.iter().position(|done| *done == name);
        assert!(position("end") < position("instance status") || position("end").is_none());
    }
}

#[test]
fn a_halted_one_has_no_instance_and_runs_again_when_it_is_told_to() {
    let mut world = World::settled();
    let strategy = |world: &mut World, text: &str| {
        world.vm.as_mut().unwrap().spec.run_strategy = Some(text.to_owned());
    };
    strategy(&mut world, "Halted");
    world.settle();
    assert_eq!((world.phase(), world.life), ("none", Life::Missing));
    let status = world.vm.as_ref().unwrap().status.clone().unwrap();
    assert_eq!(status.printable_status.as_deref(), Some("Stopped"));
    assert_eq!(status.created, Some(false));
    strategy(&mut world, "RerunOnFailure");
    world.settle();
    assert_eq!((world.phase(), world.life), ("Running", Life::Runs));
}

#[test]
fn no_room_is_said_as_kubevirt_says_it() {
    let mut world = World::new();
    while world.pod.is_none() {
        let step = world.next().unwrap();
        world.carry_out(step);
    }
    let full = json!({ "status": { "phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available", "lastTransitionTime": "1970-01-01T00:00:00Z",
    }] } });
    world.pod = world.pod.as_ref().map(|pod| patched(pod, &full));
    while let Some(step) = world.next() {
        world.carry_out(step);
    }
    let status = world.instance.as_ref().unwrap().status.clone().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Scheduling"));
    let conditions = status.conditions.unwrap();
    let (reason, message) = (&conditions[0].reason, &conditions[0].message);
    assert_eq!(reason.as_deref(), Some("Unschedulable"));
    assert_eq!(message.as_deref(), Some("0/1 nodes are available"));
    world.settle();
    assert_eq!(world.phase(), "Running", "room came");
    let status = world.instance.as_ref().unwrap().status.clone().unwrap();
    assert_eq!(status.conditions.unwrap()[0].r#type, "Ready");
}

#[test]
fn why_a_machine_cannot_be_started_is_said_once_and_it_is_tried_again() {
    let mut world = World::new();
    while world.next() != Some(Step::Start) {
        match world.next() {
            Some(step) => world.carry_out(step),
            None => world.kubelet(),
        }
    }
    world.life = Life::Refused("no such version");
    let Some(Step::InstanceStatus(patch)) = world.next() else {
        panic!("nobody is told: {:?}", world.next())
    };
    assert_eq!(
        patch["status"]["conditions"][0]["message"],
        "no such version"
    );
    world.carry_out(Step::InstanceStatus(patch));
    assert_eq!(world.next(), Some(Step::Start));
    world.life = Life::Runs;
    world.settle();
    assert_eq!(world.phase(), "Running");
    let status = world.instance.as_ref().unwrap().status.clone().unwrap();
    assert_eq!(
        status.conditions.unwrap().len(),
        1,
        "the refusal is forgotten"
    );
}

#[test]
fn an_instance_without_virtual_machine_is_left_to_its_owner() {
    let mut world = World::settled();
    world.vm = None;
    assert_eq!(world.next(), None);
    let instance = world.instance.as_mut().unwrap();
    instance.metadata.deletion_timestamp = Some(now());
    world.settle();
    assert!(world.instance.is_none() && world.pod.is_none());
}
