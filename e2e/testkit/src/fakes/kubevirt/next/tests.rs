//! The order of what KubeVirt writes, on two objects in memory.
//!
//! Invariant: every story ends at rest.

use super::super::behaviour::Volumes;
use super::*;

/// A virtual machine and what became of it.
struct Story {
    vm: DynamicObject,
    instance: Option<DynamicObject>,
    behaviour: Behaviour,
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

/// JSON merge patch, as far as patches here go: no nulls but at the end of a path.
fn merge(target: &mut Value, patch: &Value) {
    match (target.as_object_mut(), patch.as_object()) {
        (Some(target), Some(patch)) => {
            for (key, value) in patch {
                match value {
                    Value::Null => drop(target.remove(key)),
                    _ => merge(target.entry(key.clone()).or_insert(Value::Null), value),
                }
            }
        }
        _ => *target = patch.clone(),
    }
}

fn merged(into: &DynamicObject, patch: &Value) -> DynamicObject {
    let mut value = serde_json::to_value(into).unwrap();
    merge(&mut value, patch);
    object(value)
}

impl Story {
    fn new() -> Self {
        let vm = object(json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": { "name": "a", "namespace": "n" },
            "spec": { "runStrategy": "Always", "template": { "spec": { "volumes": [] } } },
        }));
        Self {
            vm,
            instance: None,
            behaviour: Behaviour::default(),
        }
    }

    /// Runs until it rests; tells what was written.
    fn play(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        while let Some(step) = next(&self.vm, self.instance.as_ref(), self.behaviour) {
            assert!(told.len() < 20, "it does not come to rest: {told:#?}");
            told.push(self.carry_out(step));
        }
        told
    }

    fn carry_out(&mut self, step: Step) -> String {
        match step {
            Step::Finalizers(all) => {
                self.vm.metadata.finalizers = Some(all.clone());
                format!("finalizers {}", all.len())
            }
            Step::Status(patch) => {
                self.vm = merged(&self.vm, &patch);
                let text = self.vm.data["status"]["printableStatus"].as_str();
                text.unwrap().to_owned()
            }
            Step::Make(made) => {
                self.instance = Some(object(made));
                "made".to_owned()
            }
            Step::Instance(patch) => {
                let before = self.instance.take().unwrap();
                let now = self.instance.insert(merged(&before, &patch));
                if patch.get("spec").is_some() {
                    return "spec".to_owned();
                }
                match &patch["status"]["volumeStatus"] {
                    Value::Null => now.data["status"]["phase"].as_str().unwrap().to_owned(),
                    volumes => {
                        let phases = volumes.as_array().unwrap().iter();
                        let phases = phases.map(|v| v["phase"].as_str().unwrap());
                        phases.collect::<Vec<_>>().join(" ")
                    }
                }
            }
            Step::End => {
                self.instance = None;
                "ended".to_owned()
            }
        }
    }

    fn plug(&mut self, claims: &[&str]) {
        let volumes = claims.iter().map(|claim| {
            let source = json!({ "claimName": claim, "hotpluggable": true });
            json!({ "name": claim, "persistentVolumeClaim": source })
        });
        let mut all = vec![json!({ "name": "root", "containerDisk": { "image": "root" } })];
        all.extend(volumes);
        let template = json!({ "spec": { "template": { "spec": { "volumes": all } } } });
        self.vm = merged(&self.vm, &template);
    }

    fn delete(&mut self) {
        let deleted = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
        self.vm = merged(&self.vm, &deleted);
    }
}

#[test]
fn a_virtual_machine_runs_and_goes_after_its_instance() {
    let mut story = Story::new();
    assert_eq!(
        story.play(),
        ["finalizers 1", "made", "Running", "Running"],
        "the virtual machine is said to run after its instance does"
    );
    assert_eq!(story.vm.data["status"]["created"], true);
    story.delete();
    assert_eq!(story.play(), ["ended", "finalizers 0"]);
}

#[test]
fn an_instance_waits_for_room_and_runs_when_there_is_some() {
    let mut story = Story::new();
    story.behaviour.instances = Instances::Full;
    let told = story.play();
    assert_eq!(
        told[1..],
        ["made", "Scheduling", "ErrorUnschedulable"],
        "{told:?}"
    );
    story.behaviour.instances = Instances::Run;
    assert_eq!(story.play(), ["Running", "Running"]);
    story.behaviour.instances = Instances::Full;
    assert_eq!(story.play(), [""; 0], "what runs has its room");
}

#[test]
fn an_instance_is_refused_and_made_when_it_is_not() {
    let mut story = Story::new();
    story.behaviour.instances = Instances::Refused;
    assert_eq!(story.play(), ["finalizers 1", "Stopped"]);
    let conditions = |story: &Story| story.vm.data["status"]["conditions"].clone();
    assert_eq!(conditions(&story)[0]["reason"], "FailedCreate");
    story.behaviour.instances = Instances::Run;
    assert_eq!(story.play(), ["made", "Running", "Running"]);
    assert!(conditions(&story).is_null());
}

#[test]
fn a_volume_goes_through_all_phases_in_and_out() {
    let mut story = Story::new();
    story.play();
    story.plug(&["one"]);
    assert_eq!(
        story.play(),
        ["spec", "Bound", "AttachedToNode", "MountedToPod", "Ready"]
    );
    story.plug(&["one", "two"]);
    story.behaviour.volumes = Volumes::Stuck;
    assert_eq!(
        story.play(),
        ["spec", "Ready Bound", "Ready AttachedToNode"]
    );
    story.plug(&["two"]);
    story.behaviour.volumes = Volumes::Ready;
    let told = story.play();
    assert_eq!(
        told,
        [
            "spec",
            "UnMountedFromPod MountedToPod",
            "Detaching Ready",
            "Ready"
        ]
    );
    story.plug(&[]);
    story.behaviour.lets_go = false;
    assert_eq!(story.play(), [""; 0], "it clings to what it has");
    story.delete();
    assert_eq!(story.play(), ["finalizers 0"]);
    assert!(story.instance.is_some(), "and outlives its virtual machine");
}

#[test]
fn a_volume_on_its_way_waits_for_one_that_comes_after_it() {
    let mut story = Story::new();
    story.play();
    story.plug(&["one"]);
    for wanted in ["spec", "Bound", "AttachedToNode"] {
        let step = next(&story.vm, story.instance.as_ref(), story.behaviour).unwrap();
        assert_eq!(story.carry_out(step), wanted);
    }
    story.plug(&["one", "two"]);
    let told = story.play();
    assert_eq!(
        told[1..],
        [
            "AttachedToNode Bound",
            "AttachedToNode AttachedToNode",
            "MountedToPod MountedToPod",
            "Ready Ready"
        ],
        "{told:?}"
    );
}

#[test]
fn what_a_test_did_to_an_instance_stays() {
    let mut story = Story::new();
    story.play();
    for phase in ["Failed", "Succeeded", "Unknown"] {
        let instance = story.instance.take().unwrap();
        let patch = json!({ "status": { "phase": phase } });
        story.instance = Some(merged(&instance, &patch));
        assert_eq!(story.play(), [""; 0], "{phase}");
    }
    story.behaviour.awake = false;
    story.delete();
    assert_eq!(story.play(), [""; 0], "it is asleep");
}

#[test]
fn a_virtual_machine_that_is_halted_has_no_instance_and_keeps_others_finalizers() {
    let mut story = Story::new();
    story.vm = merged(
        &story.vm,
        &json!({ "metadata": { "finalizers": ["example.com/mine"] },
                 "spec": { "runStrategy": "Halted" } }),
    );
    assert_eq!(story.play(), ["finalizers 2", "Stopped"]);
    story.delete();
    assert_eq!(story.play(), ["finalizers 1"]);
    assert_eq!(story.vm.finalizers(), ["example.com/mine"]);
}
