//! A tenant cluster that is brought back, with crashes, failures and pods that take their time.
//!
//! Invariant: the world here ends with an assertion where something would have been lost.

use proptest::prelude::*;

use super::*;
use crate::controllers::tenant_backup::report::Moment;

/// What happens.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The operator plans and writes one thing.
    Acts,
    /// A pod that is not wanted ends, one that is comes, a Job goes on.
    Goes,
    /// The backup is read to its end.
    Read,
    /// A Job fails.
    JobFails,
    /// Nothing is known of the backup.
    Silence,
}

#[derive(Clone, Debug)]
struct World {
    seen: Observed,
    held: BTreeSet<Workload>,
    possible: bool,
    prepared: bool,
    /// Control planes that were started over data that was built.
    serves_built: bool,
}

impl World {
    fn new(members: usize, possible: bool) -> Self {
        let seen = Observed {
            members: (0..members).map(|n| format!("etcd-{n}")).collect(),
            live_revision: Some(900),
            pods: ALL.map(|workload| (workload, 2)).into(),
            serves: true,
            ..Observed::default()
        };
        Self {
            seen,
            held: BTreeSet::new(),
            possible,
            prepared: false,
            serves_built: false,
        }
    }

    fn pods(&self, workload: Workload) -> u32 {
        self.seen.pods.get(&workload).copied().unwrap_or_default()
    }

    /// The first difference between what is wanted and what is, as one write; whether there was one.
    fn act(&mut self) -> bool {
        let plan = plan(&self.seen);
        let was_touched = !self.held.is_empty() || self.seen.recorded.is_switched;
        if plan.record != self.seen.recorded {
            if plan.record.is_switched && !self.seen.recorded.is_switched {
                assert!(ALL.iter().all(|workload| self.pods(*workload) == 0));
                let done = |member| self.seen.builds.get(member) == Some(&Build::Done);
                assert!(self.seen.members.iter().all(done), "a member without data");
            }
            self.seen.recorded = plan.record;
            return true;
        }
        let hold = plan
            .held
            .iter()
            .find(|workload| !self.held.contains(*workload));
        if let Some(workload) = hold {
            assert!(
                self.seen.recorded.revision.is_some() && self.possible,
                "stopped in vain"
            );
            self.held.insert(*workload);
            return true;
        }
        let builds = |member: &&String| !self.seen.builds.contains_key(*member);
        if let Some(member) = plan.build.iter().find(builds) {
            assert!(
                ALL.iter().all(|workload| self.pods(*workload) == 0),
                "somebody may write"
            );
            self.seen.builds.insert(member.clone(), Build::Runs);
            return true;
        }
        if plan.prepare && !self.prepared {
            assert_eq!(self.pods(Workload::ControlPlane), 0);
            (self.prepared, self.seen.is_prepared) = (true, true);
            return true;
        }
        let free = self
            .held
            .iter()
            .find(|workload| !plan.held.contains(*workload))
            .copied();
        if let Some(workload) = free {
            if workload == Workload::ControlPlane && plan.on_built {
                assert!(self.prepared, "a kube-apiserver over Leases of before");
                self.serves_built = true;
            }
            self.held.remove(&workload);
            return true;
        }
        if matches!(plan.phase, Phase::Impossible(_) | Phase::Choose) {
            assert!(!was_touched);
        }
        false
    }

    fn goes(&mut self) {
        for workload in ALL {
            let pods = self.seen.pods.entry(workload).or_default();
            match self.held.contains(&workload) {
                true => *pods = pods.saturating_sub(1),
                false => *pods = 2,
            }
        }
        for build in self.seen.builds.values_mut() {
            if *build == Build::Runs {
                *build = Build::Done;
            }
        }
        self.seen.answers = self.seen.recorded.is_switched && self.pods(Workload::Etcd) > 0;
        self.seen.serves = self.pods(Workload::ControlPlane) > 0 && self.pods(Workload::Etcd) > 0;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Acts => {
                self.act();
            }
            Event::Goes => self.goes(),
            Event::Read => {
                let found = Moment {
                    possible: self.possible,
                    revision: Some(700),
                    why: (!self.possible).then(|| "a hole".to_owned()),
                    ..Moment::default()
                };
                self.seen.choice = Some(Choice::Is(Box::new(found)));
            }
            Event::JobFails => {
                if let Some(build) = self.seen.builds.values_mut().find(|b| **b == Build::Runs) {
                    *build = Build::Failed("no room".to_owned());
                }
            }
            Event::Silence => self.seen.choice = None,
        }
    }

    fn settle(&mut self) -> Phase {
        for _ in 0..60 {
            self.act();
            self.goes();
        }
        assert!(!self.act(), "it comes to rest");
        plan(&self.seen).phase
    }
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => Just(Event::Acts),
        5 => Just(Event::Goes),
        2 => Just(Event::Read),
        1 => Just(Event::JobFails),
        1 => Just(Event::Silence),
    ];
    proptest::collection::vec(event, 0..80)
}

proptest! {
    #[test]
    fn whatever_happens_it_serves_in_the_end_on_the_old_data_or_on_all_of_the_new(
        events in events(), three in any::<bool>()
    ) {
        let mut world = World::new(if three { 3 } else { 1 }, true);
        events.into_iter().for_each(|event| world.happen(event));
        world.happen(Event::Read);
        let phase = world.settle();
        prop_assert!(world.seen.serves && world.held.is_empty(), "{:?}", world);
        match phase {
            Phase::Settle => prop_assert!(world.serves_built && world.prepared),
            Phase::GivenUp(why) => {
                prop_assert!(!world.seen.recorded.is_switched && why.contains("no room"));
            }
            other => prop_assert!(false, "{:?}", other),
        }
        prop_assert!(world.seen.recorded.bump >= Some(MARGIN + 200));
    }

    #[test]
    fn what_cannot_be_had_touches_nothing(events in events()) {
        let mut world = World::new(1, false);
        for event in events {
            world.happen(event);
            prop_assert!(world.held.is_empty() && world.seen.builds.is_empty());
        }
        world.happen(Event::Read);
        prop_assert_eq!(world.settle(), Phase::Impossible("a hole".to_owned()));
        prop_assert!(world.seen.serves);
    }

    #[test]
    fn facts_alone_decide_and_a_plan_made_again_is_the_same(events in events()) {
        let mut world = World::new(3, true);
        for event in events {
            world.happen(event);
            prop_assert_eq!(plan(&world.seen), plan(&world.seen.clone()));
            // What was found is not asked for any more once it is written.
            if world.seen.recorded.revision.is_some() {
                let mut silent = world.seen.clone();
                silent.choice = None;
                silent.live_revision = None;
                prop_assert_eq!(plan(&silent), plan(&world.seen));
            }
        }
    }
}

#[test]
fn outage_after_it_is_over_stops_nothing_anew() {
    let mut world = World::new(3, true);
    world.happen(Event::Read);
    assert_eq!(world.settle(), Phase::Settle);
    (
        world.seen.answers,
        world.seen.is_prepared,
        world.seen.serves,
    ) = (false, false, false);
    let plan = plan(&world.seen);
    assert_eq!(
        (plan.phase, plan.held.len(), plan.on_built),
        (Phase::Start, 0, true)
    );
}

#[test]
fn moment_without_a_known_revision_of_today_stops_nothing() {
    let mut world = World::new(1, true);
    world.seen.live_revision = None;
    world.happen(Event::Read);
    assert!(!world.act());
    assert_eq!(plan(&world.seen).phase, Phase::Choose);
}
