//! Objects that are whole, changed, cut off and forged.
//!
//! Invariant: whatever is wrong, the object is named.

use super::*;
use crate::header::Kind;
use crate::identity::SealedIdentity;
use crate::keys::WrappingKey;
use crate::names::FullName;
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::LazyLock;

struct World {
    recovery: RecoveryKey,
    wrapping: WrappingKey,
    keys: Keys,
    scope: Scope,
}

/// Keys are made once: an agreement takes a millisecond without optimisation.
static WORLD: LazyLock<World> = LazyLock::new(|| {
    let recovery = RecoveryKey::generate().unwrap();
    let wrapping = recovery.wrapping_key();
    let scope = Scope::new("tenant-1", 7).unwrap();
    World {
        keys: Keys::generate(&wrapping, &scope).unwrap(),
        recovery,
        wrapping,
        scope,
    }
});

fn header(number: u64) -> Header {
    let full = FullName {
        revision: 4,
        next: 0,
        taken_ms: 1_700_000_000_000,
    };
    Header {
        scope: WORLD.scope.clone(),
        kind: Kind::Delta {
            number,
            first: 5,
            last: 9,
            since: 2,
            full: Some((full, Digest::of(b"head"))),
        },
        previous: (number > 0).then(|| Digest::of(b"before")),
        written_ms: 1_700_000_000_004,
        writer: "backup-0".to_owned(),
        etcd: "3.6.16".to_owned(),
        kubernetes: "1.36.3".to_owned(),
    }
}

fn object(content: &[u8]) -> Vec<u8> {
    seal(&header(3), &WORLD.keys, [9; 32], content).unwrap()
}

fn flaw(bytes: &[u8]) -> Flaw {
    let opened = open(Name::Delta(3), &WORLD.scope, bytes);
    let content = opened.and_then(|opened| opened.content(&WORLD.keys.data));
    let damage = content.unwrap_err();
    assert_eq!(damage.name, Name::Delta(3));
    damage.what
}

/// As somebody does who knows the format.
fn with_new_sum(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len() - Digest::BYTES);
    let sum = Digest::of(&bytes);
    bytes.extend_from_slice(sum.as_bytes());
    bytes
}

proptest! {
    #[test]
    fn an_object_gives_back_what_was_sealed(content in vec(any::<u8>(), 0..3000)) {
        let bytes = object(&content);
        let opened = open(Name::Delta(3), &WORLD.scope, &bytes).unwrap();
        prop_assert_eq!(&opened.header, &header(3));
        prop_assert_eq!(opened.content(&WORLD.keys.data).unwrap(), content);
    }

    #[test]
    fn any_flipped_byte_is_found_and_the_object_named(
        content in vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>(), bit in 0..8_u8,
    ) {
        let mut bytes = object(&content);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        flaw(&bytes);
        // With a new sum it is the seal that finds it, if what was changed was not the sum alone.
        if at < bytes.len() - Digest::BYTES {
            flaw(&with_new_sum(bytes));
        }
    }

    #[test]
    fn an_object_that_was_cut_off_or_grew_is_found(
        content in vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>(), more in 1..64_usize,
    ) {
        let mut bytes = object(&content);
        let cut = &bytes[..at.index(bytes.len())];
        flaw(cut);
        if cut.len() > Digest::BYTES {
            flaw(&with_new_sum(cut.to_vec()));
        }
        bytes.resize(bytes.len() + more, 0);
        flaw(&bytes);
        flaw(&with_new_sum(bytes));
    }

    #[test]
    fn any_bytes_are_an_object_or_none(bytes in vec(any::<u8>(), 0..400)) {
        flaw(&bytes);
        flaw(&with_new_sum([MAGIC.as_slice(), &bytes, &[0; 32]].concat()));
    }

    #[test]
    fn a_stream_is_cut_into_parts_and_its_checksum_compared(
        database in vec(any::<u8>(), 1..500), pieces in vec(1..80_usize, 1..20), size in 1..100_usize,
    ) {
        let stream = [&database[..], Digest::of(&database).as_bytes()].concat();
        let (mut cutter, mut parts) = (Cutter::new(size), Vec::new());
        let mut rest = &stream[..];
        for piece in pieces.iter().cycle() {
            let (piece, after) = rest.split_at(rest.len().min(*piece));
            let mut part = cutter.push(piece);
            while let Some(full) = part {
                prop_assert_eq!(full.len(), size);
                parts.push(full);
                part = cutter.push(&[]);
            }
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        let cut = cutter.finish().unwrap();
        prop_assert_eq!((cut.bytes, cut.database), (database.len() as u64, Digest::of(&database)));
        parts.push(cut.rest);
        prop_assert_eq!(parts.concat(), stream);
    }

    #[test]
    fn a_stream_that_was_cut_off_or_changed_is_no_snapshot(
        database in vec(any::<u8>(), 1..500), at in any::<prop::sample::Index>(), cut in any::<bool>(),
    ) {
        let mut stream = [&database[..], Digest::of(&database).as_bytes()].concat();
        let at = at.index(stream.len());
        match cut {
            true => stream.truncate(at),
            false => stream[at] ^= 4,
        }
        let mut cutter = Cutter::new(1000);
        prop_assert_eq!(cutter.push(&stream), None);
        prop_assert_eq!(cutter.finish(), Err(BadStream));
    }
}

#[test]
fn an_identity_is_an_object_that_is_called_after_what_is_sealed() {
    let wrapping = WORLD.recovery.wrapping_key();
    let identity = SealedIdentity::seal(&wrapping, "tenant-1", 7, b"keys").unwrap();
    let header = Header {
        kind: Kind::Identity(identity.name()),
        previous: None,
        ..header(0)
    };
    let bytes = seal(&header, &WORLD.keys, [3; 32], identity.bytes()).unwrap();
    let name = Name::Identity(identity.name());
    let opened = open(name, &WORLD.scope, &bytes).unwrap();
    assert_eq!(opened.header, header);
    assert_eq!(opened.content(&WORLD.keys.data).unwrap(), identity.bytes());
    let other = SealedIdentity::seal(&wrapping, "tenant-1", 7, b"keys").unwrap();
    let damage = open(Name::Identity(other.name()), &WORLD.scope, &bytes).unwrap_err();
    assert!(matches!(damage.what, Flaw::Misnamed(_)), "{damage}");
}

#[test]
fn an_object_of_somebody_else_or_under_another_name_is_told() {
    let bytes = object(b"content");
    for scope in [Scope::new("tenant-2", 7), Scope::new("tenant-1", 8)] {
        let damage = open(Name::Delta(3), &scope.unwrap(), &bytes).unwrap_err();
        assert!(matches!(damage.what, Flaw::Foreign { .. }), "{damage}");
    }
    let damage = open(Name::Delta(4), &WORLD.scope, &bytes).unwrap_err();
    assert_eq!(damage.name, Name::Delta(4));
    let itself = "delta/00000000000000000003".to_owned();
    assert_eq!(damage.what, Flaw::Misnamed(itself));
}

#[test]
fn an_object_opens_with_the_recovery_key_alone_and_with_no_other() {
    let bytes = object(b"content");
    let opened = open(Name::Delta(3), &WORLD.scope, &bytes).unwrap();
    let key = opened.data_key(&WORLD.recovery).unwrap();
    assert_eq!(opened.content(&key).unwrap(), b"content");
    let other = RecoveryKey::generate().unwrap();
    assert_eq!(opened.data_key(&other).unwrap_err().what, Flaw::Recovery);
    let other = Keys::generate(&WORLD.wrapping, &WORLD.scope).unwrap();
    let damage = opened.content(&other.data).unwrap_err();
    assert!(matches!(damage.what, Flaw::OtherKey { .. }), "{damage}");
}

#[test]
fn what_was_sealed_with_a_key_that_the_recovery_key_did_not_wrap_is_forged() {
    // Whoever writes to the bucket has public keys, and says that the key is the tenant's.
    let enemy = Keys {
        data: DataKey::generate().unwrap(),
        wrapped: WORLD.keys.wrapped.clone(),
    };
    let bytes = seal(&header(3), &enemy, [1; 32], b"content").unwrap();
    let opened = open(Name::Delta(3), &WORLD.scope, &bytes).unwrap();
    let key = opened.data_key(&WORLD.recovery).unwrap();
    assert!(opened.content(&key).is_err());
}

#[test]
fn more_than_an_object_holds_is_not_sealed() {
    let content = vec![0; MOST_CONTENT + 1];
    let refused = seal(&header(3), &WORLD.keys, [1; 32], &content);
    assert_eq!(refused, Err(NotSealed::TooLong(content.len())));
    let bytes = vec![0; MOST_OBJECT + 1];
    assert_eq!(flaw(&bytes), Flaw::TooLong(bytes.len() as u64));
}
