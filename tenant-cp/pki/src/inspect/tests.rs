//! Each reason for renewal on its own, at its boundary; and input that nobody wrote on purpose.
//!
//! Invariant: the time is given, never read.

use proptest::prelude::*;

use super::*;
use crate::{Key, issue};

const HOUR: i64 = 3600;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn want(name: &str, signer: Option<&str>) -> Want {
    Want {
        name: name.into(),
        signer: signer.map_or(Signer::Own, |signer| Signer::By(signer.into())),
        common_name: format!("cn-{name}"),
        organizations: vec![],
        server: signer.is_some(),
        client: false,
        dns_names: vec![name.into()],
        addresses: vec![],
        lifetime_hours: if signer.is_some() { 30 } else { 3000 },
    }
}

fn wants() -> Vec<Want> {
    vec![
        want("leaf", Some("ca")),
        want("ca", None),
        want("other-ca", None),
    ]
}

fn issued(wants: &[Want]) -> Store {
    let mut store = Store::new();
    let due = plan(wants, &store, at(0));
    issue::renew(wants, &due, &mut store, at(0)).unwrap();
    store
}

fn due(name: &str, reason: Reason) -> Due {
    Due {
        name: name.into(),
        reason,
    }
}

#[test]
fn authorities_come_before_leafs() {
    let names: Vec<_> = plan(&wants(), &Store::new(), at(0))
        .into_iter()
        .map(|due| due.name)
        .collect();
    assert_eq!(names, ["ca", "other-ca", "leaf"]);
}

#[test]
fn what_was_issued_is_not_due() {
    let store = issued(&wants());
    assert_eq!(plan(&wants(), &store, at(0)), []);
    assert_eq!(authority_problems(&wants(), &store, at(0)), []);
}

#[test]
fn leaf_is_due_when_less_than_a_third_is_left_and_not_before() {
    let store = issued(&wants());
    assert_eq!(plan(&wants(), &store, at(20 * HOUR - 300)), []);
    let late = [due("leaf", Reason::Expiring)];
    assert_eq!(plan(&wants(), &store, at(20 * HOUR - 299)), late);
    assert_eq!(plan(&wants(), &store, at(31 * HOUR)), late);
}

#[test]
fn leaf_that_ends_with_its_authority_is_not_made_again_and_again() {
    let mut store = issued(&wants());
    let end = not_after(&store["ca"].certificate).unwrap();
    let before = |hours| end - jiff::SignedDuration::from_hours(hours);
    let capped = issue(&wants()[0], Some(&store["ca"]), before(29)).unwrap();
    store.insert("leaf".into(), capped);
    for hours in [29, 20, 5, 1] {
        assert_eq!(plan(&wants(), &store, before(hours)), [], "{hours}");
    }
    // Nor is anything asked of an authority that has ended.
    store.remove("leaf");
    assert_eq!(
        plan(&wants(), &store, before(1)),
        [due("leaf", Reason::Missing)]
    );
    assert_eq!(plan(&wants(), &store, end), []);
}

#[test]
fn every_certificate_of_a_bundle_has_its_pin() {
    let store = issued(&wants());
    let pem = |name: &str| store[name].certificate.clone();
    let pins = |text: &str| public_key_pins(text);
    let (one, two) = (pins(&pem("ca")).unwrap(), pins(&pem("other-ca")).unwrap());
    assert!(one.len() == 1 && one != two, "{one:?} {two:?}");
    let both = pins(&(pem("ca") + &pem("other-ca")));
    assert_eq!(both, Some([one, two].concat()));
    for text in ["", "nothing", store["ca"].key.reveal()] {
        assert_eq!(pins(text), None, "{text}");
    }
}

#[test]
fn certificate_of_the_future_is_due() {
    let store = issued(&wants());
    assert_eq!(
        plan(&wants(), &store, at(-301)),
        [due("leaf", Reason::Expiring)]
    );
}

#[test]
fn expiring_authority_is_reported_and_not_replaced() {
    let store = issued(&wants());
    let late = at(2990 * HOUR);
    assert!(
        plan(&wants(), &store, late)
            .iter()
            .all(|due| due.name == "leaf")
    );
    let problems = authority_problems(&wants(), &store, late);
    assert_eq!(problems.len(), 2);
    assert!(
        problems
            .iter()
            .all(|problem| problem.reason == Reason::Expiring)
    );
}

#[test]
fn unreadable_authority_is_reported_and_its_leafs_are_left_alone() {
    let mut store = issued(&wants());
    store.get_mut("ca").unwrap().key = Key::new("nonsense".into());
    store.remove("leaf");
    assert_eq!(plan(&wants(), &store, at(0)), []);
    let problem = AuthorityProblem {
        name: "ca".into(),
        reason: Reason::Unreadable,
    };
    assert_eq!(authority_problems(&wants(), &store, at(0)), [problem]);
}

#[test]
fn foreign_signature_under_the_same_name_is_noticed() {
    let mut store = issued(&wants());
    let foreign = issued(&wants());
    store.insert("leaf".into(), foreign["leaf"].clone());
    assert_eq!(
        plan(&wants(), &store, at(0)),
        [due("leaf", Reason::SignerChanged)]
    );
}

#[test]
fn each_difference_has_its_reason() {
    type Change = fn(&mut Want);
    let changes: [(Change, Reason); 7] = [
        (|want| want.common_name = "x".into(), Reason::SubjectChanged),
        (
            |want| want.organizations = vec!["x".into()],
            Reason::SubjectChanged,
        ),
        (|want| want.client = true, Reason::SubjectChanged),
        (|want| want.dns_names.push("x".into()), Reason::NamesChanged),
        (|want| want.dns_names.clear(), Reason::NamesChanged),
        (
            |want| want.addresses.push(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            Reason::NamesChanged,
        ),
        (
            |want| want.signer = Signer::By("other-ca".into()),
            Reason::SignerChanged,
        ),
    ];
    let store = issued(&wants());
    for (change, reason) in changes {
        let mut wants = wants();
        change(&mut wants[0]);
        assert_eq!(plan(&wants, &store, at(0)), [due("leaf", reason)]);
    }
}

#[test]
fn repeated_and_reordered_names_are_no_difference() {
    let mut wants = wants();
    wants[0].dns_names = vec!["a".into(), "b".into()];
    let store = issued(&wants);
    wants[0].dns_names = vec!["b".into(), "a".into(), "b".into()];
    assert_eq!(plan(&wants, &store, at(0)), []);
}

#[test]
fn key_of_another_certificate_is_noticed() {
    let mut store = issued(&wants());
    let key = store["ca"].key.clone();
    store.get_mut("leaf").unwrap().key = key;
    assert_eq!(
        plan(&wants(), &store, at(0)),
        [due("leaf", Reason::KeyMismatch)]
    );
}

#[test]
fn not_after_is_the_end_of_the_certificate() {
    let store = issued(&wants());
    assert_eq!(
        not_after(&store["leaf"].certificate),
        Some(at(30 * HOUR - 300))
    );
    assert_eq!(not_after("-----BEGIN CERTIFICATE-----"), None);
    assert_eq!(not_after(store["leaf"].key.reveal()), None);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(certificate: String, key: String, seconds in -10_000i64..10_000_000) {
        let mut store = issued(&[want("ca", None)]);
        let pair = KeyPair { certificate, key: Key::new(key) };
        store.insert("leaf".into(), pair);
        prop_assert_eq!(
            plan(&wants()[..1], &store, at(seconds)),
            [due("leaf", Reason::Unreadable)]
        );
    }

    #[test]
    fn damaged_certificates_never_panic(at_byte in 0usize..600, byte: u8) {
        let mut store = issued(&wants());
        let mut bytes = store["leaf"].certificate.clone().into_bytes();
        let index = at_byte % bytes.len();
        bytes[index] = byte;
        if let Ok(certificate) = String::from_utf8(bytes) {
            let changed = certificate != store["leaf"].certificate;
            store.get_mut("leaf").unwrap().certificate = certificate;
            let found = plan(&wants(), &store, at(0));
            prop_assert!(changed || found.is_empty());
        }
    }
}
