//! Tokens of service accounts that Secrets hold: they never end.
//!
//! Invariant: of each its place and the name of the key that signed it are kept, and there is a most of them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Request;
use k8s_openapi::api::core::v1::Secret;
use kit_client::errors::chain;
use kube::api::ObjectList;
use kube::{Client, ResourceExt};
use serde_json::Value;

/// Secrets of one page.
const PAGE: usize = 50;
/// Pages that are asked for: what is behind them is not known.
const MOST_PAGES: usize = 20;
const SECRETS: &str = "/api/v1/secrets?fieldSelector=type%3Dkubernetes.io%2Fservice-account-token";

/// A token in a Secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HeldToken {
    /// Namespace and name of the Secret. Example: `default/robot`.
    pub place: String,
    /// What the token calls the key that signed it ([`key_id`]); empty where it says nothing of it.
    pub key: String,
}

/// What a token calls the key that signed it, by the public key (PEM); none where that is none.
#[must_use]
pub fn key_id(public: &str) -> Option<String> {
    pki::public_key_digest(public).map(|digest| URL_SAFE_NO_PAD.encode(digest))
}

/// All of a tenant cluster. A Secret without a token, which gets one, is none.
///
/// # Errors
/// Why they are not known.
pub async fn ask(client: &Client) -> Result<Vec<HeldToken>, String> {
    let mut held = Vec::new();
    let mut next = String::new();
    for _ in 0..MOST_PAGES {
        let path = format!("{SECRETS}&limit={PAGE}&continue={next}");
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(|error| chain(&error))?;
        let list: ObjectList<Secret> = client
            .request(request)
            .await
            .map_err(|error| chain(&error))?;
        held.extend(list.items.iter().filter_map(of));
        next = list.metadata.continue_.unwrap_or_default();
        if next.is_empty() {
            return Ok(held);
        }
        // A tenant's API says it, and it stands in a path.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if !next.trim_end_matches('=').bytes().all(is_plain) {
            return Err("what the list goes on with cannot be read".to_owned());
        }
        next = next.replace('=', "%3D");
    }
    Err(format!(
        "there are more than {} Secrets of kubernetes.io/service-account-token",
        PAGE * MOST_PAGES
    ))
}

fn of(secret: &Secret) -> Option<HeldToken> {
    let token = secret.data.as_ref()?.get("token")?;
    let token = std::str::from_utf8(&token.0).ok()?;
    if token.is_empty() {
        return None;
    }
    let namespace = secret.namespace().unwrap_or_default();
    Some(HeldToken {
        place: format!("{namespace}/{}", secret.name_any()),
        key: signed_by(token).unwrap_or_default(),
    })
}

fn signed_by(token: &str) -> Option<String> {
    let (head, _) = token.split_once('.')?;
    let head = URL_SAFE_NO_PAD.decode(head).ok()?;
    let head: Value = serde_json::from_slice(&head).ok()?;
    head["kid"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    #[test]
    fn token_says_which_key_signed_it_and_what_is_none_says_nothing() {
        let held = |token: &str| {
            let data = [("token".to_owned(), ByteString(token.as_bytes().to_vec()))];
            let secret = Secret {
                data: Some(data.into()),
                ..Secret::default()
            };
            of(&secret).map(|held| held.key)
        };
        let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"ES256","kid":"abc"}"#);
        assert_eq!(held(&format!("{head}.e30.c2ln")).as_deref(), Some("abc"));
        assert_eq!(held("nonsense").as_deref(), Some(""));
        assert_eq!(held(""), None);
        assert_eq!(of(&Secret::default()), None);
    }
}
