//! Whom clients and servers of rustls believe while an authority is turned.
//!
//! Invariant: what verifies is the library that Covey's own clients have, with one root and no more.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, RootCertStore};

use super::*;
use crate::inspect::{first_certificate, is_crossed};

fn generation(number: u32) -> KeyPair {
    let name = format!("kubernetes-g{number}");
    issue(&Want::authority("ca", &name, 87_600), None, now()).unwrap()
}

fn of(signer: &KeyPair) -> KeyPair {
    issue(&leaf(), Some(signer), now()).unwrap()
}

fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    let all = CertificateDer::pem_slice_iter(pem.as_bytes());
    all.map(Result::unwrap).collect()
}

fn roots(root: &KeyPair) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for root in certificates(&root.certificate) {
        roots.add(root).unwrap();
    }
    Arc::new(roots)
}

/// What a client makes of a server that shows this, and a server of such a client; both believe `root` alone.
fn verified(shown: &str, root: &KeyPair, at: Timestamp) -> Result<(), rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let shown = certificates(shown);
    let (first, more) = shown.split_first().unwrap();
    let at = UnixTime::since_unix_epoch(Duration::from_secs(at.as_second().unsigned_abs()));
    let client = WebPkiServerVerifier::builder_with_provider(roots(root), Arc::clone(&provider));
    let name = ServerName::try_from("a.example").unwrap();
    let by_client = client.build().unwrap();
    let by_client = by_client.verify_server_cert(first, more, &name, &[], at);
    let server = WebPkiClientVerifier::builder_with_provider(roots(root), provider);
    let by_server = server.build().unwrap();
    let by_server = by_server.verify_client_cert(first, more, at);
    assert_eq!(by_client.is_ok(), by_server.is_ok());
    by_client.map(drop)
}

fn is_unknown(verified: &Result<(), rustls::Error>) -> bool {
    *verified == Err(CertificateError::UnknownIssuer.into())
}

#[test]
fn who_believes_either_generation_alone_believes_what_is_shown_with_the_cross_certificate() {
    let (old, new) = (generation(1), generation(2));
    for (believed, signs) in [(&old, &new), (&new, &old)] {
        let shown_alone = of(signs).certificate;
        let cross = cross(("ca-g2", signs), ("ca", believed), now()).unwrap();
        let shown = shown_alone.clone() + &cross;
        verified(&shown, believed, now()).unwrap();
        verified(&shown, signs, now()).unwrap();
        // Without it only who believes the one that signed.
        verified(&shown_alone, signs, now()).unwrap();
        assert!(is_unknown(&verified(&shown_alone, believed, now())));
        // It makes nobody believed but that one.
        let stranger = generation(3);
        assert!(is_unknown(&verified(&shown, &stranger, now())));
        let other = of(&stranger).certificate + &cross;
        assert!(is_unknown(&verified(&other, believed, now())));
        assert_eq!(first_certificate(&shown), (&*shown_alone, &*cross));
        assert_eq!(first_certificate(&shown_alone), (&*shown_alone, ""));
    }
}

#[test]
fn cross_certificate_has_name_and_key_of_its_authority_and_ends_with_the_sooner_of_both() {
    let (old, new) = (generation(1), generation(2));
    let made = cross(("ca-g2", &new), ("ca", &old), now()).unwrap();
    assert!(is_crossed(&made, &new, &old));
    assert!(!is_crossed(&made, &old, &new) && !is_crossed(&made, &new, &generation(3)));
    assert!(!is_crossed(&new.certificate, &new, &old) && !is_crossed("nonsense", &new, &old));
    let short = issue(&Want::authority("ca", "short", 48), None, now()).unwrap();
    let end = not_after(&short.certificate).unwrap();
    for (authority, signer) in [(&short, &old), (&old, &short)] {
        let made = cross(("a", authority), ("b", signer), now()).unwrap();
        assert_eq!(not_after(&made), Some(end));
    }
    let shown = of(&old).certificate + &cross(("a", &old), ("b", &short), now()).unwrap();
    let soon = now().checked_add(SignedDuration::from_hours(1)).unwrap();
    verified(&shown, &short, soon).unwrap();
    let ended = cross(("a", &old), ("b", &short), end);
    assert!(matches!(ended, Err(Error::SignerEnded { .. })));
    let no_authority = of(&old);
    let refused = cross(("leaf", &no_authority), ("b", &old), now());
    assert!(matches!(refused, Err(Error::Unfit { .. })));
}
