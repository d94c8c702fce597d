//! What errors look like: a code and a sentence (Azure), or what OAuth 2.0 says of them (Entra ID).
//!
//! Invariant: an error has the form of the documentation.

use serde_json::json;

use crate::answer::Answer;

pub(super) fn refused(status: u16, code: &str, message: &str) -> Answer {
    Answer::ok(
        status,
        json!({ "error": { "code": code, "message": message } }),
    )
}

pub(super) fn not_found(what: &str) -> Answer {
    let message = format!("The Resource '{what}' under resource group 'workers' was not found.");
    refused(404, "ResourceNotFound", &message)
}

pub(super) fn invalid(parameter: &str, why: &str) -> Answer {
    let message = format!("The value of parameter {parameter} is invalid: {why}");
    let error =
        json!({ "error": { "code": "InvalidParameter", "target": parameter, "message": message } });
    Answer::ok(400, error)
}

/// That no token is given (RFC 6749, 5.2; the description begins with Entra ID's own code).
pub(super) fn no_token(status: u16, error: &str, code: u32, why: &str) -> Answer {
    let said = json!({
        "error": error, "error_description": format!("AADSTS{code}: {why}"), "error_codes": [code],
    });
    Answer::ok(status, said)
}
