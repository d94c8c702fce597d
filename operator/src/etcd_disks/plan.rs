//! Who is to lead, and who is to be replaced, where disks of members are slow.
//!
//! Invariant: the lead goes only from the one member whose disk is slow to one whose disk is fast, and not again for
//! a while; nothing is done about a member while another one's disk is slow, or not known.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::speed::{Disks, Speed, elapsed};
use crate::tenant_session::etcd::answers::{Alarm, MemberStatus};

/// Entries of the log that the next leader may be behind.
const MOST_BEHIND: u64 = 100;

/// Members of a cluster in which one can stand in for another, and a majority is left.
const MEMBERS: usize = 3;

/// The lead goes from one member to another.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Move {
    /// Name of the one that leads.
    pub from: String,
    /// Identifier of the one that is to.
    pub to: String,
}

/// The only member whose disk is slow, where those of all others are known to be fast.
fn only_slow<'a>(
    names: impl Iterator<Item = &'a str>,
    disks: &Disks,
) -> Option<(&'a str, Timestamp)> {
    let mut slow = None;
    let mut members = 0;
    for name in names {
        members += 1;
        match disks.of(name) {
            Speed::Slow { since, .. } if slow.is_none() => slow = Some((name, since)),
            Speed::Slow { .. } | Speed::Unknown => return None,
            Speed::Fast => {}
        }
    }
    slow.filter(|_| members == MEMBERS)
}

/// Whom the lead is to be taken from, and who is to have it; `members`: what all three say of themselves; `pause`:
/// between two such moves.
#[must_use]
pub fn lead(
    members: &BTreeMap<&str, &MemberStatus>,
    disks: &Disks,
    pause: Duration,
    now: Timestamp,
) -> Option<Move> {
    let (slow, _) = only_slow(members.keys().copied(), disks)?;
    let leader = members.get(slow).map(|member| &member.member_id)?;
    let newest = members.values().map(|member| member.index).max()?;
    // All agree, vote and have caught up, so that none is missing meanwhile.
    let is_well = |member: &&&MemberStatus| {
        member.leader.as_ref() == Some(leader)
            && !member.is_learner
            && !member.alarms.contains(&Alarm::Corrupt)
            && newest - member.index < MOST_BEHIND
    };
    if !members.values().all(|member| is_well(&member)) {
        return None;
    }
    let is_calm = disks.moved.is_none_or(|moved| elapsed(moved, now) >= pause);
    let others = members.iter().filter(|(name, _)| **name != slow);
    let (_, best) = others.max_by_key(|(_, member)| member.applied)?;
    is_calm.then(|| Move {
        from: slow.to_owned(),
        to: best.member_id.clone(),
    })
}

/// The one of three whose disk has been slow for so long that it is to be replaced; `members`: the names of all.
#[must_use]
pub fn slow_for<'a>(
    members: impl Iterator<Item = &'a str>,
    disks: &Disks,
    long: Duration,
    now: Timestamp,
) -> Option<&'a str> {
    let (slow, since) = only_slow(members, disks)?;
    (elapsed(since, now) >= long).then_some(slow)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use proptest::prelude::*;

    use super::*;
    use crate::etcd_disks::speed::Figures;

    const PAUSE: Duration = Duration::from_mins(30);
    const NAMES: [&str; 3] = ["etcd-0", "etcd-1", "etcd-2"];

    fn begin() -> Timestamp {
        "2026-11-21T12:00:00Z".parse().unwrap()
    }

    fn at(minutes: i64) -> Timestamp {
        begin() + SignedDuration::from_mins(minutes)
    }

    fn slow() -> Speed {
        Speed::Slow {
            since: begin(),
            figures: Figures::default(),
        }
    }

    fn disks(speeds: [Speed; 3]) -> Disks {
        Disks {
            speeds: NAMES.map(str::to_owned).into_iter().zip(speeds).collect(),
            moved: None,
        }
    }

    fn member(number: usize, leader: usize) -> MemberStatus {
        MemberStatus {
            member_id: format!("{number}"),
            leader: Some(format!("{leader}")),
            applied: 100,
            index: 100,
            ..MemberStatus::default()
        }
    }

    fn next(members: &[MemberStatus; 3], disks: &Disks, now: Timestamp) -> Option<Move> {
        lead(&NAMES.into_iter().zip(members).collect(), disks, PAUSE, now)
    }

    fn led_by(leader: usize) -> [MemberStatus; 3] {
        [0, 1, 2].map(|number| member(number, leader))
    }

    #[test]
    fn lead_goes_from_the_one_slow_disk_to_the_fast_one_that_has_most() {
        let mut members = led_by(1);
        members[2].applied = 105;
        let slow_leader = disks([Speed::Fast, slow(), Speed::Fast]);
        let wanted = Move {
            from: "etcd-1".to_owned(),
            to: "2".to_owned(),
        };
        assert_eq!(next(&members, &slow_leader, at(0)), Some(wanted));
        // Of a follower nothing is taken.
        assert_eq!(next(&led_by(0), &slow_leader, at(0)), None);
        for other in [slow(), Speed::Unknown] {
            let disks = disks([other, slow(), Speed::Fast]);
            assert_eq!(next(&members, &disks, at(0)), None, "{other:?}");
        }
    }

    #[test]
    fn lead_stays_while_a_member_is_not_well_or_it_went_a_moment_ago() {
        let slow_leader = disks([Speed::Fast, slow(), Speed::Fast]);
        let spoilt = |spoil: fn(&mut MemberStatus)| {
            let mut members = led_by(1);
            spoil(&mut members[2]);
            next(&members, &slow_leader, at(0))
        };
        assert!(spoilt(|_| {}).is_some());
        assert_eq!(spoilt(|m| m.is_learner = true), None);
        assert_eq!(spoilt(|m| m.index = 0), None);
        assert_eq!(spoilt(|m| m.leader = None), None);
        assert_eq!(spoilt(|m| m.alarms = vec![Alarm::Corrupt]), None);
        let members = led_by(1);
        let two = NAMES.into_iter().zip(&members).take(2).collect();
        assert_eq!(lead(&two, &slow_leader, PAUSE, at(0)), None, "one is away");
        let moved = Disks {
            moved: Some(at(0)),
            ..slow_leader
        };
        assert_eq!(next(&members, &moved, at(29)), None);
        assert!(next(&members, &moved, at(30)).is_some());
    }

    #[test]
    fn one_of_three_that_is_slow_for_long_is_named_and_no_other() {
        let named = |speeds, minutes| {
            let disks = disks(speeds);
            slow_for(NAMES.into_iter(), &disks, PAUSE, at(minutes))
        };
        let one = [Speed::Fast, Speed::Fast, slow()];
        assert_eq!((named(one, 29), named(one, 30)), (None, Some("etcd-2")));
        assert_eq!(named([Speed::Fast, slow(), slow()], 99), None);
        assert_eq!(named([Speed::Fast, Speed::Unknown, slow()], 99), None);
        let single = disks(one);
        let single = slow_for(["etcd-2"].into_iter(), &single, PAUSE, at(99));
        assert_eq!(single, None, "nobody has its data");
    }

    proptest! {
        /// However disks change: it goes to a fast one only, and no more often than the pause lets it.
        #[test]
        fn lead_never_goes_back_and_forth(
            life in prop::collection::vec((1..20_i64, prop::array::uniform3(0..3_u8)), 1..200),
        ) {
            let (mut leader, mut now, mut moved) = (0, 0, Vec::<i64>::new());
            for (minutes, speeds) in life {
                now += minutes;
                let speeds = speeds.map(|speed| match speed {
                    0 => Speed::Fast,
                    1 => Speed::Unknown,
                    _ => slow(),
                });
                let disks = Disks { moved: moved.last().map(|last| at(*last)), ..disks(speeds) };
                if let Some(step) = next(&led_by(leader), &disks, at(now)) {
                    let to: usize = step.to.parse().unwrap();
                    prop_assert_eq!(step.from, NAMES[leader]);
                    prop_assert!(speeds[leader].is_slow() && speeds[to] == Speed::Fast);
                    prop_assert!(moved.last().is_none_or(|last| now - last >= 30));
                    moved.push(now);
                    leader = to;
                }
            }
        }
    }
}
