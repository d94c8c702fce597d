//! What holds in any cache, compared with a count that keeps nothing.
//!
//! Invariant: "fits" is never said where every node lacks something.

use proptest::prelude::*;
use serde_json::json;

use super::super::read::Amount;
use super::*;

/// Nodes as (cpu, memory in MiB, places, whether machines run there), pods as (node, cpu, memory).
type Drawn = (Vec<(i64, i64, i64, bool)>, Vec<(usize, i64, i64)>);

fn drawn() -> impl Strategy<Value = Drawn> {
    let node = (0..3000_i64, 0..8192_i64, 0..4_i64, any::<bool>());
    let pod = (0..5_usize, 0..1500_i64, 0..4096_i64);
    (
        proptest::collection::vec(node, 0..5),
        proptest::collection::vec(pod, 0..12),
    )
}

fn told((nodes, pods): &Drawn) -> Vec<WatchedObject> {
    let nodes = nodes.iter().enumerate().map(|(n, (cpu, memory, places, takes))| {
        WatchedObject::Node(read(json!({
            "metadata": { "name": format!("n{n}"),
                "labels": { "kubevirt.io/schedulable": takes.to_string() } },
            "status": { "allocatable": { "cpu": format!("{cpu}m"), "memory": format!("{memory}Mi"),
                "pods": places } },
        })))
    });
    let pods = pods.iter().enumerate().map(|(n, (on, cpu, memory))| {
        let (cpu, memory) = (format!("{cpu}m"), format!("{memory}Mi"));
        pod(u32::try_from(n).unwrap(), &format!("n{on}"), &cpu, &memory)
    });
    nodes.chain(pods).collect()
}

/// Whether a node has capacity, counted anew and in the plainest way.
fn has_room((nodes, pods): &Drawn, needs: &Needs) -> bool {
    nodes
        .iter()
        .enumerate()
        .any(|(n, (cpu, memory, places, takes))| {
            let on = || pods.iter().filter(|pod| pod.0 == n);
            let (cpus, memories): (i64, i64) = (on().map(|p| p.1).sum(), on().map(|p| p.2).sum());
            let place = i64::try_from(on().count()).unwrap() < *places;
            *takes && place && cpu - cpus >= needs.cpu && (memory - memories) << 20 >= needs.memory
        })
}

proptest! {
    #[test]
    fn it_fits_exactly_where_a_node_has_room_in_whatever_order_it_was_told(
        drawn in drawn(),
        turn in any::<prop::sample::Index>(),
        again in any::<prop::sample::Index>(),
    ) {
        let seen = told(&drawn);
        let first = cache(seen.clone());
        let expected = match (drawn.0.is_empty(), has_room(&drawn, &needs())) {
            (true, _) => "",
            (false, true) => "Fits",
            (false, false) => "NoRoom",
        };
        prop_assert_eq!(reason(&first, &needs()), expected);
        let mut turned = seen.clone();
        if !turned.is_empty() {
            turned.rotate_left(turn.index(seen.len()));
            turned.reverse();
            turned.push(seen[again.index(seen.len())].clone());
        }
        prop_assert_eq!(
            decide(&cache(turned), &needs(), NS),
            decide(&first, &needs(), NS)
        );
        // Once everybody is gone nothing is left of them.
        let mut emptied = first;
        for seen in &seen {
            emptied.delete(seen);
        }
        prop_assert_eq!(emptied.counts(), (0, 0));
        for seen in seen.iter().filter(|seen| matches!(seen, WatchedObject::Node(_))) {
            emptied.apply(seen);
        }
        prop_assert!(emptied.nodes().all(|(_, slot)| slot.taken == Amount::default()));
    }
}
