//! Why a reconcile of a node or a Service failed.
//!
//! Invariant: each error has a class, which alone decides when it is tried again; and what tenants read
//! of one names nothing of the management cluster.

mod told;

use kit::lease::NotLeader;
use kit_client::errors::{Class, Classify};
use kube::core::Status;

/// Words of a policy whose parameters are not there
/// (apiserver `pkg/admission/plugin/policy/generic/policy_dispatcher.go`).
const NO_PARAMS: &str = "no params found for policy binding";

/// Why it failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// We do not lead.
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    /// An API refused, or was not reached.
    #[error("{verb} {what}")]
    Request {
        /// What was tried.
        verb: &'static str,
        /// Kind and name.
        what: String,
        /// What the API said.
        #[source]
        source: Box<kube::Error>,
    },
    /// An object was not written, or not deleted.
    #[error("{doing}")]
    Write {
        /// What was tried, and where.
        doing: &'static str,
        /// What the API said.
        #[source]
        source: kit_client::write::Error,
    },
    /// An answer that is not what was asked for.
    #[error("understand the answer about {what}")]
    Answer {
        /// The object's name.
        what: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// More than one thing was refused.
    #[error("{}", .0.iter().map(|e| kit_client::errors::chain(e)).collect::<Vec<_>>().join("; "))]
    Several(Vec<Error>),
    /// A plan did not come to an end.
    #[error("the plan of a {0} does not come to an end")]
    Endless(&'static str),
}

impl Error {
    /// An API refused `verb` for the object of this kind and name, or was not reached.
    pub(crate) fn request(verb: &'static str, kind: &str, name: &str, source: kube::Error) -> Self {
        Self::Request {
            verb,
            what: format!("{kind} {name}"),
            source: Box::new(source),
        }
    }

    /// These as one; none when there is none.
    pub(crate) fn all(mut errors: Vec<Self>) -> Option<Self> {
        match errors.len() {
            0 | 1 => errors.pop(),
            _ => Some(Self::Several(errors)),
        }
    }

    /// This one, which came after those.
    pub(crate) fn after(self, mut errors: Vec<Self>) -> Self {
        errors.push(self);
        match errors.len() {
            1 => errors.remove(0),
            _ => Self::Several(errors),
        }
    }

    /// What an API said to a write, or a look, of ours.
    fn answer(&self) -> Option<&Status> {
        let source = match self {
            Self::Request { source, .. } => source,
            Self::Write {
                source: kit_client::write::Error::Request { source, .. },
                ..
            } => source,
            _ => return None,
        };
        match &**source {
            kube::Error::Api(status) => Some(status),
            _ => None,
        }
    }

    /// Whether an API refused this one thing, and may well do another: it answered, and not that it is
    /// too busy or knows nobody of our name.
    pub(crate) fn is_refusal(&self) -> bool {
        let code = self.answer().map(|status| status.code);
        code.is_some_and(|code| !matches!(code, 401 | 429 | 503 | 504))
    }

    /// What a tenant may read of it.
    pub(crate) fn told(&self) -> String {
        match (self, self.answer()) {
            (Self::Several(errors), _) => {
                let all: Vec<_> = errors.iter().map(Self::told).collect();
                all.join("; ")
            }
            (_, Some(status)) => told::sentence(status),
            (Self::Request { .. } | Self::Write { .. }, None) => {
                "an API was not reached; it is tried again".to_owned()
            }
            (other, _) => kit_client::errors::chain(other),
        }
    }
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::NotLeader(error) => error.class(),
            // The operator publishes the first address, or the API has not heard of it yet.
            Self::Request { .. } | Self::Write { .. }
                if self
                    .answer()
                    .is_some_and(|status| status.message.contains(NO_PARAMS)) =>
            {
                Class::Transient
            }
            Self::Request { source, .. } => source.class(),
            Self::Write { source, .. } => source.class(),
            // What goes away by itself is not to wait for what does not.
            Self::Several(errors) => {
                let classes: Vec<_> = errors.iter().map(Classify::class).collect();
                let order = [Class::Conflict, Class::Transient, Class::Invalid];
                let first = order.into_iter().find(|class| classes.contains(class));
                first.unwrap_or(Class::Bug)
            }
            Self::Answer { .. } | Self::Endless(_) => Class::Bug,
        }
    }
}
