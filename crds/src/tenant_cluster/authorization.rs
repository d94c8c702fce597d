//! Who may allow what, besides the tenant cluster's own roles.
//!
//! Invariant: what is here is asked last and can only allow: nothing that nodes and the control plane do
//! waits for it or is refused by it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who may allow what, besides nodes' own rights and RBAC, which stay and are asked first.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Authorization {
    /// Webhooks that are asked about what nobody else allows, at most 4, in this order
    /// (`SubjectAccessReview`). Whoever runs the management cluster says whether there may be any
    /// (`config.apiServer.authorizationWebhooks` of the chart). A change restarts the API server.
    /// Default: none. Example: `[{"name": "policy", "url": "https://policy.example.com/authorize"}]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub webhooks: Vec<AuthorizationWebhook>,
}

impl Authorization {
    /// Whether there are none.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.webhooks.is_empty()
    }
}

/// A webhook that allows requests (`AuthorizationConfiguration`, KEP-3221). One that does not answer within
/// three seconds, or refuses, allows nothing.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationWebhook {
    /// What metrics and logs call it: a DNS name. Required, no default. Example: `policy`.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Where it is asked: by the addon `konnectivity`, from the tenant cluster's nodes, and never from the
    /// management cluster. Nothing says who asks. Required, no default.
    /// Example: `https://policy.example.com/authorize`.
    #[schemars(length(min = 1, max = 512))]
    pub url: String,

    /// Certificate, as PEM, of the authority that it is believed by. Default: those that the
    /// kube-apiserver's image trusts. Example: `-----BEGIN CERTIFICATE-----…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8192))]
    pub certificate_authority: Option<String>,
}
