//! How many members there are to be, where the only one is on a volume of another class than is wanted.
//!
//! Nobody else has what a single member has, so it is never replaced: it is first made one of three, on volumes of the
//! class that is wanted, then moved like any of three, and then it is alone again. Where it is in that follows from its
//! claim.
//! Invariant: what is not known of its claim changes no number.

use kit_objects::known::Known;

use crate::etcd_replacement::facts::{Claim, MEMBERS};

/// The number of members that there are to be, where so many are `asked_for`; `first`: the claim of the first member,
/// which is the one that stays.
#[must_use]
pub fn wanted(asked_for: usize, class: Option<&String>, first: &Known<Claim>) -> usize {
    match first {
        Known::Known(claim) if asked_for == 1 && is_misplaced(class, claim) => MEMBERS,
        Known::Known(_) | Known::Absent | Known::Unknown { .. } => asked_for,
    }
}

/// Whether a claim is of another class than is wanted, for certain, and stays.
#[must_use]
pub fn is_misplaced(class: Option<&String>, claim: &Claim) -> bool {
    let differs = class.zip(claim.class.as_ref());
    !claim.terminating && differs.is_some_and(|(wanted, class)| wanted != class)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(class: Option<&str>, terminating: bool) -> Known<Claim> {
        Known::Known(Claim {
            uid: "uid".to_owned(),
            terminating,
            volume: None,
            created: None,
            kept: false,
            class: class.map(str::to_owned),
        })
    }

    #[test]
    fn one_member_becomes_three_only_while_its_claim_is_there_and_of_another_class_for_certain() {
        let fast = "fast".to_owned();
        let of = |members, claim| wanted(members, Some(&fast), &claim);
        assert_eq!(of(1, claim(Some("slow"), false)), 3);
        assert_eq!(of(3, claim(Some("slow"), false)), 3);
        assert_eq!(of(1, claim(Some("fast"), false)), 1);
        assert_eq!(of(1, claim(Some("slow"), true)), 1, "it is lost");
        assert_eq!(of(1, claim(None, false)), 1, "nobody knows which");
        assert_eq!(of(1, Known::Absent), 1);
        assert_eq!(of(1, Known::Unknown { why: "hidden" }), 1);
        assert_eq!(
            wanted(1, None, &claim(Some("slow"), false)),
            1,
            "any will do"
        );
    }
}
