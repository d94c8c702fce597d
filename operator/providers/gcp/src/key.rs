//! The key of a service account, and what it signs to be let in (RFC 7523; documentation, "Using OAuth 2.0 for Server to
//! Server Applications").
//!
//! Invariant: what is signed goes to the one place that the operator's settings name: a key that names another is refused,
//! and so is a file that would run a program or fetch from somewhere. Nothing prints the key.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::json;

/// Where tokens are had.
pub const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
/// What tokens are for: calls of Compute Engine, and nothing else.
const SCOPE: &str = "https://www.googleapis.com/auth/compute";
/// How long an assertion is good, in seconds: it is used at once.
const LIFE: i64 = 600;
/// Most bytes of a file.
const MOST: usize = 64 * 1024;

/// Why a key cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unusable {
    /// It is no file of a key.
    NoFile,
    /// It is a file of another type.
    Type,
    /// It names another place to have tokens from.
    TokenUri,
    /// What it says to be its private key is none.
    PrivateKey,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoFile => {
                "it is no key of a service account: gcloud iam service-accounts keys create FILE makes one"
            }
            Self::Type => {
                "its type is not service_account, and no other is taken: what others name could be a program or an \
                 address to be asked"
            }
            Self::TokenUri => "its token_uri is not Google's",
            Self::PrivateKey => "its private_key is no RSA key of 2048 bits or more in PKCS #8",
        })
    }
}

#[derive(Deserialize)]
struct File {
    #[serde(rename = "type")]
    type_: String,
    client_email: String,
    private_key_id: String,
    private_key: String,
    token_uri: String,
}

/// The key of a service account.
pub struct ServiceKey {
    account: String,
    id: String,
    pair: RsaKeyPair,
    token_uri: String,
}

impl fmt::Debug for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceKey")
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}

impl ServiceKey {
    /// From the file that Google gives. `token_uri`: where tokens are had.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn read(text: &str, token_uri: &str) -> Result<Self, Unusable> {
        if text.len() > MOST {
            return Err(Unusable::NoFile);
        }
        let any: serde_json::Value = serde_json::from_str(text).map_err(|_| Unusable::NoFile)?;
        let type_ = any.get("type").and_then(serde_json::Value::as_str);
        if type_.is_some_and(|type_| type_ != "service_account") {
            return Err(Unusable::Type);
        }
        let file: File = serde_json::from_value(any).map_err(|_| Unusable::NoFile)?;
        if file.type_ != "service_account" {
            return Err(Unusable::Type);
        }
        if file.token_uri != token_uri && file.token_uri != TOKEN_URI {
            return Err(Unusable::TokenUri);
        }
        let der = PrivatePkcs8KeyDer::from_pem_slice(file.private_key.as_bytes());
        let der = der.map_err(|_| Unusable::PrivateKey)?;
        let pair = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der());
        Ok(Self {
            account: file.client_email,
            id: file.private_key_id,
            pair: pair.map_err(|_| Unusable::PrivateKey)?,
            token_uri: token_uri.to_owned(),
        })
    }

    /// Whose it is, by e-mail.
    #[must_use]
    pub fn account(&self) -> &str {
        &self.account
    }

    /// What a token is had for, signed; none where that failed. `now`: by the clock of whom it is sent to.
    #[must_use]
    pub fn assertion(&self, now: Timestamp) -> Option<String> {
        let from = now.as_second();
        let header = json!({ "alg": "RS256", "typ": "JWT", "kid": self.id });
        let claims = json!({
            "iss": self.account, "scope": SCOPE, "aud": self.token_uri, "iat": from, "exp": from + LIFE,
        });
        let part = |part: &serde_json::Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let mut signature = vec![0; self.pair.public().modulus_len()];
        let random = SystemRandom::new();
        let done = self.pair.sign(
            &RSA_PKCS1_SHA256,
            &random,
            signed.as_bytes(),
            &mut signature,
        );
        done.ok()?;
        Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}
