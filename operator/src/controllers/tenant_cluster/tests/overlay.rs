//! The addon `overlay` is switched on and off.
//!
//! Invariant: it is there before flannel goes by it, and goes only when flannel does not any more.

use std::collections::BTreeMap;

use tenant_cp::addons::addon::Addon as _;
use tenant_cp::addons::flannel::Flannel;
use tenant_cp::network::overlay::ADDON;

use super::*;
use crate::overlay::members::{Member, Overlay};

fn on() -> World {
    let mut world = ready(minimal());
    world.overlay = members(["a"]);
    switch(&mut world, true);
    world
}

fn switch(world: &mut World, enabled: bool) {
    let overlay = json!({ "overlay": { "enabled": enabled, "cidr": "198.18.0.0/16" } });
    world.cluster.spec.addons = serde_json::from_value(overlay).unwrap();
    world.settle();
}

fn members<const N: usize>(names: [&str; N]) -> Overlay {
    let member = |name: &str, last: u8| {
        let member = Member {
            address: std::net::IpAddr::from([198, 18, 0, last]),
            site: "pool edge".to_owned(),
            endpoint: None,
            public_key: None,
        };
        (name.to_owned(), member)
    };
    Overlay {
        members: (1..)
            .zip(names)
            .map(|(last, name)| member(name, last))
            .collect(),
        trouble: None,
    }
}

fn listed(world: &World) -> Option<BTreeMap<String, String>> {
    let key = Key::new("ConfigMap", "kube-system", api::names::OVERLAY_MEMBERS);
    let map = world.inside.get(&key)?;
    Some(serde_json::from_value(map["data"].clone()).unwrap_or_default())
}

fn names(world: &World) -> Vec<String> {
    listed(world).unwrap().into_keys().collect()
}

/// Kinds and names of what it has inside.
fn parts(world: &World) -> Vec<String> {
    let is_its = |live: &&Value| live["metadata"]["labels"][api::names::LABEL_ADDON] == ADDON;
    let all = world.inside.iter().filter(|(_, live)| is_its(live));
    all.map(|(key, _)| format!("{} {}", key.kind, key.name))
        .collect()
}

fn goes_by_the_overlay(world: &World) -> bool {
    let flannel = &world.inside[&Flannel.workload().unwrap()];
    flannel["spec"].to_string().contains("--iface=covey0")
}

#[test]
fn everything_of_it_is_there_and_flannel_goes_by_it() {
    let world = on();
    let wanted = [
        "ClusterRole covey:overlay",
        "ClusterRoleBinding covey:overlay",
        "ConfigMap covey-overlay",
        "DaemonSet covey-overlay",
        "Role covey:overlay",
        "RoleBinding covey:overlay",
        "ServiceAccount covey-overlay",
        "ValidatingAdmissionPolicy covey-overlay",
        "ValidatingAdmissionPolicy covey-overlay-pods",
        "ValidatingAdmissionPolicyBinding covey-overlay",
        "ValidatingAdmissionPolicyBinding covey-overlay-pods",
    ];
    assert_eq!(parts(&world), wanted);
    assert!(goes_by_the_overlay(&world));
    assert!(!goes_by_the_overlay(&ready(minimal())));
}

#[test]
fn members_follow_the_machines_and_a_silent_api_takes_nobody_away() {
    let mut world = on();
    assert_eq!(names(&world), ["a"]);
    world.overlay = members(["a", "b"]);
    world.settle();
    assert_eq!(names(&world), ["a", "b"]);
    let before = world.writes;
    world.settle();
    assert_eq!(world.writes, before);
    world.tenant_up = false;
    world.settle();
    world.tenant_up = true;
    world.settle();
    assert_eq!(names(&world), ["a", "b"]);
    world.overlay = members(["a"]);
    world.settle();
    assert_eq!(names(&world), ["a"]);
}

#[test]
fn members_that_somebody_edited_come_back() {
    let mut world = on();
    let key = Key::new("ConfigMap", "kube-system", api::names::OVERLAY_MEMBERS);
    let before = listed(&world);
    let live = world.inside.get_mut(&key).unwrap();
    live["data"]["a"] = json!("{\"address\":\"198.18.0.99\"}");
    live["hash"] = json!(null);
    world.list_due = true;
    world.settle();
    assert_eq!(listed(&world), before);
}

#[test]
fn overlay_that_is_switched_off_stays_until_flannel_is_back_and_then_nothing_is_left() {
    let mut world = on();
    world.daemons_stuck = true;
    switch(&mut world, false);
    assert!(!goes_by_the_overlay(&world), "flannel is told first");
    assert!(!parts(&world).is_empty());
    assert_eq!(names(&world), ["a"], "members stay with it");
    assert_eq!(
        world.condition("Progressing"),
        ("True".to_owned(), "SwitchingOverlayOff".to_owned())
    );
    world.daemons_stuck = false;
    let flannel = Flannel.workload().unwrap();
    let live = world.inside.get_mut(&flannel).unwrap();
    live["status"]["observedGeneration"] = live["metadata"]["generation"].clone();
    world.settle();
    assert_eq!(parts(&world), [""; 0]);
    assert_eq!(world.condition("Progressing").0, "False");
}

#[test]
fn overlay_that_is_switched_off_stays_while_a_node_is_known_by_its_address_there() {
    let mut world = on();
    world.left_in_overlay = ["a", "b"].map(str::to_owned).to_vec();
    switch(&mut world, false);
    assert!(!goes_by_the_overlay(&world));
    assert!(!parts(&world).is_empty());
    let said = ("True".to_owned(), "SwitchingOverlayOff".to_owned());
    assert_eq!(world.condition("Progressing"), said);
    let status = world.cluster.status.clone().unwrap();
    let mut all = status.conditions.iter();
    let progressing = all.find(|c| c.type_ == "Progressing").unwrap();
    assert!(progressing.message.contains("delete Machines a, b, each"));
    world.left_in_overlay.clear();
    world.settle();
    assert_eq!(parts(&world), [""; 0]);
    assert_eq!(world.condition("Progressing").0, "False");
}

#[test]
fn overlay_goes_at_once_with_flannel() {
    let mut world = on();
    world.daemons_stuck = true;
    let other = json!({ "cni": { "type": "none" } });
    world.cluster.spec.addons = serde_json::from_value(other).unwrap();
    world.settle();
    assert_eq!(parts(&world), [""; 0]);
}

#[test]
fn condition_says_what_a_person_has_to_mend_once_pods_run() {
    let mut world = on();
    world.workers = true;
    let trouble = (api::Reason::OverlayWithoutWay, "a and b".to_owned());
    world.overlay.trouble = Some(trouble);
    let count = |world: &mut World, ready: i64| {
        for live in world
            .inside
            .values_mut()
            .filter(|live| live["kind"] == "DaemonSet")
        {
            live["status"]["numberReady"] = json!(ready);
            live["status"]["desiredNumberScheduled"] = json!(2);
        }
        world.settle();
        world.condition("OverlayReady")
    };
    let said = |status: &str, reason: &str| (status.to_owned(), reason.to_owned());
    assert_eq!(count(&mut world, 0), said("False", "PodsNotReady"));
    assert_eq!(count(&mut world, 1), said("False", "OverlayWithoutWay"));
    world.overlay.trouble = None;
    assert_eq!(count(&mut world, 1), said("True", "PodsReady"));
}
