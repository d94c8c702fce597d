//! What the overlay shows: metrics and `/state`.
//!
//! Invariant: labels are words of closed sets, never a node's name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use serde_json::{Value, json};

use crate::key::PublicKey;
use crate::plan::Plan;
use crate::tunnels::{Dropped, Session};

/// A session that is older has ended (the protocol's REJECT_AFTER_TIME).
const ENDS: Duration = Duration::from_secs(180);

/// What was seen last. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    shared: Arc<Mutex<Snapshot>>,
}

/// One look.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Who carries packets.
    pub driver: &'static str,
    /// The plan in force.
    pub plan: Plan,
    /// Sessions.
    pub sessions: BTreeMap<PublicKey, Session>,
    /// What was let go.
    pub dropped: Dropped,
}

impl Shown {
    /// Shows this from now on.
    pub fn set(&self, snapshot: Snapshot) {
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }

    fn get(&self) -> Snapshot {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.clone()
    }

    /// For `/state`. Keys are public ones.
    #[must_use]
    pub fn state(&self) -> Value {
        let shown = self.get();
        let peer = |(key, peer): (&PublicKey, &crate::plan::Peer)| {
            let session = shown.sessions.get(key);
            let at = session
                .and_then(|session| session.endpoint)
                .or(peer.endpoint);
            json!({
                "node": peer.name,
                "publicKey": key,
                "ranges": peer.ranges,
                "endpoint": at,
                "sessionSeconds": session.and_then(|s| s.age).map(|age| age.as_secs()),
                "sentBytes": session.map(|s| s.sent),
                "receivedBytes": session.map(|s| s.received),
            })
        };
        let refused = shown.plan.refused.iter().map(|(name, all)| {
            let all: Vec<_> = all.iter().map(ToString::to_string).collect();
            (name.clone(), json!(all))
        });
        json!({
            "driver": shown.driver,
            "address": shown.plan.address,
            "mtu": shown.plan.mtu,
            "peers": shown.plan.peers.iter().map(peer).collect::<Vec<_>>(),
            "refused": refused.collect::<serde_json::Map<_, _>>(),
            "unreachable": shown.plan.unreachable,
            "waiting": shown.plan.waiting,
        })
    }
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let shown = self.get();
        let sessions = shown.sessions.values();
        let alive = sessions.filter(|session| session.age.is_some_and(|age| age < ENDS));
        let (unreachable, waiting) = (&shown.plan.unreachable, &shown.plan.waiting);
        for (name, help, value) in [
            (
                "covey_overlay_peers",
                "Nodes that this one has a tunnel to",
                shown.plan.peers.len(),
            ),
            (
                "covey_overlay_sessions",
                "Peers that there is a session with",
                alive.count(),
            ),
            (
                "covey_overlay_unreachable",
                "Peers that neither end reaches",
                unreachable.len(),
            ),
            (
                "covey_overlay_waiting",
                "Members without a key yet",
                waiting.len(),
            ),
        ] {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let kind = gauge.metric_type();
            gauge.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        let mut refused = BTreeMap::<_, i64>::new();
        for refusal in shown.plan.refused.values().flatten() {
            *refused.entry(refusal.kind()).or_default() += 1;
        }
        let help = "Nodes, or parts of what they say, that were refused";
        let mut family =
            encoder.encode_descriptor("covey_overlay_refused", help, None, MetricType::Gauge)?;
        for (reason, count) in refused {
            let gauge = ConstGauge::new(count);
            gauge.encode(family.encode_family(&[("reason", reason)])?)?;
        }
        let help = "Packets that were let go";
        let dropped = shown.dropped;
        let mut family =
            encoder.encode_descriptor("covey_overlay_dropped", help, None, MetricType::Counter)?;
        for (reason, count) in [
            ("no_peer", dropped.no_peer),
            ("no_endpoint", dropped.no_endpoint),
            ("unknown", dropped.unknown),
            ("source", dropped.source),
            ("destination", dropped.destination),
        ] {
            let counter = ConstCounter::new(count);
            counter.encode(family.encode_family(&[("reason", reason)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::plan::refusal::Refusal;

    #[test]
    fn what_is_refused_shows_by_reason_and_in_words() {
        let shown = Shown::default();
        let mut plan = Plan::default();
        plan.refused
            .insert("b".to_owned(), [Refusal::KeyTaken("c".to_owned())].into());
        plan.waiting.insert("d".to_owned());
        shown.set(Snapshot {
            driver: "process",
            plan,
            dropped: Dropped {
                source: 3,
                ..Dropped::default()
            },
            ..Snapshot::default()
        });
        let mut registry = Registry::default();
        registry.register_collector(Box::new(shown.clone()));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"covey_overlay_refused{reason="key_taken"} 1"#,
            r#"covey_overlay_dropped_total{reason="source"} 3"#,
            "covey_overlay_waiting 1",
            "covey_overlay_peers 0",
        ] {
            assert!(text.contains(line), "no {line} in\n{text}");
        }
        let listed = [monitoring::catalogue::OVERLAY];
        let found = monitoring::exposition::differences(&listed, &text);
        assert_eq!(found, [""; 0]);
        let said = shown.state()["refused"]["b"][0].to_string();
        assert!(said.contains("that of node c"), "{said}");
    }
}
