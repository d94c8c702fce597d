//! Sorts errors into four classes and prints an error with its causes, once.
//!
//! Invariant: the class alone decides requeue, condition reason, Event and metric label.

use std::error::Error;
use std::fmt;

/// Words of a refusal because of a quota, which has no code of its own
/// (apiserver `pkg/admission/plugin/resourcequota/controller.go`).
pub const OVER_QUOTA: &str = "exceeded quota";

/// What kind of failure this is, and so who can mend it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Goes away by itself: retry with backoff, tell nobody at first.
    Transient,
    /// A user's or an administrator's input is wrong: say so in a condition, retry slowly.
    Invalid,
    /// Somebody wrote the object in between: observe again and plan anew, at once.
    Conflict,
    /// Our own mistake: log it as an error, retry slowly.
    Bug,
}

impl Class {
    /// All classes, in the order in which dashboards show them.
    pub const ALL: [Self; 4] = [Self::Transient, Self::Invalid, Self::Conflict, Self::Bug];

    /// The metric label: lower case.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Invalid => "invalid",
            Self::Conflict => "conflict",
            Self::Bug => "bug",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.label())
    }
}

/// An error that knows its class.
pub trait Classify {
    /// The class of this error.
    fn class(&self) -> Class;
}

impl Classify for kube::Error {
    /// By the rules of [`class_of_code`] for what the API server answered. Without an answer:
    /// connections, time-outs, credentials that do not load (they are files that rotate) are
    /// transient; a client configuration that cannot work is invalid; requests that cannot be
    /// built and answers that cannot be decoded are bugs.
    fn class(&self) -> Class {
        match self {
            Self::Api(status) => class_of_code(status.code),
            Self::HyperError(_) | Self::Service(_) | Self::ReadEvents(_) | Self::Auth(_) => {
                Class::Transient
            }
            Self::InferConfig(_)
            | Self::InferKubeconfig(_)
            | Self::ProxyProtocolUnsupported { .. }
            | Self::ProxyProtocolDisabled { .. }
            | Self::RustlsTls(_)
            | Self::TlsRequired => Class::Invalid,
            _ => Class::Bug,
        }
    }
}

/// The class of an HTTP status answered by an API server.
///
/// - 409 is a conflict (also "already exists": somebody was faster).
/// - 422 is invalid: the API server's validation refuses a value that ours let pass.
/// - 400, 405, 406, 413 and 415 are bugs: such a request should never have been built.
/// - Everything else is transient: 429 and 5xx of course; 401, because tokens rotate; 403, because
///   RBAC takes a moment to spread after a binding is written (and quota and terminating
///   namespaces answer 403 too); 404, because a namespace or a CRD may be on its way; 410,
///   because a list only has to start again.
pub const fn class_of_code(code: u16) -> Class {
    match code {
        409 => Class::Conflict,
        422 => Class::Invalid,
        400 | 405 | 406 | 413 | 415 => Class::Bug,
        _ => Class::Transient,
    }
}

/// The error and its causes in one line, "what: why: why", each said once.
///
/// A cause whose text the line already ends with is left out, because some libraries print their
/// source inside their own message. What an API server answered is shortened to its message,
/// reason and code.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut line = String::new();
    let mut next = Some(error);
    while let Some(current) = next {
        // thiserror hands out a boxed source as the box.
        let boxed = || {
            current
                .downcast_ref::<Box<kube::Error>>()
                .map(AsRef::as_ref)
        };
        let answer = current
            .downcast_ref::<kube::Error>()
            .or_else(boxed)
            .and_then(api_answer);
        next = if answer.is_some() {
            None
        } else {
            current.source()
        };
        let text = answer.unwrap_or_else(|| current.to_string());
        if line.is_empty() {
            line = text;
        } else if !line.ends_with(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
    }
    line
}

fn api_answer(error: &kube::Error) -> Option<String> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    let message = if status.message.is_empty() {
        "no message"
    } else {
        &status.message
    };
    Some(match status.reason.as_str() {
        "" => format!("{message} ({})", status.code),
        reason => format!("{message} ({reason}, {})", status.code),
    })
}

#[cfg(test)]
mod tests;
