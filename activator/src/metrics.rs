//! What the activator counts.
//!
//! Invariant: labels are from closed sets; who woke whom, by address, is in the log, in `/state` and in the Lease.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use serde_json::{Value, json};

/// So many wakes are shown in `/state`.
const SHOWN: usize = 64;

#[derive(Clone, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
struct ByEnd {
    end: &'static str,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
struct ByResult {
    result: &'static str,
}

/// How a connection ended, or went on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// From an address that may not wake.
    Refused,
    /// As many wait already as may.
    Full,
    /// It sent no ClientHello, or none in time.
    NoHello,
    /// Nobody was there in time.
    TimedOut,
    /// Its port is another's or nobody's now.
    Gone,
    /// The client went.
    Left,
    /// It was handed to the control plane.
    Spliced,
}

impl End {
    fn label(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Full => "full",
            Self::NoHello => "no_hello",
            Self::TimedOut => "timed_out",
            Self::Gone => "gone",
            Self::Left => "left",
            Self::Spliced => "spliced",
        }
    }
}

/// The metrics, and the last wakes. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    connections: Family<ByEnd, Counter>,
    wakes: Family<ByResult, Counter>,
    /// Connections that are held.
    pub held: Gauge,
    /// Connections that are spliced.
    pub spliced: Gauge,
    /// Ports that are open.
    pub ports: Gauge,
    /// Seconds from a whole ClientHello to the control plane.
    pub waited: Histogram,
    last: Arc<Mutex<VecDeque<Woke>>>,
}

#[derive(Clone, Debug)]
struct Woke {
    uid: String,
    client: String,
    at: Timestamp,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            connections: Family::default(),
            wakes: Family::default(),
            held: Gauge::default(),
            spliced: Gauge::default(),
            ports: Gauge::default(),
            waited: Histogram::new([
                0.01, 0.1, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0,
            ]),
            last: Arc::default(),
        }
    }
}

impl Metrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        let all = this.clone();
        let registry = registry.sub_registry_with_prefix("covey_activator");
        registry.register(
            "connections",
            "Connections, by what became of them",
            all.connections,
        );
        registry.register(
            "wakes",
            "Wakes that clients caused, by what came of it",
            all.wakes,
        );
        registry.register(
            "held_connections",
            "Connections that wait for a control plane",
            all.held,
        );
        registry.register(
            "spliced_connections",
            "Connections that are handed on",
            all.spliced,
        );
        registry.register("ports", "Ports on which somebody is waited for", all.ports);
        let help = "From a whole ClientHello to the control plane";
        registry.register_with_unit("wait", help, Unit::Seconds, all.waited);
        this
    }

    /// A connection ended, or went on.
    pub fn ended(&self, end: End) {
        self.connections
            .get_or_create(&ByEnd { end: end.label() })
            .inc();
    }

    /// How many ended in this way.
    #[cfg(test)]
    pub(crate) fn count(&self, end: End) -> u64 {
        self.connections
            .get_or_create(&ByEnd { end: end.label() })
            .get()
    }

    /// A wake was asked for (`asked`), had to wait its turn (`limited`), or could not be written (`failed`).
    pub fn woke(&self, result: &'static str) {
        self.wakes.get_or_create(&ByResult { result }).inc();
    }

    /// This client woke this tenant cluster.
    pub fn woke_by(&self, uid: &str, client: &str, at: Timestamp) {
        self.woke("asked");
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.truncate(SHOWN - 1);
        last.push_front(Woke {
            uid: uid.to_owned(),
            client: client.to_owned(),
            at,
        });
    }

    /// For `/state`: the last wakes, the newest first.
    #[must_use]
    pub fn state(&self) -> Value {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let show = |woke: &Woke| json!({ "tenantCluster": woke.uid, "client": woke.client, "at": woke.at });
        let wakes: Vec<_> = last.iter().map(show).collect();
        json!({
            "ports": self.ports.get(),
            "held": self.held.get(),
            "spliced": self.spliced.get(),
            "wakes": wakes,
        })
    }
}

/// How many connections are held.
#[derive(Clone, Debug)]
pub struct Held(Gauge);

impl Held {
    /// Those that are counted there.
    #[must_use]
    pub fn of(metrics: &Metrics) -> Self {
        Self(metrics.held.clone())
    }

    /// Now.
    #[must_use]
    pub fn count(&self) -> i64 {
        self.0.get()
    }
}

/// Counts one in a gauge for as long as it lives.
#[derive(Debug)]
pub struct Counted(Gauge);

impl Counted {
    /// One more.
    #[must_use]
    pub fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_shown_stands_in_the_catalogue_as_it_is_shown() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        metrics.ended(End::Spliced);
        metrics.woke("asked");
        metrics.waited.observe(1.0);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let listed = [monitoring::catalogue::ACTIVATOR];
        let found = monitoring::exposition::differences(&listed, &text);
        assert_eq!(found, [""; 0]);
    }
}
