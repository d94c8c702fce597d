//! Whose data is not what the others have.
//!
//! A member that starts compares its data with those that run, and refuses to serve where one of them has other data
//! (etcd `server/etcdserver/corrupt.go`, `InitialCheck`): it may be the other one whose data is wrong.
//! Invariant: one is odd only where two others, which run, have the same data.

use std::collections::BTreeMap;

use crate::tenant_session::etcd::answers::DataHash;

/// What comparing the data of three members came to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Comparison {
    /// It cannot be said.
    #[default]
    Unknown,
    /// All have the same.
    Same,
    /// This one has other data than the two others, which have the same.
    Odd(String),
    /// These differ from each other, and nobody can say which is right.
    Differ(Vec<String>),
}

/// Compares members by the hashes of their data; `disowned`: those that do not start, because etcd found their data
/// damaged or other than that of another one.
#[must_use]
pub fn compare(hashes: &BTreeMap<String, DataHash>, disowned: &[&str]) -> Comparison {
    let all: Vec<_> = hashes.iter().collect();
    let can_be_compared =
        |x: &DataHash, y: &DataHash| x.revision == y.revision && x.compacted == y.compacted;
    let comparable = all
        .windows(2)
        .all(|two| can_be_compared(two[0].1, two[1].1));
    if !comparable {
        return Comparison::Unknown;
    }
    let differ = || Comparison::Differ(hashes.keys().cloned().collect());
    match (&all[..], disowned) {
        ([(first, a), (second, b), (third, c)], _) => {
            let odd = |name: &String| Comparison::Odd(name.clone());
            match (a.hash == b.hash, b.hash == c.hash, a.hash == c.hash) {
                (true, true, _) => Comparison::Same,
                (true, false, _) => odd(third),
                (false, true, _) => odd(first),
                (false, false, true) => odd(second),
                (false, false, false) => differ(),
            }
        }
        ([(_, a), (_, b)], _) if a.hash != b.hash => differ(),
        ([_, _], [third]) if !hashes.contains_key(*third) => Comparison::Odd((*third).to_owned()),
        _ => Comparison::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hash(hash: u32, compacted: i64) -> DataHash {
        DataHash {
            hash,
            compacted,
            revision: 7,
        }
    }

    fn of<const N: usize>(hashes: [DataHash; N], disowned: &[&str]) -> Comparison {
        let name = |number| format!("etcd-{number}");
        let hashes = hashes.into_iter().enumerate();
        compare(&hashes.map(|(n, hash)| (name(n), hash)).collect(), disowned)
    }

    fn odd(name: &str) -> Comparison {
        Comparison::Odd(name.to_owned())
    }

    fn differ(names: &[&str]) -> Comparison {
        Comparison::Differ(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn one_of_three_is_odd_only_where_the_two_others_have_the_same_data() {
        let (a, b, c) = (hash(1, 3), hash(2, 3), hash(3, 3));
        assert_eq!(of([a, a, a], &[]), Comparison::Same);
        assert_eq!(of([b, a, a], &[]), odd("etcd-0"));
        assert_eq!(of([a, b, a], &[]), odd("etcd-1"));
        assert_eq!(of([a, a, b], &[]), odd("etcd-2"));
        assert_eq!(of([a, b, c], &[]), differ(&["etcd-0", "etcd-1", "etcd-2"]));
        assert_eq!(
            of([a, a, hash(2, 4)], &[]),
            Comparison::Unknown,
            "others are compacted"
        );
        assert_eq!(of([a], &[]), Comparison::Unknown);
    }

    #[test]
    fn one_that_does_not_start_for_its_data_is_odd_only_while_the_two_others_agree() {
        let (a, b) = (hash(1, 3), hash(2, 3));
        assert_eq!(of([a, a], &["etcd-2"]), odd("etcd-2"));
        // It may be the only one that is right.
        assert_eq!(of([a, b], &["etcd-2"]), differ(&["etcd-0", "etcd-1"]));
        assert_eq!(of([a, a], &[]), Comparison::Unknown, "it may only be away");
        assert_eq!(of([a], &["etcd-1", "etcd-2"]), Comparison::Unknown);
        assert_eq!(of([a, hash(1, 4)], &["etcd-2"]), Comparison::Unknown);
    }

    proptest! {
        #[test]
        fn nobody_is_odd_without_two_others_that_have_the_same(
            hashes in prop::collection::btree_map(0..3_usize, (0..3_u32, 0..2_i64), 0..4),
            disowned in prop::collection::vec(0..3_usize, 0..3),
        ) {
            let name = |number: usize| format!("etcd-{number}");
            let hashes: BTreeMap<_, _> = hashes
                .into_iter()
                .map(|(number, (value, compacted))| (name(number), hash(value, compacted)))
                .collect();
            let disowned: Vec<_> = disowned.into_iter().map(name).collect();
            let disowned: Vec<_> = disowned.iter().map(String::as_str).collect();
            if let Comparison::Odd(odd) = compare(&hashes, &disowned) {
                let mut others = hashes.iter().filter(|(name, _)| **name != odd);
                let (first, second) = (others.next().unwrap().1, others.next().unwrap().1);
                prop_assert_eq!(first, second);
                prop_assert!(hashes.get(&odd).map_or(disowned.contains(&odd.as_str()), |own| own != first));
            }
        }
    }
}
