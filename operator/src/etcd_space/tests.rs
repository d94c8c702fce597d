//! Laws of the relief over random members that are full, and what is told when.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::level::{LEAST_GAIN, Level, is_fragmented};
use super::plan::{Facts, Next, Step, next};
use crate::tenant_session::etcd::answers::{Alarm, MemberStatus};

const QUOTA: u64 = 1 << 30;

/// Members as etcd has them: what is overwritten frees its bytes once it is compacted, what is free is given back
/// by writing the file anew.
#[derive(Clone, Debug)]
struct World {
    members: Vec<Member>,
    leader: usize,
    is_compacted: bool,
    most_defragmented: BTreeMap<usize, usize>,
}

#[derive(Clone, Debug)]
struct Member {
    live: u64,
    overwritten: u64,
    free: u64,
    /// Bytes that are free and said to be in use, until it writes.
    unsaid: u64,
    has_alarm: bool,
    answers: bool,
}

impl Member {
    fn size(&self) -> u64 {
        self.live + self.overwritten + self.free
    }
}

impl World {
    fn says(&self, number: usize) -> MemberStatus {
        let member = &self.members[number];
        let raised = self.members.iter().enumerate();
        let raised: Vec<_> = raised.filter(|(_, m)| m.has_alarm).collect();
        MemberStatus {
            member_id: number.to_string(),
            leader: Some(self.leader.to_string()),
            size: member.size(),
            size_in_use: member.live + member.overwritten + member.unsaid,
            quota: QUOTA,
            revision: 7,
            alarms: raised.first().map(|_| Alarm::NoSpace).into_iter().collect(),
            no_space: raised.iter().map(|(n, _)| n.to_string()).collect(),
            ..MemberStatus::default()
        }
    }

    fn next(&self) -> Next {
        let says: Vec<_> = (0..self.members.len()).map(|n| self.says(n)).collect();
        let names: Vec<_> = (0..says.len()).map(|n| format!("etcd-{n}")).collect();
        let seen = names.iter().zip(&says).zip(&self.members);
        let seen = seen.filter(|(_, member)| member.answers);
        next(&Facts {
            wanted: self.members.len(),
            members: seen
                .map(|((name, says), _)| (name.as_str(), says))
                .collect(),
            is_compacted: self.is_compacted,
        })
    }

    /// Carries a step out, and holds it against the laws.
    fn carry_out(&mut self, step: &Step) {
        let answer = self.members.iter().filter(|member| member.answers).count();
        assert!(answer * 2 > self.members.len(), "{step:?} by a minority");
        match step {
            Step::Compact { revision } => {
                assert!(!self.is_compacted && *revision == 7);
                self.is_compacted = true;
                let leads = |(number, _): &(usize, &Member)| *number != self.leader;
                let answers = self.members.iter().enumerate().filter(|(_, m)| m.answers);
                let (asked, _) = answers.min_by_key(leads).unwrap();
                for (number, member) in self.members.iter_mut().enumerate() {
                    let dropped = std::mem::take(&mut member.overwritten);
                    member.free += dropped;
                    member.unsaid += dropped;
                    if number == asked {
                        member.unsaid = 0;
                    }
                }
            }
            Step::Defragment { member } => {
                let number: usize = member.rsplit('-').next().unwrap().parse().unwrap();
                let followers = self.members.iter().enumerate();
                let mut full = followers
                    .filter(|(n, m)| *n != self.leader && m.answers && m.size() * 10 >= QUOTA * 9);
                assert!(
                    number != self.leader || full.next().is_none(),
                    "the leader is last"
                );
                *self.most_defragmented.entry(number).or_default() += 1;
                let member = &mut self.members[number];
                assert!(member.answers && member.free > 0);
                (member.free, member.unsaid) = (0, 0);
            }
            Step::Disarm { id } => {
                let is_small = |m: &Member| m.size() * 10 < QUOTA * 9;
                let mut seen = self.members.iter().filter(|member| member.answers);
                assert!(seen.all(is_small), "one is as full as before: {self:?}");
                let member = &mut self.members[id.parse::<usize>().unwrap()];
                assert!(member.has_alarm);
                member.has_alarm = false;
            }
        }
    }
}

fn member() -> impl Strategy<Value = Member> {
    let part = || 0..(QUOTA / 2);
    let bits = (any::<bool>(), prop::bool::weighted(0.9));
    (part(), part(), bits).prop_map(|(overwritten, free, (has_alarm, answers))| Member {
        live: 0,
        overwritten,
        free,
        unsaid: 0,
        has_alarm,
        answers,
    })
}

fn world() -> impl Strategy<Value = World> {
    let members = prop_oneof![
        prop::collection::vec(member(), 1),
        prop::collection::vec(member(), 3)
    ];
    (members, 0..3_usize, 0..QUOTA).prop_map(|(mut members, leader, live)| {
        // All have the same data.
        for member in &mut members {
            member.live = live;
        }
        World {
            leader: leader % members.len(),
            members,
            is_compacted: false,
            most_defragmented: BTreeMap::new(),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn one_that_can_be_relieved_is_and_no_member_is_written_anew_twice(mut world in world(), restart in 0..8_usize) {
        for count in 0..16 {
            if count == restart {
                // Another operator goes on, which knows nothing of what was done.
                world.is_compacted = false;
            }
            match world.next() {
                Next::Step(step) => world.carry_out(&step),
                Next::Nothing | Next::TooFew | Next::IsFull => break,
            }
        }
        prop_assert!(world.most_defragmented.values().all(|count| *count == 1));
        let seen: Vec<_> = world.members.iter().filter(|m| m.answers).collect();
        let is_raised = world.members.iter().any(|m| m.has_alarm);
        match world.next() {
            Next::Nothing => prop_assert!(!is_raised || seen.is_empty()),
            Next::TooFew => prop_assert!(seen.len() * 2 <= world.members.len()),
            Next::IsFull => prop_assert!(seen.iter().any(|m| m.live * 10 >= QUOTA * 9)),
            Next::Step(step) => prop_assert!(false, "it does not end: {step:?}"),
        }
    }
}

fn at(in_use: u64, size: u64) -> MemberStatus {
    MemberStatus {
        size_in_use: QUOTA / 100 * in_use,
        size: QUOTA / 100 * size,
        quota: QUOTA,
        ..MemberStatus::default()
    }
}

#[test]
fn level_that_was_told_ends_only_once_there_is_clearly_more_room() {
    let level = |in_use, told| Level::of([at(in_use, in_use)].iter(), told);
    let up = |in_use| level(in_use, Level::Enough);
    assert_eq!(
        (up(79), up(81), up(91)),
        (Level::Enough, Level::Low, Level::Critical)
    );
    assert_eq!(level(76, Level::Low), Level::Low);
    assert_eq!(level(74, Level::Low), Level::Enough);
    assert_eq!(level(86, Level::Critical), Level::Critical);
    assert_eq!(level(84, Level::Critical), Level::Low);
    assert_eq!(level(84, Level::Low), Level::Low);
    assert_eq!(
        Level::of([at(10, 10), at(85, 85)].iter(), Level::Enough),
        Level::Low
    );
    let mut full = at(10, 10);
    full.alarms = vec![Alarm::NoSpace];
    assert_eq!(Level::of([full].iter(), Level::Enough), Level::Full);
    let unknown = MemberStatus {
        quota: 0,
        ..at(99, 99)
    };
    assert_eq!(Level::of([unknown].iter(), Level::Enough), Level::Enough);
}

#[test]
fn file_is_fragmented_where_a_start_gives_much_back() {
    assert!(is_fragmented(&at(20, 40)));
    assert!(!is_fragmented(&at(30, 40)), "a quarter is free");
    assert!(is_fragmented(&at(60, 81)), "it is close to its most bytes");
    assert!(
        !is_fragmented(&at(75, 81)),
        "a start would leave it as it is"
    );
    let small = |size| MemberStatus {
        size,
        quota: QUOTA,
        ..MemberStatus::default()
    };
    assert!(!is_fragmented(&small(LEAST_GAIN)));
    assert!(is_fragmented(&small(LEAST_GAIN + 1)));
}

#[test]
fn nothing_is_done_while_members_have_different_data() {
    let mut member = at(40, 95);
    member.alarms = vec![Alarm::Corrupt, Alarm::NoSpace];
    for wanted in [1, 3] {
        let facts = Facts {
            wanted,
            members: [("etcd-0", &member), ("etcd-1", &member)].into(),
            is_compacted: false,
        };
        assert_eq!(next(&facts), Next::Nothing);
    }
}

#[test]
fn single_member_that_is_close_to_full_is_written_anew_and_one_of_three_is_not() {
    let member = at(40, 82);
    let next = |wanted, member: &MemberStatus| {
        let members: Vec<_> = (0..wanted).map(|n| format!("etcd-{n}")).collect();
        next(&Facts {
            wanted,
            members: members.iter().map(|name| (name.as_str(), member)).collect(),
            is_compacted: false,
        })
    };
    let anew = Next::Step(Step::Defragment {
        member: "etcd-0".to_owned(),
    });
    assert_eq!(next(1, &member), anew);
    assert_eq!(
        next(3, &member),
        Next::Nothing,
        "they are restarted one by one"
    );
    assert_eq!(next(1, &at(20, 60)), Next::Nothing, "there is enough room");
    assert_eq!(
        next(1, &at(78, 82)),
        Next::Nothing,
        "it would be as large again"
    );
}
