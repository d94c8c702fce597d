//! Who asks: a principal of Entra ID, by its secret or by another's token that it trusts (documentation, "OAuth 2.0 client
//! credentials flow"; "Workload identity federation").
//!
//! Invariant: nothing prints a secret or a token of another's; a file with such a token is read anew for each exchange,
//! since whoever keeps it there replaces it.

use std::fmt;
use std::path::PathBuf;

use providers::identity::is_uuid;
use serde::Deserialize;

/// Most bytes of what a Secret says.
const MOST: usize = 64 * 1024;

/// By what it is let in.
#[derive(Clone, Eq, PartialEq)]
pub enum By {
    /// A secret, which ends after two years at most.
    Secret(String),
    /// A file with a token of this cluster's own for one of its accounts (a projected volume).
    Federated(PathBuf),
}

/// Why credentials cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unusable {
    /// It is not what Azure says of a principal.
    NoFile,
    /// What it says to be the principal or its tenant is no ID.
    NoId,
    /// It has no secret.
    NoSecret,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoFile => {
                "it has not appId, password and tenant, as az ad sp create-for-rbac says them of a principal"
            }
            Self::NoId => "its appId or its tenant is no ID (a GUID)",
            Self::NoSecret => "its password is empty",
        })
    }
}

/// What is said of a principal when it is made.
#[derive(Deserialize)]
struct File {
    #[serde(rename = "appId")]
    app_id: String,
    password: String,
    tenant: String,
}

/// Who asks.
#[derive(Clone, Eq, PartialEq)]
pub struct Credentials {
    /// The tenant, by ID.
    pub tenant: String,
    /// The principal, by the ID of its application.
    pub client: String,
    /// By what it is let in.
    pub by: By,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("tenant", &self.tenant)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

impl Credentials {
    /// From what `az ad sp create-for-rbac` says of a principal that it makes. Both IDs have to be some, since they are
    /// told: a secret in their place would be told, too.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn read(text: &str) -> Result<Self, Unusable> {
        let file = Some(text).filter(|text| text.len() <= MOST);
        let file = file.and_then(|text| serde_json::from_str::<File>(text).ok());
        let file = file.ok_or(Unusable::NoFile)?;
        if !is_uuid(&file.app_id) || !is_uuid(&file.tenant) {
            return Err(Unusable::NoId);
        }
        if file.password.trim().is_empty() {
            return Err(Unusable::NoSecret);
        }
        Ok(Self {
            tenant: file.tenant,
            client: file.app_id,
            by: By::Secret(file.password),
        })
    }

    /// What is secret, to be sent and to be taken out of what is told; none where the file cannot be read or is empty.
    #[must_use]
    pub fn secret(&self) -> Option<String> {
        let secret = match &self.by {
            By::Secret(secret) => secret.clone(),
            By::Federated(path) => std::fs::read_to_string(path).ok()?,
        };
        let secret = secret.trim();
        (!secret.is_empty()).then(|| secret.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "33333333-0000-4000-8000-000000000001";

    #[test]
    fn what_is_said_of_a_new_principal_is_read() {
        let text = format!(
            r#"{{"appId": "{ID}", "displayName": "covey", "password": "p~w", "tenant": "{ID}"}}"#
        );
        let read = Credentials::read(&text).unwrap();
        assert_eq!((read.client.as_str(), read.tenant.as_str()), (ID, ID));
        assert_eq!(read.secret().as_deref(), Some("p~w"));
    }

    #[test]
    fn what_would_let_nobody_in_is_told_without_a_word_of_it() {
        let of = |client: &str, secret: &str, tenant: &str| {
            format!(r#"{{"appId": "{client}", "password": "{secret}", "tenant": "{tenant}"}}"#)
        };
        for (text, why) in [
            (String::new(), Unusable::NoFile),
            (format!(r#"{{"clientId": "{ID}"}}"#), Unusable::NoFile),
            (of("p~w", ID, ID), Unusable::NoId),
            (of(ID, "p~w", "../p~w"), Unusable::NoId),
            (of(ID, " ", ID), Unusable::NoSecret),
        ] {
            let told = Credentials::read(&text).unwrap_err();
            assert_eq!(told, why, "{text}");
            assert!(!told.to_string().contains("p~w"), "{told}");
        }
    }
}
