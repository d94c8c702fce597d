//! What holds for any Service, any machines, and whatever is found in the tenant namespace.
//!
//! Invariant: [`Clusters`] assert what an API would refuse, and that no finalizer goes early.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::clusters::{ALL, Clusters, service, target};
use crate::cache::endpoint_slices::{LocalEndpoints, Slice};
use crate::cache::objects::Target;
use crate::cache::services::{DesiredLoadBalancer, desired_load_balancer};
use crate::controllers::service::plan::plan;
use crate::limits::Over;
use crate::names;
use crate::settings::Endpoints;

fn choice(values: &[Value]) -> impl Strategy<Value = Value> + use<> {
    prop::sample::select(values.to_vec())
}

fn any_ports() -> impl Strategy<Value = Value> {
    let protocol = prop::sample::select(vec!["TCP", "UDP", "SCTP"]);
    let port = (protocol, 1..9_i32, 0..4_i32, prop::option::of("[ab]"));
    prop::collection::vec(port, 0..5).prop_map(|ports| {
        let mut seen = BTreeSet::new();
        let unique = ports
            .into_iter()
            .filter(|(protocol, port, ..)| seen.insert((*protocol, *port)));
        let port = |(index, (protocol, port, node_port, app)): (usize, (_, i32, i32, _))| {
            json!({
                "name": format!("p{index}"), "protocol": protocol, "port": port,
                "nodePort": if node_port == 0 { 0 } else { 30000 + node_port },
                "appProtocol": app,
            })
        };
        unique.enumerate().map(port).collect()
    })
}

/// ipFamilies and ipFamilyPolicy, as the API of a tenant cluster of one family, or of two, has them.
fn any_families() -> impl Strategy<Value = Value> {
    choice(&[
        json!([null, null]),
        json!([["IPv4"], "SingleStack"]),
        json!([["IPv4"], "PreferDualStack"]),
        json!([["IPv6"], "SingleStack"]),
        json!([["IPv6"], "PreferDualStack"]),
        json!([["IPv6", "IPv4"], "PreferDualStack"]),
        json!([["IPv4", "IPv6"], "RequireDualStack"]),
    ])
}

/// What a webhook of the management cluster makes of every mirror.
fn any_mutation() -> impl Strategy<Value = Value> {
    choice(&[
        json!(null),
        json!(null),
        json!({ "spec": { "externalTrafficPolicy": "Local" } }),
        json!({ "spec": { "loadBalancerSourceRanges": ["192.0.2.0/24"] } }),
        json!({ "metadata": { "annotations": { "covey.dev/service": "theirs" } } }),
    ])
}

prop_compose! {
    fn any_spec()(
        ports in any_ports(),
        kind in choice(&[json!("LoadBalancer"), json!("LoadBalancer"), json!("LoadBalancer"), json!("ClusterIP")]),
        class in choice(&[json!(null), json!(null), json!("ours"), json!("theirs")]),
        policy in choice(&[json!(null), json!("Local"), json!("Cluster")]),
        families in any_families(),
        affinity in choice(&[json!(null), json!("None"), json!("ClientIP")]),
        ranges in choice(&[json!(null), json!([]), json!(["10.0.0.0/8"])]),
        external in choice(&[json!(null), json!(["192.0.2.1", "203.0.113.9"]), json!(["nonsense"])]),
    ) -> Value {
        json!({
            "ports": ports, "type": kind, "loadBalancerClass": class, "externalTrafficPolicy": policy,
            "ipFamilies": families[0], "ipFamilyPolicy": families[1], "sessionAffinity": affinity, "loadBalancerSourceRanges": ranges,
            "externalIPs": external,
        })
    }
}

prop_compose! {
    fn any_target()(
        number in 0..300_u16,
        ready in prop::bool::weighted(0.8),
        serving in prop::bool::weighted(0.9),
        terminating in prop::bool::weighted(0.1),
        families in 0..4_u8,
        claimed_by in prop::option::weighted(0.2, 0..4_u8),
        borrowed in prop::option::weighted(0.1, 0..9_u16),
    ) -> Target {
        let mut target = target(number);
        // Another node claims the machine; another machine says that it has its addresses.
        if let Some(other) = claimed_by {
            target.node = format!("other-{number}-{other}").as_str().into();
        }
        if let Some(other) = borrowed {
            target.addresses = self::target(other).addresses;
        }
        target.addresses.retain(|ip| families & if ip.is_ipv4() { 1 } else { 2 } != 0);
        Target { ready: ready && serving && !terminating, serving, terminating, ..target }
    }
}

fn any_targets() -> impl Strategy<Value = Vec<Target>> {
    let most = prop_oneof![4 => Just(8_usize), 1 => Just(300)];
    most.prop_flat_map(|most| prop::collection::vec(any_target(), 0..most))
        .prop_map(|mut targets| {
            targets.sort();
            targets.dedup_by(|a, b| a.node == b.node);
            targets
        })
}

prop_compose! {
    fn any_clusters()(
        spec in any_spec(),
        targets in any_targets(),
        local in prop::collection::btree_map(0..300_u16, any::<(bool, bool)>(), 0..8),
        flags in any::<[bool; 6]>(),
        stacks in prop::sample::select(vec![vec!["IPv4"], vec!["IPv4", "IPv6"]]),
        mutation in any_mutation(),
        refuses in prop::bool::weighted(0.2),
        before in prop::option::of((any_spec(), any_targets())),
    ) -> Clusters {
        let [deleting, gone, held, selector, allocated, legacy] = flags;
        let mut clusters = Clusters::new(service(&json!({})));
        clusters.settings.classes.insert("ours".to_owned());
        clusters.settings.addresses = vec!["192.0.2.0/24".parse().unwrap()];
        clusters.settings.adopt = legacy;
        clusters.stacks = stacks;
        clusters.mutation = mutation;
        if legacy && allocated {
            let name = names::legacy_mirror(super::UID);
            clusters.foreign_mirror(&name, &json!({ "selector": { "a": "b" } }));
            clusters.slice_of_selector(&name);
        }
        // What somebody made of an earlier Service, with other machines and another mode.
        if let Some((before, earlier)) = before {
            clusters.targets = earlier;
            clusters.change(&json!({ "spec": before }));
            clusters.reconcile(ALL);
        }
        if selector {
            clusters.settings.endpoints = Endpoints::Selector([("c".to_owned(), "d".to_owned())].into());
        }
        clusters.targets = targets;
        clusters.local = local
            .into_iter()
            .map(|(node, (ready, serving))| {
                (format!("node-{node}").as_str().into(), LocalEndpoints { ready, serving: ready || serving })
            })
            .collect();
        if allocated && !clusters.mirrors.is_empty() {
            clusters.allocate("192.0.2.50");
        }
        // The class of a Service cannot change while it wants a load balancer.
        let mut spec = spec;
        let object = serde_json::to_value(clusters.service.as_ref()).unwrap();
        spec["loadBalancerClass"] = object["spec"]["loadBalancerClass"].clone();
        clusters.change(&json!({ "spec": spec }));
        clusters.held = held && deleting;
        if deleting {
            clusters.delete_service();
        } else if gone {
            clusters.service = None;
        }
        clusters.refuses = refuses;
        clusters.log.clear();
        clusters
    }
}

/// The targets that count: of several nodes on one machine the one that has its name, or else the first.
fn counted(clusters: &Clusters) -> Vec<&Target> {
    let mut machines: BTreeMap<_, &Target> = BTreeMap::new();
    for target in &clusters.targets {
        let best = machines.entry(&target.machine).or_insert(target);
        let rank = |t: &Target| (t.node != t.machine, std::sync::Arc::clone(&t.node));
        if rank(target) < rank(best) {
            *best = target;
        }
    }
    machines.into_values().collect()
}

/// Asserts that a mirror, if there is one that is to stay, sends traffic to each machine that is ready
/// once in each of its families, and nowhere else.
fn check_traffic(clusters: &Clusters) -> Result<(), TestCaseError> {
    let Some(mirror) = clusters.chosen() else {
        return Ok(());
    };
    let spec = clusters
        .service
        .as_ref()
        .and_then(|s| s.spec.clone())
        .unwrap();
    let local = spec.external_traffic_policy.as_deref() == Some("Local");
    let counted = counted(clusters);
    let families = mirror.spec.as_ref().and_then(|s| s.ip_families.clone());
    for family in families.unwrap_or_default() {
        let v4 = family == "IPv4";
        let pods = |t: &Target| clusters.local.get(&t.node).is_some_and(|p| p.ready);
        let ready = counted.iter().filter(|t| t.ready && (!local || pods(t)));
        let expected: BTreeSet<_> = ready
            .filter_map(|t| t.addresses.iter().find(|ip| ip.is_ipv4() == v4))
            .map(ToString::to_string)
            .collect();
        let slices = clusters.slices.values();
        let slices = slices.filter(|s| s.address_type == family && Slice::from(*s).ours);
        let is_ready = |e: &&k8s_openapi::api::discovery::v1::Endpoint| {
            e.conditions.as_ref().and_then(|c| c.ready) == Some(true)
        };
        let mut found: Vec<_> = slices
            .flat_map(|s| {
                s.endpoints
                    .iter()
                    .filter(is_ready)
                    .flat_map(|e| e.addresses.clone())
            })
            .collect();
        found.sort();
        let blind = !local && counted.iter().all(|t| !t.ready);
        if !blind {
            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }
    }
    Ok(())
}

/// The end, comparable: resource versions aside.
fn end(clusters: &Clusters) -> Value {
    let plain = |object: Value| {
        let mut object = object;
        if let Some(meta) = object["metadata"].as_object_mut() {
            meta.remove("resourceVersion");
        }
        object
    };
    let service = plain(serde_json::to_value(clusters.service.as_ref()).unwrap());
    let mirrors = clusters
        .mirrors
        .values()
        .map(|m| plain(serde_json::to_value(m).unwrap()));
    let slices = clusters
        .slices
        .values()
        .map(|s| plain(serde_json::to_value(s).unwrap()));
    json!({
        "service": service,
        "mirrors": mirrors.collect::<Vec<_>>(),
        "slices": slices.collect::<Vec<_>>(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_service_settles_and_a_second_look_writes_nothing(mut clusters in any_clusters()) {
        clusters.reconcile(ALL);
        prop_assert_eq!(clusters.reconcile(ALL), 0);
    }

    #[test]
    fn a_death_after_any_write_leads_to_the_same_end(clusters in any_clusters()) {
        let mut whole = clusters.clone();
        let writes = whole.reconcile(ALL);
        let whole = end(&whole);
        for budget in 0..writes {
            let mut cut = clusters.clone();
            cut.reconcile(budget);
            cut.restart();
            cut.reconcile(ALL);
            prop_assert_eq!(&end(&cut), &whole, "died after {} writes", budget);
        }
    }

    #[test]
    fn the_order_of_what_is_seen_makes_no_difference(clusters in any_clusters()) {
        let mut reversed = clusters.clone();
        reversed.reversed = true;
        prop_assert_eq!(
            plan(&reversed.observe(), &clusters.settings),
            plan(&clusters.observe(), &clusters.settings)
        );
    }

    #[test]
    fn every_machine_that_is_ready_gets_traffic_once_in_each_family(mut clusters in any_clusters()) {
        clusters.settings.endpoints = Endpoints::Slices;
        clusters.reconcile(ALL);
        check_traffic(&clusters)?;
    }

    #[test]
    fn machines_that_come_or_go_reach_the_slices_whatever_the_api_says_to_the_mirror(
        mut clusters in any_clusters(),
        spec in any_spec(),
        targets in any_targets(),
    ) {
        clusters.settings.endpoints = Endpoints::Slices;
        clusters.refuses = false;
        clusters.reconcile(ALL);
        clusters.refuses = true;
        if let Some(service) = &clusters.service {
            let mut spec = spec;
            spec["type"] = json!("LoadBalancer");
            spec["loadBalancerClass"] = json!(service.spec.as_ref().and_then(|s| s.load_balancer_class.clone()));
            clusters.change(&json!({ "spec": spec }));
        }
        clusters.targets = targets;
        clusters.reconcile(ALL);
        check_traffic(&clusters)?;
    }

    #[test]
    fn nothing_is_left_of_a_service_that_is_gone(mut clusters in any_clusters()) {
        clusters.held = false;
        clusters.delete_service();
        clusters.reconcile(ALL);
        clusters.reconcile(ALL);
        let theirs = clusters.service.as_ref().is_some();
        prop_assert!(theirs || (clusters.mirrors.is_empty() && clusters.slices.values().all(|s| !Slice::from(s).ours)));
    }

    #[test]
    fn what_is_urgent_takes_out_all_that_is_dead_and_nothing_that_lives(
        mut clusters in any_clusters(),
        lost in prop::collection::btree_set(0..300_u16, 0..40),
        came in any_targets(),
    ) {
        clusters.settings.endpoints = Endpoints::Slices;
        clusters.mutation = json!(null);
        clusters.refuses = false;
        clusters.reconcile(ALL);
        let before = ready(&clusters);
        clusters.targets.retain(|target| !lost.iter().any(|n| self::target(*n).machine == target.machine));
        clusters.targets.extend(came.into_iter().filter(|t| t.machine.len() % 2 == 0));
        clusters.targets.sort();
        clusters.targets.dedup_by(|a, b| a.node == b.node);
        let mut whole = clusters.clone();
        whole.reconcile(ALL);
        let after = ready(&whole);
        let stays: BTreeSet<_> = before.intersection(&after).cloned().collect();
        let mut cut = clusters.clone();
        cut.take_out(ALL);
        let now = ready(&cut);
        prop_assert!(stays.is_subset(&now), "{:?} lost", stays.difference(&now));
        if clusters.chosen().is_some() {
            prop_assert!(now.is_subset(&after), "{:?} dead", now.difference(&after));
        }
        // And the rest of it comes to the same end.
        cut.reconcile(ALL);
        prop_assert_eq!(end(&cut), end(&whole));
    }

    #[test]
    fn a_load_balancer_leads_to_the_most_machines_that_it_may_and_one_that_goes_moves_one(
        targets in any_targets(),
        most in 1..20_usize,
        gone in any::<prop::sample::Index>(),
    ) {
        let mut clusters = Clusters::new(service(&json!({})));
        clusters.targets = targets;
        clusters.settings.limits.endpoints = most;
        let mut all = clusters.clone();
        all.settings.limits.endpoints = ALL;
        all.reconcile(ALL);
        clusters.reconcile(ALL);
        let (every, few) = (ready(&all), ready(&clusters));
        if every.is_empty() {
            return Ok(());
        }
        prop_assert!(few.is_subset(&every));
        prop_assert_eq!(few.len(), every.len().min(most));
        prop_assert_eq!(clusters.complaints.contains(&"FewerEndpoints"), endpoints(&all) > most);
        prop_assert_eq!(clusters.reconcile(ALL), 0, "the same ones again");
        let gone = gone.get(&clusters.targets).machine.clone();
        clusters.targets.retain(|target| target.machine != gone);
        clusters.reconcile(ALL);
        let now = ready(&clusters);
        if clusters.targets.iter().any(|target| target.ready) {
            prop_assert!(now.difference(&few).count() <= 1, "{:?} {:?}", few, now);
        }
    }

    #[test]
    fn who_is_over_a_limit_keeps_what_it_had_and_gets_nothing_new(
        mut clusters in any_clusters(),
        over in prop::sample::select(vec![Over::Services, Over::Ports]),
    ) {
        clusters.over = Some(over);
        let Some(service) = clusters.service.clone() else {
            return Ok(());
        };
        let ours = desired_load_balancer(&service, &clusters.settings) == DesiredLoadBalancer::Ours;
        let before = clusters.mirrors.clone();
        clusters.reconcile(ALL);
        if ours {
            prop_assert_eq!(&clusters.mirrors, &before);
        }
        prop_assert_eq!(clusters.reconcile(ALL), 0);
    }
}

/// Addresses that new connections are sent to.
fn ready(clusters: &Clusters) -> BTreeSet<String> {
    super::ready_addresses(clusters).into_iter().collect()
}

/// All endpoints of all slices.
fn endpoints(clusters: &Clusters) -> usize {
    clusters
        .slices
        .values()
        .map(|slice| slice.endpoints.len())
        .sum()
}
