//! Autoscaling options of a node group: by which rules nodes of a pool are taken away.
//!
//! Invariant: whatever the client sent comes back as it was, unless the pool says otherwise, and in
//! both generations of the fields; no length of time is ever left out, because one that is missing
//! is read as zero.

use proto::Duration;
use proto::autoscaler::{LegacyDuration, NodeGroupAutoscalingOptions};

use super::Group;
use crate::cache::state::State;

/// Defaults of the Cluster Autoscaler, for a client that sent no such value, in seconds.
const UNNEEDED: i64 = 600;
const UNREADY: i64 = 1200;
const PROVISION: i64 = 900;

/// The pool's rules; none: those of the client hold. Clients from 1.35 on take the time that a node
/// may take to start for zero when they get an answer (autoscaler#10245), so there is none while a
/// machine starts.
#[must_use]
pub fn options(
    group: Group<'_>,
    state: &State,
    defaults: Option<&NodeGroupAutoscalingOptions>,
) -> Option<NodeGroupAutoscalingOptions> {
    let wanted = group.autoscaling;
    let delay = wanted
        .scale_down_delay
        .as_ref()
        .and_then(api::Duration::get);
    let threshold = wanted.utilization_threshold;
    if delay.is_none() && threshold.is_none() {
        return None;
    }
    let mut members = state.members(&group.pool.name);
    if members.any(|m| !m.running && !group.is_going(m)) {
        return None;
    }
    let mut answer = *defaults?;
    let unneeded = Both {
        new: &mut answer.scale_down_unneeded_duration,
        legacy: &mut answer.legacy_scale_down_unneeded_time,
    };
    let delay = delay.and_then(|d| i64::try_from(d.as_secs()).ok());
    unneeded.fill(delay.map(seconds), UNNEEDED);
    let unready = Both {
        new: &mut answer.scale_down_unready_duration,
        legacy: &mut answer.legacy_scale_down_unready_time,
    };
    unready.fill(None, UNREADY);
    let provision = Both {
        new: &mut answer.max_node_provision_duration,
        legacy: &mut answer.legacy_max_node_provision_time,
    };
    provision.fill(None, PROVISION);
    if let Some(percent) = threshold {
        answer.scale_down_utilization_threshold = f64::from(percent) / 100.0;
    }
    Some(answer)
}

/// One length of time as both generations of clients read it.
struct Both<'a> {
    new: &'a mut Option<Duration>,
    legacy: &'a mut Option<LegacyDuration>,
}

impl Both<'_> {
    fn fill(self, wanted: Option<Duration>, default: i64) {
        let sent = self
            .new
            .or(self.legacy.as_ref().map(|l| from_nanos(l.duration)));
        let time = wanted.or(sent).unwrap_or_else(|| seconds(default));
        *self.legacy = Some(LegacyDuration {
            duration: nanos(time),
        });
        *self.new = Some(time);
    }
}

fn seconds(seconds: i64) -> Duration {
    Duration { seconds, nanos: 0 }
}

const BILLION: i64 = 1_000_000_000;

fn from_nanos(nanos: i64) -> Duration {
    Duration {
        seconds: nanos / BILLION,
        // Less than a billion either way.
        nanos: i32::try_from(nanos % BILLION).unwrap_or_default(),
    }
}

fn nanos(time: Duration) -> i64 {
    let whole = time.seconds.saturating_mul(BILLION);
    whole.saturating_add(i64::from(time.nanos))
}
