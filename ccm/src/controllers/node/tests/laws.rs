//! What holds for any node, whatever becomes of its machine.
//!
//! Invariant: [`Clusters`] assert that no Node is deleted and none is declared out of service
//! without proof; here it only lives.

use k8s_openapi::api::core::v1::Taint;
use proptest::prelude::*;

use api::machine_addresses::RemoteState;

use super::elsewhere::remote;
use super::{ALL, Clusters, address, instance, taint};
use crate::cache::objects::{Instance, Node, Phase, Vm};
use crate::controllers::node::plan::Heartbeat;
use crate::names::{self, OUT_OF_SERVICE_BY_US, TAINT_OUT_OF_SERVICE, TAINT_SHUTDOWN};

fn any_taint() -> impl Strategy<Value = Taint> {
    let keys = prop::sample::select(vec![
        names::TAINT_UNINITIALIZED,
        TAINT_SHUTDOWN,
        TAINT_OUT_OF_SERVICE,
        "example.com/other",
    ]);
    let values = prop::sample::select(vec![None, Some(OUT_OF_SERVICE_BY_US), Some("x")]);
    (keys, values).prop_map(|(key, value)| taint(key, value))
}

prop_compose! {
    fn any_node()(
        taints in prop::collection::vec(any_taint(), 0..4),
        id in prop::sample::select(vec![None, Some("kubevirt://n"), Some("static://rack-a-1/n"), Some("other://n")]),
        ready: bool,
        deleting in prop::bool::weighted(0.1),
        ip in prop::sample::select(vec![None, None, Some("10.0.0.5"), Some("9.9.9.9"), Some("x,")]),
        addresses in prop::sample::subsequence(
            vec![address("Hostname", "n"), address("InternalIP", "10.0.0.5"), address("InternalIP", "1.1.1.1")],
            0..=3,
        ),
        zone in prop::option::of("[ab]"),
        volumes_attached: bool,
    ) -> Node {
        Node {
            name: "n".to_owned(),
            uid: "u".to_owned(),
            resource_version: "1".to_owned(),
            deleting,
            labels: zone.into_iter().map(|z| (names::TOPOLOGY[0][0].to_owned(), z)).collect(),
            provided_ip: ip.map(ToOwned::to_owned),
            provider_id: id.map(ToOwned::to_owned),
            taints,
            addresses,
            ready,
            volumes_attached,
        }
    }
}

prop_compose! {
    fn any_clusters()(
        node in any_node(),
        created: bool,
        zone in prop::option::of("[ab]"),
        there: (bool, bool),
        phase in prop::sample::select(vec![Phase::Running, Phase::Ended, Phase::Other]),
        deleting: bool,
        has_address in prop::bool::weighted(0.8),
        blind: bool,
        answers: bool,
        heartbeat in prop::sample::select(vec![Heartbeat::Recent, Heartbeat::Silent]),
        waited: bool,
        state in prop::option::of(prop::sample::select(vec![
            RemoteState::Present,
            RemoteState::Stopped,
            RemoteState::Gone,
        ])),
    ) -> Clusters {
        let vm = Vm { name: "n".to_owned(), uid: "v".to_owned(), created, topology: [zone, None, None] };
        let mut instance = Instance { phase, deleting, ..instance() };
        if !has_address {
            instance.addresses.clear();
        }
        Clusters {
            node: Some(node),
            remote: state.map(remote),
            vm: there.0.then_some(vm),
            instance: there.1.then_some(instance),
            blind,
            answers,
            heartbeat,
            waited,
            published: Vec::new(),
        }
    }
}

/// What is left of a node, its version aside.
fn end(clusters: &Clusters) -> Option<Node> {
    clusters.node.clone().map(|node| Node {
        resource_version: String::new(),
        ..node
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_node_settles_and_a_second_look_writes_nothing(mut clusters in any_clusters()) {
        clusters.reconcile(ALL);
        prop_assert_eq!(clusters.reconcile(ALL), 0, "{:?}", clusters);
    }

    #[test]
    fn a_death_after_any_write_leads_to_the_same_end(clusters in any_clusters(), seen in any_clusters()) {
        let mut whole = clusters.clone();
        let writes = whole.reconcile(ALL);
        for budget in 0..writes {
            let mut cut = clusters.clone();
            cut.reconcile(budget);
            cut.reconcile(ALL);
            prop_assert_eq!(end(&cut), end(&whole));
        }
        // What happens afterwards finds the same way, wherever it began.
        whole.vm = seen.vm;
        whole.instance = seen.instance;
        whole.remote = seen.remote;
        whole.reconcile(ALL);
        prop_assert_eq!(whole.reconcile(ALL), 0);
    }

    #[test]
    fn taints_labels_and_nodes_of_others_survive(mut clusters in any_clusters()) {
        let other = |w: &Clusters| {
            let node = w.node.clone();
            node.map(|n| n.taints.into_iter().filter(|t| t.key == "example.com/other").count())
        };
        let before = other(&clusters);
        clusters.reconcile(ALL);
        prop_assert!(clusters.node.is_none() || other(&clusters) == before);
    }
}
