//! Who asks: a key, a role that is taken on by one, or a role that trusts another's token (documentation, "AssumeRole",
//! "AssumeRoleWithWebIdentity" of the Security Token Service).
//!
//! Invariant: nothing prints a secret, a session or a token of another's; a file with such a token is read anew for each
//! exchange, since whoever keeps it there replaces it. A role is taken on with an external ID, which Covey chooses, so that
//! whoever names somebody else's role is not let in by it; without a key, with whom it is shared the platform says.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

/// Most bytes of what a Secret says.
const MOST: usize = 64 * 1024;
/// Most characters of what a key is called (documentation, `AccessKeyId`).
const ID: usize = 128;

/// Why a key cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unusable {
    /// It is not what AWS says of a key.
    NoFile,
    /// What it is called is no such name.
    NoId,
    /// It has no secret.
    NoSecret,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoFile => {
                "it has no AccessKey with AccessKeyId and SecretAccessKey, as aws iam create-access-key says it of a user's \
                 key"
            }
            Self::NoId => "its AccessKeyId is none: it has 16 capital letters and digits or more",
            Self::NoSecret => "its SecretAccessKey is empty",
        })
    }
}

/// What is said of a key when it is made.
#[derive(Deserialize)]
struct File {
    #[serde(rename = "AccessKey")]
    key: Key,
}

#[derive(Deserialize)]
struct Key {
    #[serde(rename = "AccessKeyId")]
    id: String,
    #[serde(rename = "SecretAccessKey")]
    secret: String,
}

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
    /// From what `aws iam create-access-key` says of a key that it makes. What it is called has to be such a name, since it
    /// is told: a secret in its place would be told, too.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn read(text: &str) -> Result<Self, Unusable> {
        let file = Some(text).filter(|text| text.len() <= MOST);
        let file = file.and_then(|text| serde_json::from_str::<File>(text).ok());
        let Key { id, secret } = file.ok_or(Unusable::NoFile)?.key;
        let is_id = id
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
        // Of all that there are; secrets have small letters besides.
        if !is_id || !(16..=ID).contains(&id.len()) {
            return Err(Unusable::NoId);
        }
        let secret = secret.trim();
        if secret.is_empty() {
            return Err(Unusable::NoSecret);
        }
        Ok(Self {
            id,
            secret: secret.to_owned(),
            session: None,
        })
    }

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

/// Which roles are taken on by a token of the operator's own account, and for whom: it is one account for all namespaces, and
/// in such a call there is no external ID, so nobody but the platform may say which role is whose.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct WebIdentity {
    /// A file with the token (a projected volume), for the audience `sts.amazonaws.com`.
    pub token: PathBuf,
    /// ARNs of roles, by the namespace whose ProviderConfigs may name them.
    pub roles: BTreeMap<String, Vec<String>>,
}

impl WebIdentity {
    /// Whether a ProviderConfig of a namespace may name a role. Letter for letter: a pattern would let in who chooses names.
    #[must_use]
    pub fn lets(&self, namespace: &str, role: &str) -> bool {
        let roles = self.roles.get(namespace);
        !role.is_empty() && roles.is_some_and(|roles| roles.iter().any(|known| known == role))
    }
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
    fn what_is_said_of_a_new_key_is_read() {
        let text = r#"{"AccessKey": {"UserName": "covey", "AccessKeyId": "AKIA0123456789ABCDEF", "Status": "Active",
            "SecretAccessKey": "s3cret"}}"#;
        let read = Keys::read(text).unwrap();
        assert_eq!(read.id, "AKIA0123456789ABCDEF");
        assert_eq!((read.secret.as_str(), read.session), ("s3cret", None));
    }

    #[test]
    fn what_would_let_nobody_in_is_told_without_a_word_of_it() {
        let of = |id: &str, secret: &str| {
            format!(r#"{{"AccessKey": {{"AccessKeyId": "{id}", "SecretAccessKey": "{secret}"}}}}"#)
        };
        let id = "AKIA0123456789ABCDEF";
        for (text, why) in [
            (String::new(), Unusable::NoFile),
            (format!(r#"{{"AccessKeyId": "{id}"}}"#), Unusable::NoFile),
            (of("s3cret/s3cret/s3cret", id), Unusable::NoId),
            (of("AKIA", "s3cret"), Unusable::NoId),
            (of(id, " "), Unusable::NoSecret),
        ] {
            let told = Keys::read(&text).unwrap_err();
            assert_eq!(told, why, "{text}");
            assert!(!told.to_string().contains("s3cret"), "{told}");
        }
    }

    #[test]
    fn role_is_let_be_named_in_the_namespace_that_the_platform_says_and_letter_for_letter() {
        let role = "arn:aws:iam::111111111111:role/team-a";
        let all = WebIdentity {
            token: PathBuf::from("t"),
            roles: BTreeMap::from([("team-a".to_owned(), vec![role.to_owned(), String::new()])]),
        };
        assert!(all.lets("team-a", role));
        for (namespace, named) in [
            ("team-b", role),
            ("team", role),
            ("", role),
            ("team-a", "arn:aws:iam::111111111111:role/team-a-admin"),
            ("team-a", "arn:aws:iam::111111111111:role/TEAM-A"),
            ("team-a", ""),
        ] {
            assert!(!all.lets(namespace, named), "{namespace} {named}");
        }
        assert!(!WebIdentity::default().lets("team-a", role));
    }

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
