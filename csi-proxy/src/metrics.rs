//! What the controller shows besides requests: calls of the sidecars, jobs of attaching, and volumes on their way.
//!
//! Invariant: no label is a name; methods and codes are those of CSI and gRPC.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kit::metrics::readings::{Reading, Readings};
use kit::metrics::{Controller, ControllerMetrics};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;
use tonic::Code;

use crate::cache::state::State;

#[derive(Clone, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
struct ByCode {
    method: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
struct ByMethod {
    method: &'static str,
}

/// What is counted. Clones share it.
#[derive(Clone, Debug)]
pub struct Metrics {
    calls: Family<ByCode, Counter>,
    durations: Family<ByMethod, Histogram, fn() -> Histogram>,
    controllers: ControllerMetrics,
    /// Jobs of attaching.
    pub attachments: Controller,
    moving: Arc<Mutex<Moving>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let controllers = ControllerMetrics::default();
        Self {
            calls: Family::default(),
            durations: Family::new_with_constructor(buckets),
            attachments: controllers.controller("attachment"),
            controllers,
            moving: Arc::default(),
        }
    }
}

/// From one that only reads to the patience of the sidecars.
fn buckets() -> Histogram {
    Histogram::new([0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
}

impl Metrics {
    /// Shows all of it.
    pub fn register(&self, registry: &mut Registry) {
        self.controllers.show(registry);
        self.show(registry);
    }

    fn show(&self, registry: &mut Registry) {
        let ours = registry.sub_registry_with_prefix("covey_csi");
        let help = "Calls of the sidecars, by what was answered";
        ours.register("calls", help, self.calls.clone());
        let help = "How long an answer to a sidecar took";
        ours.register_with_unit("call_duration", help, Unit::Seconds, self.durations.clone());
        let moving = Arc::clone(&self.moving);
        Readings::register(registry, move || {
            lock(&moving).readings(Instant::now()).into()
        });
    }

    /// A call was answered with this code, so long after it came.
    pub fn answered(&self, method: &'static str, code: Code, took: Duration) {
        let by = ByCode {
            method,
            code: proto::code::name(code),
        };
        self.calls.get_or_create(&by).inc();
        let by = ByMethod { method };
        self.durations
            .get_or_create(&by)
            .observe(took.as_secs_f64());
    }

    /// What there is now.
    pub fn observe(&self, state: &State, now: Instant) {
        lock(&self.moving).observe(state, now);
    }
}

fn lock(moving: &Mutex<Moving>) -> MutexGuard<'_, Moving> {
    moving.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a volume goes, as seen from a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

/// Volumes that machines are to have or to let go, and since when. Times are those of this process.
#[derive(Debug, Default)]
struct Moving {
    attached: usize,
    /// By volume and machine.
    since: BTreeMap<(String, String), (Way, Instant)>,
}

impl Moving {
    fn observe(&mut self, state: &State, now: Instant) {
        let before = std::mem::take(&mut self.since);
        self.attached = 0;
        for (id, volume) in &state.volumes {
            let holders = &volume.holders;
            let wanted = holders.wanted.iter().map(|machine| (machine, Way::In));
            let left = holders.held.difference(&holders.wanted);
            for (machine, way) in wanted.chain(left.map(|machine| (machine, Way::Out))) {
                if way == Way::In && state.is_attached(id, machine) {
                    self.attached += 1;
                    continue;
                }
                let key = (id.clone(), machine.clone());
                let since = before.get(&key).filter(|(before, _)| *before == way);
                let since = since.map_or(now, |(_, since)| *since);
                self.since.insert(key, (way, since));
            }
        }
    }

    fn readings(&self, now: Instant) -> [Reading; 2] {
        let of = |wanted: Way| {
            self.since
                .values()
                .filter(|(way, _)| *way == wanted)
                .count()
        };
        let first = self.since.values().map(|(_, since)| *since).min();
        let oldest = first.map(|since| now.saturating_duration_since(since));
        let state = |value| ("state", value);
        [
            Reading::numbers(
                "covey_csi_attachments",
                "Volumes by what becomes of them on a machine",
                [
                    (state("attached"), self.attached),
                    (state("attaching"), of(Way::In)),
                    (state("detaching"), of(Way::Out)),
                ],
            ),
            Reading::seconds(
                "covey_csi_oldest_attach",
                "How long the first volume has been on its way to or from a machine, as this process has seen it",
                oldest.unwrap_or_default().as_secs_f64(),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use monitoring::catalogue::adapters::CSI;
    use monitoring::exposition::differences;

    use super::*;
    use crate::cache::objects::{Holders, Volume};

    fn state(wanted: &[&str], held: &[&str]) -> State {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let volume = Volume {
            id: "vol-a".to_owned(),
            holders: Holders {
                wanted: names(wanted),
                held: names(held),
                read_only: false,
            },
            ..Volume::default()
        };
        State {
            volumes: BTreeMap::from([(volume.id.clone(), volume)]),
            ..State::default()
        }
    }

    fn numbers(moving: &Moving, now: Instant) -> [Option<f64>; 4] {
        let [attachments, oldest] = moving.readings(now);
        let of = |state| attachments.get(Some(state));
        [
            of("attached"),
            of("attaching"),
            of("detaching"),
            oldest.get(None),
        ]
    }

    #[test]
    fn volume_on_its_way_counts_from_when_it_was_first_seen_to_go_there() {
        let (mut moving, begin) = (Moving::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        moving.observe(&state(&["a"], &["a"]), begin);
        moving.observe(&state(&["a"], &["a"]), at(60));
        let shown = numbers(&moving, at(130));
        assert_eq!(shown, [0.0, 1.0, 0.0, 130.0].map(Some));
        // It is to go back: that is another way.
        moving.observe(&state(&[], &["a"]), at(140));
        let shown = numbers(&moving, at(150));
        assert_eq!(shown, [0.0, 0.0, 1.0, 10.0].map(Some));
        moving.observe(&state(&[], &[]), at(160));
        assert_eq!(numbers(&moving, at(170)), [0.0; 4].map(Some));
    }

    #[test]
    fn all_that_is_shown_stands_in_the_catalogue_as_it_is_shown() {
        let metrics = Metrics::default();
        let mut registry = Registry::default();
        metrics.show(&mut registry);
        metrics.answered("create_volume", Code::Aborted, Duration::from_millis(5));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert_eq!(differences(&[CSI], &text), [""; 0]);
        let line = r#"covey_csi_calls_total{method="create_volume",code="ABORTED"} 1"#;
        assert!(text.contains(line), "{text}");
    }
}
