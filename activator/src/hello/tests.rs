//! Any cut of the bytes, any fragments, and garbage.

use std::sync::Arc;

use proptest::prelude::*;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use rustls_pki_types::ServerName;

use super::*;

/// What a client of this library sends first.
fn sent() -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from("demo.example.com").unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// The same message in records of these sizes, the last one of the rest.
fn in_fragments(bytes: &[u8], sizes: &[usize]) -> Vec<u8> {
    let mut message = &bytes[RECORD..];
    let mut records = Vec::new();
    let mut sizes = sizes.iter();
    while !message.is_empty() {
        let size = sizes
            .next()
            .map_or(message.len(), |size| (*size).min(message.len()));
        let (fragment, rest) = message.split_at(size);
        records.extend_from_slice(&bytes[..3]);
        records.extend(u16::try_from(size).unwrap().to_be_bytes());
        records.extend_from_slice(fragment);
        message = rest;
    }
    records
}

#[test]
fn a_real_clients_first_message_is_whole_and_no_part_of_it_is() {
    let bytes = sent();
    assert_eq!(read(&bytes), Hello::Whole);
    for length in 0..bytes.len() {
        let read = read(&bytes[..length]);
        let Hello::Partial { needed } = read else {
            panic!("{length} bytes of {} are {read:?}", bytes.len());
        };
        assert!(
            needed > length && needed <= bytes.len(),
            "{length}: {needed}"
        );
    }
}

#[test]
fn health_checks_and_scans_are_no_hello() {
    for probe in [
        "GET / HTTP/1.1\r\n",
        "SSH-2.0-x\r\n",
        "\r\n\r\n",
        "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        assert!(matches!(read(probe.as_bytes()), Hello::Not(_)), "{probe}");
    }
    assert_eq!(read(&[]), Hello::Partial { needed: 6 });
}

#[test]
fn what_says_that_it_is_longer_than_what_is_held_is_refused_at_once() {
    let long = [22, 3, 1, 0x40, 0, 1, 1, 0, 0];
    assert_eq!(read(&long), Hello::Not("longer than 64 KiB"));
    let record = [22, 3, 1, 0x40, 1];
    assert_eq!(read(&record), Hello::Not("a record that is too long"));
    let empty = [22, 3, 1, 0, 0];
    assert_eq!(read(&empty), Hello::Not("an empty record"));
}

/// Fragments of a byte each have headers that are five times as long as what they carry.
#[test]
fn headers_count_to_what_is_held() {
    let mut bytes = vec![22, 3, 1, 0, 4, 1, 0, 0x40, 0];
    while bytes.len() + 6 <= MOST {
        bytes.extend([22, 3, 1, 0, 1, 0]);
    }
    assert_eq!(read(&bytes), Hello::Not("longer than 64 KiB"));
}

proptest! {
    #[test]
    fn fragments_of_any_size_are_read_and_any_cut_of_them_is_partial(
        sizes in prop::collection::vec(1..64_usize, 0..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let bytes = in_fragments(&sent(), &sizes);
        prop_assert_eq!(read(&bytes), Hello::Whole);
        let cut = cut.index(bytes.len());
        let is_partial = match read(&bytes[..cut]) {
            Hello::Partial { needed } => needed > cut && needed <= bytes.len(),
            Hello::Whole | Hello::Not(_) => false,
        };
        prop_assert!(is_partial, "{} of {}", cut, bytes.len());
    }

    #[test]
    fn garbage_never_wakes(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        prop_assert_ne!(read(&bytes), Hello::Whole);
    }

    #[test]
    fn garbage_behind_a_right_header_never_wakes(body in prop::collection::vec(any::<u8>(), 0..400)) {
        let length = u16::try_from(body.len() + MESSAGE).unwrap().to_be_bytes();
        let mut bytes = vec![22, 3, 1, length[0], length[1], 1, 0];
        bytes.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
        bytes.extend(&body);
        // Forty bytes and more can be one by chance, about once in 2^20 and less: those with a version of TLS.
        prop_assume!(body.first() != Some(&3));
        prop_assert_ne!(read(&bytes), Hello::Whole);
    }

    #[test]
    fn a_bit_that_is_turned_in_a_length_is_no_hello(at in any::<prop::sample::Index>(), more in any::<bool>()) {
        let mut turned = sent();
        // Lengths of the message, low byte; of the session; each by one.
        let places = [8, 43];
        let place = places[at.index(places.len())];
        turned[place] = if more { turned[place].wrapping_add(1) } else { turned[place].wrapping_sub(1) };
        prop_assert_ne!(read(&turned), Hello::Whole);
    }

    #[test]
    fn what_is_none_stays_none(start in prop::collection::vec(any::<u8>(), 0..50), rest in prop::collection::vec(any::<u8>(), 0..50)) {
        if matches!(read(&start), Hello::Not(_)) {
            let all = [start, rest].concat();
            let is_none = matches!(read(&all), Hello::Not(_));
            prop_assert!(is_none);
        }
    }
}
