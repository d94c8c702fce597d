//! Heads of segments: whole, cut off, with a wrong bit, and arbitrary.

use proptest::prelude::*;

use super::*;

fn frame(record: &Record) -> Vec<u8> {
    let record = record.encode_to_vec();
    let padding = (8 - record.len() % 8) % 8;
    let mut length = record.len() as u64;
    if padding > 0 {
        length |= (0x80 | padding as u64) << 56;
    }
    let padding = vec![0; padding];
    [length.to_le_bytes().to_vec(), record, padding].concat()
}

/// As etcd writes it after segments that ended with this checksum; preallocated, so zeros follow.
fn segment(before: u32, member: u64, cluster: u64) -> Vec<u8> {
    let metadata = Metadata {
        member: Some(member),
        cluster: Some(cluster),
    };
    let data = metadata.encode_to_vec();
    let checksum = Record {
        kind: Some(CHECKSUM),
        checksum: Some(before),
        data: None,
    };
    let metadata = Record {
        kind: Some(METADATA),
        checksum: Some(append_checksum(before, &data)),
        data: Some(data),
    };
    [frame(&checksum), frame(&metadata), vec![0; HEAD_BYTES]].concat()
}

fn ids(cluster: u64, member: u64) -> MemberIds {
    MemberIds {
        cluster: Id::new(cluster).unwrap(),
        member: Id::new(member).unwrap(),
    }
}

/// The first bytes of a segment that etcd 3.6.16 wrote.
const WRITTEN_BY_ETCD: &str = include_str!("head-of-etcd-3.6.16.hex");

#[test]
fn what_etcd_wrote_is_read() {
    let digits: Vec<_> = WRITTEN_BY_ETCD
        .bytes()
        .filter(u8::is_ascii_hexdigit)
        .collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let head: Vec<u8> = digits.chunks(2).map(byte).collect();
    assert_eq!(
        member_ids(&head),
        Ok(ids(0xcdf8_1819_4e3a_8c32, 0x8e9e_05c5_2164_694d))
    );
}

#[test]
fn checksums_go_on_where_the_segment_before_ended() {
    // The check value of the algorithm, as a whole and in two parts.
    assert_eq!(append_checksum(0, b"123456789"), 0xe306_9283);
    assert_eq!(
        append_checksum(append_checksum(0, b"1234"), b"56789"),
        0xe306_9283
    );
    for before in [0, 1, 0xe306_9283, u32::MAX] {
        assert_eq!(
            member_ids(&segment(before, 7, 9)),
            Ok(ids(9, 7)),
            "{before}"
        );
    }
}

#[test]
fn what_is_no_head_is_named() {
    let good = segment(0, 7, 9);
    assert_eq!(member_ids(&[]), Err(Unreadable::Ends));
    assert_eq!(member_ids(&[0; HEAD_BYTES]), Err(Unreadable::Ends));
    assert_eq!(member_ids(&good[..16]), Err(Unreadable::Ends));
    assert_eq!(member_ids(&segment(0, 0, 9)), Err(Unreadable::Nameless));
    assert_eq!(member_ids(&segment(0, 7, 0)), Err(Unreadable::Nameless));
    let long = (1_u64 << 40).to_le_bytes();
    assert_eq!(member_ids(&long), Err(Unreadable::TooLong(1 << 40)));
    let entry = Record {
        kind: Some(2),
        checksum: Some(1),
        data: Some(vec![1]),
    };
    assert_eq!(member_ids(&frame(&entry)), Err(Unreadable::Unexpected(2)));
    assert_eq!(
        member_ids(b"\x08\0\0\0\0\0\0\0ABCDEFGH"),
        Err(Unreadable::Malformed)
    );
}

#[test]
fn segments_are_known_by_name() {
    assert!(is_segment("0000000000000000-0000000000000000.wal"));
    assert!(is_segment("000000000000000a-00000000000186a1.wal"));
    for name in [
        "0.tmp",
        "0-0.wal",
        "x.wal",
        "0000000000000000-0000000000000000.wal.broken",
    ] {
        assert!(!is_segment(name), "{name}");
    }
}

proptest! {
    #[test]
    fn a_flipped_bit_never_leads_to_another_cluster_or_member(
        before: u32, member in 1_u64.., cluster in 1_u64.., bit in 0_usize..64 * 8
    ) {
        let mut head = segment(before, member, cluster);
        head[bit / 8] ^= 1 << (bit % 8);
        if let Ok(found) = member_ids(&head) {
            prop_assert_eq!(found, ids(cluster, member));
        }
    }

    #[test]
    fn arbitrary_bytes_are_never_a_panic(head: Vec<u8>) {
        let _ = member_ids(&head);
    }
}
