//! Tests of the next call of a creation and of a deletion.

use proptest::prelude::*;

use super::*;
use crate::schema::Protection;

fn owner(uid: &str) -> Owner {
    Owner {
        installation: "i".to_owned(),
        tenant: "t".to_owned(),
        namespace: "covey-demo-1".to_owned(),
        pool: "workers".to_owned(),
        machine: "workers-a".to_owned(),
        uid: uid.to_owned(),
    }
}

fn project() -> Project {
    Project {
        installation: "i".to_owned(),
        location: "fsn1".to_owned(),
        ssh_keys: vec!["covey".to_owned()],
        network: Some("workers".to_owned()),
        ipv4: true,
        ipv6: true,
        ..Project::default()
    }
}

fn resolved() -> Resolved {
    Resolved {
        account: "ssh-key-1".to_owned(),
        network: Some(7),
        firewalls: vec![8],
    }
}

fn wanted() -> Wanted {
    Wanted {
        owner: owner("u"),
        server_type: "cx22".to_owned(),
        image: "4711".to_owned(),
        user_data: "#cloud-config\n".to_owned(),
    }
}

fn other_labels() -> crate::schema::Labels {
    owner("other").labels()
}

fn server(id: u64, uid: &str) -> Server {
    Server {
        id,
        name: owner(uid).name(),
        status: "running".to_owned(),
        labels: owner(uid).labels(),
        ..Server::default()
    }
}

fn ip(id: u64, uid: &str, family: Family) -> PrimaryIp {
    PrimaryIp {
        id,
        type_: family.as_str().to_owned(),
        labels: owner(uid).labels(),
        ..PrimaryIp::default()
    }
}

fn next(seen: &Seen) -> Creation {
    creation(&wanted(), &project(), &resolved(), seen)
}

#[test]
fn addresses_come_first_and_the_server_has_them() {
    let mut seen = Seen::default();
    let Creation::Address(Family::V4, made) = next(&seen) else {
        panic!("{:?}", next(&seen));
    };
    assert!(made.auto_delete);
    assert_eq!(made.labels, owner("u").labels());
    seen.addresses.push(ip(1, "u", Family::V4));
    assert!(matches!(next(&seen), Creation::Address(Family::V6, _)));
    seen.addresses.push(ip(2, "u", Family::V6));
    let Creation::Server(made) = next(&seen) else {
        panic!("{:?}", next(&seen));
    };
    assert_eq!(
        (made.public_net.ipv4, made.public_net.ipv6),
        (Some(1), Some(2))
    );
    assert_eq!((made.networks.clone(), made.firewalls.len()), (vec![7], 1));
    assert_eq!(made.labels, owner("u").labels());
    seen.servers.push(server(3, "u"));
    assert!(matches!(next(&seen), Creation::There(found) if found.id == 3));
}

#[test]
fn what_somebody_else_has_is_never_taken() {
    let seen = Seen {
        servers: vec![server(3, "other")],
        addresses: vec![ip(1, "other", Family::V4)],
    };
    assert!(matches!(next(&seen), Creation::Address(Family::V4, _)));
    assert_eq!(deletion(&owner("u"), &seen), Deletion::Nothing);
}

#[test]
fn of_two_servers_the_first_is_the_machines_and_both_go() {
    let mut seen = Seen {
        servers: vec![server(9, "u"), server(3, "u")],
        addresses: Vec::new(),
    };
    assert!(matches!(next(&seen), Creation::There(found) if found.id == 3));
    assert_eq!(deletion(&owner("u"), &seen), Deletion::Server(9));
    seen.servers.remove(0);
    assert_eq!(deletion(&owner("u"), &seen), Deletion::Server(3));
}

#[test]
fn nothing_is_asked_for_that_would_be_refused_or_lost() {
    let long = Wanted {
        user_data: "x".repeat(USER_DATA_LIMIT + 1),
        ..wanted()
    };
    let told = creation(&long, &project(), &resolved(), &Seen::default());
    assert!(matches!(told, Creation::Impossible(why) if why.contains("32769 bytes")));
    let keyless = Project {
        ssh_keys: Vec::new(),
        ..project()
    };
    let told = creation(&wanted(), &keyless, &resolved(), &Seen::default());
    assert!(matches!(told, Creation::Impossible(why) if why.contains("sshKeys")));
    let nowhere = Project {
        ipv4: false,
        ipv6: false,
        network: None,
        ..project()
    };
    let told = creation(&wanted(), &nowhere, &resolved(), &Seen::default());
    assert!(matches!(told, Creation::Impossible(why) if why.contains("publicIPv4")));
    let mut nameless = wanted();
    nameless.owner.uid = "a,b".to_owned();
    let told = creation(&nameless, &project(), &resolved(), &Seen::default());
    assert!(matches!(told, Creation::Impossible(_)));
}

#[test]
fn server_that_lost_its_labels_is_known_by_id_and_name_together() {
    let owner = owner("u");
    let mut bare = server(3, "u");
    assert_eq!(
        stray(&owner, Some(3), Some(&bare)),
        None,
        "it has its labels"
    );
    bare.labels.clear();
    assert_eq!(stray(&owner, Some(3), Some(&bare)), Some(&bare));
    assert_eq!(stray(&owner, Some(4), Some(&bare)), None);
    assert_eq!(stray(&owner, None, Some(&bare)), None);
    bare.labels = other_labels();
    assert_eq!(stray(&owner, Some(3), Some(&bare)), None);
    bare.labels.clear();
    bare.name = "other".to_owned();
    assert_eq!(stray(&owner, Some(3), Some(&bare)), None);
}

#[test]
fn address_that_belongs_to_something_else_is_waited_for() {
    let mut taken = ip(1, "u", Family::V4);
    taken.assignee_id = Some(5);
    let seen = Seen {
        servers: Vec::new(),
        addresses: vec![taken],
    };
    assert!(matches!(next(&seen), Creation::Busy(_)));
    assert_eq!(deletion(&owner("u"), &seen), Deletion::Wait);
}

#[test]
fn addresses_go_after_the_server_and_only_then_it_is_over() {
    let mut seen = Seen {
        servers: vec![server(3, "u")],
        addresses: vec![ip(1, "u", Family::V4)],
    };
    assert_eq!(deletion(&owner("u"), &seen), Deletion::Server(3));
    seen.servers[0].status = "deleting".to_owned();
    assert_eq!(deletion(&owner("u"), &seen), Deletion::Wait);
    seen.servers.clear();
    assert_eq!(deletion(&owner("u"), &seen), Deletion::Address(1));
    seen.addresses.clear();
    assert_eq!(deletion(&owner("u"), &seen), Deletion::Nothing);
}

#[test]
fn locked_is_waited_for_and_protection_is_told_and_left() {
    let mut seen = Seen {
        servers: vec![server(3, "u")],
        addresses: vec![ip(1, "u", Family::V4)],
    };
    seen.servers[0].locked = true;
    assert_eq!(deletion(&owner("u"), &seen), Deletion::Wait);
    seen.servers[0].locked = false;
    seen.servers[0].protection = Protection { delete: true };
    assert!(matches!(
        deletion(&owner("u"), &seen),
        Deletion::Protected(_)
    ));
    seen.servers.clear();
    seen.addresses[0].protection = Protection { delete: true };
    assert!(matches!(
        deletion(&owner("u"), &seen),
        Deletion::Protected(_)
    ));
}

fn any_server() -> impl Strategy<Value = Server> {
    let uid = prop_oneof![Just("u"), Just("other"), Just("")];
    let status = prop_oneof![Just("running"), Just("deleting"), Just("off")];
    (1..20_u64, uid, status, any::<bool>(), any::<bool>()).prop_map(
        |(id, uid, status, locked, delete)| Server {
            status: status.to_owned(),
            locked,
            protection: Protection { delete },
            ..server(id, uid)
        },
    )
}

fn any_ip() -> impl Strategy<Value = PrimaryIp> {
    let uid = prop_oneof![Just("u"), Just("other"), Just("")];
    let family = prop_oneof![Just(Family::V4), Just(Family::V6)];
    (
        20..40_u64,
        uid,
        family,
        proptest::option::of(1..20_u64),
        any::<bool>(),
    )
        .prop_map(|(id, uid, family, assignee_id, delete)| PrimaryIp {
            assignee_id,
            protection: Protection { delete },
            ..ip(id, uid, family)
        })
}

fn any_seen() -> impl Strategy<Value = Seen> {
    let servers = proptest::collection::vec(any_server(), 0..4);
    let addresses = proptest::collection::vec(any_ip(), 0..5);
    (servers, addresses).prop_map(|(servers, addresses)| Seen { servers, addresses })
}

proptest! {
    #[test]
    fn nothing_of_somebody_else_and_nothing_protected_is_deleted(seen in any_seen()) {
        let owner = owner("u");
        match deletion(&owner, &seen) {
            Deletion::Server(id) => {
                let known = seen.servers.iter().filter(|s| s.id == id);
                prop_assert!(known.clone().any(|s| owner.has(&s.labels) && !s.protection.delete));
            }
            Deletion::Address(id) => {
                let own = seen.addresses.iter().filter(|a| a.id == id);
                prop_assert!(own.clone().any(|a| owner.has(&a.labels) && a.assignee_id.is_none()));
                prop_assert!(!seen.servers.iter().any(|s| owner.has(&s.labels)));
            }
            Deletion::Nothing => {
                prop_assert!(!seen.servers.iter().any(|s| owner.has(&s.labels)));
                prop_assert!(!seen.addresses.iter().any(|a| owner.has(&a.labels)));
            }
            Deletion::Wait | Deletion::Protected(_) => {}
        }
    }

    #[test]
    fn no_server_is_made_where_one_is(seen in any_seen()) {
        let there = seen.servers.iter().any(|s| owner("u").has(&s.labels));
        prop_assert_eq!(matches!(next(&seen), Creation::There(_)), there);
    }

    #[test]
    fn order_makes_no_difference_to_a_creation(mut seen in any_seen()) {
        let mut turned = seen.clone();
        turned.servers.reverse();
        // Of several addresses any one will do.
        seen.addresses.dedup_by_key(|a| (a.type_.clone(), a.labels.clone()));
        turned.addresses = seen.addresses.clone();
        prop_assert_eq!(
            std::mem::discriminant(&next(&seen)),
            std::mem::discriminant(&next(&turned))
        );
    }
}
