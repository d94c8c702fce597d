//! What an error is: `{"error": {"code", "message", "errors": [{"reason", …}], "status"}}`.
//!
//! Invariant: the reason is one of the documentation's.

use serde_json::{Value, json};

use crate::answer::Answer;

pub(super) fn refused(status: u16, reason: &str, message: &str) -> Answer {
    let name = match status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ALREADY_EXISTS",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    let error = json!({ "error": {
        "code": status, "message": message, "status": name,
        "errors": [{ "domain": "global", "reason": reason, "message": message }],
    } });
    Answer::ok(status, error)
}

pub(super) fn not_found(what: &str) -> Answer {
    refused(
        404,
        "notFound",
        &format!("The resource '{what}' was not found"),
    )
}

pub(super) fn invalid(field: &str, why: &str) -> Answer {
    let message = format!("Invalid value for field '{field}': {why}");
    refused(400, "invalid", &message)
}

/// That no token is given for an assertion (RFC 6749, 5.2).
pub(super) fn no_token(why: &str) -> Answer {
    let error: Value = json!({ "error": "invalid_grant", "error_description": why });
    Answer::ok(400, error)
}
