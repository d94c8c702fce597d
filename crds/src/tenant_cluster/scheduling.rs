//! Where pods of a tenant cluster run in the management cluster.
//!
//! Invariant: what is left out is the platform's (`config.tenantPods` of the chart), and every text,
//! list and map is bounded.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::taints::PodToleration;

/// Where pods run in the management cluster. Whoever runs that says what may be chosen
/// (`config.tenantPods.allowed` of the chart). A change replaces the pods, one after the other.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Scheduling {
    /// Labels that a node has to have, at most 8, besides those that the platform asks for.
    /// Default: none. Example: `{"topology.kubernetes.io/zone": "a"}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 8, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    pub node_selector: BTreeMap<String, String>,

    /// Taints of nodes that do not keep the pods away, at most 8, besides those of the platform.
    /// Default: none. Example: `[{"key": "example.com/control-planes"}]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub tolerations: Vec<PodToleration>,

    /// Whether two pods of a kind may share a node. Default: the platform's, normally `Preferred`.
    /// Example: `Required`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["Preferred", "Required"]))]
    pub spread: Option<Spread>,

    /// PriorityClass of the pods. Default: the platform's, normally none. Example: `tenants-gold`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,

    /// RuntimeClass of the pods. Default: the platform's, normally none. Example: `gvisor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub runtime_class_name: Option<String>,
}

impl Scheduling {
    /// Whether nothing is chosen.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether two pods of a kind may share a node.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Spread {
    /// Where there is no other node.
    #[default]
    Preferred,
    /// Never: one that finds no node of its own waits.
    Required,
}
