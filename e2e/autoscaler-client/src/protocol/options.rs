//! By which rules nodes of a group are taken away, in both generations of fields.
//!
//! Invariant: a length of time that an answer leaves out is zero, as the stock client reads it.

use std::time::Duration;

use proto::autoscaler::{LegacyDuration, NodeGroupAutoscalingOptions};

use super::Generation;

/// The rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Below this share of its allocatable processors and memory a node is not needed, 0 to 1.
    pub utilization: f64,
    /// For how long it has to be so.
    pub unneeded: Duration,
    /// For how long a node that is not ready is kept.
    pub unready: Duration,
    /// How long a machine may take to become a node.
    pub provision: Duration,
}

impl Default for Options {
    /// The stock client's flags.
    fn default() -> Self {
        Self {
            utilization: 0.5,
            unneeded: Duration::from_secs(600),
            unready: Duration::from_secs(1200),
            provision: Duration::from_secs(900),
        }
    }
}

impl Options {
    pub(super) fn sent(&self, generation: Generation) -> NodeGroupAutoscalingOptions {
        let mut sent = NodeGroupAutoscalingOptions {
            scale_down_utilization_threshold: self.utilization,
            scale_down_gpu_utilization_threshold: 0.5,
            ..NodeGroupAutoscalingOptions::default()
        };
        match generation {
            Generation::Legacy => {
                sent.legacy_scale_down_unneeded_time = Some(legacy(self.unneeded));
                sent.legacy_scale_down_unready_time = Some(legacy(self.unready));
                sent.legacy_max_node_provision_time = Some(legacy(self.provision));
            }
            Generation::New => {
                sent.scale_down_unneeded_duration = Some(new(self.unneeded));
                sent.scale_down_unready_duration = Some(new(self.unready));
                sent.max_node_provision_duration = Some(new(self.provision));
            }
        }
        sent
    }

    pub(super) fn read(answer: &NodeGroupAutoscalingOptions, generation: Generation) -> Self {
        let times = match generation {
            Generation::Legacy => [
                from_legacy(answer.legacy_scale_down_unneeded_time.as_ref()),
                from_legacy(answer.legacy_scale_down_unready_time.as_ref()),
                from_legacy(answer.legacy_max_node_provision_time.as_ref()),
            ],
            Generation::New => [
                from_new(answer.scale_down_unneeded_duration.as_ref()),
                from_new(answer.scale_down_unready_duration.as_ref()),
                from_new(answer.max_node_provision_duration.as_ref()),
            ],
        };
        let [unneeded, unready, provision] = times;
        Self {
            utilization: answer.scale_down_utilization_threshold,
            unneeded,
            unready,
            provision,
        }
    }
}

fn legacy(time: Duration) -> LegacyDuration {
    LegacyDuration {
        duration: i64::try_from(time.as_nanos()).unwrap_or(i64::MAX),
    }
}

fn new(time: Duration) -> proto::Duration {
    proto::Duration {
        seconds: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(time.subsec_nanos()).unwrap_or_default(),
    }
}

fn from_legacy(time: Option<&LegacyDuration>) -> Duration {
    let nanos = time.and_then(|time| u64::try_from(time.duration).ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

fn from_new(time: Option<&proto::Duration>) -> Duration {
    time.and_then(|time| Duration::try_from(*time).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_read_by_the_same_generation_and_by_no_other() {
        let options = Options::default();
        for generation in Generation::ALL {
            let sent = options.sent(generation);
            assert_eq!(Options::read(&sent, generation), options);
        }
        let other = Options::read(&options.sent(Generation::Legacy), Generation::New);
        assert_eq!(other.unneeded, Duration::ZERO);
    }
}
