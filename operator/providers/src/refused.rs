//! What a cloud said when it did not do what it was asked.
//!
//! Invariant: nobody decides by its words; the kind stands beside them. They are cut to [`MOST`] characters and hold no
//! credentials, for which whoever asks the cloud answers.

use std::fmt;

use kit_client::errors::Class;

use crate::fault::FaultKind;

/// Most characters of a cloud's own sentence.
pub const MOST: usize = 256;

/// What a cloud said, or that it said nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refused {
    /// Which provider: `hetzner`.
    pub provider: &'static str,
    /// What it was to do: `create`.
    pub verb: &'static str,
    /// With what: `server workers-x2k9p-5d2f1c1e`.
    pub object: String,
    /// What kind of fault it is.
    pub kind: FaultKind,
    /// Its code, as it came; one of ours where nothing came.
    pub code: String,
    /// Its sentence.
    pub message: String,
    /// What it calls the request, for its support.
    pub request: Option<String>,
    /// What to change so that it does; none where it goes away by itself.
    pub mend: Option<String>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message: String = self.message.chars().take(MOST).collect();
        write!(
            f,
            "could not {} {}: {} says {}",
            self.verb, self.object, self.provider, self.code
        )?;
        if !message.is_empty() {
            write!(f, " ({message})")?;
        }
        if let Some(request) = &self.request {
            write!(f, ", request {request}")?;
        }
        match &self.mend {
            Some(mend) => write!(f, ": {mend}"),
            None => write!(f, "; this is tried again by itself"),
        }
    }
}

impl std::error::Error for Refused {}

impl Refused {
    /// That something was not done, in our own words.
    #[must_use]
    pub fn own(
        provider: &'static str,
        (verb, object): (&'static str, String),
        kind: FaultKind,
        code: &str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            provider,
            verb,
            object,
            kind,
            code: code.to_owned(),
            message: message.into(),
            request: None,
            mend: None,
        }
    }

    /// Who can mend it.
    #[must_use]
    pub fn class(&self) -> Class {
        match self.kind {
            FaultKind::Throttled { .. }
            | FaultKind::Unavailable
            | FaultKind::Capacity { .. }
            | FaultKind::Quota { .. }
            | FaultKind::NotFound => Class::Transient,
            FaultKind::Conflict => Class::Conflict,
            FaultKind::Auth | FaultKind::Taken | FaultKind::Gone | FaultKind::Terminal => {
                Class::Invalid
            }
        }
    }
}

/// What a cloud was asked, for sentences.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Asked {
    /// Which provider.
    pub provider: &'static str,
    /// `create`, `delete`, `list`, `read`, `restart`, `tag`, `use`.
    pub verb: &'static str,
    /// `instance a`.
    pub object: String,
}

impl Asked {
    /// That it was not done.
    #[must_use]
    pub fn refused(&self, kind: FaultKind, code: &str, message: impl Into<String>) -> Refused {
        Refused {
            provider: self.provider,
            verb: self.verb,
            object: self.object.clone(),
            kind,
            code: code.to_owned(),
            message: message.into(),
            request: None,
            mend: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(kind: FaultKind) -> Refused {
        Refused {
            provider: "hetzner",
            verb: "create",
            object: "server a".to_owned(),
            kind,
            code: "resource_limit_exceeded".to_owned(),
            message: "server limit reached".to_owned(),
            request: Some("4711".to_owned()),
            mend: Some("ask Hetzner for a higher limit".to_owned()),
        }
    }

    #[test]
    fn sentence_has_code_request_and_what_to_change() {
        let told = refused(FaultKind::Quota { again: None }).to_string();
        assert_eq!(
            told,
            "could not create server a: hetzner says resource_limit_exceeded (server limit reached), request 4711: \
             ask Hetzner for a higher limit"
        );
    }

    #[test]
    fn long_sentence_is_cut() {
        let mut long = refused(FaultKind::Terminal);
        long.message = "ä".repeat(1000);
        assert!(long.to_string().chars().count() < 2 * MOST);
    }

    #[test]
    fn what_a_user_has_to_mend_is_told_as_the_users() {
        assert_eq!(refused(FaultKind::Auth).class(), Class::Invalid);
        assert_eq!(refused(FaultKind::Unavailable).class(), Class::Transient);
        assert_eq!(refused(FaultKind::Conflict).class(), Class::Conflict);
    }
}
