//! One request and what came of it, as recordings have them.
//!
//! Invariant: pure; a kind says nothing of names.

use http::{Method, Uri};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::RequestInfo;

/// One request and what came of it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Exchange {
    /// Method.
    pub method: String,
    /// Path and query.
    pub uri: String,
    /// Content type; empty without a body.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub content: String,
    /// Only metadata was asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// What was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Status code.
    pub code: u16,
    /// What was answered; not of a watch.
    #[serde(default)]
    pub answer: Value,
    /// What a watch told until it ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Value>,
}

impl Exchange {
    /// Its kind, as [`kind_of`] names it.
    #[must_use]
    pub fn kind(&self) -> String {
        kind_of(&self.info(), &self.content, self.partial)
    }

    pub(super) fn info(&self) -> RequestInfo {
        let method = Method::from_bytes(self.method.as_bytes()).unwrap_or_default();
        let uri: Uri = self.uri.parse().unwrap_or_default();
        RequestInfo::new(&method, &uri)
    }
}

/// `patch apps/deployments/status merge`: verb, resource, and the type of a patch or that only metadata
/// is asked for.
#[must_use]
pub fn kind_of(info: &RequestInfo, content: &str, partial: bool) -> String {
    let mut kind = format!("{} {}", info.verb, info.kind());
    if info.verb == "patch" {
        let form = content.trim_start_matches("application/");
        kind.push(' ');
        kind.push_str(form.split('-').next().unwrap_or_default());
    }
    if partial {
        kind.push_str(" metadata");
    }
    if info.dry_run {
        kind.push_str(" dry");
    }
    kind
}
