//! `BackupTarget`: where backups of tenant clusters' etcd are kept: a bucket of an S3 endpoint, or a claim of each
//! tenant cluster's own.
//!
//! Invariant: users name one, and no secret stands in it: credentials and keys are named by their Secrets in the
//! operator's namespace, which only the platform team reads.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;

/// `https://`, or `http://` where somebody wants that, a host, perhaps a port, and no path: that is what an endpoint
/// is; what is in it goes onto a command line.
const ENDPOINT: &str = r"self.matches('^https?://([A-Za-z0-9]([-A-Za-z0-9.]{0,251}[A-Za-z0-9])?|\\[[0-9A-Fa-f:.]{2,45}\\])(:[0-9]{1,5})?/?$')";
const ENDPOINT_FORM: &str = "endpoint is the URL of the S3 endpoint without a bucket or a path: write https://s3.example.com or https://192.0.2.10:9000";
/// By AWS' rules, which other endpoints share (docs.aws.amazon.com, "General purpose bucket naming rules").
const BUCKET: &str = r"self.matches('^[a-z0-9][-a-z0-9.]{1,61}[a-z0-9]$')";
const BUCKET_FORM: &str = "bucket is a name of 3 to 63 lower-case letters, digits, dots and hyphens that begins and ends with a letter or digit";
const PREFIX: &str =
    r"self.matches('^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$') && !self.matches('(^|/)[.]{1,2}(/|$)')";
const PREFIX_FORM: &str = "prefix has parts of letters, digits, dots, hyphens and underscores with a slash between them, and neither begins nor ends with one: write covey or platform/covey";
const CA: &str = r"self.contains('-----BEGIN CERTIFICATE-----') && !self.contains('PRIVATE KEY')";
const CA_FORM: &str =
    "caBundle is certificates in PEM (-----BEGIN CERTIFICATE-----), and no private key";

/// Where backups of tenant clusters' etcd are kept.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "covey.dev",
    version = "v1alpha1",
    kind = "BackupTarget",
    plural = "backuptargets",
    shortname = "bt",
    category = "covey",
    status = "BackupTargetStatus",
    derive = "PartialEq",
    doc = "Where backups of tenant clusters' etcd are kept.",
    validation = Rule::new("has(self.spec.s3) != has(self.spec.claim)").field_path(".spec").message("set exactly one of s3 and claim: backups are either in a bucket, or in a claim of each tenant cluster's own"),
    printcolumn(name = "Usable", type_ = "string", json_path = ".status.conditions[?(@.type=='Usable')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Usable')].reason"),
    printcolumn(name = "Bucket", type_ = "string", json_path = ".spec.s3.bucket"),
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".spec.s3.endpoint"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Prefix", type_ = "string", json_path = ".spec.s3.prefix", priority = 1),
    printcolumn(name = "Storage-Class", type_ = "string", json_path = ".spec.claim.storageClassName", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type=='Usable')].message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.claim) == has(oldSelf.claim)").message("a BackupTarget cannot change from s3 to claim or back: make another one, and name it in the tenant clusters' spec.backup.target")
)]
pub struct BackupTargetSpec {
    /// A bucket, which all tenant clusters share: each has a folder of its own in it. Default: none; then
    /// `claim` is set. Example: `{"endpoint": "https://s3.example.com", "bucket": "backups", "credentialsSecret": "backup-bucket"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3>,

    /// A claim in the namespace of each tenant cluster: it is away from etcd's volumes and goes with the
    /// tenant cluster, and is lost with the management cluster's storage. Default: none; then `s3` is set.
    /// Example: `{"size": "20Gi", "storageClassName": "fast"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<BackupClaim>,

    /// What backups are encrypted for. Required, no default. Example: `{"keySecret": "backup-key"}`.
    pub encryption: BackupEncryption,
}

/// A bucket of an S3 endpoint.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct S3 {
    /// URL of the endpoint, without a path. It has to know conditional puts (`If-None-Match: *`). Default:
    /// Amazon's own of the region. Example: `https://s3.example.com`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 300))]
    #[x_kube(validation = Rule::new(ENDPOINT).message(ENDPOINT_FORM))]
    pub endpoint: Option<String>,

    /// Region of the bucket. Default: `us-east-1`. Example: `eu-central-1`.
    #[serde(default = "default_region")]
    #[schemars(
        length(min = 1, max = 64),
        regex(pattern = "^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$")
    )]
    pub region: String,

    /// Name of the bucket. It has to be there. Required, no default. Example: `backups`.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new(BUCKET).message(BUCKET_FORM))]
    pub bucket: String,

    /// In front of all keys, without a slash at its ends. Default: none, folders of tenant clusters are at the
    /// top. Example: `platform/covey`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = Rule::new(PREFIX).message(PREFIX_FORM))]
    pub prefix: Option<String>,

    /// Secret of the operator's namespace with the fields `access-key-id` and `secret-access-key`, which may
    /// list, get, put and delete in the bucket. Required, no default. Example: `backup-bucket`.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub credentials_secret: String,

    /// Authorities of the endpoint's certificate, PEM, at most 64 KiB. Default: those that everybody trusts.
    /// Example: `"-----BEGIN CERTIFICATE-----\n…"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 65536))]
    #[x_kube(validation = Rule::new(CA).message(CA_FORM))]
    pub ca_bundle: Option<String>,
}

fn default_region() -> String {
    "us-east-1".to_owned()
}

/// A claim in the namespace of each tenant cluster.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self == oldSelf").message("claim cannot change: tenant clusters have claims of it already; make another BackupTarget, and name it in their spec.backup.target")
)]
pub struct BackupClaim {
    /// Size in bytes with the suffixes of Kubernetes. A tenant cluster needs a few times the size of its etcd.
    /// Cannot change. Default: `10Gi`. Example: `20Gi`.
    #[serde(default = "default_claim_size")]
    pub size: Quantity,

    /// StorageClass in the management cluster, best one of another pool of disks than etcd's. Cannot change.
    /// Default: its default class. Example: `fast`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,
}

fn default_claim_size() -> Quantity {
    Quantity::from("10Gi")
}

/// What backups are encrypted for.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupEncryption {
    /// Secret of the operator's namespace with the field `wrapping-key`, 64 bytes, as
    /// `etcd-agent backup new-key` makes it beside the recovery key, which a person keeps and which alone
    /// opens backups where their tenant cluster is lost. Required, no default. Example: `backup-key`.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub key_secret: String,

    /// Secret of the operator's namespace with the field `recovery-key`, as `etcd-agent backup new-key` printed it: it
    /// opens every backup of the target, so it is there only while a TenantCluster is made of one that is gone
    /// (`from.clusterUID` of a Restore). Default: none; then no such Restore is carried out. Example: `recovery-key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub recovery_secret: Option<String>,
}

/// What the operator observed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupTargetStatus {
    /// Generation of the spec that this status speaks of. Absent until the first look. Example: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Usable`: an object was created, created again (which has to fail), read, listed and deleted there, and the
    /// key is one; if not, the call that failed and why. It is checked when the spec changes, every day, and
    /// where it failed every five minutes.
    /// Example: `[{"type": "Usable", "status": "False", "reason": "TargetUnusable", "message": "create: …"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
