//! `spec.provider.static`: which Hosts a node pool takes.
//!
//! Invariant: what is left out excludes no Host.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::autoscaling::Architecture;
use crate::quantity::Quantity;

/// Machines that are there already.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Static {
    /// Which Hosts of the same namespace may be taken; all conditions have to hold. Default: all of them.
    /// Example: `{"matchLabels": {"rack": "a"}, "memory": "8Gi"}`.
    #[serde(default)]
    pub selector: HostSelector,
}

/// What a Host has to be.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostSelector {
    /// Entries of `labels` of the Host's spec that it has to have, at most 16. Default: none.
    /// Example: `{"rack": "a"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    pub match_labels: BTreeMap<String, String>,

    /// What its processors are: `amd64` or `arm64`. Default: either. Example: `amd64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["amd64", "arm64"]))]
    pub architecture: Option<Architecture>,

    /// Fewest processors, 1 to 4096. Default: any number. Example: 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4096))]
    pub cpu: Option<i32>,

    /// Least memory in bytes with the suffixes of Kubernetes. A machine has a little less than its modules,
    /// since firmware and kernel keep some. Default: any. Example: `8Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
}
