//! The status of a NodePool: what the operator observed, never what it hopes for.
//!
//! Invariant: every field is written by the operator alone and only when it changes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::locations::LocationStatus;

/// What the operator observed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// Generation of the spec that this status speaks of. Absent until the first look. Example: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Ready`, `Progressing`, `Degraded`, `Capacity` (whether the management cluster has room for one
    /// machine more), with `autoscaling` `Autoscaling`, over several locations `LocationsHealthy` and, while all that come by
    /// the published endpoint are silent, `EndpointUnreachable`, and `KubeVirtOutdated` while a KubeVirt with
    /// published holes runs the machines; sorted by type.
    /// Example: `[{"type": "Ready", "status": "True", …}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// The tenant namespace of its TenantCluster, where that took over a control plane that was made for another one: the
    /// autoscaler that may size the pool is there. Absent where the name follows from name and UID of the TenantCluster.
    /// Example: `covey-standby-1-35-4-0-0a1b2c3d11`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub tenant_namespace: Option<String>,

    /// Machines that there are and that are not being deleted, whatever their state; the scale
    /// subresource reads it. Example: 3.
    #[serde(default)]
    pub replicas: i32,

    /// Machines whose node is ready. Example: 3.
    #[serde(default)]
    pub ready_replicas: i32,

    /// Machines that are made from the template and version in force. Example: 3.
    #[serde(default)]
    pub updated_replicas: i32,

    /// Which Machines are this pool's; the scale subresource reads it.
    /// Example: `covey.dev/node-pool=workers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub selector: Option<String>,

    /// Version that new machines get: the spec's, else the control plane's. Example: `1.35.4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub version: Option<String>,

    /// Number of the newest machine. Names are derived from numbers, and none is used twice.
    /// Example: 7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_machine_number: Option<i64>,

    /// The places where machines are made, as in the spec; one called `default` where the pool has
    /// `spec.provider`. Example: `[{"name": "north", "desired": 3, "machines": 3, "ready": 3}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub locations: Vec<LocationStatus>,

    /// The locations in words for people: nodes that are ready of those that are wanted, and how each stands
    /// that is not healthy. Absent where there is only one. Example: `north 3/3, south 0/0 Out (3 silent)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub spread: Option<String>,
}
