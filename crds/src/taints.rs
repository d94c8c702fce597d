//! Taints of nodes, and what is said of those that keep nobody away.
//!
//! Invariant: every text is bounded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A taint that a node has when it joins.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Key, with an optional prefix. Required, no default. Example: `example.com/gpu`.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,

    /// Value. Default: empty. Example: `yes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,

    /// What happens to pods that do not tolerate it. Required, no default. Example: `NoSchedule`.
    pub effect: TaintEffect,
}

/// What a taint does to pods that do not tolerate it.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
pub enum TaintEffect {
    /// They are not scheduled onto the node.
    NoSchedule,
    /// They are scheduled onto the node only when there is no other.
    PreferNoSchedule,
    /// They are not scheduled onto the node, and those that run leave it.
    NoExecute,
}

impl TaintEffect {
    /// The text of the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

/// Taints of nodes that do not keep a pod away.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodToleration {
    /// Key of the taints. Required, no default. Example: `example.com/control-planes`.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,

    /// Value of the taints. Default: any. Example: `yes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,

    /// Effect of the taints. Default: any. Example: `NoSchedule`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["NoSchedule", "PreferNoSchedule", "NoExecute"]))]
    pub effect: Option<TaintEffect>,
}

impl PodToleration {
    /// How the value is compared, as the API says it.
    #[must_use]
    pub fn operator(&self) -> &'static str {
        match self.value {
            Some(_) => "Equal",
            None => "Exists",
        }
    }
}
