//! The keys: one *recovery key* of the management cluster, which a person keeps; one *data key* per
//! tenant cluster, which its backup has; and the data key *wrapped* for the recovery key, which stands
//! in every object, so that the bucket and the recovery key are enough.
//!
//! Wrapping is HPKE (RFC 9180) in the mode with a pre-shared key: X25519, HKDF-SHA256, AES-256-GCM. The
//! pre-shared key follows from the recovery key as the private one does. Without it whoever can write
//! to the bucket could wrap a data key of his own for the public key and pass off a whole backup as a
//! tenant cluster's.
//! Invariant: a wrapped key opens for one tenant cluster only; no key is printed.

use std::fmt;

use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable, Kem, OpModeR, OpModeS, PskBundle, Serializable};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::names::Scope;

/// Bytes of each key.
pub const KEY_BYTES: usize = 32;
/// Bytes of a wrapped key: HPKE's encapsulated key, the key, a tag.
pub const WRAPPED_BYTES: usize = 32 + KEY_BYTES + 16;
/// What a written recovery key begins with.
const RECOVERY_PREFIX: &str = "covey-recovery-1-";

type Public = <X25519HkdfSha256 as Kem>::PublicKey;
type Private = <X25519HkdfSha256 as Kem>::PrivateKey;

/// A key that cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadKey {
    /// No random numbers from the system.
    #[error("the system gives no random numbers")]
    NoRandom,
    /// A text that is no recovery key.
    #[error("a recovery key is \"covey-recovery-1-\" and 64 hexadecimal digits")]
    NotARecoveryKey,
    /// Bytes that are no key to wrap with.
    #[error("a key to wrap with has 64 bytes")]
    NotAWrappingKey,
    /// Wrapping failed.
    #[error("the key could not be wrapped")]
    Wrap,
    /// It was wrapped for another recovery key or tenant cluster, or changed.
    #[error("the recovery key does not open the wrapped key")]
    Unwrap,
}

/// What opens every backup of a management cluster. A person keeps it.
#[derive(Clone)]
pub struct RecoveryKey([u8; KEY_BYTES]);

/// What wraps data keys for the recovery key, and opens none.
#[derive(Clone)]
pub struct WrappingKey {
    public: [u8; KEY_BYTES],
    shared: [u8; KEY_BYTES],
}

/// Seals a tenant cluster's objects.
#[derive(Clone)]
pub struct DataKey([u8; KEY_BYTES]);

/// A data key, wrapped. Not secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WrappedKey(pub(crate) [u8; WRAPPED_BYTES]);

impl RecoveryKey {
    /// A new one.
    ///
    /// # Errors
    /// [`BadKey::NoRandom`].
    pub fn generate() -> Result<Self, BadKey> {
        random().map(Self)
    }

    /// As people keep it. The only way to its bytes.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{RECOVERY_PREFIX}{}", hex::encode(self.0))
    }

    /// Reads what [`Self::reveal`] wrote; space around it is passed over.
    ///
    /// # Errors
    /// [`BadKey::NotARecoveryKey`].
    pub fn read(text: &str) -> Result<Self, BadKey> {
        let digits = text.trim().strip_prefix(RECOVERY_PREFIX);
        let bytes = digits.and_then(|digits| hex::decode(digits).ok());
        let key = bytes.and_then(|bytes| bytes.try_into().ok());
        key.map(Self).ok_or(BadKey::NotARecoveryKey)
    }

    /// What wraps for it.
    #[must_use]
    pub fn wrapping_key(&self) -> WrappingKey {
        let mut public = [0; KEY_BYTES];
        public.copy_from_slice(&self.pair().1.to_bytes());
        WrappingKey {
            public,
            shared: self.shared(),
        }
    }

    /// Opens a wrapped key.
    ///
    /// # Errors
    /// [`BadKey::Unwrap`].
    pub fn unwrap(&self, wrapped: &WrappedKey, tenant: &str) -> Result<DataKey, BadKey> {
        let key = self.open(&wrapped.0, &info(tenant), b"");
        let key = key.and_then(|key| key.try_into().ok());
        key.map(DataKey).ok_or(BadKey::Unwrap)
    }

    /// Opens what [`WrappingKey::seal`] made. None of anything else.
    pub(crate) fn open(&self, sealed: &[u8], info: &[u8], beside: &[u8]) -> Option<Vec<u8>> {
        let (encapsulated, sealed) = sealed.split_at_checked(KEY_BYTES)?;
        let shared = self.shared();
        let encapsulated = <X25519HkdfSha256 as Kem>::EncappedKey::from_bytes(encapsulated).ok()?;
        let mode = OpModeR::Psk(PskBundle::new(&shared, PSK_NAME).ok()?);
        let (private, _) = self.pair();
        let opened = hpke::single_shot_open::<AesGcm256, HkdfSha256, X25519HkdfSha256>(
            &mode,
            &private,
            &encapsulated,
            info,
            sealed,
            beside,
        );
        opened.ok()
    }

    fn pair(&self) -> (Private, Public) {
        X25519HkdfSha256::derive_keypair(&derive(&self.0, b"", b"covey recovery private"))
    }

    fn shared(&self) -> [u8; KEY_BYTES] {
        derive(&self.0, b"", b"covey recovery shared")
    }
}

impl WrappingKey {
    /// Wraps a data key for one tenant cluster, by its UID.
    ///
    /// # Errors
    /// [`BadKey::Wrap`], where the public key is none.
    pub fn wrap(&self, key: &DataKey, tenant: &str) -> Result<WrappedKey, BadKey> {
        let bytes = self.seal(&key.0, &info(tenant), b"")?;
        WrappedKey::read(&bytes).ok_or(BadKey::Wrap)
    }

    /// Seals for the recovery key: the encapsulated key, and what only it opens. `info` says what it is, so that
    /// nothing passes for anything else; `beside` is bound to it and not in it.
    pub(crate) fn seal(&self, plain: &[u8], info: &[u8], beside: &[u8]) -> Result<Vec<u8>, BadKey> {
        let public = Public::from_bytes(&self.public).map_err(|_| BadKey::Wrap)?;
        let shared = PskBundle::new(&self.shared, PSK_NAME).map_err(|_| BadKey::Wrap)?;
        let (encapsulated, sealed) = hpke::single_shot_seal::<
            AesGcm256,
            HkdfSha256,
            X25519HkdfSha256,
        >(&OpModeS::Psk(shared), &public, info, plain, beside)
        .map_err(|_| BadKey::Wrap)?;
        Ok([encapsulated.to_bytes().as_slice(), &sealed].concat())
    }

    /// For a Secret.
    #[must_use]
    pub fn reveal(&self) -> Vec<u8> {
        [self.public, self.shared].concat()
    }

    /// Reads what [`Self::reveal`] gave.
    ///
    /// # Errors
    /// [`BadKey::NotAWrappingKey`].
    pub fn read(bytes: &[u8]) -> Result<Self, BadKey> {
        let halves = (bytes.len() == 2 * KEY_BYTES).then(|| bytes.split_at(KEY_BYTES));
        let (public, shared) = halves.ok_or(BadKey::NotAWrappingKey)?;
        Ok(Self {
            public: public.try_into().map_err(|_| BadKey::NotAWrappingKey)?,
            shared: shared.try_into().map_err(|_| BadKey::NotAWrappingKey)?,
        })
    }
}

impl DataKey {
    /// A new one.
    ///
    /// # Errors
    /// [`BadKey::NoRandom`].
    pub fn generate() -> Result<Self, BadKey> {
        random().map(Self)
    }

    /// For a Secret.
    #[must_use]
    pub fn reveal(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// None unless there are 32 bytes.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Tells keys apart and gives nothing away.
    #[must_use]
    pub fn id(&self) -> String {
        hex::encode(&derive(&self.0, b"", b"covey data key id")[..8])
    }

    /// The key of one object.
    pub(crate) fn of_object(&self, salt: &[u8]) -> [u8; KEY_BYTES] {
        derive(&self.0, salt, b"covey backup object")
    }
}

impl WrappedKey {
    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// None unless there are 80 bytes.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

/// What seals a tenant cluster's objects.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The data key.
    pub data: DataKey,
    /// The same, wrapped.
    pub wrapped: WrappedKey,
}

impl Keys {
    /// New ones for a tenant cluster.
    ///
    /// # Errors
    /// [`BadKey`].
    pub fn generate(wrapping: &WrappingKey, scope: &Scope) -> Result<Self, BadKey> {
        let data = DataKey::generate()?;
        let wrapped = wrapping.wrap(&data, &scope.tenant)?;
        Ok(Self { data, wrapped })
    }
}

macro_rules! secret {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(…)"))
            }
        }
    )*};
}
secret!(DataKey, RecoveryKey, WrappingKey);

const PSK_NAME: &[u8] = b"covey recovery 1";

fn info(tenant: &str) -> Vec<u8> {
    [b"covey data key 1 of ", tenant.as_bytes()].concat()
}

/// 32 random bytes, also for salts.
///
/// # Errors
/// [`BadKey::NoRandom`].
pub fn random() -> Result<[u8; KEY_BYTES], BadKey> {
    let mut bytes = [0; KEY_BYTES];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| BadKey::NoRandom)?;
    Ok(bytes)
}

/// HKDF-SHA256 (RFC 5869) for one block, which 32 bytes are.
fn derive(key: &[u8], salt: &[u8], label: &[u8]) -> [u8; KEY_BYTES] {
    let mac = |key: &[u8], parts: &[&[u8]]| {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
        parts.iter().for_each(|part| context.update(part));
        let mut sum = [0; KEY_BYTES];
        sum.copy_from_slice(context.sign().as_ref());
        sum
    };
    mac(&mac(salt, &[key]), &[label, &[1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapped_key_opens_with_its_recovery_key_and_for_its_tenant_alone() {
        let recovery = RecoveryKey::generate().unwrap();
        let data = DataKey::generate().unwrap();
        let wrapped = recovery.wrapping_key().wrap(&data, "t1").unwrap();
        assert_eq!(recovery.unwrap(&wrapped, "t1").unwrap().0, data.0);
        assert_eq!(recovery.unwrap(&wrapped, "t2").err(), Some(BadKey::Unwrap));
        let other = RecoveryKey::generate().unwrap();
        assert_eq!(other.unwrap(&wrapped, "t1").err(), Some(BadKey::Unwrap));
        for at in 0..WRAPPED_BYTES {
            let mut changed = wrapped.clone();
            changed.0[at] ^= 1;
            assert!(recovery.unwrap(&changed, "t1").is_err(), "byte {at}");
        }
    }

    #[test]
    fn derivation_is_that_of_rfc_5869() {
        // Test case 1, cut to one block.
        let key = derive(
            &[0x0b; 22],
            &hex::decode("000102030405060708090a0b0c").unwrap(),
            &hex::decode("f0f1f2f3f4f5f6f7f8f9").unwrap(),
        );
        let expected = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf";
        assert_eq!(hex::encode(key), expected);
    }

    #[test]
    fn who_knows_the_public_key_alone_wraps_nothing_that_opens() {
        let recovery = RecoveryKey::generate().unwrap();
        let enemy = WrappingKey {
            shared: [0; KEY_BYTES],
            ..recovery.wrapping_key()
        };
        let wrapped = enemy.wrap(&DataKey([7; KEY_BYTES]), "t1").unwrap();
        assert_eq!(recovery.unwrap(&wrapped, "t1").err(), Some(BadKey::Unwrap));
    }

    #[test]
    fn keys_are_read_as_they_were_written_and_never_printed() {
        let recovery = RecoveryKey::generate().unwrap();
        let text = recovery.reveal();
        assert_eq!(
            RecoveryKey::read(&format!("{text}\n")).unwrap().0,
            recovery.0
        );
        for text in ["", "covey-recovery-1-00", &text[1..]] {
            assert!(RecoveryKey::read(text).is_err());
        }
        let wrapping = recovery.wrapping_key();
        let read = WrappingKey::read(&wrapping.reveal()).unwrap();
        assert_eq!(
            (read.public, read.shared),
            (wrapping.public, wrapping.shared)
        );
        assert!(WrappingKey::read(&[0; 63]).is_err());
        assert_eq!(format!("{recovery:?}"), "RecoveryKey(…)");
        let key = DataKey([7; KEY_BYTES]);
        assert_eq!(format!("{key:?}"), "DataKey(…)");
        assert_eq!(key.id().len(), 16);
        assert_ne!(key.id(), DataKey([8; KEY_BYTES]).id());
    }
}
