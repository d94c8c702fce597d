//! What is done where so many members of etcd have lost their volumes that no majority is left (operations.md §4.7).
//!
//! Pure: `spec.backup.onVolumeLoss` chooses, and `controllers/tenant_cluster/plan/etcd/losses.rs` has it carried out.
//! Invariant: a volume that may still be there is waited for, however long that takes; what is in the backup takes the
//! place of nothing that is left unless the user said so before, and what a volume that is left has goes into the backup
//! first; and it does so once for each loss.

use std::collections::BTreeSet;

use api::tenant_cluster::OnVolumeLoss;

/// What there is of a member's volume.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Volume {
    /// It is there, whether or not its member serves.
    There,
    /// It is there, and its claim is gone or another one's: no pod gets to what is on it.
    Unclaimed,
    /// Its claim is gone or another one's, or its PersistentVolume is: the API said so.
    Gone,
    /// That could not be seen.
    Unknown,
}

/// One member that the status knows and that votes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// UID of the claim that it had by the status.
    pub volume_uid: String,
    /// What there is of that.
    pub volume: Volume,
}

/// Everything that it is decided by.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Facts {
    /// What the user said.
    pub policy: OnVolumeLoss,
    /// Members by the status.
    pub members: Vec<Member>,
    /// Whether a restore is under way, whoever wanted it.
    pub is_restoring: bool,
    /// Whether a backup has a full snapshot that was found whole.
    pub has_backup: bool,
    /// UIDs of volumes for whose loss a restore was made by itself, as it was written down.
    pub restored_for: BTreeSet<String>,
}

/// What follows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Decision {
    /// A majority has its volumes: nothing is lost that members cannot give each other.
    Nothing,
    /// A restore is under way, and that is what is done about it.
    Restoring,
    /// It could not be seen whether these are lost.
    Wait(Vec<String>),
    /// Too many are lost, and people decide.
    Hold(Why),
    /// Ask for the newest moment of the backup, under a name that follows from this loss, and write down that it was.
    Restore {
        /// UIDs of the volumes that are lost.
        lost: BTreeSet<String>,
        /// The only member whose volume is left: what it has beyond the backup goes first.
        survivor: Option<String>,
    },
}

/// Why people decide.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Why {
    /// They did not say that it may be restored by itself.
    NotAsked,
    /// These volumes are left, and none of them is right alone. They may have what no backup has, and may lack what was
    /// acknowledged.
    SomeAreLeft(Vec<String>),
    /// There is no backup that is known to be whole.
    NoBackup,
    /// It was restored for the same loss before, and that was no help.
    Again,
}

/// What is to be done.
#[must_use]
pub fn decide(facts: &Facts) -> Decision {
    if facts.is_restoring {
        return Decision::Restoring;
    }
    let names = |is: fn(Volume) -> bool| {
        let these = facts.members.iter().filter(|m| is(m.volume));
        these.map(|m| m.name.clone()).collect::<Vec<_>>()
    };
    let majority = facts.members.len() / 2 + 1;
    // Of a tenant cluster of which no member is known nothing can be lost.
    let left = names(|volume| [Volume::There, Volume::Unclaimed].contains(&volume));
    if facts.members.is_empty() || left.len() >= majority {
        return Decision::Nothing;
    }
    let unknown = names(|volume| volume == Volume::Unknown);
    if !unknown.is_empty() {
        return Decision::Wait(unknown);
    }
    if facts.policy == OnVolumeLoss::Hold {
        return Decision::Hold(Why::NotAsked);
    }
    let readable = names(|volume| volume == Volume::There);
    if left.len() > 1 || left != readable {
        return Decision::Hold(Why::SomeAreLeft(left));
    }
    if !facts.has_backup {
        return Decision::Hold(Why::NoBackup);
    }
    let gone = facts.members.iter().filter(|m| m.volume == Volume::Gone);
    let lost: BTreeSet<_> = gone.map(|m| m.volume_uid.clone()).collect();
    match lost.is_subset(&facts.restored_for) {
        true => Decision::Hold(Why::Again),
        false => Decision::Restore {
            lost,
            survivor: left.into_iter().next(),
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn facts(volumes: &[Volume]) -> Facts {
        let member = |(number, volume): (usize, &Volume)| Member {
            name: format!("etcd-{number}"),
            volume_uid: format!("uid-{number}"),
            volume: *volume,
        };
        Facts {
            policy: OnVolumeLoss::Restore,
            members: volumes.iter().enumerate().map(member).collect(),
            is_restoring: false,
            has_backup: true,
            restored_for: BTreeSet::new(),
        }
    }

    fn is_restored(facts: &Facts) -> bool {
        matches!(decide(facts), Decision::Restore { .. })
    }

    #[test]
    fn only_volume_that_is_proven_gone_is_restored_where_the_user_said_so() {
        use Volume::*;
        assert!(is_restored(&facts(&[Gone])));
        assert!(is_restored(&facts(&[Gone, Gone, Gone])));
        let held = Facts {
            policy: OnVolumeLoss::Hold,
            ..facts(&[Gone])
        };
        assert_eq!(decide(&held), Decision::Hold(Why::NotAsked));
        let alone = Facts {
            has_backup: false,
            ..facts(&[Gone])
        };
        assert_eq!(decide(&alone), Decision::Hold(Why::NoBackup));
    }

    #[test]
    fn volume_that_may_be_there_is_waited_for() {
        use Volume::*;
        let unknown = facts(&[Gone, Unknown, Gone]);
        assert_eq!(decide(&unknown), Decision::Wait(vec!["etcd-1".to_owned()]));
        assert_eq!(decide(&facts(&[There, There, Gone])), Decision::Nothing);
        // Nobody gets to what is on it.
        let unclaimed = Why::SomeAreLeft(vec!["etcd-2".to_owned()]);
        let left = facts(&[Gone, Gone, Unclaimed]);
        assert_eq!(decide(&left), Decision::Hold(unclaimed));
        assert_eq!(decide(&facts(&[Unclaimed, There, Gone])), Decision::Nothing);
        let two_are_left = Why::SomeAreLeft(vec!["etcd-3".to_owned(), "etcd-4".to_owned()]);
        let left = facts(&[Gone, Gone, Gone, There, There]);
        assert_eq!(decide(&left), Decision::Hold(two_are_left));
    }

    #[test]
    fn the_one_that_is_left_goes_first_where_the_others_are_proven_gone() {
        use Volume::*;
        let survivor = |facts: &Facts| match decide(facts) {
            Decision::Restore { lost, survivor } => Some((lost.len(), survivor)),
            _ => None,
        };
        let left = facts(&[Gone, There, Gone]);
        assert_eq!(survivor(&left), Some((2, Some("etcd-1".to_owned()))));
        assert_eq!(survivor(&facts(&[Gone; 3])), Some((3, None)));
        assert_eq!(survivor(&facts(&[Gone, There, Unknown])), None);
        let alone = Facts {
            has_backup: false,
            ..left.clone()
        };
        assert_eq!(decide(&alone), Decision::Hold(Why::NoBackup));
        let held = Facts {
            policy: OnVolumeLoss::Hold,
            ..left
        };
        assert_eq!(decide(&held), Decision::Hold(Why::NotAsked));
    }

    #[test]
    fn the_same_loss_is_restored_once() {
        let mut world = facts(&[Volume::Gone]);
        let Decision::Restore { lost, .. } = decide(&world) else {
            panic!("it is restored");
        };
        world.restored_for = lost;
        assert_eq!(decide(&world), Decision::Hold(Why::Again));
        // Another volume that is lost later is another loss.
        world.members[0].volume_uid = "uid-9".to_owned();
        assert!(is_restored(&world));
    }

    fn volume() -> impl Strategy<Value = Volume> {
        prop_oneof![
            Just(Volume::There),
            Just(Volume::Unclaimed),
            Just(Volume::Gone),
            Just(Volume::Unknown)
        ]
    }

    proptest! {
        #[test]
        fn nothing_is_restored_over_what_is_there_or_is_not_known_to_be_gone(
            volumes in prop::collection::vec(volume(), 0..4),
            policy in prop_oneof![Just(OnVolumeLoss::Hold), Just(OnVolumeLoss::Restore)],
            is_restoring: bool,
            has_backup: bool,
        ) {
            let facts = Facts { policy, is_restoring, has_backup, ..facts(&volumes) };
            if is_restored(&facts) {
                prop_assert!(!volumes.is_empty());
                let is_held = |volume| [Volume::Unknown, Volume::Unclaimed].contains(volume);
                prop_assert!(!volumes.iter().any(is_held));
                let left = volumes.iter().filter(|volume| **volume == Volume::There).count();
                prop_assert!(left <= 1 && left < volumes.len() / 2 + 1);
                let Decision::Restore { survivor, .. } = decide(&facts) else {
                    panic!("it was just decided");
                };
                prop_assert_eq!(survivor.is_some(), left == 1, "what is left is passed over");
                prop_assert!(policy == OnVolumeLoss::Restore && has_backup && !is_restoring);
            }
        }
    }
}
