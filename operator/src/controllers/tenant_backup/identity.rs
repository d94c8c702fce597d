//! The tenant cluster's identity in its backup: when it is sealed, and whether the target has it. No I/O, no clock, no
//! chance.
//!
//! A seal is another one each time, so what is in it is compared by hashes that are kept beside it.
//! Invariant: at rest nothing is sealed. What was lost or spoilt does not take the place of what is sealed; authorities
//! and keys that changed are sealed at once.

use std::collections::BTreeSet;

use api::TenantCluster;
use backup_format::SealedIdentity;
use backup_format::identity::MOST_DOCUMENT;
use jiff::{SignedDuration, Timestamp};
use kit_objects::object::hash;
use serde_json::json;
use tenant_cp::backup::identity::{self, Document, Lacks};
use tenant_cp::backup::process::Identity;
use tenant_cp::certificates::{SecretData, read_store};

use super::report::Report;
use crate::status::one_line;

/// How long a change of anything but authorities and keys waits after the one before: users may change a TenantCluster
/// as often as they like, and each is kept in the target for as long as a snapshot of its time.
const REST: SignedDuration = SignedDuration::from_secs(300);
/// How long it may take until the target has it: kubelets bring a changed Secret within two minutes, and the process
/// looks every half a minute.
const ALLOWED: SignedDuration = SignedDuration::from_secs(300);
/// Most bytes of what the process says.
const MOST: usize = 500;

/// The identity, sealed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sealed {
    /// What only the recovery key opens.
    pub identity: SealedIdentity,
    /// Hash of the authorities and keys in it, and of whom it is sealed for.
    pub keys: String,
    /// The same of all that is in it.
    pub whole: String,
}

impl Sealed {
    /// As the Secret has it.
    #[must_use]
    pub fn for_a_secret(&self) -> Identity {
        Identity {
            sealed: self.identity.bytes().to_vec(),
            keys: self.keys.clone(),
            whole: self.whole.clone(),
        }
    }
}

/// Whether the target has the identity.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Standing {
    /// It has it, or one of a moment ago.
    There,
    /// It has none yet, and that is no wonder.
    Awaited,
    /// It has another one or none, for long; why, for people.
    Late(String),
}

/// Why nothing can be sealed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unsealable {
    /// An authority or key is not there.
    #[error(transparent)]
    Lacks(#[from] Lacks),
    /// A TenantCluster of unheard-of length.
    #[error("they have {0} bytes, more than are sealed")]
    TooLong(usize),
}

/// What is to be sealed, with the hashes that tell it apart. `sealed_for` is a hash of the key to seal with.
///
/// # Errors
/// [`Unsealable`].
pub fn wanted(
    cluster: &TenantCluster,
    secrets: &SecretData,
    sealed_for: &str,
    now: Timestamp,
) -> Result<Document, Unsealable> {
    let document = identity::document(cluster, secrets, now)?;
    if document.text.len() > MOST_DOCUMENT {
        return Err(Unsealable::TooLong(document.text.len()));
    }
    // Sealed for another key it is another one.
    let told_apart = |of: &str| hash(&json!([of, sealed_for]));
    Ok(Document {
        keys: told_apart(&document.keys),
        whole: told_apart(&document.whole),
        text: document.text,
    })
}

/// Whether it is to be sealed, or sealed anew. While the target lacks what is sealed nothing but authorities and keys
/// is: since when that waits would be forgotten each time.
#[must_use]
pub fn is_due(
    wanted: &Result<Document, Unsealable>,
    sealed: Option<&Sealed>,
    report: Option<&Report>,
    now: Timestamp,
) -> bool {
    match (wanted, sealed) {
        (Err(_), _) => false,
        (Ok(_), None) => true,
        (Ok(wanted), Some(sealed)) => {
            let is_there = report.is_some_and(|report| has(report, sealed));
            let rested = is_there && age(&sealed.identity, now) >= REST;
            wanted.keys != sealed.keys || (rested && wanted.whole != sealed.whole)
        }
    }
}

/// Whether the target has it, as the process says.
fn has(report: &Report, sealed: &Sealed) -> bool {
    let name = sealed.identity.name().to_string();
    report.identity.as_deref() == Some(name.as_str())
}

/// Generations of encryption keys that the target has, as the process says: all that there are, once it has what is sealed
/// and that is of them. None where that is not known.
#[must_use]
pub fn saved_keys(
    wanted: &Result<Document, Unsealable>,
    sealed: Option<&Sealed>,
    report: Option<&Report>,
    secrets: &SecretData,
) -> Option<BTreeSet<u32>> {
    let (wanted, sealed) = (wanted.as_ref().ok()?, sealed?);
    let is_there = wanted.keys == sealed.keys && has(report?, sealed);
    is_there.then(|| read_store(secrets).encryption.numbers().collect())
}

/// When it is sealed, in milliseconds since 1970: later than the one before, whatever the clock says.
#[must_use]
pub fn next_ms(sealed: Option<&Sealed>, now: Timestamp) -> u64 {
    let now = u64::try_from(now.as_millisecond()).unwrap_or_default();
    let before = sealed.map(|sealed| sealed.identity.name().sealed_ms);
    before.map_or(now, |before| now.max(before.saturating_add(1)))
}

/// How long ago it was sealed; as long where that is to come: a clock was set back, and nothing waits for that.
fn age(identity: &SealedIdentity, now: Timestamp) -> SignedDuration {
    let ms = i64::try_from(identity.name().sealed_ms).unwrap_or(i64::MAX);
    let sealed_at = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX);
    now.duration_since(sealed_at).abs()
}

/// Whether the target has it, as the process says.
#[must_use]
pub fn standing(
    wanted: &Result<Document, Unsealable>,
    sealed: Option<&Sealed>,
    report: &Report,
    now: Timestamp,
) -> Standing {
    let Some(sealed) = sealed else {
        let why = match wanted {
            Ok(_) => "it is not sealed".to_owned(),
            Err(why) => why.to_string(),
        };
        return Standing::Late(not_there(&why));
    };
    if has(report, sealed) {
        return Standing::There;
    }
    let is_late = age(&sealed.identity, now) > ALLOWED;
    match (is_late, &report.trouble, &report.identity) {
        (true, Some(trouble), _) => Standing::Late(not_there(&one_line(&trouble.what, MOST))),
        (true, None, _) => Standing::Late(not_there("the process does not say why")),
        (false, _, None) => Standing::Awaited,
        (false, _, Some(_)) => Standing::There,
    }
}

fn not_there(why: &str) -> String {
    format!("authorities, keys and addresses as they are now are not in the target: {why}")
}
