//! Faults: what went wrong at a provider, by kind.
//!
//! Invariant: the kind decides everything and the text nothing; what a provider says that nobody knows is read by
//! its HTTP status alone, and never as a proof of anything.

use std::time::Duration;

/// What went wrong. The plan goes by this alone; a provider's own words are for people.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FaultKind {
    /// Asked too often. This kind of call pauses for the whole account and region, not for one Machine.
    Throttled {
        /// How long the provider asked for; none: it did not say.
        after: Option<Duration>,
    },
    /// Not reached, no answer in time, or the provider's own failure (5xx). The outcome of a creation is then
    /// **unknown**: the same call is made again, and nothing else.
    Unavailable,
    /// Nothing of this size is left there. Nothing was made: the Machine is given up and another one is made
    /// elsewhere.
    Capacity {
        /// When it is worth asking again; none: the caller's default.
        again: Option<Duration>,
    },
    /// The account may have no more. As [`Self::Capacity`], and the user is told, who alone can have it raised.
    Quota {
        /// When it is worth asking again; none: the caller's default.
        again: Option<Duration>,
    },
    /// Not let in. Nothing is deleted or replaced; tried again slowly, and when the credentials change.
    Auth,
    /// There is no such thing. No proof that a machine is gone: [`crate::absence`] says what is.
    NotFound,
    /// Somebody changed it at the same time, or works on it: read again, and ask again.
    Conflict,
    /// The name is taken by what is not this Machine's. It is never adopted by name; the Machine failed.
    Taken,
    /// It was made under this very key and has ended: the Machine is lost, and asking again makes nothing.
    Gone,
    /// The request itself is wrong (4xx). The Machine failed, and no other is made like it until the pool changes.
    Terminal,
}

impl FaultKind {
    /// Of an answer whose code nobody knows, by its HTTP status.
    #[must_use]
    pub fn of_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::Auth,
            404 => Self::NotFound,
            408 => Self::Unavailable,
            409 | 412 => Self::Conflict,
            429 => Self::Throttled { after: None },
            400..=499 => Self::Terminal,
            _ => Self::Unavailable,
        }
    }

    /// Of what a client of Kubernetes says.
    #[must_use]
    pub fn of_kube(error: &kube::Error) -> Self {
        match error {
            // A quota of the namespace, and one that goes, answer 403 too.
            kube::Error::Api(status) if status.code == 403 => {
                match status.message.contains(kit_client::errors::OVER_QUOTA) {
                    true => Self::Quota { again: None },
                    false => Self::Auth,
                }
            }
            kube::Error::Api(status) => Self::of_status(status.code),
            // Nothing was sent.
            kube::Error::BuildRequest(_) => Self::Terminal,
            // An answer that could not be read says nothing of what was done.
            _ => Self::Unavailable,
        }
    }

    /// Whether something may have been made by a creation that failed so: then it may be asked for again under
    /// the same key alone, and a Machine that goes has to learn first what became of it.
    #[must_use]
    pub fn leaves_outcome_unknown(self) -> bool {
        match self {
            Self::Unavailable => true,
            // Answered: this call did nothing. What an earlier one may have done is told by how that one ended.
            Self::Conflict
            | Self::Throttled { .. }
            | Self::Capacity { .. }
            | Self::Quota { .. }
            | Self::Auth
            | Self::NotFound
            | Self::Taken
            | Self::Gone
            | Self::Terminal => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_nobody_knows_are_read_by_their_status() {
        for (status, kind) in [
            (400, FaultKind::Terminal),
            (401, FaultKind::Auth),
            (403, FaultKind::Auth),
            (404, FaultKind::NotFound),
            (409, FaultKind::Conflict),
            (418, FaultKind::Terminal),
            (422, FaultKind::Terminal),
            (429, FaultKind::Throttled { after: None }),
            (500, FaultKind::Unavailable),
            (503, FaultKind::Unavailable),
            (599, FaultKind::Unavailable),
        ] {
            assert_eq!(FaultKind::of_status(status), kind, "{status}");
        }
    }

    #[test]
    fn a_failure_of_the_provider_never_says_that_nothing_was_made() {
        for status in 500..600 {
            let kind = FaultKind::of_status(status);
            assert!(kind.leaves_outcome_unknown(), "{status}");
        }
        assert!(FaultKind::of_status(408).leaves_outcome_unknown());
        assert!(!FaultKind::Capacity { again: None }.leaves_outcome_unknown());
        assert!(!FaultKind::of_status(409).leaves_outcome_unknown());
    }

    /// The server did something, and its answer was cut off or is of another version.
    #[test]
    fn an_answer_that_cannot_be_read_never_says_that_nothing_was_made() {
        let unread = serde_json::from_str::<u8>("x").unwrap_err();
        let kind = FaultKind::of_kube(&kube::Error::SerdeError(unread));
        assert!(kind.leaves_outcome_unknown(), "{kind:?}");
    }

    #[test]
    fn a_quota_is_not_taken_for_credentials_that_are_refused() {
        let answer = |message: &str| {
            let status = kube::core::Status::failure(message, "Forbidden").with_code(403);
            FaultKind::of_kube(&kube::Error::Api(Box::new(status)))
        };
        let over = format!(
            "pods \"a\" is forbidden: {}: x",
            kit_client::errors::OVER_QUOTA
        );
        assert_eq!(answer(&over), FaultKind::Quota { again: None });
        assert_eq!(answer("may not do that"), FaultKind::Auth);
    }
}
