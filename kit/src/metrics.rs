//! What every controller measures about itself.
//!
//! Invariant: labels are controller, error class and waiting reason, all from closed sets; never
//! the name of an object, which would make a series per object. Names and help are those of `monitoring`'s catalogue.

mod process;
pub mod readings;
mod shares;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kit_client::errors::Class;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

pub use self::process::{ProcessMetrics, Usage, usage, usage_in};
pub use self::shares::ShareMetrics;

/// What all names of ours begin with.
const PREFIX: &str = "covey";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByController {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByClass {
    controller: &'static str,
    class: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    controller: &'static str,
    reason: &'static str,
}

type Histograms = Family<ByController, Histogram, fn() -> Histogram>;

/// The families of all controllers of a process: register once, then make one [`Controller`] each.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    runs: Family<ByController, Counter>,
    errors: Family<ByClass, Counter>,
    duration: Histograms,
    queue_wait: Histograms,
    waiting: Family<ByReason, Gauge>,
    time_to_ready: Histograms,
}

impl Default for ControllerMetrics {
    fn default() -> Self {
        Self {
            runs: Family::default(),
            errors: Family::default(),
            duration: Family::new_with_constructor(run_buckets),
            queue_wait: Family::new_with_constructor(wait_buckets),
            waiting: Family::default(),
            time_to_ready: Family::new_with_constructor(ready_buckets),
        }
    }
}

/// One reconcile: milliseconds when nothing changes, a second or so when much is applied.
fn run_buckets() -> Histogram {
    Histogram::new([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
}

/// In a queue: nothing, or as long as others take that came before.
fn wait_buckets() -> Histogram {
    Histogram::new([0.001, 0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 120.0])
}

/// Creation to Ready: a few seconds when all is well, minutes under a burst.
fn ready_buckets() -> Histogram {
    Histogram::new([
        1.0, 2.0, 3.0, 4.0, 5.0, 6.5, 8.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0,
    ])
}

impl ControllerMetrics {
    /// Registers the families and returns the handle that fills them.
    pub fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        this.show(registry);
        this
    }

    /// Registers the families of a handle that is there already.
    pub fn show(&self, registry: &mut Registry) {
        let Self {
            runs,
            errors,
            duration,
            queue_wait,
            waiting,
            time_to_ready,
        } = self.clone();
        let registry = registry.sub_registry_with_prefix(PREFIX);
        registry.register("reconcile_runs", "Reconciles begun", runs);
        registry.register(
            "reconcile_errors",
            "Reconciles failed, by class of error",
            errors,
        );
        let help = "How long a reconcile took";
        registry.register_with_unit("reconcile_duration", help, Unit::Seconds, duration);
        let help = "How long an object that was due waited for its turn";
        registry.register_with_unit("queue_wait", help, Unit::Seconds, queue_wait);
        registry.register(
            "waiting_objects",
            "Objects that wait, by what they wait for",
            waiting,
        );
        let help = "From an object's creation to its first Ready";
        registry.register_with_unit("time_to_ready", help, Unit::Seconds, time_to_ready);
    }

    /// The metrics of one controller.
    pub fn controller(&self, name: &'static str) -> Controller {
        Controller {
            name,
            families: self.clone(),
            waits: Arc::default(),
        }
    }
}

/// What one controller measures. Clones share it.
#[derive(Clone, Debug)]
pub struct Controller {
    name: &'static str,
    families: ControllerMetrics,
    /// Object → what it waits for: gauges count objects, so each must be taken out again.
    waits: Arc<Mutex<BTreeMap<String, &'static str>>>,
}

impl Controller {
    /// The controller's name, as the label says it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// A reconcile begins, of an object that was due for `waited`. Call [`Run::finish`] at its
    /// end; a run that is dropped (a time-out, a shutdown) counts its duration and no error.
    pub fn begin(&self, waited: Duration) -> Run {
        let by = self.label();
        self.families.runs.get_or_create(&by).inc();
        self.families
            .queue_wait
            .get_or_create(&by)
            .observe(waited.as_secs_f64());
        Run {
            controller: self.clone(),
            begun: Instant::now(),
        }
    }

    /// The object with this key (its UID) waits for `reason`, or for nothing any more.
    pub fn waiting(&self, key: &str, reason: Option<&'static str>) {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match reason {
            Some(reason) => waits.insert(key.to_owned(), reason),
            None => waits.remove(key),
        };
        // Still under the lock, so that two changes of one object cannot overtake each other.
        if before == reason {
            return;
        }
        for (reason, change) in [(before, -1), (reason, 1)] {
            if let Some(reason) = reason {
                let by = ByReason {
                    controller: self.name,
                    reason,
                };
                self.families.waiting.get_or_create(&by).inc_by(change);
            }
        }
    }

    /// Takes objects out that are gone: those for which `exists` is false.
    pub fn retain(&self, exists: impl Fn(&str) -> bool) {
        let gone: Vec<_> = {
            let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
            waits.keys().filter(|key| !exists(key)).cloned().collect()
        };
        for key in gone {
            self.waiting(&key, None);
        }
    }

    /// An object became Ready for the first time, this long after its creation.
    pub fn ready_after(&self, time: Duration) {
        self.families
            .time_to_ready
            .get_or_create(&self.label())
            .observe(time.as_secs_f64());
    }

    fn label(&self) -> ByController {
        ByController {
            controller: self.name,
        }
    }
}

/// One reconcile that runs.
#[derive(Debug)]
pub struct Run {
    controller: Controller,
    begun: Instant,
}

impl Run {
    /// The reconcile ended, with an error of this class or well.
    pub fn finish(self, error: Option<Class>) {
        if let Some(class) = error {
            let by = ByClass {
                controller: self.controller.name,
                class: class.label(),
            };
            self.controller.families.errors.get_or_create(&by).inc();
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let duration = self.begun.elapsed().as_secs_f64();
        let by = self.controller.label();
        self.controller
            .families
            .duration
            .get_or_create(&by)
            .observe(duration);
    }
}

#[cfg(test)]
mod tests;
