//! What went wrong, in words that are fit to be shown: what, and what mends it.
//!
//! Invariant: pure. Whatever the API said is shown in one bounded line without secrets, and never as markup.

use http::StatusCode;
use insight::text::shown;
use kit_client::errors::chain;

/// What went wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The answer's status.
    pub status: StatusCode,
    /// What was wrong.
    pub what: String,
    /// What mends it; empty where that is said already.
    pub mend: String,
}

impl Problem {
    /// In words of its own.
    #[must_use]
    pub fn new(status: StatusCode, what: &str, mend: &str) -> Self {
        Self {
            status,
            what: shown(what),
            mend: shown(mend),
        }
    }

    /// There is no such page.
    #[must_use]
    pub fn no_page() -> Self {
        let mend = "begin with the list of tenant clusters";
        Self::new(StatusCode::NOT_FOUND, "there is no such page", mend)
    }

    /// What the API answered when somebody wanted to `act` (`list machines in team-a`).
    #[must_use]
    pub fn of(act: &str, error: &kube::Error) -> Self {
        let kube::Error::Api(said) = error else {
            let what = format!("cannot {act}: {}", chain(error));
            let mend = "try again; if it stays so, the management cluster's API does not answer";
            return Self::new(StatusCode::BAD_GATEWAY, &what, mend);
        };
        let (status, mend) = match said.code {
            401 => (
                StatusCode::UNAUTHORIZED,
                "log in again: the token has ended, or is of another cluster",
            ),
            403 if by_admission(&said.message) => (StatusCode::UNPROCESSABLE_ENTITY, ""),
            403 => (
                StatusCode::FORBIDDEN,
                "ask whoever runs the management cluster for the right: the ClusterRoles view and edit have it, bound in that namespace",
            ),
            404 if said
                .message
                .contains("could not find the requested resource") =>
            {
                (
                    StatusCode::NOT_FOUND,
                    "this cluster has no such kind: Covey's definitions are not installed",
                )
            }
            404 => (
                StatusCode::NOT_FOUND,
                "it was deleted, or never there: look at the list",
            ),
            409 if said.reason == "AlreadyExists" => (
                StatusCode::CONFLICT,
                "choose another name, or change the one that is there",
            ),
            409 => (
                StatusCode::CONFLICT,
                "it is another one by now, or was changed at the same time: look at it again",
            ),
            400 | 422 => (StatusCode::UNPROCESSABLE_ENTITY, ""),
            429 => (StatusCode::TOO_MANY_REQUESTS, "try again in some seconds"),
            _ => (StatusCode::BAD_GATEWAY, "try again"),
        };
        let what = format!("cannot {act}: {}", said.message);
        Self::new(status, &what, mend)
    }
}

/// Whether a policy or a webhook refused, and not the want of a right (apiserver pkg/admission/plugin/{policy,webhook}).
fn by_admission(message: &str) -> bool {
    message.contains("admission webhook") || message.contains("ValidatingAdmissionPolicy")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn of(code: u16, reason: &str, message: &str) -> Problem {
        let status = Status::failure(message, reason).with_code(code);
        Problem::of("list machines", &kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn what_the_api_answers_becomes_a_status_and_a_sentence() {
        for (code, reason, message, status) in [
            (401, "Unauthorized", "Unauthorized", 401),
            (403, "Forbidden", "jane cannot list machines", 403),
            (403, "Forbidden", "admission webhook \"x\" denied it", 422),
            (404, "NotFound", "machines \"a\" not found", 404),
            (409, "AlreadyExists", "exists", 409),
            (409, "Conflict", "the UID differs", 409),
            (422, "Invalid", "spec.version", 422),
            (429, "TooManyRequests", "later", 429),
            (500, "InternalError", "no", 502),
        ] {
            let problem = of(code, reason, message);
            assert_eq!(problem.status.as_u16(), status, "{message}");
            assert!(problem.what.starts_with("cannot list machines: "));
        }
    }

    #[test]
    fn no_secret_and_no_line_break_is_shown() {
        let problem = of(403, "Forbidden", "no to Bearer sesame-canary\r\n<b>x");
        assert!(!problem.what.contains("sesame"), "{}", problem.what);
        assert!(!problem.what.contains('\n'));
    }
}
