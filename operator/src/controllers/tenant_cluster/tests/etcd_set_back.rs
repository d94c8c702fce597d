//! What members said of their logs: noted when they are gone, told to their start gates, and lowered by people alone.

use super::etcd::{repair, with_a_lost_member};
use super::*;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::plan::{Part, Plan};
use crate::etcd_replacement::step::Step;
use crate::etcd_space::looks::LastSaid;

fn kept(next: &Plan) -> Option<api::tenant_cluster::EtcdStatus> {
    next.actions().find_map(|action| match action {
        Action::KeepEtcd(etcd) => Some(etcd.clone()),
        _ => None,
    })
}

/// What the gates are told of each member's log: by what is written, else by what is there.
fn told(next: &Plan, observed: &Observed) -> Vec<Value> {
    let mut objects = next.parts.iter().flat_map(Part::objects);
    let secret = objects.find(|object| object.kind == "Secret" && object.name == "etcd");
    let there = || &observed.objects[&Key::new("Secret", NS, "etcd")];
    let secret = secret.map_or_else(there, |secret| &secret.value);
    let file = secret["data"]["identity.json"].as_str().unwrap();
    let file = base64::engine::general_purpose::STANDARD.decode(file);
    let file: Value = serde_json::from_slice(&file.unwrap()).unwrap();
    let members = file["members"].as_array().unwrap();
    members
        .iter()
        .map(|member| member["lastIndex"].clone())
        .collect()
}

fn said(world: &World, member: &str, applied: u64) -> BTreeMap<String, LastSaid> {
    let answer = LastSaid {
        applied,
        ..LastSaid::from(&world.member(member))
    };
    [(member.to_owned(), answer)].into()
}

fn next(world: &World, observed: &Observed) -> Plan {
    plan(observed, &world.settings, world.now)
}

#[test]
fn gate_of_a_member_that_is_gone_is_told_what_it_had() {
    let (world, mut observed) = with_a_lost_member();
    assert_eq!(kept(&next(&world, &observed)), None);
    observed.etcd_said = said(&world, "etcd-1", 5678);
    let etcd = kept(&next(&world, &observed)).unwrap();
    let noted: Vec<_> = etcd
        .members
        .iter()
        .map(|member| member.last_index)
        .collect();
    assert_eq!(noted, [None, Some(5678), None]);
    observed.cluster.status.as_mut().unwrap().etcd = Some(etcd);
    let again = next(&world, &observed);
    assert_eq!(kept(&again), None, "it is noted once");
    assert_eq!(
        told(&again, &observed),
        [Value::Null, json!(5678), Value::Null]
    );
    // An operator that knows nothing of it forgets nothing.
    observed.etcd_said.clear();
    assert_eq!(kept(&next(&world, &observed)), None);
    // People accept what is there.
    for (until, is_told) in [("5677", true), ("5678", false), ("all", true)] {
        let annotations = observed
            .cluster
            .metadata
            .annotations
            .get_or_insert_default();
        annotations.insert("covey.dev/accept-etcd-index".to_owned(), until.to_owned());
        let of_it = told(&next(&world, &observed), &observed).remove(1);
        assert_eq!(of_it == json!(5678), is_told, "{until}");
    }
}

#[test]
fn what_another_member_of_this_name_said_is_not_noted() {
    let (world, mut observed) = with_a_lost_member();
    let mut other = said(&world, "etcd-1", 5678);
    other.get_mut("etcd-1").unwrap().member_id = "1".to_owned();
    observed.etcd_said = other;
    assert_eq!(kept(&next(&world, &observed)), None);
    let mut other = said(&world, "etcd-1", 5678);
    other.get_mut("etcd-1").unwrap().cluster_id = "1".to_owned();
    observed.etcd_said = other;
    assert_eq!(kept(&next(&world, &observed)), None);
}

#[test]
fn one_of_three_whose_volume_was_set_back_is_replaced() {
    let (world, mut observed) = with_a_lost_member();
    // Its claim is the one that it had, and its gate says what is on it.
    let claim = Key::new("PersistentVolumeClaim", NS, "data-etcd-1");
    let claim = observed.objects.get_mut(&claim).unwrap();
    claim["metadata"]["uid"] = json!("uid-of-data-etcd-1");
    assert_eq!(repair(&next(&world, &observed)), None, "it is only away");
    let pod = Key::new("Pod", NS, "etcd-1");
    let pod = observed.objects.get_mut(&pod).unwrap();
    pod["status"]["initContainerStatuses"] = json!([{ "name": "gate", "state": { "terminated": {
        "exitCode": 18, "message": "OutdatedData: the volume of etcd-1 was set back" } } }]);
    let Some(Step::Record(begun)) = repair(&next(&world, &observed)) else {
        panic!("it is left alone");
    };
    assert_eq!(begun.replacing.unwrap().member, "etcd-1");
}
