//! Who may say who somebody is: issuers of tokens (OpenID Connect).
//!
//! Invariant: claims are named, never computed by an expression, so that what is let in here is what the
//! kube-apiserver takes; every text, list and map is bounded.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How users prove who they are, besides certificates and ServiceAccounts.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Authentication {
    /// Issuers of tokens (OpenID Connect), at most 8. A change is in force within minutes and restarts
    /// nothing. They are asked from the tenant cluster's nodes, by the addon `konnectivity`, and never
    /// from the management cluster. Default: none.
    /// Example: `[{"url": "https://login.example.com", "audiences": ["kubernetes"]}]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["url"]))]
    pub issuers: Vec<Issuer>,
}

impl Authentication {
    /// Whether there are none.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.issuers.is_empty()
    }
}

/// An issuer of tokens (`AuthenticationConfiguration`, KEP-3331).
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Issuer {
    /// Its URL, as tokens say it in `iss`. Required, no default. Example: `https://login.example.com`.
    #[schemars(length(min = 1, max = 512))]
    pub url: String,

    /// Where its metadata are, if not below `url`. Default: below `url`, at
    /// `/.well-known/openid-configuration`.
    /// Example: `https://login.internal.example.com/.well-known/openid-configuration`.
    #[serde(
        default,
        rename = "discoveryURL",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(min = 1, max = 512))]
    pub discovery_url: Option<String>,

    /// Whom tokens are for, at most 8: `aud` of a token has one of them. Required, no default.
    /// Example: `["kubernetes"]`.
    #[schemars(length(min = 1, max = 8), inner(length(min = 1, max = 256)))]
    pub audiences: Vec<String>,

    /// Certificate, as PEM, of the authority that it is believed by. Default: those that the
    /// kube-apiserver's image trusts. Example: `-----BEGIN CERTIFICATE-----…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8192))]
    pub certificate_authority: Option<String>,

    /// Claim that is the user's name. Default: `sub`. Example: `email`.
    #[serde(default = "default_claim")]
    #[schemars(length(min = 1, max = 256))]
    pub username_claim: String,

    /// What stands before the name, so that nobody of this issuer is taken for somebody else; empty for
    /// nothing. Default: the URL and `#`. Example: `oidc:`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub username_prefix: Option<String>,

    /// Claim that lists the user's groups. Default: none, there are no groups. Example: `groups`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub groups_claim: Option<String>,

    /// What stands before each group; empty for nothing. Default: the URL and `#`. Example: `oidc:`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub groups_prefix: Option<String>,

    /// Claims that a token must have, with these values, at most 8. Default: none.
    /// Example: `{"hd": "example.com"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 8, "additionalProperties" = {"type": "string", "maxLength": 256}))]
    pub required_claims: BTreeMap<String, String>,
}

fn default_claim() -> String {
    "sub".to_owned()
}
