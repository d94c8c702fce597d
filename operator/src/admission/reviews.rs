//! What the webhook counts of the reviews that it answers.
//!
//! Invariant: labels are words of closed sets, whatever a request says.

use std::time::Duration;

use kube::core::admission::Operation;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

#[derive(Clone, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
struct ByResult {
    kind: &'static str,
    operation: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
struct ByKind {
    kind: &'static str,
}

type Durations = Family<ByKind, Histogram, fn() -> Histogram>;

/// What became of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Answer {
    /// It was a review of this operation.
    Reviewed {
        /// Which.
        operation: Operation,
        /// Whether the object was let in.
        is_allowed: bool,
    },
    /// It was none that could be read.
    Unreadable,
}

/// Counts of reviews. Clones share them.
#[derive(Clone, Debug)]
pub struct Reviews {
    requests: Family<ByResult, Counter>,
    durations: Durations,
}

impl Default for Reviews {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(buckets),
        }
    }
}

/// Milliseconds, unless a body comes slowly: API servers wait for ten seconds at most.
fn buckets() -> Histogram {
    Histogram::new([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0])
}

impl Reviews {
    /// Shows them as `covey_admission_requests_total` and `covey_admission_duration_seconds`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("covey_admission");
        let help = "Reviews, by what was answered";
        registry.register("requests", help, self.requests.clone());
        let help = "How long a review took, its body included";
        let times = self.durations.clone();
        registry.register_with_unit("duration", help, Unit::Seconds, times);
    }

    /// One request about this kind has been answered.
    pub(super) fn count(&self, kind: &'static str, answer: Answer, took: Duration) {
        let (operation, result) = match answer {
            Answer::Reviewed {
                operation,
                is_allowed,
            } => {
                let result = if is_allowed { "allowed" } else { "denied" };
                (label(&operation), result)
            }
            Answer::Unreadable => ("unknown", "error"),
        };
        let by = ByResult {
            kind,
            operation,
            result,
        };
        self.requests.get_or_create(&by).inc();
        let took = took.as_secs_f64();
        self.durations.get_or_create(&ByKind { kind }).observe(took);
    }
}

fn label(operation: &Operation) -> &'static str {
    match operation {
        Operation::Create => "create",
        Operation::Update => "update",
        Operation::Delete => "delete",
        Operation::Connect => "connect",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_shown_stands_in_the_catalogue_as_it_is_shown() {
        let (mut registry, reviews) = (Registry::default(), Reviews::default());
        reviews.register(&mut registry);
        let reviewed = Answer::Reviewed {
            operation: Operation::Create,
            is_allowed: false,
        };
        for answer in [reviewed, Answer::Unreadable] {
            reviews.count("TenantCluster", answer, Duration::from_millis(2));
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let listed = [monitoring::catalogue::ADMISSION];
        let found = monitoring::exposition::differences(&listed, &text);
        assert_eq!(found, [""; 0]);
        for line in [
            r#"{kind="TenantCluster",operation="create",result="denied"} 1"#,
            r#"{kind="TenantCluster",operation="unknown",result="error"} 1"#,
        ] {
            assert!(text.contains(line), "no {line} in\n{text}");
        }
    }
}
