//! Laws: whatever nodes say, in whatever order, nobody gets what is another's.

use proptest::prelude::*;

use super::super::change::{Step, steps};
use super::*;

/// Names, keys, addresses and ranges out of few, so that they meet.
fn any_node() -> impl Strategy<Value = Node> {
    let pods = prop::sample::select(vec![
        "10.128.1.0/24",
        "10.128.2.0/24",
        "10.128.3.0/24",
        "10.128.3.128/25",
        "10.128.0.0/18",
        "10.200.0.1/32",
        "0.0.0.0/0",
        "fd00:1::/64",
    ]);
    let pods = prop::collection::vec(pods.prop_map(net), 0..3);
    let endpoint = prop::sample::select(vec!["10.0.0.2:51820", "127.0.0.1:1", "10.200.0.2:1"]);
    let endpoint = prop::option::of(endpoint.prop_map(|text| text.parse().unwrap()));
    let key = prop::option::of((1_u8..7).prop_map(|byte| PublicKey([byte; 32])));
    let rest = (
        0_i64..4,
        key,
        endpoint,
        prop::option::of(any::<u16>()),
        pods,
    );
    rest.prop_map(|(created, key, endpoint, mtu, pods)| Node {
        created,
        key,
        endpoint,
        mtu,
        pods,
        unreadable: BTreeSet::new(),
    })
}

fn any_member() -> impl Strategy<Value = Member> {
    let address = (0_u8..7).prop_map(|last| IpAddr::from([10, 200, 0, last]));
    let site = prop::sample::select(vec!["", "home", "cloud"]);
    let endpoint = prop::sample::select(vec!["203.0.113.3:51820", "[2001:db8::1]:51820"]);
    let endpoint = prop::option::of(endpoint.prop_map(|text| text.parse().unwrap()));
    let accepted = prop::option::weighted(0.3, (1_u8..7).prop_map(|byte| PublicKey([byte; 32])));
    let all = (address, site, endpoint, accepted);
    all.prop_map(|(address, site, endpoint, public_key)| Member {
        address,
        site: site.to_owned(),
        endpoint,
        local_endpoint: None,
        public_key,
    })
}

fn any_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "d", "e", "f"]).prop_map(str::to_owned)
}

fn any_world() -> impl Strategy<Value = Observed> {
    let members = prop::collection::btree_map(any_name(), any_member(), 0..7);
    let nodes = prop::collection::btree_map(any_name(), any_node(), 0..7);
    (members, nodes).prop_map(|(by_name, nodes)| Observed {
        members: Some(Members {
            by_name,
            unreadable: BTreeSet::new(),
        }),
        nodes: Some(nodes),
    })
}

/// A device that knows what WireGuard's does: a range has one peer, the one that was given it last.
#[derive(Default)]
struct Device {
    ranges: BTreeMap<IpNet, PublicKey>,
    endpoints: BTreeMap<PublicKey, Option<SocketAddr>>,
}

impl Device {
    fn carry_out(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Remove(key) => {
                    self.ranges.retain(|_, owner| *owner != key);
                    self.endpoints.remove(&key);
                }
                Step::Set {
                    key,
                    peer,
                    endpoint,
                } => {
                    self.ranges.retain(|_, owner| *owner != key);
                    self.ranges
                        .extend(peer.ranges.iter().map(|range| (*range, key)));
                    let known = self.endpoints.entry(key).or_default();
                    *known = endpoint.or(*known);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn nobody_gets_what_is_not_its_own_and_no_two_the_same(seen in any_world()) {
        let plan = planned(&seen);
        let members = &seen.members.as_ref().unwrap().by_name;
        let nodes = seen.nodes.as_ref().unwrap();
        let mut given: Vec<IpNet> = Vec::new();
        for (key, peer) in &plan.peers {
            prop_assert_eq!(nodes[&peer.name].key, Some(*key));
            prop_assert_ne!(*key, this().key);
            let address = IpNet::from(members[&peer.name].address);
            for range in &peer.ranges {
                prop_assert!(*range == address || nodes[&peer.name].pods.contains(range));
                prop_assert!(*range == address || range.prefix_len() >= 24);
            }
            prop_assert!(peer.ranges.contains(&address));
            given.extend(&peer.ranges);
        }
        given.extend(plan.pods.iter().copied());
        given.extend(plan.address.map(IpNet::from));
        for (at, range) in given.iter().enumerate() {
            let twice = given[at + 1..].iter().find(|other| overlaps(other, range));
            prop_assert!(twice.is_none(), "{range} and {twice:?}");
        }
        // Routes lead to peers alone, those of whole ranges aside.
        let whole = [settings().range, settings().pods];
        for route in plan.routes.keys().filter(|route| !whole.contains(*route)) {
            prop_assert!(plan.peers.values().any(|peer| peer.ranges.contains(route)));
        }
        prop_assert!(plan.routes.values().all(|mtu| *mtu >= FLOOR && *mtu <= plan.mtu));
    }

    #[test]
    fn a_member_that_is_gone_is_gone_from_the_plan(mut seen in any_world(), name in any_name()) {
        members(&mut seen).remove(&name);
        let plan = planned(&seen);
        prop_assert!(peer(&plan, &name).is_none());
    }

    /// Whatever one node says, the others have at least what they would have without an older one.
    #[test]
    fn a_younger_node_takes_nothing_away(seen in any_world(), name in any_name(), says in any_node()) {
        prop_assume!(name != "a");
        let mut seen = seen;
        if let Some(member) = members(&mut seen).get_mut(&name) {
            member.public_key = None;
        }
        let mut without = seen.clone();
        nodes(&mut without).remove(&name);
        let mut with = without.clone();
        let youngest = Node { created: 9, ..says };
        nodes(&mut with).insert(name, youngest);
        let (without, with) = (planned(&without), planned(&with));
        for (key, peer) in &without.peers {
            prop_assert_eq!(with.peers.get(key), Some(peer));
        }
    }

    #[test]
    fn steps_lead_from_any_plan_to_any_other_and_then_to_nothing(
        first in any_world(),
        second in any_world(),
    ) {
        let (first, second) = (planned(&first).peers, planned(&second).peers);
        let mut device = Device::default();
        device.carry_out(steps(&BTreeMap::new(), &first));
        device.carry_out(steps(&first, &second));
        let wanted: BTreeMap<_, _> = second
            .iter()
            .flat_map(|(key, peer)| peer.ranges.iter().map(|range| (*range, *key)))
            .collect();
        prop_assert_eq!(&device.ranges, &wanted);
        for (key, peer) in &second {
            let known = device.endpoints[key];
            prop_assert!(peer.endpoint.is_none() || known == peer.endpoint);
        }
        prop_assert_eq!(steps(&second, &second), Vec::new());
    }
}

#[test]
fn where_a_peer_was_heard_stays_while_its_endpoint_does() {
    let old = planned(&world()).peers;
    let mut new = old.clone();
    for peer in new.values_mut() {
        peer.keepalive = Some(7);
    }
    for step in steps(&old, &new) {
        assert!(matches!(step, Step::Set { endpoint: None, .. }), "{step:?}");
    }
}
