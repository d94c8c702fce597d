//! Requests of a machine with its token, and of whoever else has one.
//!
//! Invariant: each dishonest request differs from the honest one in a single point.

use k8s_openapi::ByteString;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

use super::*;

const NODE: &str = "demo-workers-a1b2c";
const EXPECTED: Expected<'_> = Expected {
    node: NODE,
    token_id: "abcdef",
    key: None,
    has_joined: false,
};

fn key() -> KeyPair {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap()
}

fn params(node: &str, group: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, group);
    name.push(DnType::CommonName, format!("system:node:{node}"));
    params.distinguished_name = name;
    params
}

fn request(params: &CertificateParams, key: &KeyPair) -> CertificateSigningRequest {
    let pem = params.serialize_request(key).unwrap().pem().unwrap();
    CertificateSigningRequest {
        spec: CertificateSigningRequestSpec {
            signer_name: names::KUBELET_CLIENT_SIGNER.to_owned(),
            username: Some("system:bootstrap:abcdef".to_owned()),
            usages: Some(vec![
                "digital signature".to_owned(),
                "client auth".to_owned(),
            ]),
            request: ByteString(pem.into_bytes()),
            ..CertificateSigningRequestSpec::default()
        },
        ..CertificateSigningRequest::default()
    }
}

fn honest(key: &KeyPair) -> CertificateSigningRequest {
    request(&params(NODE, names::NODES), key)
}

fn reason(request: &CertificateSigningRequest) -> Reason {
    match check(request, EXPECTED) {
        Verdict::Deny { reason, .. } => reason,
        verdict => panic!("{verdict:?}"),
    }
}

#[test]
fn the_first_key_has_the_token_and_no_other_ever() {
    let (own, other) = (key(), key());
    let Verdict::First(known) = check(&honest(&own), EXPECTED) else {
        panic!("the first one is refused");
    };
    for has_joined in [false, true] {
        let used = Expected {
            key: Some(&known),
            has_joined,
            ..EXPECTED
        };
        assert_eq!(
            check(&honest(&own), used),
            Verdict::Approve,
            "it asks again"
        );
        let second = check(&honest(&other), used);
        assert!(matches!(second, Verdict::UsedTwice(_)), "{second:?}");
    }
    // One that joined before anybody kept its key.
    let joined = Expected {
        has_joined: true,
        ..EXPECTED
    };
    assert!(matches!(
        check(&honest(&own), joined),
        Verdict::UsedTwice(_)
    ));
}

#[test]
fn token_is_good_for_its_own_machine_as_a_client_and_for_nothing_else() {
    let key = key();
    let changed = |change: fn(&mut CertificateSigningRequest)| {
        let mut request = honest(&key);
        change(&mut request);
        reason(&request)
    };
    let others = changed(|r| r.spec.username = Some("system:bootstrap:zzzzzz".to_owned()));
    assert_eq!(others, Reason::WrongRequestor);
    let server = changed(|r| {
        r.spec
            .usages
            .iter_mut()
            .flatten()
            .for_each(|u| *u = "server auth".into());
    });
    assert_eq!(server, Reason::WrongUsages);
    let garbage = changed(|r| r.spec.request = ByteString(b"x".to_vec()));
    assert_eq!(garbage, Reason::Unreadable);
    let node = reason(&request(&params("another", names::NODES), &key));
    assert_eq!(node, Reason::WrongSubject);
    let group = reason(&request(&params(NODE, "system:masters"), &key));
    assert_eq!(group, Reason::WrongSubject);
    let mut named = params(NODE, names::NODES);
    named
        .subject_alt_names
        .push(SanType::DnsName("kubernetes".try_into().unwrap()));
    assert_eq!(reason(&request(&named, &key)), Reason::WrongName);
}

#[test]
fn requests_of_nodes_themselves_and_for_other_signers_are_left_alone() {
    let key = key();
    let mut rotation = honest(&key);
    rotation.spec.username = Some(format!("system:node:{NODE}"));
    assert_eq!(check(&rotation, EXPECTED), Verdict::NotOurs);
    assert_eq!(node(&rotation.spec), None);
    let mut serving = honest(&key);
    serving.spec.signer_name = names::KUBELET_SERVING_SIGNER.to_owned();
    assert_eq!(check(&serving, EXPECTED), Verdict::NotOurs);
    assert_eq!(node(&honest(&key).spec).as_deref(), Some(NODE));
    let named = |name: &str| node(&request(&params(name, names::NODES), &key).spec);
    assert!(named(&"x".repeat(253)).is_some());
    assert_eq!(named(&"x".repeat(254)), None, "nobody is called like that");
    assert_eq!(named(""), None);
}
