//! Who asks: a principal of Entra ID, by its secret or by another's token that it trusts (documentation, "OAuth 2.0 client
//! credentials flow"; "Workload identity federation").
//!
//! Invariant: nothing prints a secret or a token of another's; a file with such a token is read anew for each exchange,
//! since whoever keeps it there replaces it.

use std::fmt;
use std::path::PathBuf;

/// By what it is let in.
#[derive(Clone, Eq, PartialEq)]
pub enum By {
    /// A secret, which ends after two years at most.
    Secret(String),
    /// A file with a token of this cluster's own for one of its accounts (a projected volume).
    Federated(PathBuf),
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
