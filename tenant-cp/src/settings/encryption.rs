//! KMS plugins that tenant clusters may have their etcd encrypted with, as plain data.
//!
//! Invariant: a user names one and says nothing of how it is run.

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// What encrypts tenant clusters' etcd, beside keys of Covey's.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EncryptionSettings {
    /// KMSs that users may name in `spec.encryption.kms`, at most 8. One that a tenant cluster uses has to stay here: without
    /// its plugin nobody reads what it wrote. Default: none.
    pub kms: Vec<KmsPlugin>,
}

impl EncryptionSettings {
    /// The one of a name.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<&KmsPlugin> {
        self.kms.iter().find(|plugin| plugin.name == name)
    }
}

/// A plugin of KMS v2 (kubernetes.io/docs, "Using a KMS provider"), which runs beside every kube-apiserver of a tenant cluster
/// that uses it, as the same user and without any right. In its arguments and in values of `env` `$(KMS_SOCKET)` is the path
/// of the socket that it has to listen at.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KmsPlugin {
    /// What users call it: up to 32 lower-case letters, digits and `-`. It cannot change, because etcd has it before every
    /// value. Required.
    pub name: String,
    /// Its image, with its registry. Required. Example: `registry.example.com/kms/vault-plugin:v1.2.0`.
    pub image: String,
    /// Its program. Default: that of the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Its arguments. Default: none. Example: `["--listen=unix://$(KMS_SOCKET)"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Its environment. What is secret does not belong here. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// A Secret of the tenant namespace whose fields are further variables of its environment. Covey does not make it: have
    /// whatever distributes Secrets on the management cluster put it into namespaces with the label
    /// `app.kubernetes.io/managed-by: covey`. Without it the plugin does not start. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_from_secret: Option<String>,
    /// Audience of a token of the ServiceAccount `control-plane` of the tenant namespace, which it finds in the file
    /// `/var/run/secrets/kms/token` and which is renewed every hour: a KMS that believes the management cluster's issuer needs
    /// no Secret. Never the audience of the management cluster's API. Default: none, and it has no token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_audience: Option<String>,
    /// Addresses that it reaches, and a control plane that has it. Default: none but DNS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cidrs: Vec<IpNet>,
    /// TCP ports of these. Default: 443.
    #[serde(default = "https", skip_serializing_if = "is_https")]
    pub ports: Vec<u16>,
    /// What it asks for. Default: 5m, 32Mi.
    #[serde(default = "least")]
    pub requests: BTreeMap<String, String>,
    /// Its limits. Default: 128Mi of memory.
    #[serde(default = "most")]
    pub limits: BTreeMap<String, String>,
}

fn https() -> Vec<u16> {
    vec![443]
}

fn is_https(ports: &[u16]) -> bool {
    ports == [443]
}

fn least() -> BTreeMap<String, String> {
    let amounts = [("cpu", "5m"), ("memory", "32Mi")];
    amounts
        .map(|(name, amount)| (name.to_owned(), amount.to_owned()))
        .into()
}

fn most() -> BTreeMap<String, String> {
    BTreeMap::from([("memory".to_owned(), "128Mi".to_owned())])
}
