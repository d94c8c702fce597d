//! Requests of an honest kubelet, and of every kind of dishonest one.
//!
//! Invariant: each dishonest request differs from the honest one in a single point.

use api::Reason;
use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequestCondition};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair, SanType,
};

use super::*;

const NODE: &str = "demo-workers-a1b2c";
const ADDRESSES: [IpAddr; 1] = [IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 7))];
const EXPECTED: Expected<'_> = Expected {
    node: NODE,
    addresses: &ADDRESSES,
    others: &[],
};

fn params() -> CertificateParams {
    let mut params = CertificateParams::new(vec![NODE.to_owned()]).unwrap();
    params.distinguished_name = subject("system:nodes", &format!("system:node:{NODE}"));
    params
        .subject_alt_names
        .push(SanType::IpAddress(ADDRESSES[0]));
    params
}

fn subject(group: &str, user: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, group);
    name.push(DnType::CommonName, user);
    name
}

fn request(params: &CertificateParams) -> CertificateSigningRequest {
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    CertificateSigningRequest {
        spec: CertificateSigningRequestSpec {
            signer_name: SIGNER.to_owned(),
            username: Some(format!("system:node:{NODE}")),
            groups: Some(vec![
                names::NODES.to_owned(),
                "system:authenticated".to_owned(),
            ]),
            usages: Some(vec![
                "digital signature".to_owned(),
                "server auth".to_owned(),
            ]),
            request: ByteString(pem.into_bytes()),
            ..CertificateSigningRequestSpec::default()
        },
        ..CertificateSigningRequest::default()
    }
}

fn reason(request: &CertificateSigningRequest) -> &'static str {
    match check(request, EXPECTED) {
        Verdict::Deny { reason, message } => {
            assert!(!message.is_empty());
            reason.as_str()
        }
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn honest_requests_are_approved() {
    let mut honest = request(&params());
    assert_eq!(node(&honest.spec), Some(NODE));
    assert_eq!(check(&honest, EXPECTED), Verdict::Approve);
    honest
        .spec
        .usages
        .as_mut()
        .unwrap()
        .push("key encipherment".to_owned());
    assert_eq!(check(&honest, EXPECTED), Verdict::Approve);
    let mut by_address_alone = params();
    by_address_alone.subject_alt_names.remove(0);
    assert_eq!(
        check(&request(&by_address_alone), EXPECTED),
        Verdict::Approve
    );
}

#[test]
fn request_of_a_machine_without_known_addresses_waits() {
    let none = Expected {
        addresses: &[],
        ..EXPECTED
    };
    assert!(matches!(
        check(&request(&params()), none),
        Verdict::Wait { .. }
    ));
    let mut wrong = params();
    wrong
        .subject_alt_names
        .push(SanType::DnsName("other".to_owned().try_into().unwrap()));
    assert!(matches!(
        check(&request(&wrong), none),
        Verdict::Deny {
            reason: Reason::WrongName,
            ..
        }
    ));
}

#[test]
fn what_is_decided_or_for_another_signer_is_left_alone() {
    let mut decided = request(&params());
    decided.status.get_or_insert_default().conditions =
        Some(vec![CertificateSigningRequestCondition {
            type_: "Denied".to_owned(),
            ..CertificateSigningRequestCondition::default()
        }]);
    assert_eq!(check(&decided, EXPECTED), Verdict::NotOurs);
    let mut client = request(&params());
    client.spec.signer_name = "kubernetes.io/kube-apiserver-client-kubelet".to_owned();
    assert_eq!(check(&client, EXPECTED), Verdict::NotOurs);
    assert_eq!(node(&client.spec), None);
}

#[test]
fn nobody_gets_a_certificate_for_another_node() {
    let mut another_user = request(&params());
    another_user.spec.username = Some("system:node:demo-workers-zzzzz".to_owned());
    assert_eq!(reason(&another_user), "WrongRequestor");
    let mut no_node = request(&params());
    no_node.spec.groups = Some(vec!["system:authenticated".to_owned()]);
    assert_eq!(reason(&no_node), "WrongRequestor");

    let mut params_ = params();
    params_.distinguished_name = subject("system:nodes", "system:node:demo-workers-zzzzz");
    assert_eq!(reason(&request(&params_)), "WrongSubject");
    let mut params_ = params();
    params_.distinguished_name = subject("system:masters", &format!("system:node:{NODE}"));
    assert_eq!(reason(&request(&params_)), "WrongSubject");
    for name in ["demo-workers-zzzzz", "kubernetes.default.svc", "*"] {
        let mut params_ = params();
        params_
            .subject_alt_names
            .push(SanType::DnsName(name.to_owned().try_into().unwrap()));
        assert_eq!(reason(&request(&params_)), "WrongName", "{name}");
    }
    let mut params_ = params();
    params_
        .subject_alt_names
        .push(SanType::IpAddress([10, 0, 0, 8].into()));
    assert_eq!(reason(&request(&params_)), "WrongAddress");
    let mut params_ = params();
    let mail = "root@example.com".to_owned().try_into().unwrap();
    params_.subject_alt_names.push(SanType::Rfc822Name(mail));
    assert_eq!(reason(&request(&params_)), "WrongName");
    let mut params_ = params();
    params_.subject_alt_names.clear();
    assert_eq!(reason(&request(&params_)), "WrongName");
}

#[test]
fn nobody_gets_more_than_a_serving_certificate() {
    for usages in [
        vec!["digital signature", "client auth"],
        vec!["digital signature", "server auth", "client auth"],
        vec!["server auth"],
        vec![],
    ] {
        let mut more = request(&params());
        more.spec.usages = Some(usages.into_iter().map(str::to_owned).collect());
        assert_eq!(reason(&more), "WrongUsages");
    }
    let mut authority = params();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // rcgen writes it into no request; the check in `pki` is what counts where a client does.
    let _ = authority;
    let mut garbage = request(&params());
    garbage.spec.request = ByteString(b"-----BEGIN CERTIFICATE REQUEST-----\n".to_vec());
    assert_eq!(reason(&garbage), "Unreadable");
}

#[test]
fn address_that_another_node_has_is_not_certified_twice() {
    let other = [(ADDRESSES[0], "demo-workers-first".to_owned())];
    let taken = Expected {
        others: &other,
        ..EXPECTED
    };
    let Verdict::Deny { reason, message } = check(&request(&params()), taken) else {
        panic!("it is certified");
    };
    assert_eq!(reason, Reason::WrongAddress);
    assert!(message.contains("demo-workers-first") && message.contains("10.0.0.7"));
}
