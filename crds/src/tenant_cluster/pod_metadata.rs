//! Labels and annotations of pods in the tenant namespace.
//!
//! Invariant: Covey's own win over a user's, and every text and map is bounded.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Labels and annotations of pods in the management cluster, besides Covey's own; a change replaces the pods.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodMetadata {
    /// Labels, at most 16, none of Covey's or Kubernetes' own. Default: none.
    /// Example: `{"example.com/cost-centre": "shop"}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    pub labels: BTreeMap<String, String>,

    /// Annotations, at most 16, none of Covey's or Kubernetes' own. Default: none.
    /// Example: `{"example.com/owner": "shop@example.com"}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = {"type": "string", "maxLength": 1024}))]
    pub annotations: BTreeMap<String, String>,
}

impl PodMetadata {
    /// Whether nothing is set.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
