//! The status of a TenantCluster: what the operator observed, never what it hopes for.
//!
//! Invariant: every field is written by the operator alone and only when it changes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the operator observed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantClusterStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Ready`, `Progressing`, `Degraded`, and one per part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// Version that every kube-apiserver of this tenant cluster serves. Example: `1.35.4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// Where the API answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointStatus>,

    /// The tenant namespace: namespace of the management cluster that holds all parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,

    /// Address ranges in force; given once, then kept until the tenant cluster is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStatus>,

    /// Secret in this namespace whose key `value` is the administrator's kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret: Option<String>,

    /// Every certificate and when it ends, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<CertificateStatus>,

    /// Hash of the objects that were last put into the tenant cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap_hash: Option<String>,
}

/// Where the API answers.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointStatus {
    /// Address or DNS name.
    pub host: String,
    /// Port.
    pub port: i32,
}

/// Address ranges in force.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkStatus {
    /// Addresses of the tenant's pods.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: String,
    /// Addresses of the tenant's Services.
    #[serde(rename = "serviceCIDR")]
    pub service_cidr: String,
    /// DNS domain inside the tenant cluster.
    pub dns_domain: String,
}

/// One certificate of the tenant cluster.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStatus {
    /// Name as in `docs/certificates.md`. Example: `apiserver`.
    pub name: String,
    /// When it ends, RFC 3339, UTC.
    pub not_after: String,
}
