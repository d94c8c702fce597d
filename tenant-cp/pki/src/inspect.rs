//! What there is, compared with what is wanted: the list of certificates that are due.
//!
//! Invariant: an authority that is there is never due; replacing it would cut off every client.

use jiff::Timestamp;

use crate::want::{Store, Want};

/// A certificate that must be issued (again).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Due {
    /// Name of the [`Want`].
    pub name: String,
    /// Why.
    pub reason: Reason,
}

/// Why a certificate must be issued.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Reason {
    /// There is none.
    Missing,
    /// It is not a PEM certificate, or its key is not a PEM key.
    Unreadable,
    /// Less than a third of its life is left, or it is not valid yet.
    Expiring,
    /// The wanted authority did not sign it.
    SignerChanged,
    /// Common name, organisations or usages differ.
    SubjectChanged,
    /// DNS names or addresses differ.
    NamesChanged,
    /// The key is not the one that the certificate speaks of.
    KeyMismatch,
}

/// An authority that needs a person: it is there, so it is not replaced, but it is no good.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuthorityProblem {
    /// Name of the authority.
    pub name: String,
    /// What is wrong: [`Reason::Unreadable`], [`Reason::Expiring`] or [`Reason::KeyMismatch`].
    pub reason: Reason,
}

/// What must be issued, authorities first, otherwise in the order of `wants`.
///
/// A leaf whose authority is missing from the store too comes as [`Reason::SignerChanged`] (or
/// [`Reason::Missing`]) after it.
#[must_use]
pub fn plan(wants: &[Want], store: &Store, now: Timestamp) -> Vec<Due> {
    let _ = (wants, store, now);
    Vec::new()
}

/// What is wrong with the authorities that are there.
#[must_use]
pub fn authority_problems(wants: &[Want], store: &Store, now: Timestamp) -> Vec<AuthorityProblem> {
    let _ = (wants, store, now);
    Vec::new()
}

/// When a certificate (PEM) ends; none when it is not one.
#[must_use]
pub fn not_after(pem: &str) -> Option<Timestamp> {
    let _ = pem;
    None
}
