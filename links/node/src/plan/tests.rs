//! Laws over random worlds, hostile ones too, and single cases.

mod laws;

use std::collections::BTreeMap;

use super::refusal::Refusal;
use super::*;
use crate::entries::Members;
use crate::settings::{Family, MAX_PEERS};

fn settings() -> Settings {
    Settings {
        range: "10.200.0.0/24".parse().unwrap(),
        pods: "10.128.0.0/18".parse().unwrap(),
        pods_prefix: 24,
        pod_traffic: Pods::Direct,
        endpoints: Family::Any,
        max_peers: MAX_PEERS,
    }
}

fn this() -> This {
    This {
        name: "a".to_owned(),
        key: PublicKey([1; 32]),
        mtu: 1500,
    }
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// a and b are at home, behind one address translation with nothing to reach them at; c is in a cloud.
fn world() -> Observed {
    let member = |number: u8, site: &str, endpoint: Option<&str>| Member {
        address: IpAddr::from([10, 200, 0, number]),
        site: site.to_owned(),
        endpoint: endpoint.map(|text| text.parse().unwrap()),
        local_endpoint: None,
        public_key: None,
    };
    let node = |number: u8| Node {
        created: number.into(),
        key: Some(PublicKey([number; 32])),
        endpoint: Some(SocketAddr::from(([10, 0, 0, number], 51820))),
        mtu: Some(1500),
        pods: vec![format!("10.128.{number}.0/24").parse().unwrap()],
        unreadable: BTreeSet::new(),
    };
    let by_name = [
        ("a", member(1, "home", None)),
        ("b", member(2, "home", None)),
        ("c", member(3, "cloud", Some("203.0.113.3:51820"))),
    ];
    let by_name = by_name
        .map(|(name, member)| (name.to_owned(), member))
        .into();
    let nodes = [("a", node(1)), ("b", node(2)), ("c", node(3))];
    Observed {
        members: Some(Members {
            by_name,
            unreadable: BTreeSet::new(),
        }),
        nodes: Some(nodes.map(|(name, node)| (name.to_owned(), node)).into()),
    }
}

fn members(seen: &mut Observed) -> &mut BTreeMap<String, Member> {
    &mut seen.members.as_mut().unwrap().by_name
}

fn nodes(seen: &mut Observed) -> &mut BTreeMap<String, Node> {
    seen.nodes.as_mut().unwrap()
}

fn planned(seen: &Observed) -> Plan {
    plan(&this(), &settings(), seen).unwrap()
}

fn peer<'a>(plan: &'a Plan, name: &str) -> Option<&'a Peer> {
    plan.peers.values().find(|peer| peer.name == name)
}

fn refused(plan: &Plan, name: &str) -> Vec<&'static str> {
    let refused = plan.refused.get(name).into_iter().flatten();
    refused.map(Refusal::kind).collect()
}

#[test]
fn near_peers_are_dialled_where_they_say_and_far_ones_where_they_are_published() {
    let plan = planned(&world());
    assert_eq!(plan.address, Some("10.200.0.1".parse().unwrap()));
    assert_eq!((plan.mtu, plan.pods), (1420, [net("10.128.1.0/24")].into()));
    assert!(plan.refused.is_empty() && plan.unreachable.is_empty() && plan.waiting.is_empty());
    let b = plan.peers.get(&PublicKey([2; 32])).unwrap();
    assert_eq!(b.endpoint, Some("10.0.0.2:51820".parse().unwrap()));
    assert_eq!(b.keepalive, None);
    let c = plan.peers.get(&PublicKey([3; 32])).unwrap();
    assert_eq!(c.endpoint, Some("203.0.113.3:51820".parse().unwrap()));
    // c has nowhere to dial: what a opened has to stay open.
    assert_eq!(c.keepalive, Some(25));
    assert_eq!(
        c.ranges,
        [net("10.200.0.3/32"), net("10.128.3.0/24")].into()
    );
    let routes: Vec<_> = plan.routes.keys().map(ToString::to_string).collect();
    let wanted = [
        "10.128.0.0/18",
        "10.128.2.0/24",
        "10.128.3.0/24",
        "10.200.0.0/24",
        "10.200.0.2/32",
        "10.200.0.3/32",
    ];
    assert_eq!(routes, wanted);
}

#[test]
fn a_published_node_waits_for_those_that_are_not() {
    let this = This {
        name: "c".to_owned(),
        key: PublicKey([3; 32]),
        ..this()
    };
    let plan = plan(&this, &settings(), &world()).unwrap();
    for name in ["a", "b"] {
        // 10.0.0.1 is another machine where c is.
        let peer = peer(&plan, name).unwrap();
        assert_eq!((peer.endpoint, peer.keepalive), (None, None));
    }
    assert!(plan.unreachable.is_empty());
}

#[test]
fn two_that_nobody_reaches_are_told_of() {
    let mut seen = world();
    members(&mut seen).get_mut("c").unwrap().endpoint = None;
    let plan = planned(&seen);
    assert_eq!(plan.unreachable, ["c".to_owned()].into());
    assert!(peer(&plan, "c").is_some());
}

#[test]
fn nodes_without_a_site_are_not_near_each_other() {
    let mut seen = world();
    for name in ["a", "b"] {
        members(&mut seen).get_mut(name).unwrap().site = String::new();
    }
    assert_eq!(planned(&seen).unreachable, ["b".to_owned()].into());
}

#[test]
fn pods_in_a_vxlan_have_no_routes_of_ours() {
    let settings = Settings {
        pod_traffic: Pods::Vxlan,
        ..settings()
    };
    let plan = plan(&this(), &settings, &world()).unwrap();
    let routes: Vec<_> = plan.routes.keys().map(ToString::to_string).collect();
    assert_eq!(routes, ["10.200.0.0/24", "10.200.0.2/32", "10.200.0.3/32"]);
}

#[test]
fn the_way_to_a_smaller_network_is_smaller() {
    let mut seen = world();
    nodes(&mut seen).get_mut("c").unwrap().mtu = Some(1460);
    // Nobody makes the way to another one smaller than any network is.
    nodes(&mut seen).get_mut("b").unwrap().mtu = Some(0);
    let plan = planned(&seen);
    assert_eq!(plan.mtu, 1420);
    assert_eq!(plan.routes[&net("10.200.0.3/32")], 1380);
    assert_eq!(plan.routes[&net("10.128.3.0/24")], 1380);
    assert_eq!(plan.routes[&net("10.200.0.2/32")], FLOOR);
}

#[test]
fn what_is_not_known_leaves_everything_as_it_is() {
    for part in [true, false] {
        let mut seen = world();
        if part {
            seen.members = None;
        } else {
            seen.nodes = None;
        }
        assert_eq!(plan(&this(), &settings(), &seen), None);
    }
}

#[test]
fn a_node_without_a_machine_is_no_peer_whatever_key_it_says() {
    let mut seen = world();
    members(&mut seen).remove("b");
    let plan = planned(&seen);
    assert_eq!(peer(&plan, "b"), None);
    assert_eq!(refused(&plan, "b"), ["no_member"]);
}

#[test]
fn a_machine_without_a_node_or_a_key_is_waited_for() {
    let mut seen = world();
    nodes(&mut seen).remove("b");
    nodes(&mut seen).get_mut("c").unwrap().key = None;
    let plan = planned(&seen);
    assert!(plan.peers.is_empty() && plan.refused.is_empty());
    assert_eq!(plan.waiting, ["b".to_owned(), "c".to_owned()].into());
}

#[test]
fn who_is_no_member_itself_has_no_tunnels() {
    let mut seen = world();
    members(&mut seen).remove("a");
    let plan = planned(&seen);
    assert_eq!(
        (plan.address, plan.peers.len(), plan.routes.len()),
        (None, 0, 0)
    );
}

#[test]
fn the_younger_of_two_that_claim_the_same_goes_without() {
    let mut seen = world();
    nodes(&mut seen).get_mut("c").unwrap().key = Some(PublicKey([2; 32]));
    let plan = planned(&seen);
    assert_eq!((peer(&plan, "b").is_some(), peer(&plan, "c")), (true, None));
    assert_eq!(refused(&plan, "c"), ["key_taken"]);

    let mut seen = world();
    nodes(&mut seen).get_mut("b").unwrap().created = 9;
    nodes(&mut seen).get_mut("b").unwrap().pods = vec![net("10.128.3.128/25")];
    let plan = planned(&seen);
    assert_eq!(refused(&plan, "b"), ["pods_taken"]);
    // Its address it keeps.
    let b = peer(&plan, "b").unwrap();
    assert_eq!(b.ranges, [net("10.200.0.2/32")].into());
}

#[test]
fn an_accepted_key_is_its_members_however_old_the_other_is() {
    let mut seen = world();
    let accepted = Some(PublicKey([3; 32]));
    members(&mut seen).get_mut("c").unwrap().public_key = accepted;
    nodes(&mut seen).get_mut("b").unwrap().key = accepted;
    let plan = planned(&seen);
    assert_eq!(refused(&plan, "b"), ["key_taken"]);
    assert!(peer(&plan, "c").is_some());
    // And it has no other one.
    nodes(&mut seen).get_mut("c").unwrap().key = Some(PublicKey([4; 32]));
    let plan = planned(&seen);
    assert_eq!(refused(&plan, "c"), ["key_not_accepted"]);
    assert_eq!(peer(&plan, "c"), None);
}

#[test]
fn what_is_this_nodes_own_nobody_gets() {
    let mut seen = world();
    let b = nodes(&mut seen).get_mut("b").unwrap();
    b.created = -1;
    b.key = Some(PublicKey([1; 32]));
    let c = nodes(&mut seen).get_mut("c").unwrap();
    c.created = -1;
    c.pods = vec![net("10.128.1.0/24")];
    let plan = planned(&seen);
    assert_eq!(refused(&plan, "b"), ["key_taken"]);
    assert_eq!(refused(&plan, "c"), ["pods_taken"]);
}

#[test]
fn ranges_that_are_not_one_nodes_are_refused() {
    for (pods, kind) in [
        ("0.0.0.0/0", "pods_outside"),
        ("10.128.0.0/18", "pods_outside"),
        ("10.200.0.0/24", "pods_outside"),
        ("10.128.64.0/24", "pods_outside"),
    ] {
        let mut seen = world();
        nodes(&mut seen).get_mut("c").unwrap().pods = vec![net(pods)];
        let plan = planned(&seen);
        assert_eq!(refused(&plan, "c"), [kind], "{pods}");
        assert_eq!(peer(&plan, "c").unwrap().ranges.len(), 1, "{pods}");
    }
    for address in ["10.201.0.1", "10.200.0.0", "10.200.0.255", "fd00::1"] {
        let mut seen = world();
        members(&mut seen).get_mut("c").unwrap().address = address.parse().unwrap();
        let plan = planned(&seen);
        assert_eq!(refused(&plan, "c"), ["address_outside"], "{address}");
        assert_eq!(peer(&plan, "c"), None, "{address}");
    }
}

#[test]
fn nothing_is_sent_to_odd_endpoints() {
    for endpoint in [
        "127.0.0.1:51820",
        "0.0.0.0:51820",
        "169.254.169.254:80",
        "224.0.0.1:51820",
        "255.255.255.255:51820",
        "10.200.0.3:51820",
        "10.128.7.7:51820",
        "10.0.0.2:0",
        "[::1]:51820",
        "[fe80::1]:51820",
        "[ff02::1]:51820",
    ] {
        let mut seen = world();
        nodes(&mut seen).get_mut("b").unwrap().endpoint = Some(endpoint.parse().unwrap());
        let plan = planned(&seen);
        assert_eq!(refused(&plan, "b"), ["endpoint"], "{endpoint}");
        // It may still begin.
        assert_eq!(peer(&plan, "b").unwrap().endpoint, None, "{endpoint}");
    }
}

#[test]
fn peers_are_bounded_and_the_older_ones_stay() {
    let settings = Settings {
        max_peers: 1,
        ..settings()
    };
    let mut seen = world();
    nodes(&mut seen).get_mut("b").unwrap().created = 9;
    let plan = plan(&this(), &settings, &seen).unwrap();
    assert_eq!(plan.peers.len(), 1);
    assert!(peer(&plan, "c").is_some());
    assert_eq!(refused(&plan, "b"), ["too_many"]);
}

#[test]
fn each_refusal_says_what_to_do() {
    let all = [
        Refusal::MemberUnreadable,
        Refusal::NoMember,
        Refusal::Unreadable("field".to_owned()),
        Refusal::AddressOutside([10, 0, 0, 1].into(), net("10.200.0.0/24")),
        Refusal::AddressTaken([10, 0, 0, 1].into(), "a".to_owned()),
        Refusal::KeyNotAccepted,
        Refusal::KeyTaken("a".to_owned()),
        Refusal::PodsOutside(net("0.0.0.0/0"), net("10.128.0.0/18")),
        Refusal::PodsTaken(net("10.128.1.0/24"), "a".to_owned()),
        Refusal::Endpoint("127.0.0.1:1".parse().unwrap()),
        Refusal::TooMany(500),
    ];
    let kinds: BTreeSet<_> = all.iter().map(Refusal::kind).collect();
    assert_eq!(kinds.len(), all.len());
    for refusal in all {
        assert!(refusal.to_string().contains(": "), "{refusal}");
    }
}
