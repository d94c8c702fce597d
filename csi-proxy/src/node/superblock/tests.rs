//! What is told of devices that are put together byte by byte.
//!
//! Invariant: real filesystems are made in `tests/node`; here is what those cannot show.

use proptest::prelude::*;

use super::*;

const SIZE: u64 = 1 << 30;

/// A device with these bytes at these places, as far as it is read.
fn device(size: u64, written: &[(u64, &[u8])]) -> Image {
    let mut parts: Vec<(u64, Vec<u8>)> = places(size)
        .into_iter()
        .map(|(at, length)| (at, vec![0; usize::try_from(length).unwrap()]))
        .collect();
    for (at, bytes) in written {
        for (offset, byte) in (*at..).zip(*bytes) {
            for (begin, part) in &mut parts {
                let index = offset
                    .checked_sub(*begin)
                    .and_then(|i| usize::try_from(i).ok());
                if let Some(there) = index.and_then(|i| part.get_mut(i)) {
                    *there = *byte;
                }
            }
        }
    }
    Image { size, parts }
}

fn told(written: &[(u64, &[u8])]) -> Content {
    content(&device(SIZE, written))
}

#[test]
fn nothing_is_empty_and_something_at_the_beginning_is_not() {
    assert_eq!(told(&[]), Content::Empty);
    assert_eq!(told(&[(4095, b"x")]), Content::Unknown);
    assert_eq!(told(&[(0, b"hello")]), Content::Unknown);
    // What another volume left there before, as LVM leaves it.
    assert_eq!(
        told(&[(8192, b"hello"), (1 << 20, b"there")]),
        Content::Empty
    );
    let nothing = Image {
        size: 0,
        parts: Vec::new(),
    };
    assert_eq!(content(&nothing), Content::Unknown, "it was not read");
}

#[test]
fn marks_of_others_are_known_wherever_they_are() {
    for (at, signature, whose) in SIGNATURES {
        assert_eq!(told(&[(*at, signature)]), Content::Foreign(whose), "{at}");
    }
    for (from_end, signature, whose) in LAST_SIGNATURES {
        assert_eq!(
            told(&[(SIZE - from_end, signature)]),
            Content::Foreign(whose)
        );
    }
    assert!(matches!(
        told(&[(200 << 10, &0x00ba_b10c_u64.to_le_bytes())]),
        Content::Foreign(_)
    ));
}

#[test]
fn filesystem_that_lost_its_beginning_is_not_empty() {
    for (at, log) in SPARES {
        let (log, group) = (log.to_le_bytes(), 1_u16.to_le_bytes());
        let lost = told(&[
            (at + 0x38, b"\x53\xef"),
            (at + 0x18, &log),
            (at + 0x5a, &group),
        ]);
        assert!(
            matches!(lost, Content::Foreign(whose) if whose.contains("lost")),
            "{at}"
        );
    }
    assert!(
        matches!(told(&[(SIZE / 4, b"XFSB")]), Content::Foreign(whose) if whose.contains("lost"))
    );
}

#[test]
fn sizes_of_filesystems_are_read() {
    let ext = told(&[
        (1024 + 0x38, b"\x53\xef"),
        (1024 + 0x4, &1000_u32.to_le_bytes()),
        (1024 + 0x18, &2_u32.to_le_bytes()),
    ]);
    assert_eq!(ext, Content::Filesystem(Filesystem::Ext4, 4_096_000));
    let large = told(&[
        (1024 + 0x38, b"\x53\xef"),
        (1024 + 0x18, &2_u32.to_le_bytes()),
        (1024 + 0x60, &0x80_u32.to_le_bytes()),
        (1024 + 0x150, &1_u32.to_le_bytes()),
    ]);
    assert_eq!(large, Content::Filesystem(Filesystem::Ext4, 16 << 40));
    let xfs = |unfinished: &[u8]| {
        told(&[
            (0, b"XFSB"),
            (4, &4096_u32.to_be_bytes()),
            (8, &1000_u64.to_be_bytes()),
            (126, unfinished),
        ])
    };
    assert_eq!(xfs(&[0]), Content::Filesystem(Filesystem::Xfs, 4_096_000));
    assert!(matches!(xfs(&[1]), Content::Foreign(_)));
    assert!(matches!(
        told(&[(0, b"XFSB"), (1024 + 0x38, b"\x53\xef")]),
        Content::Foreign(_) | Content::Unknown
    ));
}

proptest! {
    #[test]
    fn nothing_written_at_the_beginning_is_ever_called_empty(
        size in (1_u64 << 12..1 << 34).prop_map(|size| size / 512 * 512),
        at in 0_u64..4096,
        bytes in prop::collection::vec(1_u8.., 1..64),
    ) {
        prop_assert_ne!(content(&device(size, &[(at, &bytes)])), Content::Empty);
    }

    #[test]
    fn any_device_is_read_within_its_size_and_from_whole_steps(size in 0_u64..1 << 44) {
        let size = size / 512 * 512;
        for (at, length) in places(size) {
            prop_assert!(at + length <= size);
            prop_assert_eq!(at % STEP, 0);
            prop_assert!(length % STEP == 0 || at + length == size);
        }
    }

    #[test]
    fn no_bytes_bring_it_down(head in prop::collection::vec(any::<u8>(), 4096..8192)) {
        let _ = content(&device(SIZE, &[(0, &head)]));
    }
}
