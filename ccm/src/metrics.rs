//! What it shows besides requests and reconciles: how many load balancers and nodes there are, and how far it lags.
//!
//! Invariant: no label is a name of the tenant's. How far it lags only the replica that leads shows: nobody takes
//! from the queue of another one.

use std::sync::Arc;

use kit::lease::Leadership;
use kit::metrics::readings::{Reading, Readings};
use kit::workqueue::Queue;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::cache::Cache;
use crate::cache::objects::Node;
use crate::cache::services::{DesiredLoadBalancer, desired_load_balancer};
use crate::cache::state::State;
use crate::cache::triggers::Key;
use crate::names;
use crate::pending::Pending;

/// Where it is read from.
pub struct Sources {
    /// What the watches told.
    pub cache: Arc<Cache>,
    /// Who is due.
    pub queue: Queue<Key>,
    /// Who had a turn and is not done.
    pub pending: Arc<Pending>,
    /// Whether we lead.
    pub leadership: Leadership,
}

/// Shows it whenever the metrics are read.
pub fn register(registry: &mut Registry, sources: Sources) {
    Readings::register(registry, move || {
        let Sources {
            cache,
            queue,
            pending,
            leadership,
        } = &sources;
        let leads = leadership.is_leader();
        let mut readings = vec![Reading::number(
            "covey_ccm_leader",
            "1 where this replica may write, else 0",
            usize::from(leads),
        )];
        readings.extend(cache.read(counts));
        if leads {
            readings.extend(lag(queue, pending, Instant::now()));
        }
        readings
    });
}

/// Load balancers and nodes.
fn counts(state: &State) -> [Reading; 2] {
    let (mut ready, mut waiting, mut leaving) = (0, 0, 0);
    for (_, service) in state.services() {
        let status = service.status.as_ref();
        let ingress = status.and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
        let has = ingress.is_some_and(|ingress| !ingress.is_empty());
        let finalizers = service.metadata.finalizers.iter().flatten();
        let held = finalizers
            .into_iter()
            .any(|finalizer| finalizer == names::FINALIZER);
        match desired_load_balancer(service, state.settings()) {
            DesiredLoadBalancer::Ours if has => ready += 1,
            DesiredLoadBalancer::Ours => waiting += 1,
            _ if held => leaving += 1,
            _ => {}
        }
    }
    let is_new = |node: &Node| node.is_tainted(api::names::TAINT_UNINITIALIZED);
    let new = state.nodes().filter(|(_, node)| is_new(node)).count();
    let nodes = state.nodes().count();
    let state = |value| ("state", value);
    [
        Reading::numbers(
            "covey_ccm_load_balancers",
            "Load balancers of Services of the tenant cluster",
            [
                (state("ready"), ready),
                (state("waiting"), waiting),
                (state("leaving"), leaving),
            ],
        ),
        Reading::numbers(
            "covey_ccm_nodes",
            "Nodes of the tenant cluster",
            [
                (state("initialized"), nodes - new),
                (state("uninitialized"), new),
            ],
        ),
    ]
}

/// How many are due, and how long the oldest has been pending.
fn lag(queue: &Queue<Key>, pending: &Pending, now: Instant) -> [Reading; 2] {
    let mut due = Vec::new();
    queue.each_due(|key, since| due.push((key.clone(), since)));
    let of = |is: fn(&Key) -> bool| due.iter().filter(|(key, _)| is(key)).count();
    let (nodes, services) = (
        of(|key| matches!(key, Key::Node(_))),
        of(|key| matches!(key, Key::Service(_))),
    );
    let oldest = pending.oldest(due.iter(), now);
    let controller = |value| ("controller", value);
    let object = |value| ("object", value);
    [
        Reading::numbers(
            "covey_queue_depth",
            "Objects that are due and wait for their turn",
            [
                (controller("node"), nodes),
                (controller("service"), services),
            ],
        ),
        Reading::seconds_by(
            "covey_ccm_oldest_pending",
            "How long the first node, Service or address has been waited for that is not as it is to be",
            [
                (object("node"), oldest.node.as_secs_f64()),
                (object("service"), oldest.service.as_secs_f64()),
                (object("address"), oldest.address.as_secs_f64()),
            ],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kit::lease::Candidate;
    use monitoring::catalogue::QUEUES;
    use monitoring::catalogue::adapters::CLOUD_CONTROLLER;
    use monitoring::exposition::differences;
    use serde_json::{Value, json};

    use super::*;
    use crate::cache::events::WatchEvent;

    fn service(name: &str, change: Value) -> WatchEvent {
        let mut service = json!({
            "metadata": {
                "name": name, "namespace": "default", "uid": name, "resourceVersion": "1",
                "finalizers": [names::FINALIZER],
            },
            "spec": { "type": "LoadBalancer" },
        });
        for (key, value) in change.as_object().unwrap() {
            service[key] = value.clone();
        }
        WatchEvent::Service(serde_json::from_value(service).unwrap())
    }

    fn node(name: &str, taints: Value) -> WatchEvent {
        let node = json!({
            "metadata": { "name": name, "uid": name, "resourceVersion": "1" },
            "spec": { "taints": taints },
        });
        WatchEvent::Node(Box::new(serde_json::from_value(node).unwrap()))
    }

    fn cache() -> Cache {
        let cache = Cache::new(Arc::default());
        let ready = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } });
        let new = json!([{ "key": api::names::TAINT_UNINITIALIZED, "effect": "NoSchedule" }]);
        for event in [
            service("ready", json!({ "status": ready })),
            service("waiting", json!({})),
            service("leaving", json!({ "spec": { "type": "ClusterIP" } })),
            node("old", json!([])),
            node("new", new),
        ] {
            drop(cache.put(event));
        }
        cache
    }

    #[test]
    fn load_balancers_and_nodes_are_counted_by_what_becomes_of_them() {
        let [balancers, nodes] = cache().read(counts);
        for state in ["ready", "waiting", "leaving"] {
            assert_eq!(balancers.get(Some(state)), Some(1.0), "{state}");
        }
        for state in ["initialized", "uninitialized"] {
            assert_eq!(nodes.get(Some(state)), Some(1.0), "{state}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lag_is_that_of_whoever_waits_longest() {
        let (queue, pending) = (Queue::new(), Pending::default());
        queue.add(Key::Service("a".to_owned()));
        tokio::time::advance(Duration::from_secs(70)).await;
        queue.add(Key::Node("n".to_owned()));
        let [depth, oldest] = lag(&queue, &pending, Instant::now());
        assert_eq!(depth.get(Some("service")), Some(1.0));
        assert_eq!(oldest.get(Some("service")), Some(70.0));
        assert_eq!(oldest.get(Some("node")), Some(0.0));
    }

    #[tokio::test]
    async fn all_that_is_shown_stands_in_the_catalogue_as_it_is_shown() {
        let sources = || Sources {
            cache: Arc::new(cache()),
            queue: Queue::new(),
            pending: Arc::default(),
            leadership: Leadership::always(),
        };
        let text = |sources| {
            let mut registry = Registry::default();
            register(&mut registry, sources);
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        let listed = [CLOUD_CONTROLLER, QUEUES];
        assert_eq!(differences(&listed, &text(sources())), [""; 0]);
        // Who does not lead tells nothing of its queue.
        let (leadership, _candidate) = Candidate::new();
        let waits = text(Sources {
            leadership,
            ..sources()
        });
        assert!(waits.contains("covey_ccm_leader 0.0"), "{waits}");
        assert!(!waits.contains("covey_ccm_oldest_pending"), "{waits}");
    }
}
