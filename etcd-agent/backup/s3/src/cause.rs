//! Why a call failed, from the error code that an endpoint sent or from what the connection ended with.
//!
//! Codes are those of Amazon's list of error responses; others of its kind use the same.

use backup::store::{Call, Cause};
use object_store::Error;

/// Codes and words, the telling ones first.
const WORDS: &[(&str, Cause)] = &[
    ("NoSuchBucket", Cause::NoBucket),
    ("RequestTimeTooSkewed", Cause::Clock),
    ("RequestExpired", Cause::Clock),
    ("AuthorizationHeaderMalformed", Cause::Region),
    ("PermanentRedirect", Cause::Region),
    ("IllegalLocationConstraint", Cause::Region),
    ("redirect without LOCATION", Cause::Region),
    ("AccessDenied", Cause::Rights),
    ("InvalidAccessKeyId", Cause::Rights),
    ("SignatureDoesNotMatch", Cause::Rights),
    ("SlowDown", Cause::Busy),
    ("ServiceUnavailable", Cause::Busy),
    ("429 Too Many", Cause::Busy),
    ("503 Service", Cause::Busy),
    ("QuotaExceeded", Cause::Full),
    ("507 Insufficient", Cause::Full),
    ("invalid peer certificate", Cause::Tls),
    ("UnknownIssuer", Cause::Tls),
    ("received corrupt message", Cause::Tls),
    ("error sending request", Cause::Unreachable),
    ("timed out", Cause::Unreachable),
    ("connection closed", Cause::Unreachable),
    ("dns error", Cause::Unreachable),
];

pub(crate) fn of(call: Call, error: &Error, said: &str) -> Cause {
    let refused = said.contains("501 Not Implemented") || said.contains("<Code>NotImplemented");
    if call == Call::Create && (refused || matches!(error, Error::NotImplemented { .. })) {
        return Cause::NotConditional;
    }
    let word = WORDS.iter().find(|(word, _)| said.contains(word));
    match (word, error) {
        (Some((_, cause)), _) => *cause,
        (None, Error::NotFound { .. }) => Cause::NotFound,
        (None, Error::PermissionDenied { .. } | Error::Unauthenticated { .. }) => Cause::Rights,
        (None, _) => Cause::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(said: &str) -> Cause {
        let error = Error::Generic {
            store: "S3",
            source: said.into(),
        };
        of(Call::Create, &error, said)
    }

    #[test]
    fn what_an_endpoint_says_has_a_cause() {
        for (said, cause) in [
            (
                "403 Forbidden: <Error><Code>RequestTimeTooSkewed</Code>",
                Cause::Clock,
            ),
            (
                "400 Bad Request: <Error><Code>AuthorizationHeaderMalformed</Code>",
                Cause::Region,
            ),
            (
                "403 Forbidden: <Error><Code>AccessDenied</Code>",
                Cause::Rights,
            ),
            (
                "404 Not Found: <Error><Code>NoSuchBucket</Code>",
                Cause::NoBucket,
            ),
            ("503 Service Unavailable: ", Cause::Busy),
            ("501 Not Implemented: ", Cause::NotConditional),
            (
                "error sending request: invalid peer certificate: UnknownIssuer",
                Cause::Tls,
            ),
            (
                "error sending request: connection refused",
                Cause::Unreachable,
            ),
            ("418 I'm a teapot", Cause::Other),
        ] {
            assert_eq!(generic(said), cause, "{said}");
        }
    }
}
