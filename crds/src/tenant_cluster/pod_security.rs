//! What pods may be in namespaces that say nothing of it (Pod Security Standards).
//!
//! Invariant: every text and list is bounded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What pods may be in namespaces without labels of `pod-security.kubernetes.io`.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSecurity {
    /// Pods beyond it are refused. Default: `privileged`, none is. Example: `baseline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["privileged", "baseline", "restricted"]))]
    pub enforce: Option<PodSecurityLevel>,

    /// Pods beyond it are noted in the audit log. Default: `privileged`, none is. Example: `restricted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["privileged", "baseline", "restricted"]))]
    pub audit: Option<PodSecurityLevel>,

    /// Whoever makes pods beyond it is warned. Default: `privileged`, nobody is. Example: `restricted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["privileged", "baseline", "restricted"]))]
    pub warn: Option<PodSecurityLevel>,

    /// Namespaces in which none of it holds, at most 16, besides those of Covey's addons. Default: none.
    /// Example: `["monitoring"]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub exempt_namespaces: Vec<String>,
}

impl PodSecurity {
    /// Whether anything is allowed.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A level of the Pod Security Standards.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PodSecurityLevel {
    /// Anything.
    Privileged,
    /// Nothing by which a pod is known to get at its node.
    Baseline,
    /// What is good practice.
    Restricted,
}
