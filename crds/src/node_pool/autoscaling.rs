//! `spec.autoscaling`: what the autoscaler may make of a node pool.
//!
//! Invariant: what is left out is the Cluster Autoscaler's own default, so that a pool never sends
//! it a zero that nobody meant.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::duration::Duration;
use crate::names::ANNOTATION_AUTOSCALING_REFUSED;
use crate::quantity::Quantity;

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

    /// How long a node has to be unneeded before it goes: hours (h), minutes (m), seconds (s). After
    /// anything grew, nothing goes for `addons.autoscaler.scaleDownDelayAfterAdd` of the TenantCluster
    /// (10 minutes), so a shorter time alone is not felt until then. Default: the Cluster Autoscaler's, 10 minutes. Example: `2m`.
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

    /// What a node of the pool has to offer that other fields do not say, for growing from zero:
    /// `ephemeral-storage` in bytes, 1Gi or more, and numbers of extended resources, as the device
    /// plugins inside call them; at most 16. Default: for `ephemeral-storage` the size of the disk that
    /// `/var/lib/kubelet` is on, else 7Gi; `nvidia.com/gpu` and `amd.com/gpu` as many as
    /// `provider.kubevirt.gpus` has of that maker. Example: `{"example.com/fpga": 2}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub capacity: BTreeMap<String, Quantity>,

    /// What the machines' processors are, for growing from zero: `amd64` or `arm64`. Default: what
    /// `provider.kubevirt.nodeSelector` says in `kubernetes.io/arch`, else `amd64`; the sizes of a cloud say it by
    /// themselves. Example: `arm64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["amd64", "arm64"]))]
    pub architecture: Option<Architecture>,
}

/// What processors are, as Kubernetes calls it.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// 64 bits, x86.
    #[default]
    Amd64,
    /// 64 bits, ARM.
    Arm64,
}

impl Architecture {
    /// As the label `kubernetes.io/arch` has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// The other way round; none for any that no worker has.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        [Self::Amd64, Self::Arm64]
            .into_iter()
            .find(|one| one.as_str() == text)
    }
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

/// What of a node pool the autoscaler's adapter cannot carry out, as it stands in the annotation
/// [`ANNOTATION_AUTOSCALING_REFUSED`]: the generation, a blank, a sentence. An edit of the pool, or a
/// new size, makes it void, so nobody has to take it off.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Refused {
    /// `metadata.generation` of the pool that it is about.
    pub generation: i64,
    /// What was refused, and why; at most [`Refused::LONGEST`] characters are read.
    pub message: String,
}

impl Refused {
    /// Far more than any sentence of ours has, and less than a condition may hold.
    pub const LONGEST: usize = 1024;

    /// What is refused of a pool as it is now; none when nothing is, or what the annotation holds is
    /// void or cannot be read.
    #[must_use]
    pub fn of(meta: &ObjectMeta) -> Option<Self> {
        let text = meta
            .annotations
            .as_ref()?
            .get(ANNOTATION_AUTOSCALING_REFUSED)?;
        let (generation, message) = text.split_once(' ')?;
        let generation = generation.parse().ok()?;
        let message = message.chars().take(Self::LONGEST).collect();
        (meta.generation == Some(generation)).then_some(Self {
            generation,
            message,
        })
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.generation, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotated(text: &str) -> ObjectMeta {
        let annotation = (ANNOTATION_AUTOSCALING_REFUSED.to_owned(), text.to_owned());
        ObjectMeta {
            generation: Some(3),
            annotations: Some([annotation].into()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn what_was_written_is_read_until_the_pool_is_another() {
        let refused = Refused {
            generation: 3,
            message: "a pool grows by 1 or more, not by -1".to_owned(),
        };
        let mut meta = annotated(&refused.to_string());
        assert_eq!(Refused::of(&meta), Some(refused));
        meta.generation = Some(4);
        assert_eq!(Refused::of(&meta), None);
    }

    #[test]
    fn what_somebody_else_wrote_does_no_harm() {
        for text in ["", "3", "x y", "-3 y"] {
            assert_eq!(Refused::of(&annotated(text)), None, "{text}");
        }
        let long = Refused::of(&annotated(&format!("3 {}", "ß".repeat(5000)))).unwrap();
        assert_eq!(long.message.chars().count(), Refused::LONGEST);
    }
}
