//! Why a provider could not do what it was asked.
//!
//! Invariant: whatever a user or an administrator can mend says how.

use api::Reason;
use kit_client::errors::{Class, Classify};

use crate::fault::FaultKind;
use crate::refused::Refused;

/// Why a provider could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No provider at all; a rule of the kinds keeps this out.
    #[error("no provider is named: set one below spec.provider, such as kubevirt")]
    NoneNamed,
    /// The operator is not configured for this provider.
    #[error(
        "provider {0} is switched off: use another one, or ask for config.providers.{0}.enabled: \
         true in the operator's configuration"
    )]
    NotConfigured(&'static str),
    /// The management cluster does not know the kinds of the provider.
    #[error(
        "the management cluster has no {0}: install it, or use another provider; this is tried \
         again by itself"
    )]
    NotInstalled(&'static str),
    /// A creation without what was stored to be asked for. Whoever looked it up only now could ask for something else.
    #[error("the Machine has no status.request: it is stored before a machine is asked for")]
    NoRequest,
    /// The provider has no such thing.
    #[error("this provider cannot {verb} a machine: delete the Machine to have it replaced")]
    NotSupported {
        /// `restart`.
        verb: &'static str,
    },
    /// There is none to be had. Nothing was made.
    #[error("{0}; this is tried again by itself")]
    NoneLeft(String),
    /// Something else has the name.
    #[error(
        "{object} exists and was not made for this Machine: delete it, or delete the Machine to \
         have it replaced by one of another name"
    )]
    Taken {
        /// "Kind namespace/name".
        object: String,
    },
    /// A cloud did not do it.
    #[error(transparent)]
    Refused(Box<Refused>),
    /// The API server or the provider's own webhook refused, or was not reached.
    #[error("could not {verb} {object}")]
    Request {
        /// `create`, `read`, `list` or `delete`.
        verb: &'static str,
        /// "Kind namespace/name".
        object: String,
        /// What the client said.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::NoneNamed | Self::NotConfigured(_) | Self::NotInstalled(_) => Class::Invalid,
            Self::Taken { .. } | Self::NotSupported { .. } => Class::Invalid,
            Self::NoRequest => Class::Bug,
            // Others give one back.
            Self::NoneLeft(_) => Class::Transient,
            Self::Refused(refused) => refused.class(),
            Self::Request { source, .. } => source.class(),
        }
    }
}

impl Error {
    /// What kind of fault it is.
    #[must_use]
    pub fn fault(&self) -> FaultKind {
        match self {
            Self::NoneNamed
            | Self::NotConfigured(_)
            | Self::NoRequest
            | Self::NotSupported { .. } => FaultKind::Terminal,
            // What it has made may be there still.
            Self::NotInstalled(_) => FaultKind::Unavailable,
            Self::Taken { .. } => FaultKind::Taken,
            Self::NoneLeft(_) => FaultKind::Capacity { again: None },
            Self::Refused(refused) => refused.kind,
            Self::Request { source, .. } => FaultKind::of_kube(source),
        }
    }

    /// The reason for a condition.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::NoneNamed => Reason::ProviderMissing,
            Self::NotConfigured(_) => Reason::ProviderNotConfigured,
            Self::NotInstalled(_) => Reason::ProviderNotInstalled,
            Self::Taken { .. } => Reason::NameTaken,
            Self::NoneLeft(_) => Reason::NoneLeft,
            Self::Refused(refused) => match refused.kind {
                FaultKind::Taken => Reason::NameTaken,
                FaultKind::Capacity { .. } => Reason::NoneLeft,
                FaultKind::Quota { .. } => Reason::AccountLimitReached,
                FaultKind::Auth => Reason::CredentialsRefused,
                FaultKind::Terminal => Reason::RequestRefused,
                FaultKind::Throttled { .. }
                | FaultKind::Unavailable
                | FaultKind::NotFound
                | FaultKind::Conflict
                | FaultKind::Gone => Reason::ProviderFailed,
            },
            Self::NotSupported { .. } | Self::NoRequest | Self::Request { .. } => {
                Reason::ProviderFailed
            }
        }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        Self::Refused(Box::new(refused))
    }
}
