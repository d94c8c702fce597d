//! `Snapshot`: a full snapshot of a tenant cluster's etcd that somebody asked for, and where in the backup it is.
//!
//! Invariant: it says what is in the backup and holds nothing: deleting it deletes nothing there, and what goes there by
//! retention is said to be gone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::instant;

const SAME: &str = "self == oldSelf";
const SAME_CLUSTER: &str =
    "clusterName cannot change: a snapshot is of one tenant cluster; make another Snapshot";
const SAME_KIND: &str = "kind cannot change: make another Snapshot";
const TIME_FORM: &str = "keepUntil is a time in UTC to the second: write 2027-06-30T00:00:00Z";
const LONGER: &str = "!has(oldSelf.spec.keepUntil) || (has(self.spec.keepUntil) && self.spec.keepUntil >= oldSelf.spec.keepUntil)";
const LONGER_FORM: &str = "keepUntil can only be moved to a later time: what was promised to be kept is not let go earlier";

/// A full snapshot of a tenant cluster's etcd.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "covey.dev",
    version = "v1alpha1",
    kind = "Snapshot",
    plural = "snapshots",
    shortname = "snap",
    category = "covey",
    namespaced,
    status = "SnapshotStatus",
    derive = "PartialEq",
    doc = "A full snapshot of a tenant cluster's etcd.",
    validation = Rule::new(LONGER).field_path(".spec").message(LONGER_FORM),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterName"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "Verified",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Verified')].status"
    ),
    printcolumn(name = "Revision", type_ = "integer", json_path = ".status.revision"),
    printcolumn(name = "Bytes", type_ = "integer", json_path = ".status.bytes"),
    printcolumn(name = "Taken", type_ = "string", json_path = ".status.taken"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason",
        priority = 1
    ),
    printcolumn(
        name = "Key",
        type_ = "string",
        json_path = ".status.key",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotSpec {
    /// The TenantCluster, in the same namespace; it has to have a backup (`spec.backup`). Cannot change.
    /// Required, no default. Example: `demo`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    #[x_kube(validation = Rule::new(SAME).message(SAME_CLUSTER))]
    pub cluster_name: String,

    /// What is taken: `Full` is the whole database. Cannot change. Default: `Full`. Example: `Full`.
    #[serde(default)]
    #[x_kube(validation = Rule::new(SAME).message(SAME_KIND))]
    pub kind: SnapshotKind,

    /// Until when it stays in the backup at least, in UTC; it can only be moved to a later time. Default: as long as
    /// the tenant cluster's `spec.backup.retention` keeps it, which may be an hour. Example: `2027-06-30T00:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 20, max = 20))]
    #[x_kube(validation = Rule::new(instant::FORM).message(TIME_FORM))]
    pub keep_until: Option<String>,
}

/// What is taken.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum SnapshotKind {
    /// The whole database.
    #[default]
    Full,
}

/// What the operator observed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotStatus {
    /// Generation of the spec that this status speaks of. Absent until the first look. Example: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// UID of the TenantCluster that it is of. Example: `0a1b2c3d-0011-4000-8000-000000000001`.
    #[serde(
        rename = "clusterUID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 64))]
    pub cluster_uid: Option<String>,

    /// The etcd cluster that it is of, hexadecimal; an etcd that was restored has another one.
    /// Example: `cdf818194e3a8c32`.
    #[serde(rename = "clusterID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub cluster_id: Option<String>,

    /// The newest full snapshot that there was when this one was asked for, or `none`: the next one is it.
    /// Example: `00000000000000000912-00000000000000000040-001795723200000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 80))]
    pub after: Option<String>,

    /// Its name in the backup. Example: `00000000000000001437-00000000000000000052-001795726800000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 80))]
    pub name: Option<String>,

    /// Key of the last of its objects in the target.
    /// Example: `covey/0a1b2c3d-…/cdf818194e3a8c32/full/00000000000000001437-…/head`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub key: Option<String>,

    /// A revision of etcd that it has for certain. Example: 1437.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,

    /// When it was asked of etcd, by the clock of the backup. Example: `2026-11-27T00:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub taken: Option<String>,

    /// Bytes of the database. Example: 8478720.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,

    /// SHA-256 of the database as etcd gave it, hexadecimal.
    /// Example: `9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub hash: Option<String>,

    /// Version of Kubernetes that the tenant cluster was to have then. Example: `1.35.4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub kubernetes_version: Option<String>,

    /// Version of etcd. Example: `3.6.14`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub etcd_version: Option<String>,

    /// Until when it is kept in the backup whatever retention says. Example: `2027-06-30T00:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub kept_until: Option<String>,

    /// `Ready`: it is in the backup. `Verified`: it was read again there, with all deltas after it, and was whole.
    /// Example: `[{"type": "Ready", "status": "True", "reason": "SnapshotTaken", "message": ""}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
