//! A tenant cluster that is brought back, with crashes, failures and pods that take their time.
//!
//! Invariant: the world here ends with an assertion where something would have been lost. Long because that world and all
//! that happens in it are read together.

use proptest::prelude::*;

use super::*;

/// A load balancer that the tenant cluster of then does not know.
const LATE: &str = "lb-late";
/// One that it knows.
const KNOWN: &str = "lb-known";

/// What happens.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The operator plans and writes one thing.
    Acts,
    /// A pod that is not wanted ends, one that is comes, a Job goes on.
    Goes,
    /// A Job fails.
    JobFails,
    /// One Job builds at another revision than the others.
    JobDiffers,
    /// People delete the Restore.
    Deleted,
    /// People confirm it.
    Confirmed,
    /// It takes too long.
    Late,
    /// A Job is collected with its pods.
    JobCollected,
    /// People decide what becomes of load balancers that are not known any more.
    Decided(Orphans),
    /// Who cares for load balancers says which of them are known.
    Answers,
    /// The Job that reads what is left of a member fails.
    SalvageFails,
}

#[derive(Clone, Debug)]
struct World {
    seen: Observed,
    held: BTreeSet<Workload>,
    told: bool,
    prepared: bool,
    /// Members whose old data is gone.
    forgotten: BTreeSet<String>,
    /// Control planes that were started over data that was built.
    serves_built: bool,
    /// The load balancer that is not known any more is not there any more.
    swept: bool,
    /// People said once that it goes.
    goes: bool,
    over: bool,
    differs: bool,
    /// What is left of the member; none where nothing of it can be used.
    left_until: Option<u64>,
    /// How often it is looked at before everything in the store of a copy is gone over.
    left: u8,
}

impl World {
    fn new(members: usize) -> Self {
        let seen = Observed {
            members: (0..members).map(|n| format!("etcd-{n}")).collect(),
            formers: ["cdf8".to_owned(), "cdf9".to_owned()].into(),
            revision: 700,
            pods: ALL.map(|workload| (workload, 2)).into(),
            serves: true,
            is_wanted: true,
            balancers: [LATE, KNOWN]
                .map(|name| (name.to_owned(), Mark::None))
                .into(),
            is_told_apart: true,
            ..Observed::default()
        };
        Self {
            seen,
            held: BTreeSet::new(),
            told: false,
            prepared: false,
            forgotten: BTreeSet::new(),
            serves_built: false,
            swept: false,
            goes: false,
            over: false,
            differs: false,
            left_until: Some(720),
            left: 0,
        }
    }

    fn pods(&self, workload: Workload) -> u32 {
        self.seen.pods.get(&workload).copied().unwrap_or_default()
    }

    fn nobody_runs(&self) -> bool {
        ALL.iter().all(|workload| self.pods(*workload) == 0)
    }

    /// The first difference between what is wanted and what is, as one write; whether there was one.
    fn act(&mut self) -> bool {
        if self.over {
            return false;
        }
        let plan = plan(&self.seen);
        if plan.record != self.seen.recorded {
            if plan.record.is_switched && !self.seen.recorded.is_switched {
                assert!(self.nobody_runs(), "somebody may write");
                let built = plan.switch.as_ref().expect("what members are");
                assert_eq!(built.len(), self.seen.members.len());
                let revisions: BTreeSet<_> = built.values().map(|b| b.revision).collect();
                assert!(revisions.len() == 1, "members of different data");
            }
            if plan.record.is_prepared {
                assert!(self.prepared);
            }
            assert!(!self.seen.recorded.is_switched || plan.record.given_up.is_none());
            self.seen.recorded = plan.record;
            return true;
        }
        let held = &self.held;
        if let Some(workload) = plan.held.iter().find(|w| !held.contains(*w)) {
            assert!(!self.seen.recorded.is_prepared, "an outage anew");
            self.held.insert(*workload);
            return true;
        }
        if plan.salvage.is_some() && self.seen.salvage.is_none() {
            assert!(self.nobody_runs(), "somebody may write");
            assert!(self.seen.builds.is_empty(), "it is built already");
            self.seen.salvage = Some(Job::Runs);
            return true;
        }
        if plan.stop_salvaging {
            self.seen.salvage = None;
            return true;
        }
        if let Some(member) = plan
            .build
            .iter()
            .find(|m| !self.seen.builds.contains_key(*m))
        {
            assert!(self.nobody_runs(), "somebody may write");
            let is_read = self.seen.survivor.is_none() || self.seen.recorded.salvaged.is_some();
            assert!(is_read, "what is left is passed over");
            self.seen.builds.insert(member.clone(), Job::Runs);
            return true;
        }
        if let Some(member) = plan.stop_building.first() {
            self.seen.builds.remove(member);
            return true;
        }
        if self.seen.recorded.is_switched && !self.told {
            (self.told, self.seen.is_told) = (true, true);
            return true;
        }
        if let Some(name) = plan.keep.first() {
            assert!(self.seen.recorded.is_switched && !self.serves_built);
            self.seen.balancers.insert(name.clone(), Mark::Unknown);
            return true;
        }
        if let Some(name) = plan.release.first() {
            assert!(self.seen.is_confirmed, "an address is lost");
            if name == LATE {
                let is_decided = self.seen.orphans == Orphans::Delete && self.seen.is_wanted;
                assert!(is_decided, "nobody decided that it goes");
            } else if self.seen.orphans != Orphans::Delete {
                assert_eq!(
                    self.seen.balancers[name],
                    Mark::Known,
                    "unknown is not known"
                );
            }
            self.seen.balancers.insert(name.clone(), Mark::None);
            return true;
        }
        if plan.prepare && !self.seen.is_prepared {
            assert_eq!(self.pods(Workload::ControlPlane), 0);
            if self.left > 0 {
                // More than one look goes over: it is not prepared, and asked again.
                self.left -= 1;
                return true;
            }
            (self.prepared, self.seen.is_prepared) = (true, true);
            return true;
        }
        if let Some(member) = plan
            .forget
            .iter()
            .find(|m| !self.seen.forgets.contains_key(*m))
        {
            assert!(
                self.seen.is_confirmed && self.serves_built,
                "removed too early"
            );
            self.seen.forgets.insert(member.clone(), Job::Runs);
            return true;
        }
        if let Some(workload) = held.iter().find(|w| !plan.held.contains(*w)).copied() {
            let on_built = self.seen.recorded.is_switched;
            if workload == Workload::ControlPlane && on_built {
                assert!(self.prepared, "a kube-apiserver over Leases of before");
                assert_eq!(self.left, 0, "one over what a copy must not have");
                self.serves_built = true;
            }
            if workload == Workload::Etcd && on_built {
                assert!(self.told, "a member that is not told");
            }
            self.held.remove(&workload);
            return true;
        }
        let is_end = matches!(plan.phase, Phase::GivenUp(_) | Phase::Settle);
        if is_end && !self.seen.is_said {
            self.seen.is_said = true;
            return true;
        }
        if plan.is_over {
            self.over = true;
            return true;
        }
        false
    }

    fn built(&self, number: usize) -> Built {
        Built {
            claim_uid: format!("claim-{number}"),
            revision: self.backed_up() + u64::from(self.differs && number == 1),
            cluster_id: "abcd".to_owned(),
            member_id: format!("{number:x}"),
        }
    }

    /// How far the backup is.
    fn backed_up(&self) -> u64 {
        match self.seen.recorded.salvaged {
            Some(Salvage::Until(revision)) => revision.max(700),
            Some(Salvage::Aside(_)) | None => 700,
        }
    }

    fn goes(&mut self) {
        if self.seen.salvage == Some(Job::Runs) {
            let came = match self.left_until {
                Some(revision) => Salvage::Until(revision),
                None => Salvage::Aside("it is of another cluster".to_owned()),
            };
            self.seen.salvage = Some(Job::Done(came));
        }
        for workload in ALL {
            let pods = self.seen.pods.entry(workload).or_default();
            match self.held.contains(&workload) {
                true => *pods = pods.saturating_sub(1),
                false => *pods = 2,
            }
        }
        for (number, member) in self.seen.members.clone().into_iter().enumerate() {
            let built = self.built(number);
            if let Some(build) = self.seen.builds.get_mut(&member)
                && *build == Job::Runs
            {
                *build = Job::Done(built);
            }
            if let Some(forget) = self.seen.forgets.get_mut(&member) {
                *forget = Job::Done(());
                self.forgotten.insert(member);
            }
        }
        let etcd = self.pods(Workload::Etcd) > 0;
        self.seen.answers = self.seen.recorded.is_switched && etcd;
        self.seen.all_serve = etcd;
        self.seen.serves = self.pods(Workload::ControlPlane) > 0 && etcd;
        // Nobody inside knows the load balancer any more.
        if self.runs_ccm() && self.seen.balancers.get(LATE) == Some(&Mark::None) {
            self.seen.balancers.remove(LATE);
            self.swept = true;
        }
    }

    /// Who cares for load balancers, over what was built.
    fn runs_ccm(&self) -> bool {
        self.seen.serves && self.serves_built && self.seen.is_told_apart
    }

    fn answers(&mut self) {
        if self.runs_ccm() {
            for (name, mark) in &mut self.seen.balancers {
                *mark = match *mark {
                    Mark::None => Mark::None,
                    _ if name == LATE => Mark::Orphan,
                    _ => Mark::Known,
                };
            }
        }
    }

    fn happen(&mut self, event: Event) {
        let is_end = self.seen.recorded.is_switched || self.seen.recorded.given_up.is_some();
        match event {
            Event::Acts => drop(self.act()),
            Event::Goes => self.goes(),
            Event::JobFails => {
                if let Some(build) = self.seen.builds.values_mut().find(|b| **b == Job::Runs) {
                    *build = Job::Failed("no room".to_owned());
                }
            }
            Event::JobDiffers => self.differs = true,
            Event::Deleted => {
                // Gone is confirmed, and has nobody who says anything.
                self.seen.is_wanted = false;
                (self.seen.is_confirmed, self.seen.is_said) = (true, true);
            }
            Event::Confirmed => self.seen.is_confirmed = true,
            Event::Late => self.seen.is_overdue = !is_end,
            Event::JobCollected => {
                self.seen.builds.pop_first();
                self.seen.salvage = None;
            }
            // What is confirmed does not change, but that nothing is decided.
            Event::Decided(orphans) => {
                let can = !self.seen.is_confirmed || self.seen.orphans == Orphans::Report;
                if can && !self.over && self.seen.is_wanted {
                    self.seen.orphans = orphans;
                    self.goes |= orphans == Orphans::Delete;
                }
            }
            Event::Answers => self.answers(),
            Event::SalvageFails => {
                if self.seen.salvage == Some(Job::Runs) {
                    self.seen.salvage = Some(Job::Failed("no node has room".to_owned()));
                }
            }
        }
        // An operator that died forgot what it did just now.
        self.seen.is_prepared &= matches!(event, Event::Acts);
    }

    fn settle(&mut self) -> Phase {
        for _ in 0..80 {
            self.act();
            self.goes();
            self.answers();
        }
        assert!(!self.act(), "it comes to rest");
        plan(&self.seen).phase
    }
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        12 => Just(Event::Acts),
        10 => Just(Event::Goes),
        1 => Just(Event::JobFails),
        1 => Just(Event::JobDiffers),
        1 => Just(Event::Deleted),
        1 => Just(Event::Confirmed),
        1 => Just(Event::Late),
        1 => Just(Event::JobCollected),
        1 => prop_oneof![Just(Orphans::Keep), Just(Orphans::Report), Just(Orphans::Delete)]
            .prop_map(Event::Decided),
        2 => Just(Event::Answers),
        1 => Just(Event::SalvageFails),
    ];
    proptest::collection::vec(event, 0..80)
}

proptest! {
    #[test]
    fn whatever_happens_it_serves_in_the_end_on_the_old_data_or_on_all_of_the_new(
        events in events(), three in any::<bool>(), left in 0_u8..6, ccm in any::<bool>(),
        survivor in any::<bool>(), left_until in proptest::option::of(650_u64..750),
    ) {
        let mut world = World::new(if three { 3 } else { 1 });
        world.left = left;
        world.seen.is_told_apart = ccm;
        world.left_until = left_until;
        world.seen.survivor = survivor.then(|| "etcd-0".to_owned());
        events.into_iter().for_each(|event| world.happen(event));
        let phase = world.settle();
        prop_assert!(world.seen.serves && world.held.is_empty(), "{:?}", world);
        match phase {
            Phase::Settle => {
                prop_assert!(world.serves_built && world.prepared);
                let seen = &world.seen;
                let waits = ccm && seen.is_wanted && seen.orphans == Orphans::Report;
                prop_assert_eq!(world.over, seen.is_confirmed && !waits);
                prop_assert!(world.goes || !world.swept);
                let must_go = seen.orphans == Orphans::Delete && seen.is_wanted && ccm;
                prop_assert!(world.swept || !(must_go && seen.is_confirmed));
                let came = match left_until {
                    Some(revision) => Salvage::Until(revision),
                    None => Salvage::Aside("it is of another cluster".to_owned()),
                };
                prop_assert_eq!(&seen.recorded.salvaged, &survivor.then_some(came));
                let all = world.forgotten.len() == seen.members.len();
                prop_assert_eq!(all, world.over);
            }
            Phase::GivenUp(_) => {
                prop_assert!(world.over && !world.seen.recorded.is_switched);
                prop_assert!(world.forgotten.is_empty() && world.seen.builds.is_empty());
                prop_assert!(world.seen.salvage.is_none());
                prop_assert!(world.seen.balancers.values().all(|mark| *mark == Mark::None));
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn facts_alone_decide_and_a_plan_made_again_is_the_same(
        events in events(), survivor in any::<bool>(),
    ) {
        let mut world = World::new(3);
        world.seen.survivor = survivor.then(|| "etcd-0".to_owned());
        for event in events {
            world.happen(event);
            prop_assert_eq!(plan(&world.seen), plan(&world.seen.clone()));
            // Once it is known what came of what is left, its Job is not asked again.
            if world.seen.recorded.salvaged.is_some() && world.seen.recorded.given_up.is_none() {
                let mut blind = world.seen.clone();
                blind.salvage = None;
                prop_assert_eq!(plan(&blind), plan(&world.seen));
            }
            // Once members run on it nobody asks any more what was built, or whether it is wanted.
            if world.seen.recorded.is_switched && !world.seen.recorded.is_prepared {
                let mut blind = world.seen.clone();
                blind.builds.clear();
                (blind.is_wanted, blind.is_overdue) = (false, true);
                prop_assert_eq!(plan(&blind), plan(&world.seen));
            }
        }
    }

    #[test]
    fn what_is_not_confirmed_is_kept(events in events()) {
        let mut world = World::new(3);
        let keeps = |event: &Event| !matches!(event, Event::Deleted | Event::Confirmed);
        for event in events.into_iter().filter(keeps) {
            world.happen(event);
        }
        world.settle();
        prop_assert!(world.forgotten.is_empty() && !world.swept);
    }
}

#[test]
fn outage_after_it_is_over_stops_nothing_anew() {
    let mut world = World::new(3);
    assert_eq!(world.settle(), Phase::Settle);
    let seen = &mut world.seen;
    (seen.answers, seen.is_prepared, seen.serves) = (false, false, false);
    let plan = plan(seen);
    assert_eq!((plan.phase, plan.held.len()), (Phase::Start, 0));
}

#[test]
fn members_of_two_revisions_or_of_the_cluster_of_before_are_never_run() {
    for spoil in [
        |built: &mut Built| built.revision += 1,
        |built: &mut Built| built.revision = 1,
        |built: &mut Built| built.cluster_id = "cdf8".to_owned(),
        |built: &mut Built| built.cluster_id = "cdf9".to_owned(),
        |built: &mut Built| built.cluster_id = "ef01".to_owned(),
        |built: &mut Built| built.member_id = "0".to_owned(),
    ] {
        let mut world = World::new(3);
        world.seen.recorded.is_quiet = true;
        world.seen.pods.clear();
        let mut all: Vec<_> = (0..3).map(|number| world.built(number)).collect();
        spoil(&mut all[1]);
        let named = all.into_iter().enumerate();
        world.seen.builds = named
            .map(|(number, built)| (format!("etcd-{number}"), Job::Done(built)))
            .collect();
        let plan = plan(&world.seen);
        assert!(
            plan.record.given_up.is_some() && plan.switch.is_none(),
            "{plan:?}"
        );
    }
}

#[test]
fn restore_that_is_deleted_keeps_load_balancers_whatever_it_said() {
    for orphans in [Orphans::Keep, Orphans::Report, Orphans::Delete] {
        let mut world = World::new(3);
        world.happen(Event::Decided(orphans));
        assert_eq!(world.settle(), Phase::Settle);
        world.happen(Event::Deleted);
        world.settle();
        assert!(world.over && !world.swept, "{orphans:?}");
        assert_eq!(world.seen.balancers[LATE], Mark::Orphan);
    }
}

#[test]
fn load_balancer_of_which_nobody_said_whether_it_is_known_is_waited_for_and_only_where_somebody_can_say()
 {
    for orphans in [Orphans::Keep, Orphans::Report] {
        for can in [true, false] {
            let mut world = World::new(1);
            world.settle();
            for mark in world.seen.balancers.values_mut() {
                *mark = Mark::Unknown;
            }
            let seen = &mut world.seen;
            (seen.orphans, seen.is_confirmed, seen.is_told_apart) = (orphans, true, can);
            let plan = plan(seen);
            assert!(plan.release.is_empty() && !plan.is_over);
            assert_eq!(plan.forget.is_empty(), can, "{orphans:?}");
        }
    }
}

#[test]
fn what_was_there_before_stays_while_volumes_are_undecided_and_a_restore_that_is_deleted_waits_for_nobody()
 {
    for orphans in [Orphans::Keep, Orphans::Report, Orphans::Delete] {
        for can in [true, false] {
            let mut world = World::new(3);
            world.seen.is_told_apart = can;
            world.seen.has_undecided_volumes = true;
            world.happen(Event::Decided(orphans));
            world.happen(Event::Confirmed);
            assert_eq!(world.settle(), Phase::Settle);
            assert!(world.forgotten.is_empty() && !world.over, "{orphans:?}");
            let mut deleted = world.clone();
            deleted.happen(Event::Deleted);
            deleted.settle();
            assert!(deleted.over, "{orphans:?}");
            world.seen.has_undecided_volumes = false;
            world.settle();
            // Of load balancers it is not decided yet.
            let waits = can && orphans == Orphans::Report;
            assert_eq!(world.over, !waits, "{orphans:?}");
        }
    }
}

#[test]
fn what_was_put_into_the_backup_is_in_what_is_built_or_nothing_runs_on_it() {
    let mut world = World::new(1);
    world.seen.survivor = Some("etcd-0".to_owned());
    world.seen.recorded.is_quiet = true;
    world.seen.recorded.salvaged = Some(Salvage::Until(720));
    world.seen.pods.clear();
    let short = Built {
        revision: 719,
        ..world.built(0)
    };
    for (built, is_run) in [(short, false), (world.built(0), true)] {
        world.seen.builds = [("etcd-0".to_owned(), Job::Done(built))].into();
        let plan = plan(&world.seen);
        assert_eq!(plan.switch.is_some(), is_run, "{plan:?}");
        assert_eq!(plan.record.given_up.is_some(), !is_run);
    }
}
