//! Who asks: a key, a role that is taken on by one, or a role that trusts another's token (documentation, "AssumeRole",
//! "AssumeRoleWithWebIdentity" of the Security Token Service).
//!
//! Invariant: nothing prints a secret, a session or a token of another's; a file with such a token is read anew for each
//! exchange, since whoever keeps it there replaces it. A role is taken on with an external ID, which Covey chooses, so that
//! whoever names somebody else's role is not let in by it.

use std::fmt;
use std::path::PathBuf;

/// Keys that requests are signed with.
#[derive(Clone, Eq, PartialEq)]
pub struct Keys {
    /// Which key it is: `AKIA…`, or `ASIA…` of a session. It is no secret.
    pub id: String,
    /// The secret.
    pub secret: String,
    /// Of a session: its token.
    pub session: Option<String>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Keys {
    /// Takes what is secret out of a text of somebody else's.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        let mut text = without(text, &self.secret);
        if let Some(session) = &self.session {
            text = without(&text, session);
        }
        text
    }
}

/// A text without a secret.
pub(crate) fn without(text: &str, secret: &str) -> String {
    match secret {
        "" => text.to_owned(),
        secret => text.replace(secret, "[secret]"),
    }
}

/// Who asks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Credentials {
    /// A user, by a key that has no end.
    Keys(Keys),
    /// A role that such a user takes on.
    Role {
        /// The user's.
        keys: Keys,
        /// ARN of the role.
        role: String,
        /// What the role asks whoever takes it on for.
        external_id: String,
    },
    /// A role that trusts this cluster's tokens.
    WebIdentity {
        /// ARN of the role.
        role: String,
        /// A file with a token of one of this cluster's accounts (a projected volume).
        token: PathBuf,
    },
}

impl Credentials {
    /// Whom to name in sentences.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Keys(keys) => &keys.id,
            Self::Role { role, .. } | Self::WebIdentity { role, .. } => role,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_printed_or_told() {
        let keys = Keys {
            id: "AKIA".to_owned(),
            secret: "s3cret".to_owned(),
            session: Some("t0ken".to_owned()),
        };
        assert_eq!(keys.redact("s3cret and t0ken"), "[secret] and [secret]");
        let role = Credentials::Role {
            keys,
            role: "arn:aws:iam::1:role/a".to_owned(),
            external_id: "x".to_owned(),
        };
        let told = format!("{role:?}");
        assert!(
            !told.contains("s3cret") && !told.contains("t0ken"),
            "{told}"
        );
    }
}
