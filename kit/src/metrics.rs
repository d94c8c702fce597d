//! Metrics of a controller and of the process.
//!
//! Invariant: no label holds a name of an object; the number of series does not grow with the
//! number of tenant clusters.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::errors::Class;

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ErrorLabels {
    class: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ReasonLabels {
    reason: &'static str,
}

/// Metrics of one controller. Cheap to clone; every clone counts into the same.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    runs: Counter,
    errors: Family<ErrorLabels, Counter>,
    duration: Histogram,
    in_hand: Gauge,
    queue_age: Histogram,
    waiting: Family<ReasonLabels, Gauge>,
    time_to_ready: Histogram,
    waiting_of: Arc<Mutex<HashMap<String, &'static str>>>,
}

impl ControllerMetrics {
    /// Registers `covey_<controller>_…`.
    pub fn new(registry: &mut Registry, controller: &str) -> Self {
        let buckets = || [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
        let metrics = Self {
            runs: Counter::default(),
            errors: Family::default(),
            duration: Histogram::new(buckets()),
            in_hand: Gauge::default(),
            queue_age: Histogram::new(buckets()),
            waiting: Family::default(),
            time_to_ready: Histogram::new([2.0, 3.0, 4.0, 5.0, 6.5, 8.0, 12.0, 20.0, 45.0, 120.0, 600.0]),
            waiting_of: Arc::default(),
        };
        for class in Class::ALL {
            // A series that is there from the start can be alerted on.
            let _ = metrics.errors.get_or_create(&ErrorLabels { class: class.label() });
        }
        let to = registry.sub_registry_with_prefix(format!("covey_{controller}"));
        to.register("reconciles", "Reconciles that ended", metrics.runs.clone());
        to.register("errors", "Reconciles that failed, by class", metrics.errors.clone());
        to.register_with_unit(
            "reconcile_duration",
            "Time of one reconcile",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        to.register("in_hand", "Reconciles under way", metrics.in_hand.clone());
        to.register_with_unit(
            "queue_age",
            "Time from a change to the start of its reconcile",
            Unit::Seconds,
            metrics.queue_age.clone(),
        );
        to.register("waiting", "Objects that wait, by reason", metrics.waiting.clone());
        to.register_with_unit(
            "time_to_ready",
            "Time from creation to the first Ready",
            Unit::Seconds,
            metrics.time_to_ready.clone(),
        );
        metrics
    }

    /// Notes the start of a reconcile.
    pub fn start(&self) -> Run {
        self.in_hand.inc();
        Run { metrics: self.clone(), started: Instant::now(), class: None }
    }

    /// Notes what an object (by UID) waits for now; `None` when it waits for nothing, or is gone.
    pub fn waiting(&self, uid: &str, reason: Option<&'static str>) {
        let mut all = self.waiting_of.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match reason {
            Some(reason) => all.insert(uid.to_owned(), reason),
            None => all.remove(uid),
        };
        if before == reason {
            return;
        }
        if let Some(before) = before {
            self.waiting.get_or_create(&ReasonLabels { reason: before }).dec();
        }
        if let Some(reason) = reason {
            self.waiting.get_or_create(&ReasonLabels { reason }).inc();
        }
    }

    /// Notes how long a change waited in the queue.
    pub fn queue_age(&self, age: Duration) {
        self.queue_age.observe(age.as_secs_f64());
    }

    /// Notes a first Ready.
    pub fn time_to_ready(&self, elapsed: Duration) {
        self.time_to_ready.observe(elapsed.as_secs_f64());
    }
}

/// A reconcile under way; counted when it is dropped, also when it was cancelled.
#[derive(Debug)]
pub struct Run {
    metrics: ControllerMetrics,
    started: Instant,
    class: Option<Class>,
}

impl Run {
    /// Notes how it ended; `None` is success.
    pub fn finish(mut self, class: Option<Class>) {
        self.class = class;
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.metrics.in_hand.dec();
        self.metrics.runs.inc();
        self.metrics.duration.observe(self.started.elapsed().as_secs_f64());
        if let Some(class) = self.class {
            self.metrics.errors.get_or_create(&ErrorLabels { class: class.label() }).inc();
        }
    }
}

/// Registers `process_resident_memory_bytes` and `process_cpu_seconds_total`.
pub fn process(registry: &mut Registry) {
    registry.register_collector(Box::new(Process));
}

#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        if let Some(bytes) = resident_bytes() {
            let gauge = ConstGauge::new(bytes);
            let name = "process_resident_memory";
            let help = "Resident memory";
            let unit = Some(&Unit::Bytes);
            gauge.encode(encoder.encode_descriptor(name, help, unit, gauge.metric_type())?)?;
        }
        if let Some(seconds) = cpu_seconds() {
            let counter = ConstCounter::new(seconds);
            let unit = Some(&Unit::Seconds);
            let help = "CPU time, user and system";
            counter.encode(encoder.encode_descriptor("process_cpu", help, unit, counter.metric_type())?)?;
        }
        Ok(())
    }
}

/// Resident memory in bytes: `VmRSS` of `/proc/self/status` (proc(5)), which needs no page size.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// CPU seconds, user and system: fields 14 and 15 of `/proc/self/stat` (proc(5)), in ticks, of
/// which Linux shows user space 100 in a second on every architecture we build for.
#[must_use]
pub fn cpu_seconds() -> Option<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the command in parentheses and may hold blanks.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn runs_errors_and_waiting_objects_are_counted() {
        let mut registry = Registry::default();
        let metrics = ControllerMetrics::new(&mut registry, "thing");
        metrics.start().finish(None);
        metrics.start().finish(Some(Class::Conflict));
        metrics.waiting("a", Some("Starting"));
        metrics.waiting("b", Some("Starting"));
        metrics.waiting("b", Some("Starting"));
        metrics.waiting("a", None);
        let text = text(&registry);
        assert!(text.contains("covey_thing_reconciles_total 2"), "{text}");
        assert!(text.contains("covey_thing_errors_total{class=\"conflict\"} 1"), "{text}");
        assert!(text.contains("covey_thing_errors_total{class=\"bug\"} 0"), "{text}");
        assert!(text.contains("covey_thing_waiting{reason=\"Starting\"} 1"), "{text}");
        assert!(text.contains("covey_thing_in_hand 0"), "{text}");
    }

    #[test]
    fn process_shows_memory_and_cpu() {
        let mut registry = Registry::default();
        process(&mut registry);
        let text = text(&registry);
        assert!(text.contains("process_resident_memory_bytes "), "{text}");
        assert!(text.contains("process_cpu_seconds_total "), "{text}");
        assert!(resident_bytes().unwrap() > 1_000_000);
    }
}
