//! A tenant cluster's identity: its authorities and keys, its TenantCluster, its addresses; sealed so that the
//! recovery key alone opens it.
//!
//! | Bytes | What |
//! |---|---|
//! | 8 | `COVEYID` and a line feed |
//! | 8 | when it was sealed, in milliseconds since 1970, little endian |
//! | 32 | HPKE's encapsulated key |
//! | … | the document, sealed; the first 16 bytes are its associated data |
//!
//! It is HPKE as for data keys ([`crate::keys`]), with another purpose: who has the wrapped data key of a tenant cluster
//! can make no identity of it. What is sealed is not compressed: its length says nothing about what is in it but its
//! length.
//! Invariant: who copies it into a store can neither read nor make one.

use std::fmt;

use crate::digest::Digest;
use crate::keys::{BadKey, KEY_BYTES, RecoveryKey, WrappingKey};
use crate::names::IdentityName;

/// Most bytes of a document; one has some 20 KiB, and a Secret of Kubernetes takes 1 MiB.
pub const MOST_DOCUMENT: usize = 512 * 1024;
/// Most bytes of one that is sealed.
pub const MOST_SEALED: usize = MOST_DOCUMENT + START + KEY_BYTES + TAG;

const MAGIC: &[u8; 8] = b"COVEYID\n";
/// Bytes before what HPKE gave.
const START: usize = MAGIC.len() + 8;
const TAG: usize = 16;
/// A name of an object has so many digits for the time.
const MOST_MS: u64 = 999_999_999_999_999;

/// An identity that cannot be sealed or opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadIdentity {
    /// More than [`MOST_DOCUMENT`].
    #[error("an identity of {0} bytes is too long")]
    TooLong(usize),
    /// A time that a name has no room for.
    #[error("a name has no room for the time {0} ms")]
    Time(u64),
    /// The key to seal with is none.
    #[error("the identity cannot be sealed")]
    Seal(#[source] BadKey),
    /// It was sealed for another recovery key or tenant cluster, by somebody who has no key, or changed.
    #[error("the recovery key does not open the identity")]
    Open,
}

/// An identity, sealed. Not secret.
#[derive(Clone, Eq, PartialEq)]
pub struct SealedIdentity {
    bytes: Vec<u8>,
    name: IdentityName,
}

impl SealedIdentity {
    /// Seals a document for the owner of the recovery key, for one tenant cluster by its UID.
    ///
    /// # Errors
    /// [`BadIdentity`].
    pub fn seal(
        wrapping: &WrappingKey,
        tenant: &str,
        sealed_ms: u64,
        document: &[u8],
    ) -> Result<Self, BadIdentity> {
        if document.len() > MOST_DOCUMENT {
            return Err(BadIdentity::TooLong(document.len()));
        }
        if sealed_ms > MOST_MS {
            return Err(BadIdentity::Time(sealed_ms));
        }
        let mut bytes = [MAGIC.as_slice(), &sealed_ms.to_le_bytes()].concat();
        let sealed = wrapping.seal(document, &info(tenant), &bytes);
        bytes.extend(sealed.map_err(BadIdentity::Seal)?);
        let digest = Digest::of(&bytes);
        Ok(Self {
            bytes,
            name: IdentityName { sealed_ms, digest },
        })
    }

    /// Reads what [`Self::bytes`] gave. None of what is none by its length and beginning; more shows only when it is
    /// opened.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let is_one = (START + KEY_BYTES + TAG..=MOST_SEALED).contains(&bytes.len());
        let time = bytes.strip_prefix(MAGIC.as_slice())?.first_chunk::<8>()?;
        let sealed_ms = u64::from_le_bytes(*time);
        let name = IdentityName {
            sealed_ms,
            digest: Digest::of(bytes),
        };
        (is_one && sealed_ms <= MOST_MS).then(|| Self {
            bytes: bytes.to_vec(),
            name,
        })
    }

    /// Opens it.
    ///
    /// # Errors
    /// [`BadIdentity::Open`].
    pub fn open(&self, recovery: &RecoveryKey, tenant: &str) -> Result<Vec<u8>, BadIdentity> {
        let (beside, sealed) = self.bytes.split_at(START);
        let document = recovery.open(sealed, &info(tenant), beside);
        document.ok_or(BadIdentity::Open)
    }

    /// For a file, and an object.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What the object with it is called.
    #[must_use]
    pub fn name(&self) -> IdentityName {
        self.name
    }
}

impl fmt::Debug for SealedIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedIdentity({})", self.name)
    }
}

fn info(tenant: &str) -> Vec<u8> {
    [b"covey identity 1 of ", tenant.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;
    use crate::keys::{DataKey, WrappedKey};

    static RECOVERY: LazyLock<RecoveryKey> = LazyLock::new(|| RecoveryKey::generate().unwrap());

    fn sealed(document: &[u8]) -> SealedIdentity {
        let wrapping = RECOVERY.wrapping_key();
        SealedIdentity::seal(&wrapping, "t1", 1_795_726_800_999, document).unwrap()
    }

    #[test]
    fn identity_opens_with_its_recovery_key_and_for_its_tenant_alone() {
        let sealed = sealed(b"keys");
        let read = SealedIdentity::read(sealed.bytes()).unwrap();
        assert_eq!(read, sealed);
        assert_eq!(read.open(&RECOVERY, "t1").unwrap(), b"keys");
        assert_eq!(read.open(&RECOVERY, "t2"), Err(BadIdentity::Open));
        let other = RecoveryKey::generate().unwrap();
        assert_eq!(read.open(&other, "t1"), Err(BadIdentity::Open));
        // Not with what its tenant's backup has, nor with what it was sealed with.
        assert!(!sealed.bytes().windows(4).any(|four| four == b"keys"));
    }

    #[test]
    fn sealed_again_it_has_another_name_and_its_time_is_in_it() {
        let (one, other) = (sealed(b"keys"), sealed(b"keys"));
        assert_ne!(one.name(), other.name());
        assert_eq!(one.name().sealed_ms, 1_795_726_800_999);
    }

    #[test]
    fn who_has_a_data_key_wrapped_makes_no_identity_of_it_and_the_other_way_round() {
        let data = DataKey::generate().unwrap();
        let wrapped = RECOVERY.wrapping_key().wrap(&data, "t1").unwrap();
        let whole = sealed(b"keys");
        let forged = [&whole.bytes()[..START], wrapped.as_bytes()].concat();
        let forged = SealedIdentity::read(&forged).unwrap();
        assert_eq!(forged.open(&RECOVERY, "t1"), Err(BadIdentity::Open));
        let document = [7; KEY_BYTES];
        let wrapped = WrappedKey::read(&sealed(&document).bytes()[START..]).unwrap();
        assert!(RECOVERY.unwrap(&wrapped, "t1").is_err());
    }

    #[test]
    fn who_knows_the_public_key_alone_makes_no_identity_that_opens() {
        let mut bytes = RECOVERY.wrapping_key().reveal();
        bytes[KEY_BYTES..].fill(0);
        let enemy = WrappingKey::read(&bytes).unwrap();
        let forged = SealedIdentity::seal(&enemy, "t1", 1, b"mine").unwrap();
        assert_eq!(forged.open(&RECOVERY, "t1"), Err(BadIdentity::Open));
    }

    #[test]
    fn more_than_a_secret_holds_and_times_without_a_name_are_not_sealed() {
        let wrapping = RECOVERY.wrapping_key();
        let long = vec![0; MOST_DOCUMENT + 1];
        let refused = SealedIdentity::seal(&wrapping, "t1", 1, &long);
        assert_eq!(refused, Err(BadIdentity::TooLong(long.len())));
        let whole = SealedIdentity::seal(&wrapping, "t1", 1, &long[1..]).unwrap();
        assert_eq!(whole.bytes().len(), MOST_SEALED);
        assert!(SealedIdentity::read(whole.bytes()).is_some());
        assert!(SealedIdentity::read(&[whole.bytes(), &[0]].concat()).is_none());
        let refused = SealedIdentity::seal(&wrapping, "t1", MOST_MS + 1, b"");
        assert_eq!(refused, Err(BadIdentity::Time(MOST_MS + 1)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_changed_byte_is_found_and_any_bytes_are_an_identity_or_none(
            at in any::<prop::sample::Index>(), bit in 0..8_u8, any in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let whole = sealed(b"keys of a tenant cluster");
            let mut bytes = whole.bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            if let Some(read) = SealedIdentity::read(&bytes) {
                prop_assert_eq!(read.open(&RECOVERY, "t1"), Err(BadIdentity::Open));
                prop_assert_ne!(read.name(), whole.name());
            }
            for bytes in [any.clone(), [&MAGIC[..], &any].concat()] {
                if let Some(read) = SealedIdentity::read(&bytes) {
                    prop_assert!(read.open(&RECOVERY, "t1").is_err());
                }
            }
        }
    }
}
