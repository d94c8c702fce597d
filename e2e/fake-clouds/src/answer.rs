//! What an answer is: a status and a body.
//!
//! Invariant: what an error looks like is its vendor's, and said there.

use serde_json::Value;

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// None: no body (204).
    pub(crate) body: Option<Value>,
    /// What is sent instead of a body, and is no JSON.
    pub(crate) text: Option<String>,
    /// Headers of its own.
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Answer {
    pub(crate) fn ok(status: u16, body: Value) -> Self {
        Self {
            status,
            body: Some(body),
            text: None,
            headers: Vec::new(),
        }
    }

    pub(crate) fn empty() -> Self {
        Self {
            status: 204,
            body: None,
            text: None,
            headers: Vec::new(),
        }
    }

    /// XML.
    pub(crate) fn xml(status: u16, text: String) -> Self {
        Self {
            status,
            body: None,
            text: Some(text),
            headers: vec![("content-type", "text/xml;charset=UTF-8".to_owned())],
        }
    }

    /// With a header more.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}
