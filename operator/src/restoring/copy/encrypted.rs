//! Values that a kube-apiserver encrypts at rest with the provider `secretbox`
//! (`k8s.io/apiserver/pkg/storage/value/encrypt/secretbox`): a prefix that names the key, 24 bytes of nonce, and what NaCl's
//! secretbox (XSalsa20-Poly1305) makes of the object.
//!
//! Invariant: what is written is written with the active key; keys are not printed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crypto_secretbox::aead::Aead as _;
use crypto_secretbox::{KeyInit as _, XSalsa20Poly1305};
use tenant_cp::certificates::{Generations, encryption_name};

/// Bytes of a nonce.
pub const NONCE: usize = 24;
/// Before every value of this provider.
const PREFIX: &str = "k8s:enc:secretbox:v1:";
/// Before every value of any provider.
const ANY: &[u8] = b"k8s:enc:";

/// Keys of a tenant cluster's encryption at rest: the active one writes, all read.
pub struct Keys {
    active: (Vec<u8>, XSalsa20Poly1305),
    others: Vec<(Vec<u8>, XSalsa20Poly1305)>,
}

impl Keys {
    /// None where there is no active key, or it is none.
    #[must_use]
    pub fn read(keys: &Generations<pki::Key>) -> Option<Self> {
        let mut all = keys.active_first().map(|(generation, key)| {
            let bytes = STANDARD.decode(key.reveal()).ok()?;
            let cipher = XSalsa20Poly1305::new_from_slice(&bytes).ok()?;
            let prefix = format!("{PREFIX}{}:", encryption_name(generation));
            Some((prefix.into_bytes(), cipher))
        });
        Some(Self {
            active: all.next()??,
            others: all.flatten().collect(),
        })
    }

    /// Whether a value was written with the active key.
    #[must_use]
    pub fn is_own(&self, value: &[u8]) -> bool {
        value.starts_with(&self.active.0)
    }

    /// What a value was before it was encrypted; itself where it was not; none where no key opens it.
    #[must_use]
    pub fn open(&self, value: &[u8]) -> Option<Vec<u8>> {
        if !value.starts_with(ANY) {
            return Some(value.to_vec());
        }
        let mut all = std::iter::once(&self.active).chain(&self.others);
        let (sealed, cipher) = all.find_map(|(prefix, cipher)| {
            let sealed = value.strip_prefix(prefix.as_slice())?;
            Some((sealed, cipher))
        })?;
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE>()?;
        cipher.decrypt(nonce.into(), sealed).ok()
    }

    /// A value with the active key; none of what is too long to be one. A nonce is never used twice.
    #[must_use]
    pub fn seal(&self, plain: &[u8], nonce: [u8; NONCE]) -> Option<Vec<u8>> {
        let (prefix, cipher) = &self.active;
        let sealed = cipher.encrypt(&nonce.into(), plain).ok()?;
        Some([prefix.as_slice(), &nonce, &sealed].concat())
    }
}
