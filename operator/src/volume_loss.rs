//! What is done where so many members of etcd have lost their volumes that no majority is left (operations.md §4.7).
//!
//! Pure: `spec.backup.onVolumeLoss` chooses, and `controllers/tenant_cluster/plan/etcd/losses.rs` has it carried out.
//! Invariant: a volume that may still be there is waited for, however long that takes; what is in the backup takes the
//! place of nothing that is left, unless the user said so before; and it does so once for each loss.

use std::collections::BTreeSet;

use api::tenant_cluster::OnVolumeLoss;

/// What there is of a member's volume.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Volume {
    /// It is there, whether or not its member serves.
    There,
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
    },
}

/// Why people decide.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Why {
    /// They did not say that it may be restored by itself.
    NotAsked,
    /// These volumes are left. They may have what no backup has, and may lack what was acknowledged.
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
    let with = |volume| facts.members.iter().filter(move |m| m.volume == volume);
    let names = |volume| with(volume).map(|m| m.name.clone()).collect::<Vec<_>>();
    let majority = facts.members.len() / 2 + 1;
    // Of a tenant cluster of which no member is known nothing can be lost.
    if facts.members.is_empty() || with(Volume::There).count() >= majority {
        return Decision::Nothing;
    }
    if with(Volume::Unknown).count() > 0 {
        return Decision::Wait(names(Volume::Unknown));
    }
    if facts.policy == OnVolumeLoss::Hold {
        return Decision::Hold(Why::NotAsked);
    }
    if with(Volume::There).count() > 0 {
        return Decision::Hold(Why::SomeAreLeft(names(Volume::There)));
    }
    if !facts.has_backup {
        return Decision::Hold(Why::NoBackup);
    }
    let lost: BTreeSet<_> = with(Volume::Gone).map(|m| m.volume_uid.clone()).collect();
    match lost.is_subset(&facts.restored_for) {
        true => Decision::Hold(Why::Again),
        false => Decision::Restore { lost },
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
        let one_is_left = Why::SomeAreLeft(vec!["etcd-2".to_owned()]);
        let left = facts(&[Gone, Gone, There]);
        assert_eq!(decide(&left), Decision::Hold(one_is_left));
    }

    #[test]
    fn the_same_loss_is_restored_once() {
        let mut world = facts(&[Volume::Gone]);
        let Decision::Restore { lost } = decide(&world) else {
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
                prop_assert!(volumes.iter().all(|volume| *volume == Volume::Gone));
                prop_assert!(policy == OnVolumeLoss::Restore && has_backup && !is_restoring);
            }
        }
    }
}
