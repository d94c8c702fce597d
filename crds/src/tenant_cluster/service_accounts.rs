//! What tokens of ServiceAccounts say of themselves, so that others can believe them.
//!
//! Invariant: every text and list is bounded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What tokens of ServiceAccounts say of themselves, so that others than the tenant cluster can believe them
/// (workload identity). A change restarts the API server; tokens of before are valid until they end.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceAccounts {
    /// URL of who issues tokens (`iss`), where others look for its keys; who answers there is yours: it has
    /// to show what the tenant cluster says at `/.well-known/openid-configuration` and `/openid/v1/jwks`.
    /// Default: `https://kubernetes.default.svc.` and the DNS domain, whose tokens are believed in any case.
    /// Example: `https://oidc.example.com/demo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub issuer: Option<String>,

    /// Issuers whose tokens are believed besides, at most 4: those of before, until the last of their tokens
    /// has ended (a day). Default: none. Example: `["https://old.example.com/demo"]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "set"))]
    pub accepted_issuers: Vec<String>,

    /// For whom tokens may be that the API server takes (`aud`), at most 8, besides the issuers; tokens that
    /// name nobody are for all of these. Default: none. Example: `["https://api.example.com"]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "set"))]
    pub audiences: Vec<String>,

    /// Where the keys are. Default: below the issuer, at `/openid/v1/jwks`.
    /// Example: `https://keys.example.com/demo/jwks`.
    #[serde(rename = "jwksURI", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub jwks_uri: Option<String>,
}

impl ServiceAccounts {
    /// Whether nothing is chosen.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
