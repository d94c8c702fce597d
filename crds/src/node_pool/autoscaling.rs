//! `spec.autoscaling`: what the autoscaler may make of a node pool.
//!
//! Invariant: what is left out is the Cluster Autoscaler's own default, so that a pool never sends
//! it a zero that nobody meant.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::Duration;

/// What the autoscaler may make of a node pool.
#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.min <= self.max").message("autoscaling.min cannot be more than autoscaling.max; lower the one or raise the other")
)]
pub struct Autoscaling {
    /// Fewest machines, 0 to 1000. With 0 the pool is emptied when nothing needs it, and filled
    /// again from its template. Default: 0. Example: 1.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1000))]
    pub min: i32,

    /// Most machines, 1 to 1000. Required, no default. Example: 5.
    #[schemars(range(min = 1, max = 1000))]
    pub max: i32,

    /// How long a node has to be unneeded before it goes: hours (h), minutes (m), seconds (s).
    /// Default: the Cluster Autoscaler's, 10 minutes. Example: `2m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down_delay: Option<Duration>,

    /// A node counts as unneeded when its pods request less than this share of its processors and
    /// of its memory, in percent, 1 to 100. Default: the Cluster Autoscaler's, 50. Example: 70.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub utilization_threshold: Option<i32>,

    /// Of several pools that a pod fits, those with the highest priority grow first (the priority
    /// expander); among equals the one that wastes least. Default: 0. Example: 10.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 1000))]
    pub priority: i32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks with a reference"
)]
fn is_zero(priority: &i32) -> bool {
    *priority == 0
}

impl Autoscaling {
    /// The nearest number of machines that is within the bounds. A `max` below `min`, which the API
    /// server refuses, counts as `min`.
    #[must_use]
    pub fn clamp(&self, replicas: i32) -> i32 {
        replicas.min(self.max).max(self.min)
    }
}
