//! What the kube-apiserver writes down of requests, and where.
//!
//! Invariant: nothing here is secret, because whoever reads the TenantCluster reads it; every text and list
//! is bounded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the kube-apiserver writes down of requests, and where (audit.k8s.io/v1). A change restarts it.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Audit {
    /// Rules, at most 64: the first that fits a request says how much of it is written down, and of one
    /// that none fits nothing is. Bodies of Secrets and of tokens never are. Default: who did what, without
    /// bodies and without what components do among themselves.
    /// Example: `[{"level": "Metadata", "verbs": ["create", "delete"]}]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub rules: Vec<AuditRule>,

    /// `Stdout`: the log of the container `kube-apiserver`, which nodes keep little of, so that whoever
    /// collects logs of pods has it; an event is cut at 100 KiB. `File`: files in the pod, eleven of 100 MB,
    /// gone with it. Default: `Stdout`; `File` where there is no `audit` at all. Example: `File`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["File", "Stdout"]))]
    pub log: Option<AuditLog>,

    /// Who is sent the events besides. Whoever runs the management cluster says whether there may be
    /// somebody (`config.apiServer.auditWebhook` of the chart). Default: nobody.
    /// Example: `{"url": "https://audit.example.com/events"}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<AuditWebhook>,
}

/// Where the log is.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum AuditLog {
    /// Files in the pod.
    File,
    /// The container's log.
    #[default]
    Stdout,
}

/// How much is written down of which requests: what is left out fits all. Requests fit when all that is
/// given fits; of a list one entry is enough.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRule {
    /// `None`: nothing; `Metadata`: who, what, when; `Request`: what was sent, too; `RequestResponse`: what
    /// was answered, too. Required, no default. Example: `Metadata`.
    #[schemars(with = "String", extend("enum" = ["None", "Metadata", "Request", "RequestResponse"]))]
    pub level: AuditLevel,

    /// Names of users, at most 16. Default: all. Example: `["jane@example.com"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 256)))]
    pub users: Vec<String>,

    /// Names of groups, at most 16. Default: all. Example: `["system:authenticated"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 256)))]
    pub user_groups: Vec<String>,

    /// Verbs of requests, at most 16. Default: all. Example: `["create", "delete"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 32)))]
    pub verbs: Vec<String>,

    /// Kinds of objects, at most 16 groups of them. Default: all.
    /// Example: `[{"group": "apps", "resources": ["deployments"]}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub resources: Vec<AuditResources>,

    /// Namespaces of objects, at most 32; an empty name stands for objects that are in none. Default: all.
    /// Example: `["kube-system"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 63)))]
    pub namespaces: Vec<String>,

    /// Paths that are no objects, at most 16; `*` at the end of one stands for any end. Not together with
    /// `resources` or `namespaces`. Default: all. Example: `["/metrics", "/healthz*"]`.
    #[serde(
        default,
        rename = "nonResourceURLs",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 16), inner(length(min = 1, max = 256)))]
    pub non_resource_urls: Vec<String>,
}

/// How much is written down.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
pub enum AuditLevel {
    /// Nothing.
    #[default]
    None,
    /// Who, what, when.
    Metadata,
    /// What was sent, too.
    Request,
    /// What was answered, too.
    RequestResponse,
}

/// Kinds of objects of one API group.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditResources {
    /// API group. Default: empty, the core group. Example: `apps`.
    #[schemars(length(max = 253))]
    pub group: String,

    /// Resources, with their subresource behind a / where only that is meant, at most 32; `*` stands for
    /// any. Default: all of the group. Example: `["pods", "pods/log"]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 128)))]
    pub resources: Vec<String>,
}

/// Who is sent the events of the audit log.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditWebhook {
    /// Where events are sent, as lists of them (`EventList` of audit.k8s.io/v1): by the addon
    /// `konnectivity`, from the tenant cluster's nodes, and never from the management cluster. Nothing
    /// says who sends them. Required, no default. Example: `https://audit.example.com/events`.
    #[schemars(length(min = 1, max = 512))]
    pub url: String,

    /// Certificate, as PEM, of the authority that it is believed by. Default: those that the
    /// kube-apiserver's image trusts. Example: `-----BEGIN CERTIFICATE-----…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8192))]
    pub certificate_authority: Option<String>,
}
