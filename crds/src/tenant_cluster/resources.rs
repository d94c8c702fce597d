//! What a container is given of cores and memory.
//!
//! Invariant: a leaf; components of the control plane and etcd have it alike.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;

/// Requests and limits of one container.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// What is reserved: `cpu` in cores, `memory` and `ephemeral-storage` in bytes. Default: per
    /// resource what the operator is configured with. Example: `{"cpu": "100m", "memory": "512Mi"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 8))]
    pub requests: BTreeMap<String, Quantity>,

    /// What may not be exceeded, in the same units. Default: of memory what the operator is configured
    /// with, or twice the request where that is more; else no limit. Example: `{"memory": "2Gi"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 8))]
    pub limits: BTreeMap<String, Quantity>,
}
