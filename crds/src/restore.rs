//! `Restore`: a tenant cluster as it was at a moment, in place or as another TenantCluster; or, dry, whether it can be had.
//!
//! Invariant: nothing is stopped before it is known that the moment can be had, and the data of before is kept until
//! `confirmed`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::instant;

const SAME: &str = "self.clusterName == oldSelf.clusterName && self.dryRun == oldSelf.dryRun \
    && has(self.at) == has(oldSelf.at) && (!has(self.at) || self.at == oldSelf.at) \
    && has(self.from) == has(oldSelf.from) && (!has(self.from) || self.from == oldSelf.from) \
    && has(self.survivor) == has(oldSelf.survivor) && (!has(self.survivor) || self.survivor == oldSelf.survivor)";
const SAME_FORM: &str = "a Restore cannot change but for confirmed and orphans: make another one";
const STAYS: &str = "self.confirmed || !oldSelf.confirmed";
const STAYS_FORM: &str = "confirmed cannot be taken back: the data of before may have been removed";
const DECIDED: &str =
    "!oldSelf.confirmed || oldSelf.orphans == self.orphans || oldSelf.orphans == 'Report'";
const DECIDED_FORM: &str = "orphans was decided and confirmed, so it cannot change any more: delete what is too much \
    with kubectl in the tenant namespace";
const DRY: &str = "!(self.dryRun && self.confirmed)";
const DRY_FORM: &str =
    "with dryRun nothing is restored, so there is nothing to confirm: leave confirmed out";
const SURVIVOR: &str = "!has(self.survivor) || !(has(self.at) || has(self.from) || self.dryRun)";
const SURVIVOR_FORM: &str = "what a survivor has comes after all that is in the backup of the etcd cluster of today: with \
    survivor leave at, from and dryRun out";
const ONE: &str = "!has(self.spec.at) || has(self.spec.at.time) != has(self.spec.at.revision)";
const ONE_FORM: &str =
    "set exactly one of at.time and at.revision, or leave at out for the newest moment";
const TIME_FORM: &str = "at.time is a time in UTC to the second: write 2026-11-26T20:00:00Z";

/// A tenant cluster as it was at a moment, in place.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "covey.dev",
    version = "v1alpha1",
    kind = "Restore",
    plural = "restores",
    category = "covey",
    namespaced,
    status = "RestoreStatus",
    derive = "PartialEq",
    doc = "A tenant cluster as it was at a moment, in place.",
    validation = Rule::new(ONE).field_path(".spec").message(ONE_FORM),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterName"),
    printcolumn(
        name = "Possible",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Possible')].status"
    ),
    printcolumn(
        name = "Restored",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Restored')].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Restored')].reason"
    ),
    printcolumn(name = "Revision", type_ = "integer", json_path = ".status.revision"),
    printcolumn(name = "Time", type_ = "string", json_path = ".status.time"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[*].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(SAME).message(SAME_FORM),
    validation = Rule::new(STAYS).message(STAYS_FORM),
    validation = Rule::new(DECIDED).message(DECIDED_FORM),
    validation = Rule::new(DRY).message(DRY_FORM),
    validation = Rule::new(SURVIVOR).message(SURVIVOR_FORM)
)]
pub struct RestoreSpec {
    /// The TenantCluster, in the same namespace; it has to have a backup (`spec.backup`). Cannot change.
    /// Required, no default. Example: `demo`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub cluster_name: String,

    /// The moment. Cannot change. Default: the newest that is in the backup. Example: `{"time": "2026-11-26T20:00:00Z"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Moment>,

    /// Whose backup is read. Cannot change. Default: that of the etcd cluster that the TenantCluster has now.
    /// Example: `{"clusterUID": "0a1b2c3d-0011-4000-8000-000000000001", "clusterID": "cdf818194e3a8c32"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Source>,

    /// A member of etcd whose volume is left where those of a majority are lost. What it has beyond the backup is put into
    /// the backup first, and then the newest moment is restored; where it cannot be used, it is said and left aside. Its
    /// volume is only read. Cannot change. Default: none. Example: `etcd-2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = "^etcd-[0-9]+$"))]
    pub survivor: Option<String>,

    /// `true`: it is only said whether it can be had, and nothing is stopped for it. Cannot change.
    /// Default: `false`. Example: `true`.
    #[serde(default)]
    pub dry_run: bool,

    /// `true`: what the members of etcd had before is removed once the tenant cluster is restored and `orphans` is
    /// decided; until then it is kept, and no other Restore of the tenant cluster begins. Cannot be taken back.
    /// Default: `false`. Example: `true`.
    #[serde(default)]
    pub confirmed: bool,

    /// What becomes of load balancers, volumes and snapshots that the tenant cluster of then does not know any more, once
    /// this is confirmed. Until then all of them are kept, with their addresses and data, and so they are where this is
    /// deleted. A volume that is attached to a machine is kept, whatever this says, and so is a snapshot that a volume is
    /// being made of. Can change until it is `Keep` or `Delete` and `confirmed`. Default: `Report`. Example: `Delete`.
    #[serde(default)]
    pub orphans: Orphans,
}

/// What becomes of what the tenant cluster of then does not know.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Orphans {
    /// It stays.
    Keep,
    /// It stays and stands in `status.orphans`, and the Restore does not end before it is decided: change this to `Keep` or
    /// `Delete`. Where there is none it ends.
    #[default]
    Report,
    /// It goes.
    Delete,
}

/// Something in the tenant namespace that the tenant cluster of then does not know.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Orphan {
    /// Its kind: `Service` of a load balancer, `PersistentVolumeClaim` of a volume, `VolumeSnapshot` of a snapshot.
    /// Example: `Service`.
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Its name in the tenant namespace. Example: `lb-0a1b2c3d4e5f60718293a4b5c6d7e8f9`.
    #[schemars(length(max = 253))]
    pub name: String,
    /// What it was made for in the tenant cluster, as namespace and name; of a snapshot that of its volume, where that is
    /// still there. Example: `default/web`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 320))]
    pub made_for: Option<String>,
    /// The addresses that it holds, the first few of them. Example: `["192.0.2.7"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(max = 253)))]
    pub addresses: Vec<String>,
}

/// A PersistentVolume of the tenant cluster that has no volume behind it, or a VolumeSnapshotContent without a snapshot.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Missing {
    /// Its kind: `PersistentVolume` or `VolumeSnapshotContent`. Default: `PersistentVolume`.
    /// Example: `VolumeSnapshotContent`.
    #[serde(default = "persistent_volume")]
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Its name in the tenant cluster. Example: `pvc-0a1b2c3d-0000-4000-8000-000000000000`.
    #[schemars(length(max = 253))]
    pub name: String,
    /// The claim of the tenant cluster that has it, as namespace and name; of a VolumeSnapshotContent the VolumeSnapshot.
    /// Example: `default/data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 320))]
    pub claim: Option<String>,
    /// The volume that it names (`spec.csi.volumeHandle`), or the snapshot (`status.snapshotHandle`).
    /// Example: `vol-pvc-0a1b2c3d-0000-4000-8000-000000000000`.
    #[schemars(length(max = 253))]
    pub volume: String,
}

/// Of one that was told before there were others.
fn persistent_volume() -> String {
    "PersistentVolume".to_owned()
}

/// Whose backup is read.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// UID of another TenantCluster, of this namespace. One that is gone becomes this one, with its authorities and keys;
    /// of one that lives this one is a copy, where it says so (`spec.etcd.copyOf`), with those of its own. This one has to
    /// be made for that (`spec.etcd.bootstrap: Restore`), with the address ranges of then, and its target
    /// (`spec.backup.target`) has to have the backup and to name a recovery key (`encryption.recoverySecret`).
    /// `etcd-agent backup clusters` lists whose backups a target has.
    /// Default: the TenantCluster's own. Example: `0a1b2c3d-0011-4000-8000-000000000001`.
    #[serde(
        rename = "clusterUID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(
        length(min = 1, max = 64),
        regex(pattern = "^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$")
    )]
    pub cluster_uid: Option<String>,

    /// An etcd cluster that the TenantCluster had before, hexadecimal: every Restore makes another one, and
    /// `status.replaces` of the Restore says which there was. With `clusterUID` the one that it had last, or before.
    /// Required, no default. Example: `cdf818194e3a8c32`.
    #[serde(rename = "clusterID")]
    #[schemars(length(min = 1, max = 16), regex(pattern = "^0*[1-9a-f][0-9a-f]*$"))]
    pub cluster_id: String,
}

/// A moment: one of the two.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Moment {
    /// With all changes that came until then, in UTC, by the clock of the backup. Default: none; then `revision` is
    /// set. Example: `2026-11-26T20:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 20, max = 20))]
    #[x_kube(validation = Rule::new(instant::FORM).message(TIME_FORM))]
    pub time: Option<String>,

    /// With this revision of etcd, and none after it. Default: none; then `time` is set. Example: 1437.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub revision: Option<i64>,
}

/// What the operator observed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreStatus {
    /// Generation of the spec that this status speaks of. Absent until the first look. Example: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// UID of the TenantCluster that it is restored into. Example: `0a1b2c3d-0011-4000-8000-000000000001`.
    #[serde(
        rename = "clusterUID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 64))]
    pub cluster_uid: Option<String>,

    /// The etcd cluster whose backup was read, hexadecimal. Example: `cdf818194e3a8c32`.
    #[serde(rename = "clusterID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub cluster_id: Option<String>,

    /// The etcd cluster in whose place it is put, hexadecimal: the one that the TenantCluster had when the backup was
    /// read. A later Restore brings moments of it back by `spec.from`. Example: `8e9e05c52164694d`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub replaces: Option<String>,

    /// The full snapshot that it would begin with; absent where it cannot be had.
    /// Example: `00000000000000001437-00000000000000000052-001795726800000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 80))]
    pub full: Option<String>,

    /// The last revision that it would have. Where it cannot be had: of the nearest moment before it that can; absent
    /// where there is none. Example: 1440.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,

    /// How much revisions are raised, so that all of them are above every one that was ever told; absent where it is a
    /// dry one. Example: 1000000250.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bump: Option<i64>,

    /// When that revision's change came. Example: `2026-11-26T19:59:58Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub time: Option<String>,

    /// Load balancers, volumes and snapshots that are there and that the tenant cluster does not know, the first hundred.
    /// Example: `[{"kind": "Service", "name": "lb-0a1b", "madeFor": "default/web", "addresses": ["192.0.2.7"]}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind", "name"]))]
    pub orphans: Vec<Orphan>,

    /// PersistentVolumes of the tenant cluster of then that have no volume behind them, and VolumeSnapshotContents without
    /// a snapshot, the first hundred by kind and name. Nothing is made in their place.
    /// Example: `[{"kind": "PersistentVolume", "name": "pvc-0a1b", "claim": "default/data", "volume": "vol-pvc-0a1b"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind", "name"]))]
    pub missing: Vec<Missing>,

    /// `Possible`: the snapshot and all changes up to the moment were read again when it was asked, and were whole; if
    /// not, what is wrong, and the nearest moment before it that can be had. It is not looked at again: retention goes
    /// on. `Restored`, of one that is not dry: how far it is, or why it was given up. `Orphans`, once members run on what was
    /// built: whether the tenant cluster does not know load balancers that there are, and what becomes of them.
    /// `OrphanedVolumes`, once it serves: the same of volumes and snapshots.
    /// Example: `[{"type": "Possible", "status": "True", "reason": "RestorePossible", "message": ""}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
