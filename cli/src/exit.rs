//! How a command ends: exit codes, and failures that say what mends them.
//!
//! Invariant: a failure has a code of the table in docs/cli.md, one line, and no secret in it.

use std::fmt;
use std::process::ExitCode;

use insight::text;
use insight_read::request::Unread;
use kit_client::errors::chain;

/// Exit codes; they never change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    /// It is done, and the answer is a good one.
    Done,
    /// It failed.
    Failed,
    /// The command line makes no sense.
    Usage,
    /// It was answered, and the answer is "not Ready" or "a check failed".
    Answered,
    /// Time ran out.
    TimedOut,
    /// There is no such object.
    NotFound,
    /// The API does not let the caller (401, 403).
    NotAllowed,
    /// Admission refused it.
    Refused,
    /// Interrupted by the user (128 + SIGINT).
    Interrupted,
    /// The command that was run for the user ended so.
    Passed(u8),
}

impl Exit {
    /// The code that the process ends with.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Answered => 3,
            Self::TimedOut => 4,
            Self::NotFound => 5,
            Self::NotAllowed => 6,
            Self::Refused => 7,
            Self::Interrupted => 130,
            Self::Passed(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command did not do what it should.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Failure {
    /// How the command ends.
    pub(crate) exit: Exit,
    /// What is wrong: one line.
    pub(crate) what: String,
    /// The command or field that mends it; empty where `what` says it.
    pub(crate) mend: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if !self.mend.is_empty() {
            write!(f, "\nto mend it: {}", self.mend)?;
        }
        Ok(())
    }
}

impl Failure {
    /// A failure in words of its own.
    pub(crate) fn new(exit: Exit, what: &str, mend: &str) -> Self {
        Self {
            exit,
            what: text::shown(what),
            mend: text::shown(mend),
        }
    }

    /// Why a list is not known that somebody wanted to `act` on (`list pods in team-a`).
    pub(crate) fn unread(act: &str, unread: &Unread) -> Self {
        match unread {
            Unread::Failed(error) => Self::of(act, error),
            Unread::TooMany => Self::new(
                Exit::Failed,
                &format!("cannot {act}: there are more than are read at once"),
                "name fewer: `-n NAMESPACE`, or `-l LABELS`",
            ),
        }
    }

    /// What the API answered when somebody wanted to `act` (`list NodePools in team-a`).
    pub(crate) fn of(act: &str, error: &kube::Error) -> Self {
        let said = chain(error);
        let kube::Error::Api(status) = error else {
            return Self::new(
                Exit::Failed,
                &format!("cannot {act}: {said}"),
                "look whether the API answers: `kubectl version`; another one is chosen with `--context`",
            );
        };
        let is = |words: &str| status.message.contains(words);
        // Of policies and webhooks (apiserver pkg/admission/plugin/{policy,webhook}).
        let by_admission = is("admission webhook") || is("ValidatingAdmissionPolicy");
        let (exit, mend) = match status.code {
            404 if is("could not find the requested resource") => (
                Exit::Failed,
                "this cluster has no such kind: install Covey (`covey up`), or choose another cluster with `--context`",
            ),
            404 => (
                Exit::NotFound,
                "`covey get` lists what is there; other namespaces: `-n NAMESPACE` or `-A`",
            ),
            401 => (
                Exit::NotAllowed,
                "log in again: the credentials of this context are not accepted (`kubectl auth whoami`)",
            ),
            403 if !by_admission => (
                Exit::NotAllowed,
                "ask for the right: `kubectl auth can-i --list` says what you have",
            ),
            400 | 403 | 422 => (Exit::Refused, ""),
            409 if status.reason == "AlreadyExists" => (
                Exit::Failed,
                "change it with `kubectl edit`, or choose another name",
            ),
            409 => (
                Exit::Failed,
                "somebody changed it at the same time: try again",
            ),
            _ => (Exit::Failed, "try again; `covey doctor` says what is wrong"),
        };
        Self::new(exit, &format!("cannot {act}: {said}"), mend)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn exit(code: u16, reason: &str, message: &str) -> Exit {
        let status = Status::failure(message, reason).with_code(code);
        Failure::of("do it", &kube::Error::Api(Box::new(status))).exit
    }

    #[test]
    fn what_the_api_answers_decides_the_exit_code() {
        let missing = "the server could not find the requested resource";
        assert_eq!(exit(404, "NotFound", missing), Exit::Failed);
        let none = "tenantclusters.covey.dev \"dmeo\" not found";
        assert_eq!(exit(404, "NotFound", none), Exit::NotFound);
        assert_eq!(exit(401, "Unauthorized", "Unauthorized"), Exit::NotAllowed);
        let no_right = "nodepools.covey.dev is forbidden: User \"jane\" cannot list";
        assert_eq!(exit(403, "Forbidden", no_right), Exit::NotAllowed);
        let denied = "admission webhook \"covey.dev\" denied the request: too old";
        assert_eq!(exit(403, "Forbidden", denied), Exit::Refused);
        assert_eq!(exit(422, "Invalid", "spec.version: ..."), Exit::Refused);
        assert_eq!(exit(409, "AlreadyExists", "exists"), Exit::Failed);
        assert_eq!(exit(500, "InternalError", "no"), Exit::Failed);
    }

    #[test]
    fn a_failure_says_what_mends_it_and_no_secret() {
        let status = Status::failure("no to Bearer sesame-canary", "Forbidden").with_code(403);
        let failure = Failure::of("list NodePools", &kube::Error::Api(Box::new(status)));
        let said = failure.to_string();
        assert!(said.contains("cannot list NodePools: "), "{said}");
        assert!(said.contains("kubectl auth can-i --list"), "{said}");
        assert!(!said.contains("sesame-canary"), "{said}");
    }

    #[test]
    fn exit_codes_are_those_of_the_page() {
        let page = include_str!("../../docs/cli.md");
        for exit in [
            Exit::Done,
            Exit::Failed,
            Exit::Usage,
            Exit::Answered,
            Exit::TimedOut,
            Exit::NotFound,
            Exit::NotAllowed,
            Exit::Refused,
            Exit::Interrupted,
        ] {
            let row = format!("| {} |", exit.code());
            assert!(page.contains(&row), "docs/cli.md lacks {row}");
        }
    }
}
