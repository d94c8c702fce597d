//! `spec.nodes`: what all machines of a tenant cluster's node pools are given.
//!
//! Invariant: nothing here is secret, because whoever reads the TenantCluster reads it; every text and
//! list is bounded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What all machines of all node pools are given before they join. A change holds for machines made
/// afterwards.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Nodes {
    /// Where containerd gets the images of a registry instead, at most 16; it reads
    /// `/etc/containerd/certs.d`. Default: none.
    /// Example: `[{"registry": "docker.io", "endpoints": ["https://mirror.example.com"]}]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["registry"]))]
    pub registry_mirrors: Vec<RegistryMirror>,

    /// Proxy by which containerd gets images. Default: none.
    /// Example: `{"https": "http://proxy.example.com:3128", "noProxy": ["10.0.0.0/8"]}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,

    /// Certificates of authorities that the machines trust besides those of their image, at most 4, as
    /// PEM; more than one may stand in each. Default: none.
    /// Example: `["-----BEGIN CERTIFICATE-----\nMIIB…\n-----END CERTIFICATE-----\n"]`.
    #[serde(rename = "trustedCAs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), inner(length(min = 1, max = 8192)))]
    pub trusted_cas: Vec<String>,

    /// Addresses or names of time servers, at most 4, instead of those of the image (systemd-timesyncd
    /// or chrony). Default: none. Example: `["ntp.example.com"]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub ntp_servers: Vec<String>,
}

impl Nodes {
    /// Whether nothing is given.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Where the images of a registry are had instead.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryMirror {
    /// Host of the registry, as images name it, with its port where it has one; `*` stands for all that
    /// are not listed. Required, no default. Example: `registry.k8s.io`.
    #[schemars(length(min = 1, max = 255))]
    pub registry: String,

    /// Who is asked instead, in this order, and the registry itself last; at most 4. One with a path is
    /// asked below that path (`https://mirror.example.com/v2/proxy`), others below `/v2`.
    /// Required, no default. Example: `["https://mirror.example.com"]`.
    #[schemars(length(min = 1, max = 4), inner(length(min = 1, max = 255)))]
    pub endpoints: Vec<String>,
}

/// A proxy.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Proxy {
    /// For what is had by http. Default: none. Example: `http://proxy.example.com:3128`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub http: Option<String>,

    /// For what is had by https. Default: none. Example: `http://proxy.example.com:3128`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub https: Option<String>,

    /// Names, addresses and address ranges that are asked straight, at most 32; a name stands for those
    /// below it too. Default: none but the machine itself. Example: `["10.0.0.0/8", "example.com"]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)))]
    pub no_proxy: Vec<String>,
}
