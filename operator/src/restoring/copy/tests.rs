//! What is gone over once: Secrets of any kind, written with any key, and Services as kube-apiservers store them.

use api::names::ANNOTATION_COPIED;
use proptest::prelude::*;
use serde_json::{Value, json};
use tenant_cp::certificates::{Generations, encryption_key};

use super::encrypted::{Keys, NONCE};
use super::protobuf::{fields, nested};
use super::*;

/// Keys of then, and of the copy.
fn keys() -> (Keys, Keys) {
    let then = Generations::first(encryption_key(&[1; 32]));
    let copy = Generations::first(encryption_key(&[2; 32])).after(&then);
    (Keys::read(&then).unwrap(), Keys::read(&copy).unwrap())
}

/// As a kube-apiserver stores an object: kind and version, the object, and its coding.
fn unknown(raw: &[u8]) -> Vec<u8> {
    let kind = [nested(1, b"v1"), nested(2, b"Thing")].concat();
    let parts = [
        nested(1, &kind),
        nested(RAW, raw),
        nested(3, b""),
        nested(4, b""),
    ];
    [MAGIC, &parts.concat()].concat()
}

fn secret(type_: &str) -> Vec<u8> {
    let entry = [
        nested(1, b"token"),
        nested(2, b"kubernetes.io/service-account-token"),
    ]
    .concat();
    let metadata = nested(1, b"name");
    let secret = [
        nested(1, &metadata),
        nested(2, &entry),
        nested(SECRET_TYPE, type_.as_bytes()),
    ];
    unknown(&secret.concat())
}

fn sealed(keys: &Keys, plain: &[u8]) -> Vec<u8> {
    keys.seal(plain, [7; NONCE]).unwrap()
}

fn service(type_: &str, marked: bool, with_address: bool) -> Vec<u8> {
    let entry = |key: &str, value: &str| {
        [
            nested(MAP_KEY, key.as_bytes()),
            nested(MAP_VALUE, value.as_bytes()),
        ]
        .concat()
    };
    let mut metadata = [nested(1, b"web"), nested(ANNOTATIONS, &entry("a", "b"))].concat();
    if marked {
        metadata.extend(nested(ANNOTATIONS, &entry(ANNOTATION_COPIED, "true")));
    }
    // A port, a number (`sessionAffinity…`, field 13 as a varint) and an address that was asked for.
    let port = [0x18, 0x50].to_vec();
    let mut spec = [
        nested(1, &port),
        nested(3, b"100.64.0.9"),
        nested(SPEC_TYPE, type_.as_bytes()),
    ]
    .concat();
    spec.extend([0x68, 0x01]);
    let mut service = [nested(METADATA, &metadata), nested(SPEC, &spec)].concat();
    if with_address {
        service.extend(nested(
            STATUS,
            &nested(1, &nested(1, &nested(1, b"192.0.2.7"))),
        ));
    }
    unknown(&service)
}

#[test]
fn tokens_that_the_one_of_then_believes_go_whoever_encrypted_them_and_everything_else_gets_the_key_of_the_copy()
 {
    let (then, copy) = keys();
    let fate = |value: &[u8]| of_secret(value, &copy, [9; NONCE]);
    for token in TOKENS {
        let plain = secret(token);
        for value in [sealed(&then, &plain), sealed(&copy, &plain), plain.clone()] {
            assert_eq!(fate(&value), Fate::Goes, "{token}");
        }
        let text = json!({ "kind": "Secret", "type": token, "data": {} }).to_string();
        assert_eq!(fate(&sealed(&then, text.as_bytes())), Fate::Goes);
    }
    for plain in [
        secret("Opaque"),
        secret(""),
        b"{\"kind\":\"Secret\"}".to_vec(),
        b"other".to_vec(),
    ] {
        for value in [sealed(&then, &plain), plain.clone()] {
            let Fate::Becomes(new) = fate(&value) else {
                panic!("{value:?}");
            };
            assert!(copy.is_own(&new) && !copy.is_own(&value));
            assert_eq!(copy.open(&new).unwrap(), plain);
            assert!(then.open(&new).is_none(), "the key of then opens it");
            assert_eq!(fate(&new), Fate::Stays);
        }
    }
}

#[test]
fn what_no_key_opens_stays_as_it_is() {
    let (then, copy) = keys();
    let strange = Generations::from_iter([(1, encryption_key(&[3; 32]))]);
    let strange = Keys::read(&strange).unwrap();
    let value = sealed(&then, &secret("Opaque"));
    let mut spoilt = value.clone();
    *spoilt.last_mut().unwrap() ^= 1;
    for value in [
        sealed(&strange, &secret("Opaque")),
        spoilt,
        value[..30].to_vec(),
        b"k8s:enc:aescbc:v1:k1:x".to_vec(),
        b"k8s:enc:secretbox:v1:k11:x".to_vec(),
    ] {
        assert_eq!(of_secret(&value, &copy, [9; NONCE]), Fate::Stays);
    }
}

#[test]
fn no_key_is_none() {
    assert!(Keys::read(&Generations::default()).is_none());
    let short = Generations::first(pki::Key::new("YQ==".to_owned()));
    assert!(Keys::read(&short).is_none());
}

/// What NaCl's authors, and Go's `nacl/secretbox`, make of the same.
#[test]
fn values_are_those_of_kube_apiservers() {
    let key = Generations::first(encryption_key(&[0; 32]));
    let keys = Keys::read(&key).unwrap();
    let value = sealed(&keys, b"what it is");
    let prefix = b"k8s:enc:secretbox:v1:k1:";
    assert!(value.starts_with(prefix));
    assert_eq!(value.len(), prefix.len() + NONCE + 16 + 10);
    assert_eq!(value[prefix.len()..][..NONCE], [7; NONCE]);
}

#[test]
fn load_balancers_lose_their_addresses_and_wait_and_all_else_of_them_stays() {
    let fate = of_service(&service("LoadBalancer", false, true));
    assert_eq!(fate, Fate::Becomes(service("LoadBalancer", true, false)));
    for (is_marked, has_address) in [(false, false), (true, true)] {
        let fate = of_service(&service("LoadBalancer", is_marked, has_address));
        assert_eq!(fate, Fate::Becomes(service("LoadBalancer", true, false)));
    }
    assert_eq!(
        of_service(&service("LoadBalancer", true, false)),
        Fate::Stays
    );
    for type_ in ["ClusterIP", "NodePort", ""] {
        assert_eq!(of_service(&service(type_, false, true)), Fate::Stays);
    }
    assert_eq!(of_service(b"k8s\0\xff"), Fate::Stays);
    assert_eq!(of_service(b"nonsense"), Fate::Stays);
}

#[test]
fn services_in_json_are_treated_alike() {
    let service = |type_: &str| {
        json!({ "kind": "Service", "metadata": { "name": "web" }, "spec": { "type": type_, "loadBalancerIP": "192.0.2.8" },
            "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.7" }] } } })
    };
    let fate = of_service(service("LoadBalancer").to_string().as_bytes());
    let Fate::Becomes(new) = fate else {
        panic!("{fate:?}");
    };
    let read: Value = serde_json::from_slice(&new).unwrap();
    assert_eq!(read["metadata"]["annotations"][ANNOTATION_COPIED], "true");
    assert!(read["status"].is_null() && read["spec"]["type"] == "LoadBalancer");
    assert_eq!(of_service(&new), Fate::Stays);
    assert_eq!(
        of_service(service("ClusterIP").to_string().as_bytes()),
        Fate::Stays
    );
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    let field = (1_u64..40, proptest::collection::vec(any::<u8>(), 0..300));
    let all = proptest::collection::vec(field, 0..8);
    all.prop_map(|all| {
        all.iter()
            .flat_map(|(number, content)| nested(*number, content))
            .collect()
    })
}

proptest! {
    #[test]
    fn fields_put_together_again_are_the_message_and_any_bytes_are_no_harm(
        message in message(), any in proptest::collection::vec(any::<u8>(), 0..200)
    ) {
        for bytes in [&message, &any] {
            if let Some(found) = fields(bytes) {
                let whole: Vec<u8> = found.iter().flat_map(|field| field.whole.to_vec()).collect();
                prop_assert_eq!(&whole, bytes);
            }
            let (_, copy) = keys();
            let stored = [MAGIC, bytes].concat();
            prop_assert!(of_service(&stored) == Fate::Stays || fields(bytes).is_some());
            of_secret(&stored, &copy, [9; NONCE]);
        }
        prop_assert!(fields(&message).is_some());
    }

    /// Whatever is in etcd, and in whatever order it is gone over, cut off anywhere and begun again.
    #[test]
    fn nothing_is_left_that_the_one_of_then_believes_or_was_written_with_its_key(
        stored in proptest::collection::vec((0_usize..4, 0_usize..3), 0..12), cuts in 1_usize..5
    ) {
        let (then, copy) = keys();
        let types = ["Opaque", TOKENS[0], TOKENS[1], "kubernetes.io/tls"];
        let value = |(type_, by): &(usize, usize)| {
            let plain = secret(types[*type_]);
            match by {
                0 => sealed(&then, &plain),
                1 => sealed(&copy, &plain),
                _ => plain,
            }
        };
        let mut etcd: Vec<Option<Vec<u8>>> = stored.iter().map(value).map(Some).collect();
        for _ in 0..cuts {
            for slot in &mut etcd {
                let Some(value) = slot.as_ref() else { continue };
                match of_secret(value, &copy, [9; NONCE]) {
                    Fate::Stays => {}
                    Fate::Goes => *slot = None,
                    Fate::Becomes(new) => *slot = Some(new),
                }
            }
        }
        for ((type_, _), value) in stored.iter().zip(&etcd) {
            let is_token = TOKENS.contains(&types[*type_]);
            prop_assert_eq!(is_token, value.is_none());
            if let Some(value) = value {
                prop_assert!(copy.is_own(value) && then.open(value).is_none());
                prop_assert_eq!(copy.open(value).unwrap(), secret(types[*type_]));
            }
        }
    }
}
