//! The Secret of a token read back, and the form of tokens.

use proptest::prelude::*;

use super::*;

const UID: &str = "5d0a1c52-7d63-4b3c-9a56-0f2f2d1c9b11";

fn token() -> Token {
    Token::from_random(b"0123456789abcdef", UID)
}

#[test]
fn token_secret_is_what_kubernetes_reads_and_can_be_read_back() {
    let expires = "2026-11-21T12:30:00Z".parse().unwrap();
    let secret = token_secret(&token(), expires, "demo-workers-a1b2c");
    assert_eq!(secret.name, token_secret_name(UID));
    assert_eq!(secret.namespace.as_deref(), Some("kube-system"));
    assert_eq!(secret.value["type"], "bootstrap.kubernetes.io/token");
    let decode = |key: &str| {
        let bytes: ByteString = serde_json::from_value(secret.value["data"][key].clone()).unwrap();
        String::from_utf8(bytes.0).unwrap()
    };
    assert_eq!(decode("expiration"), "2026-11-21T12:30:00Z");
    assert_eq!(
        decode("auth-extra-groups"),
        "system:bootstrappers:kubeadm:default-node-token"
    );
    assert!(decode("description").contains("demo-workers-a1b2c"));
    assert_eq!(
        read_token(&secret.value, "demo-workers-a1b2c"),
        Some(token())
    );
    assert_eq!(read_token(&secret.value, "demo-workers-zzzzz"), None);
}

proptest! {
    #[test]
    fn every_token_has_the_form_that_kubeadm_demands(random in any::<[u8; 16]>(), uid in "[ -~]{0,40}") {
        let token = Token::from_random(&random, &uid);
        let fits = |text: &str, length| {
            text.len() == length
                && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        prop_assert!(fits(&token.id, 6) && fits(token.secret.reveal(), 16));
        prop_assert_eq!(&token.id, &token_id(&uid));
    }
}
