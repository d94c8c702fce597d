//! What a verifier sees in an issued certificate, and what is refused instead of issued.
//!
//! Invariant: every certificate is read back by another library than the one that made it.

use std::net::{IpAddr, Ipv4Addr};

use x509_parser::{pem::parse_x509_pem, prelude::*};

use super::*;

mod cross;

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn authority() -> Want {
    Want {
        name: "ca".into(),
        signer: Signer::Own,
        common_name: "kubernetes".into(),
        organizations: vec![],
        server: false,
        client: false,
        dns_names: vec!["kubernetes".into()],
        addresses: vec![],
        lifetime_hours: 87_600,
    }
}

fn leaf() -> Want {
    Want {
        name: "leaf".into(),
        signer: Signer::By("ca".into()),
        common_name: "someone".into(),
        organizations: vec!["group:with:colons".into()],
        server: true,
        client: true,
        dns_names: vec!["a.example".into()],
        addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        lifetime_hours: 24,
    }
}

#[test]
fn leaf_says_everything_that_a_verifier_looks_at() {
    let ca = issue(&authority(), None, now()).unwrap();
    let pair = issue(&leaf(), Some(&ca), now()).unwrap();
    let (_, ca_pem) = parse_x509_pem(ca.certificate.as_bytes()).unwrap();
    let (_, pem) = parse_x509_pem(pair.certificate.as_bytes()).unwrap();
    let ca = ca_pem.parse_x509().unwrap();
    let leaf = pem.parse_x509().unwrap();

    leaf.verify_signature(Some(ca.public_key())).unwrap();
    assert_eq!(leaf.version(), X509Version::V3);
    assert_eq!(leaf.validity().not_before.timestamp(), 1_800_000_000 - 300);
    assert_eq!(
        leaf.validity().not_after.timestamp(),
        1_800_000_000 - 300 + 24 * 3600
    );
    assert_eq!(
        leaf.subject().to_string(),
        "O=group:with:colons, CN=someone"
    );
    assert!(!leaf.is_ca());
    let usage = leaf.key_usage().unwrap().unwrap().value;
    assert!(usage.digital_signature() && !usage.key_encipherment() && !usage.key_cert_sign());
    let extended = leaf.extended_key_usage().unwrap().unwrap().value;
    assert!(extended.server_auth && extended.client_auth && !extended.any);
    let identifier = |certificate: &X509Certificate<'_>, authority: bool| {
        certificate
            .extensions()
            .iter()
            .find_map(|extension| match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) if !authority => Some(id.0.to_vec()),
                ParsedExtension::AuthorityKeyIdentifier(id) if authority => {
                    id.key_identifier.as_ref().map(|id| id.0.to_vec())
                }
                _ => None,
            })
    };
    assert!(identifier(&leaf, false).is_some());
    assert_eq!(identifier(&leaf, true), identifier(&ca, false));
}

#[test]
fn authority_may_sign_certificates_and_nothing_says_client_or_server() {
    let ca = issue(&authority(), None, now()).unwrap();
    let (_, pem) = parse_x509_pem(ca.certificate.as_bytes()).unwrap();
    let ca = pem.parse_x509().unwrap();
    assert!(ca.is_ca());
    let usage = ca.key_usage().unwrap().unwrap().value;
    assert!(usage.key_cert_sign() && usage.digital_signature());
    assert!(ca.extended_key_usage().unwrap().is_none());
    ca.verify_signature(None).unwrap();
}

#[test]
fn serial_numbers_are_long_positive_and_different() {
    let serials: std::collections::BTreeSet<_> =
        (0..50).map(|_| serial().unwrap().to_bytes()).collect();
    assert_eq!(serials.len(), 50);
    assert!(
        serials
            .iter()
            .all(|bytes| bytes.len() == 16 && (0x40..0x80).contains(&bytes[0]))
    );
}

#[test]
fn third_organisation_is_refused_instead_of_lost() {
    let mut want = authority();
    want.organizations = vec!["a".into(), "b".into(), "c".into()];
    assert!(matches!(
        issue(&want, None, now()),
        Err(Error::Unfit { .. })
    ));
}

/// Whoever asks has a key, and everything else in the certificate is what the signer says.
#[test]
fn request_is_signed_for_its_key_and_not_for_its_names() {
    let ca = issue(&authority(), None, now()).unwrap();
    let (request, key) = request("root").unwrap();
    assert!(key.reveal().contains("PRIVATE KEY"));
    let read = crate::request::read(request.as_bytes()).unwrap();
    assert_eq!(read.common_names, ["root"]);
    let mut want = Want::client("grant", "ca", "covey:jane", 8760);
    want.organizations = vec!["covey:grant:u1".into(), "team".into()];
    let until = now() + jiff::SignedDuration::from_mins(10);
    let signed = sign(&want, &read.public_key, &ca, until, now()).unwrap();
    assert_eq!(not_after(&signed), Some(until));
    let (_, pem) = parse_x509_pem(signed.as_bytes()).unwrap();
    let certificate = pem.parse_x509().unwrap();
    let subject = certificate.subject();
    let names = |of: Vec<&str>| of.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let common = subject.iter_common_name().map(|n| n.as_str().unwrap());
    assert_eq!(names(common.collect()), ["covey:jane"]);
    let groups = subject.iter_organization().map(|n| n.as_str().unwrap());
    assert_eq!(names(groups.collect()), ["covey:grant:u1", "team"]);
    assert_eq!(certificate.public_key().raw, read.public_key);
    // No longer than the authority, whatever was asked for.
    let later = now() + jiff::SignedDuration::from_hours(200_000);
    let signed = sign(&want, &read.public_key, &ca, later, now()).unwrap();
    assert!(not_after(&signed) <= not_after(&ca.certificate));
}

#[test]
fn leaf_without_authority_is_refused() {
    let error = issue(&leaf(), None, now()).unwrap_err().to_string();
    assert_eq!(
        error,
        "certificate \"leaf\" cannot be signed: there is no authority \"ca\""
    );
}

#[test]
fn errors_show_no_key() {
    let mut broken = issue(&authority(), None, now()).unwrap();
    broken.key = Key::new("CANARY".into());
    let error = issue(&leaf(), Some(&broken), now()).unwrap_err();
    assert!(!format!("{error:?} {error}").contains("CANARY"));
}

#[test]
fn service_account_keys_are_pem_of_the_kinds_that_kubernetes_reads() {
    let (public, private) = key_pair().unwrap();
    assert!(public.starts_with("-----BEGIN PUBLIC KEY-----"));
    assert!(private.reveal().starts_with("-----BEGIN PRIVATE KEY-----"));
    assert_ne!(random_bytes::<32>().unwrap(), random_bytes::<32>().unwrap());
}

#[test]
fn leaf_ends_with_its_authority_at_the_latest() {
    let ca = issue(&authority(), None, now()).unwrap();
    let end = not_after(&ca.certificate).unwrap();
    let hours = |hours| jiff::SignedDuration::from_hours(hours);
    for (before, ends) in [
        (25, end - hours(1) - jiff::SignedDuration::from_secs(300)),
        (23, end),
        (1, end),
    ] {
        let pair = issue(&leaf(), Some(&ca), end - hours(before)).unwrap();
        assert_eq!(not_after(&pair.certificate), Some(ends), "{before}");
    }
    assert!(matches!(
        issue(&leaf(), Some(&ca), end),
        Err(Error::SignerEnded { .. })
    ));
}
