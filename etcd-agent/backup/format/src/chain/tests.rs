//! Chains that are whole, and chains with something wrong.
//!
//! Invariant: every object is sealed for real.

use super::*;
use crate::keys::{Keys, RecoveryKey};
use crate::names::{FullName, Scope};
use crate::object::{open, seal};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let recovery = RecoveryKey::generate().unwrap();
    Keys::generate(&recovery.wrapping_key(), &scope()).unwrap()
});

fn scope() -> Scope {
    Scope::new("tenant-1", 7).unwrap()
}

const FULL: FullName = FullName {
    revision: 10,
    next: 0,
    taken_ms: 1,
};

/// A chain of so many deltas of these lengths after revision 10; `salt` makes another one of the same
/// shape.
fn chain(lengths: &[u64], salt: u8) -> BTreeMap<u64, Vec<u8>> {
    let (mut objects, mut previous, mut last) = (BTreeMap::new(), None, FULL.revision);
    for (number, length) in (0..).zip(lengths) {
        let header = Header {
            scope: scope(),
            kind: Kind::Delta {
                number,
                first: last + 1,
                last: last + length,
                since: FULL.revision + 1,
                full: (number > 1).then(|| (FULL, Digest::of(b"head"))),
            },
            previous,
            written_ms: 1,
            writer: String::new(),
            etcd: String::new(),
            kubernetes: String::new(),
        };
        let bytes = seal(&header, &KEYS, [salt; 32], b"").unwrap();
        previous = Some(open(Name::Delta(number), &scope(), &bytes).unwrap().digest);
        last += length;
        objects.insert(number, bytes);
    }
    objects
}

/// Follows all that is there, in the order of names.
fn follow(objects: &BTreeMap<u64, Vec<u8>>) -> (Position, Result<(), Broken>) {
    let mut reach = Position {
        next: 0,
        revision: FULL.revision,
        previous: None,
    };
    for (number, bytes) in objects {
        let step = open(Name::Delta(*number), &scope(), bytes).map_err(Broken::Damaged);
        let step = step.and_then(|opened| {
            opened.content(&KEYS.data).map_err(Broken::Damaged)?;
            reach.follow(&opened.header, opened.digest)
        });
        if let Err(broken) = step {
            return (reach, Err(broken));
        }
    }
    (reach, Ok(()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_whole_chain_is_followed_to_its_end(lengths in prop::collection::vec(1..9_u64, 1..9)) {
        let (reach, end) = follow(&chain(&lengths, 1));
        prop_assert_eq!(end, Ok(()));
        prop_assert_eq!(reach.next, lengths.len() as u64);
        prop_assert_eq!(reach.revision, FULL.revision + lengths.iter().sum::<u64>());
    }

    #[test]
    fn whatever_is_wrong_with_a_chain_is_named(
        lengths in prop::collection::vec(1..9_u64, 3..8),
        at in any::<prop::sample::Index>(), how in 0..5, byte in any::<prop::sample::Index>(),
    ) {
        let mut objects = chain(&lengths, 1);
        // The last one may be missing: then there is one less, and nothing is wrong.
        let at = at.index(lengths.len() - 1) as u64;
        let bytes = &objects[&at];
        let byte = byte.index(bytes.len());
        match how {
            0 => objects.get_mut(&at).unwrap()[byte] ^= 1,
            1 => objects.get_mut(&at).unwrap().truncate(byte),
            2 => drop(objects.remove(&at)),
            3 => {
                let (one, other) = (objects[&at].clone(), objects[&(at + 1)].clone());
                objects.extend([(at, other), (at + 1, one)]);
            }
            // Of another writer, with the same name and revisions.
            _ => drop(objects.insert(at, chain(&lengths, 2)[&at].clone())),
        }
        let (reach, end) = follow(&objects);
        let broken = end.unwrap_err();
        match (how, &broken) {
            (0 | 1 | 3, Broken::Damaged(damage)) => prop_assert_eq!(damage.name, Name::Delta(at)),
            (2, Broken::Missing { from, to, after }) => {
                prop_assert_eq!((*from, *to, *after), (at, at, reach.revision));
            }
            // It is valid by itself: the next one, or it, names another one before.
            (4, Broken::Damaged(damage)) => {
                let follows = matches!(damage.what, Flaw::Follows { .. });
                prop_assert!(follows);
                let next = if at == 0 { 1 } else { at };
                prop_assert_eq!(damage.name, Name::Delta(next));
            }
            (how, broken) => prop_assert!(false, "{how}: {broken}"),
        }
    }
}

#[test]
fn revisions_that_a_store_had_compacted_are_a_hole() {
    let objects = chain(&[3], 1);
    let opened = open(Name::Delta(0), &scope(), &objects[&0]).unwrap();
    let mut reach = Position {
        next: 0,
        revision: 8,
        previous: None,
    };
    let hole = Broken::Hole {
        after: 8,
        before: 11,
    };
    assert_eq!(
        reach.follow(&opened.header, opened.digest),
        Err(hole.clone())
    );
    let told = "the chain is broken between revisions 8 and 11";
    assert_eq!(hole.to_string(), told);
    // A snapshot may be ahead of the first delta after it.
    reach.revision = 12;
    assert_eq!(reach.follow(&opened.header, opened.digest), Ok(true));
    assert_eq!(reach.revision, 13);
}
