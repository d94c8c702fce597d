//! A text that one side writes for one other side, in a place that others read too.
//!
//! HPKE (RFC 9180) in its base mode: X25519, HKDF-SHA256, AES-256-GCM. It says who can read, not who wrote: whoever may write
//! the place may write another text, as it may write another certificate.
//! Invariant: what was sealed for one purpose opens for no other; neither key nor text is printed; what cannot be opened is
//! nothing, whatever is wrong with it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable, Kem, OpModeR, OpModeS, Serializable};
use ring::rand::{SecureRandom, SystemRandom};

/// Bytes of each key, and of the one that is encapsulated.
const KEY_BYTES: usize = 32;
/// Longest sealed text that is opened, in characters of base64: as much as a status may hold.
const MOST: usize = 16_384;

type Public = <X25519HkdfSha256 as Kem>::PublicKey;
type Private = <X25519HkdfSha256 as Kem>::PrivateKey;
type Encapsulated = <X25519HkdfSha256 as Kem>::EncappedKey;

/// The key that opens. It has no `Debug`, and is kept nowhere.
pub struct OpeningKey {
    private: Private,
    public: Public,
}

impl OpeningKey {
    /// A new one; none where the system gives no random numbers.
    #[must_use]
    pub fn generate() -> Option<Self> {
        let mut seed = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut seed).ok()?;
        let (private, public) = X25519HkdfSha256::derive_keypair(&seed);
        Some(Self { private, public })
    }

    /// What seals for it, in base64.
    #[must_use]
    pub fn public(&self) -> String {
        STANDARD.encode(self.public.to_bytes())
    }

    /// What [`seal`] made for this key and this purpose.
    #[must_use]
    pub fn open(&self, sealed: &str, purpose: &str) -> Option<String> {
        if sealed.len() > MOST {
            return None;
        }
        let bytes = STANDARD.decode(sealed).ok()?;
        let (encapsulated, sealed) = bytes.split_at_checked(KEY_BYTES)?;
        let encapsulated = Encapsulated::from_bytes(encapsulated).ok()?;
        let opened = hpke::single_shot_open::<AesGcm256, HkdfSha256, X25519HkdfSha256>(
            &OpModeR::Base,
            &self.private,
            &encapsulated,
            purpose.as_bytes(),
            sealed,
            b"",
        );
        String::from_utf8(opened.ok()?).ok()
    }
}

/// Seals a text for a public key in base64, in base64; none where that is no such key.
#[must_use]
pub fn seal(public: &str, text: &str, purpose: &str) -> Option<String> {
    let public = Public::from_bytes(&STANDARD.decode(public).ok()?).ok()?;
    let sealed = hpke::single_shot_seal::<AesGcm256, HkdfSha256, X25519HkdfSha256>(
        &OpModeS::Base,
        &public,
        purpose.as_bytes(),
        text.as_bytes(),
        b"",
    );
    let (encapsulated, sealed) = sealed.ok()?;
    Some(STANDARD.encode([encapsulated.to_bytes().as_slice(), &sealed].concat()))
}

/// Whether something can be sealed for this. It follows from the key alone: points of low order, with which everybody would
/// know the secret, are none.
#[must_use]
pub fn is_key(public: &str) -> bool {
    seal(public, "", "").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_that_it_is_for_opens_it_and_only_for_its_purpose() {
        let (hers, his) = (
            OpeningKey::generate().unwrap(),
            OpeningKey::generate().unwrap(),
        );
        assert_ne!(hers.public(), his.public());
        assert!(is_key(&hers.public()));
        let sealed = seal(&hers.public(), "sesame-canary", "grant u1").unwrap();
        assert!(!sealed.contains("sesame"));
        let opened = hers.open(&sealed, "grant u1");
        assert_eq!(opened.as_deref(), Some("sesame-canary"));
        assert_eq!(hers.open(&sealed, "grant u2"), None);
        assert_eq!(his.open(&sealed, "grant u1"), None);
        let again = seal(&hers.public(), "sesame-canary", "grant u1").unwrap();
        assert_ne!(sealed, again, "nobody sees that two texts are the same");
    }

    #[test]
    fn what_was_changed_and_what_is_none_is_nothing() {
        let key = OpeningKey::generate().unwrap();
        let sealed = seal(&key.public(), "text", "p").unwrap();
        let bytes = STANDARD.decode(&sealed).unwrap();
        for at in [0, KEY_BYTES, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(key.open(&STANDARD.encode(changed), "p"), None, "{at}");
        }
        for odd in ["", "?", "AAAA", &sealed[4..], &"A".repeat(MOST + 4)] {
            assert_eq!(key.open(odd, "p"), None, "{odd}");
        }
        // The point of order one, with which everybody knows the secret.
        let zero = STANDARD.encode([0; KEY_BYTES]);
        for odd in ["", "?", "AAAA", zero.as_str()] {
            assert_eq!(seal(odd, "text", "p"), None, "{odd}");
            assert!(!is_key(odd), "{odd}");
        }
    }
}
