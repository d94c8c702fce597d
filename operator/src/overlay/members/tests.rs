//! Laws over random worlds, and what each field follows from.

use api::machine::OverlayMember;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const CLUSTER: &str = "tc";

/// A Machine of a pool of Hosts, made at that second.
pub(crate) fn machine(name: &str, second: i64) -> Machine {
    let created = jiff::Timestamp::from_second(1_800_000_000 + second).unwrap();
    serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
        "metadata": { "name": name, "namespace": "team-a", "uid": format!("uid-{name}"),
            "creationTimestamp": created },
        "spec": { "clusterName": "demo", "clusterUID": CLUSTER, "poolName": "edge", "version": "1.35.4",
            "provider": { "static": {} } },
    }))
    .unwrap()
}

pub(crate) fn with_address(mut machine: Machine, address: &str) -> Machine {
    let overlay = &mut machine.status.get_or_insert_default().overlay;
    overlay.get_or_insert_default().address = address.to_owned();
    machine
}

fn with_key(mut machine: Machine, key: &str) -> Machine {
    let overlay = &mut machine.status.get_or_insert_default().overlay;
    overlay.get_or_insert_default().public_key = Some(key.to_owned());
    machine
}

fn key(number: u8) -> String {
    STANDARD.encode([number; KEY])
}

fn host(machine: &str, endpoint: Option<&str>) -> Host {
    let mut host = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Host",
        "metadata": { "name": format!("host-of-{machine}"), "namespace": "team-a" },
        "spec": { "address": "192.0.2.10", "user": "root", "sshKeySecretName": "ssh", "hostKeys": ["x"] },
        "status": { "claim": { "machineName": machine, "machineUID": format!("uid-{machine}"),
            "tenantClusterUID": CLUSTER } },
    });
    if let Some(endpoint) = endpoint {
        host["spec"]["overlayEndpoint"] = json!(endpoint);
    }
    serde_json::from_value(host).unwrap()
}

fn range() -> IpNet {
    "198.18.0.0/16".parse().unwrap()
}

fn of(machines: &[Machine], hosts: &[Host]) -> Overlay {
    overlay(CLUSTER, machines, hosts, &range())
}

#[test]
fn member_is_what_link_node_reads() {
    let one = with_key(with_address(machine("a", 1), "198.18.0.7"), &key(7));
    let hosts = [host("a", Some("203.0.113.20:51820"))];
    let text = &of(&[one], &hosts).texts()["a"];
    let read: Value = serde_json::from_str(text).unwrap();
    let wanted = json!({
        "address": "198.18.0.7", "site": "pool edge", "endpoint": "203.0.113.20:51820",
        "publicKey": key(7),
    });
    assert_eq!(read, wanted);
    // Longer ones are refused unread (docs/overlay.md).
    assert!(text.len() <= 512);
}

#[test]
fn site_follows_from_where_the_machine_is_made() {
    let mut north = with_address(machine("a", 1), "198.18.0.7");
    north.spec.location = Some("north".to_owned());
    let mut virtual_machine = with_address(machine("b", 2), "198.18.0.8");
    virtual_machine.spec.location = Some("north".to_owned());
    virtual_machine.spec.provider = serde_json::from_value(json!({ "kubevirt": {} })).unwrap();
    let pool = with_address(machine("c", 3), "198.18.0.9");
    let members = of(&[north, virtual_machine, pool], &[]).members;
    let sites: Vec<_> = members.values().map(|m| m.site.as_str()).collect();
    assert_eq!(sites, ["location north", "management-cluster", "pool edge"]);
}

#[test]
fn endpoint_is_the_hosts_that_the_machine_has_and_nobody_elses() {
    let machines = [
        with_address(machine("a", 1), "198.18.0.7"),
        with_address(machine("b", 2), "198.18.0.8"),
    ];
    let hosts = [host("a", None), host("b", Some("[2001:db8::20]:51820"))];
    let members = of(&machines, &hosts).members;
    assert_eq!(members["a"].endpoint, None);
    let wanted = "[2001:db8::20]:51820".parse().ok();
    assert_eq!(members["b"].endpoint, wanted);
}

#[test]
fn machine_that_failed_or_has_no_address_is_no_member_and_one_that_goes_is() {
    let mut failed = with_address(machine("failed", 1), "198.18.0.7");
    failed.status.as_mut().unwrap().phase = Some(MachinePhase::Failed);
    let mut going = with_address(machine("going", 2), "198.18.0.8");
    going.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    let elsewhere = with_address(machine("elsewhere", 3), "198.19.0.7");
    let machines = [failed, going, elsewhere, machine("new", 4)];
    let overlay = of(&machines, &[]);
    let names: Vec<_> = overlay.members.keys().collect();
    assert_eq!(names, ["going"]);
    assert_eq!(overlay.trouble, None);
}

#[test]
fn sites_without_a_way_to_each_other_are_named_with_what_mends_it() {
    let mut machines = [
        with_address(machine("a", 1), "198.18.0.7"),
        with_address(machine("b", 2), "198.18.0.8"),
    ];
    assert_eq!(of(&machines, &[]).trouble, None, "of one site");
    machines[1].spec.location = Some("north".to_owned());
    let (reason, message) = of(&machines, &[]).trouble.unwrap();
    assert_eq!(reason, Reason::OverlayWithoutWay);
    assert!(
        message.contains("nodes a (pool edge) and b (location north)"),
        "{message}"
    );
    assert!(message.contains("spec.overlayEndpoint"), "{message}");
    let hosts = [host("b", Some("203.0.113.20:51820"))];
    assert_eq!(of(&machines, &hosts).trouble, None);
}

#[test]
fn range_without_an_address_left_is_told() {
    let small: IpNet = "198.18.0.0/30".parse().unwrap();
    let mut machines = vec![
        with_address(machine("a", 1), "198.18.0.1"),
        with_address(machine("b", 2), "198.18.0.2"),
    ];
    let told = |machines: &[Machine]| {
        let hosts: [Host; 0] = [];
        overlay(CLUSTER, machines, &hosts, &small).trouble
    };
    assert_eq!(told(&machines), None);
    machines.push(machine("c", 3));
    let (reason, message) = told(&machines).unwrap();
    assert_eq!(reason, Reason::OverlayRangeFull);
    assert!(message.contains("Machine c"), "{message}");
}

#[test]
fn what_is_no_key_is_not_handed_on() {
    for text in ["", "x", "AAAA", &key(1)[1..], &format!("{} ", key(1))] {
        assert!(!is_key(text), "{text}");
        let one = with_key(with_address(machine("a", 1), "198.18.0.7"), text);
        assert_eq!(of(&[one], &[]).members["a"].public_key, None);
    }
    assert!(is_key(&key(1)));
}

/// Any status: addresses and keys that clash, none, or nonsense.
fn any_machine(name: usize) -> impl Strategy<Value = Machine> {
    let address = prop_oneof![
        Just(None),
        (1_u8..6).prop_map(|last| Some(format!("198.18.0.{last}"))),
        Just(Some("nonsense".to_owned())),
        Just(Some("10.0.0.1".to_owned())),
    ];
    let public_key = prop_oneof![
        Just(None),
        (1_u8..4).prop_map(|number| Some(key(number))),
        Just(Some("nonsense".to_owned())),
    ];
    (address, public_key, 0_i64..3, any::<bool>(), any::<bool>()).prop_map(
        move |(address, public_key, second, failed, foreign)| {
            let mut machine = machine(&format!("m{name}"), second);
            let status = machine.status.get_or_insert_default();
            status.overlay = address.map(|address| OverlayMember {
                address,
                public_key,
            });
            status.phase = failed.then_some(MachinePhase::Failed);
            if foreign {
                machine.spec.cluster_uid = "other".to_owned();
            }
            machine
        },
    )
}

fn any_world() -> impl Strategy<Value = Vec<Machine>> {
    let machines: Vec<_> = (0..8).map(any_machine).collect();
    machines.prop_shuffle()
}

proptest! {
    #[test]
    fn no_two_members_have_one_address_or_one_key(machines in any_world()) {
        let members = of(&machines, &[]).members;
        let addresses: BTreeSet<_> = members.values().map(|m| m.address).collect();
        prop_assert_eq!(addresses.len(), members.len());
        let keys: Vec<_> = members.values().filter_map(|m| m.public_key.clone()).collect();
        let distinct: BTreeSet<_> = keys.iter().collect();
        prop_assert_eq!(distinct.len(), keys.len());
        for (name, member) in &members {
            let machine = machines.iter().find(|m| m.name_any() == *name).unwrap();
            prop_assert_eq!(&machine.spec.cluster_uid, CLUSTER);
            prop_assert!(range().contains(&member.address));
        }
    }

    #[test]
    fn order_in_which_machines_are_seen_changes_nothing(machines in any_world()) {
        let mut other = machines.clone();
        other.reverse();
        prop_assert_eq!(of(&machines, &[]), of(&other, &[]));
    }

    /// What a younger Machine says or has never changes what an older one is.
    #[test]
    fn younger_machine_takes_nothing_from_an_older_one(machines in any_world(), last in any_machine(99)) {
        let before = of(&machines, &[]).members;
        let mut youngest = last;
        let now = jiff::Timestamp::from_second(1_900_000_000).unwrap();
        youngest.metadata.creation_timestamp = Some(Time(now));
        let mut with_it = machines;
        with_it.push(youngest);
        let after = of(&with_it, &[]).members;
        for (name, member) in before {
            prop_assert_eq!(after.get(&name), Some(&member), "{}", name);
        }
    }
}
