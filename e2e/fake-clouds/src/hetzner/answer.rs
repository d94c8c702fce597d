//! What an error is.
//!
//! Invariant: an error has the form of the documentation, code and sentence.

use serde_json::{Value, json};

use crate::answer::Answer;

impl Answer {
    pub(super) fn error(status: u16, code: &str, message: &str) -> Self {
        Self::detailed(status, code, message, &Value::Null)
    }

    pub(super) fn detailed(status: u16, code: &str, message: &str, details: &Value) -> Self {
        let error = json!({ "error": { "code": code, "message": message, "details": details } });
        Self::ok(status, error)
    }

    pub(super) fn invalid(field: &str, message: &str) -> Self {
        let details = json!({ "fields": [{ "name": field, "messages": [message] }] });
        let message = format!("invalid input in field '{field}': {message}");
        Self::detailed(422, "invalid_input", &message, &details)
    }

    pub(super) fn not_found(what: &str) -> Self {
        Self::error(404, "not_found", &format!("{what} not found"))
    }

    pub(super) fn limit(name: &str) -> Self {
        let details = json!({ "limits": [{ "name": name }] });
        Self::detailed(403, "resource_limit_exceeded", "limit exceeded", &details)
    }

    pub(super) fn taken(field: &str) -> Self {
        let details = json!({ "fields": [{ "name": field }] });
        let message = format!("{field} is already used");
        Self::detailed(409, "uniqueness_error", &message, &details)
    }
}
