//! What the adapter shows besides requests: calls of the Cluster Autoscaler, what of them was refused, its own
//! controllers, and how old what it knows is.
//!
//! Invariant: no label is a name; calls, codes and reasons are from closed sets.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use kit::metrics::readings::{Reading, Readings};
use kit::metrics::{Controller, ControllerMetrics};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tonic::Code;

use crate::cache::Cache;
use crate::cache::staleness::Staleness;
use crate::cache::state::State;
use crate::error::{Error, Refusal};
use crate::node_group::{self, Group};

#[derive(Clone, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
struct ByCode {
    method: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
struct ByReason {
    method: &'static str,
    reason: &'static str,
}

/// What is counted. Clones share it.
#[derive(Clone, Debug)]
pub struct Metrics {
    calls: Family<ByCode, Counter>,
    refused: Family<ByReason, Counter>,
    last_call: Gauge<f64, AtomicU64>,
    controllers: ControllerMetrics,
    /// Sizes that are brought within bounds.
    pub bounds: Controller,
    /// Refusals that are written on pools.
    pub refusals: Controller,
    /// Annotations of nodes.
    pub scale_down: Controller,
    /// The ConfigMap of priorities.
    pub priorities: Controller,
}

impl Default for Metrics {
    fn default() -> Self {
        let controllers = ControllerMetrics::default();
        let last_call = Gauge::default();
        // Nobody had a chance to call before that.
        last_call.set(now());
        Self {
            calls: Family::default(),
            refused: Family::default(),
            last_call,
            bounds: controllers.controller("bounds"),
            refusals: controllers.controller("refusals"),
            scale_down: controllers.controller("scale_down"),
            priorities: controllers.controller("priorities"),
            controllers,
        }
    }
}

/// In seconds since 1970.
fn now() -> f64 {
    let since = SystemTime::UNIX_EPOCH.elapsed();
    since.unwrap_or_default().as_secs_f64()
}

impl Metrics {
    /// Shows all of it, and what there is in the cache.
    pub fn register(&self, registry: &mut Registry, cache: Arc<Cache>, staleness: Arc<Staleness>) {
        self.controllers.show(registry);
        self.show(registry, cache, staleness);
    }

    fn show(&self, registry: &mut Registry, cache: Arc<Cache>, staleness: Arc<Staleness>) {
        let ours = registry.sub_registry_with_prefix("covey_autoscaler");
        let help = "Calls of the Cluster Autoscaler, by what was answered";
        ours.register("calls", help, self.calls.clone());
        let help = "Changes of the size of a node pool that were not made, by why";
        ours.register("refused", help, self.refused.clone());
        let help =
            "When the Cluster Autoscaler called last; before it did, when this process began";
        ours.register_with_unit(
            "last_call_timestamp",
            help,
            Unit::Seconds,
            self.last_call.clone(),
        );
        Readings::register(registry, move || {
            let age = staleness.broken_for().unwrap_or_default();
            vec![
                Reading::seconds(
                    "covey_autoscaler_world_age",
                    "How long nothing has been heard of node pools or machines though a watch broke off, else 0",
                    age.as_secs_f64(),
                ),
                cache.read(pools),
            ]
        });
    }

    /// A call was answered with this code.
    pub fn answered(&self, method: &'static str, code: Code) {
        let by = ByCode {
            method,
            code: proto::code::name(code),
        };
        self.calls.get_or_create(&by).inc();
        self.last_call.set(now());
    }

    /// A change that a call asked for was not made.
    pub fn refused(&self, method: &'static str, error: &Error) {
        let reason = match error {
            Error::Unknown(_) => "unknown",
            Error::Refused(Refusal::Invalid(_)) => "invalid",
            Error::Refused(Refusal::Bounds(_)) => "bounds",
            Error::Refused(Refusal::Room(_)) => "room",
            Error::Contended(_) => "contended",
            Error::Request { .. } => "request",
        };
        let by = ByReason { method, reason };
        self.refused.get_or_create(&by).inc();
    }
}

/// Pools by what the Cluster Autoscaler can still make of them.
fn pools(state: &State) -> Reading {
    let is = |group: &Group<'_>| {
        let replicas = group.pool.replicas;
        if replicas >= group.max() {
            "at_limit"
        } else if replicas >= group.most() {
            "no_room"
        } else {
            "free"
        }
    };
    let all: Vec<_> = node_group::groups(state).map(|group| is(&group)).collect();
    let number = |of: &'static str| {
        let number = all.iter().filter(|state| **state == of).count();
        (("state", of), number)
    };
    Reading::numbers(
        "covey_autoscaler_pools",
        "Node pools that the Cluster Autoscaler sizes",
        ["free", "at_limit", "no_room"].map(number),
    )
}

#[cfg(test)]
mod tests {
    use monitoring::catalogue::adapters::AUTOSCALER;
    use monitoring::exposition::differences;
    use serde_json::json;

    use super::*;
    use crate::testing::{cache, changed, pool, pool_event};

    #[test]
    fn pools_are_counted_by_what_can_be_made_of_them() {
        let manual = json!({ "spec": { "autoscaling": null } });
        let cache = cache([
            pool_event(&pool("a", 1, 0, 5)),
            pool_event(&pool("b", 5, 0, 5)),
            pool_event(&pool("c", 2, 0, 5)),
            pool_event(&changed(&pool("d", 2, 0, 5), manual)),
        ]);
        let reading = cache.read(pools);
        assert_eq!(reading.get(Some("free")), Some(2.0));
        assert_eq!(reading.get(Some("at_limit")), Some(1.0));
        assert_eq!(reading.get(Some("no_room")), Some(0.0));
    }

    #[test]
    fn all_that_is_shown_stands_in_the_catalogue_as_it_is_shown() {
        let metrics = Metrics::default();
        let mut registry = Registry::default();
        metrics.show(&mut registry, cache([]), Arc::default());
        metrics.answered("refresh", Code::Unavailable);
        let room = Error::Refused(Refusal::Room(String::new()));
        metrics.refused("IncreaseSize", &room);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert_eq!(differences(&[AUTOSCALER], &text), [""; 0]);
        for line in [
            r#"covey_autoscaler_calls_total{method="refresh",code="UNAVAILABLE"} 1"#,
            r#"covey_autoscaler_refused_total{method="IncreaseSize",reason="room"} 1"#,
            "covey_autoscaler_world_age_seconds 0.0",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
