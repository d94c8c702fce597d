//! Laws of sleep, over all ways through it.

use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A tenant cluster that does what it is told, one thing at a time.
#[derive(Clone, Debug)]
struct World {
    seen: Observed,
    /// What is left inside, whether it is asked or not.
    inside: u32,
    /// Webhooks that would keep it from waking, and whether they have to answer.
    webhooks: Vec<bool>,
    /// Whether somebody inside makes them strict again.
    undoes: bool,
    /// Whether pods run that answer for them.
    responds: bool,
    clock: i64,
}

impl World {
    fn awake(machines: usize) -> Self {
        let pods = [Part::Adapters, Part::ControlPlane, Part::Backup, Part::Etcd];
        Self {
            seen: Observed {
                enabled: true,
                scheduled: None,
                asked: None,
                facts: None,
                busy: None,
                machines,
                left: None,
                policy: HibernationWebhooks::Keep,
                blocking: None,
                pods: pods.map(|part| (part, 1)).into(),
                answers: true,
                now: at(0),
            },
            inside: 3,
            webhooks: Vec::new(),
            undoes: false,
            responds: true,
            clock: 0,
        }
    }

    fn pods(&self, part: Part) -> u32 {
        self.seen.pods.get(&part).copied().unwrap_or_default()
    }

    /// One look, and what comes of it; `ends` says what of the parts that are held has ended meanwhile.
    fn step(&mut self, ends: bool) -> Plan {
        self.clock += 1;
        self.seen.now = at(self.clock);
        (self.seen.left, self.seen.blocking) = (None, None);
        let mut decided = plan(&self.seen);
        for _ in 0..2 {
            if decided.record == self.seen.facts {
                self.ask(&decided);
                decided = plan(&self.seen);
            }
        }
        let is_asked = decided.ask || decided.webhooks.is_some();
        assert!(!is_asked || decided.record != self.seen.facts, "asked once");
        self.lawful(&decided);
        self.seen.facts = decided.record;
        if ends {
            self.end(&decided.held);
        }
        let runs = |part| self.pods(part) > 0;
        self.seen.answers = runs(Part::ControlPlane) && runs(Part::Etcd);
        decided
    }

    fn ask(&mut self, plan: &Plan) {
        let can_answer = self.pods(Part::ControlPlane) > 0;
        if plan.ask {
            self.seen.left = Some(match (can_answer, self.inside) {
                (true, 0) => Left::Nothing,
                (true, left) => Left::Some(left.to_string()),
                (false, _) => Left::Unknown("refused".to_owned()),
            });
        }
        if let Some(step) = plan.webhooks {
            let must_answer = match step {
                Step::Relax => Some(false),
                Step::Restore if self.responds => Some(true),
                Step::Look | Step::Restore => None,
            };
            let facts = self.seen.facts.and_then(|facts| facts.webhooks);
            if let Some(must_answer) = must_answer.filter(|_| can_answer) {
                assert!(
                    [
                        Some(WebhooksStatus::Relaxing),
                        Some(WebhooksStatus::Relaxed)
                    ]
                    .contains(&facts),
                    "nobody would know that requests pass"
                );
                self.webhooks.fill(must_answer);
            }
            let blocks = |must_answer: &&bool| **must_answer == (step != Step::Restore);
            let blocking = self.webhooks.iter().filter(blocks);
            self.seen.blocking = Some(match can_answer {
                true => Blocking::By(blocking.map(|_| "policy/nodes".to_owned()).collect()),
                false => Blocking::Unknown("refused".to_owned()),
            });
        }
    }

    fn end(&mut self, held: &BTreeSet<Part>) {
        if held.contains(&Part::Machines) {
            self.seen.machines = self.seen.machines.saturating_sub(1);
            if self.seen.machines == 0 && self.seen.answers {
                self.inside = self.inside.saturating_sub(1);
            }
        }
        for (part, pods) in &mut self.seen.pods {
            *pods = match held.contains(part) {
                true => pods.saturating_sub(1),
                false => 1,
            };
        }
    }

    /// What holds at each moment.
    fn lawful(&self, plan: &Plan) {
        let holds = |part| plan.held.contains(&part);
        if holds(Part::Adapters) || (holds(Part::Machines) && !self.undoes) {
            assert!(
                !self.webhooks.contains(&true),
                "nobody would answer: {plan:?}"
            );
        }
        if holds(Part::Adapters) {
            assert!(
                self.seen.machines == 0 && self.inside == 0,
                "something is left on nodes: {plan:?}"
            );
        }
        if holds(Part::Backup) {
            assert_eq!(self.pods(Part::ControlPlane), 0, "somebody may write");
        }
        if holds(Part::Etcd) {
            assert_eq!(
                self.pods(Part::Backup),
                0,
                "the last changes are not taken along"
            );
        }
        if plan.phase == Phase::Asleep {
            assert!(
                self.seen.pods.values().all(|pods| *pods == 0),
                "something runs"
            );
            assert_eq!(plan.record, self.seen.facts, "asleep nothing is written");
        }
        // Whoever is held is held after all before it are.
        let first = ALL
            .iter()
            .position(|part| !holds(*part))
            .unwrap_or(ALL.len());
        assert!(
            ALL[first..].iter().all(|part| !holds(*part)),
            "{:?}",
            plan.held
        );
    }

    fn until(&mut self, phase: &Phase) -> usize {
        for step in 0..60 {
            if self.step(true).phase == *phase {
                return step;
            }
        }
        panic!("never {phase:?}: {self:?}");
    }
}

#[test]
fn it_falls_asleep_in_order_and_wakes_and_nothing_is_left_in_the_status() {
    let mut world = World::awake(2);
    let mut phases = Vec::new();
    for _ in 0..40 {
        let phase = world.step(true).phase;
        if phases.last() != Some(&phase) {
            phases.push(phase);
        }
    }
    let mut wanted = vec![Phase::Awake];
    wanted.extend(ALL[1..].iter().map(|part| Phase::Stop(*part)));
    wanted.push(Phase::Asleep);
    assert_eq!(phases, wanted);
    world.seen.enabled = false;
    world.until(&Phase::Awake);
    world.step(true);
    assert_eq!(world.seen.facts, None);
    assert!(world.seen.pods.values().all(|pods| *pods == 1));
}

#[test]
fn who_is_busy_is_not_sent_to_sleep() {
    let mut world = World::awake(1);
    world.seen.busy = Some("the upgrade to be over");
    let plan = world.step(true);
    assert!(plan.held.is_empty() && plan.record.is_none());
    assert_eq!(plan.phase.reason(), Some(Reason::FallingAsleep));
}

#[test]
fn a_request_wakes_until_it_is_sent_to_sleep_anew() {
    let mut world = World::awake(0);
    world.until(&Phase::Asleep);
    // One of the sleep before.
    world.seen.asked = Some(at(-5));
    assert_eq!(world.step(true).phase, Phase::Asleep);
    world.seen.asked = Some(at(world.clock));
    world.until(&Phase::Woken);
    for _ in 0..5 {
        assert_eq!(world.step(true).phase, Phase::Woken);
    }
    world.seen.enabled = false;
    world.step(true);
    assert_eq!(world.seen.facts, None);
    world.seen.enabled = true;
    world.until(&Phase::Asleep);
}

/// Until the schedule's next moment, that is; what was asked before it does not count any more.
#[test]
fn one_that_a_request_woke_is_put_to_sleep_again_by_its_schedule() {
    let mut world = World::awake(0);
    world.seen.scheduled = Some(at(0));
    world.until(&Phase::Asleep);
    world.seen.asked = Some(at(world.clock));
    world.until(&Phase::Woken);
    for _ in 0..5 {
        assert_eq!(world.step(true).phase, Phase::Woken);
    }
    world.seen.scheduled = Some(at(world.clock));
    world.until(&Phase::Asleep);
    assert_eq!(world.step(true).phase, Phase::Asleep);
    world.seen.asked = Some(at(world.clock));
    world.until(&Phase::Woken);
}

/// What is not known is left.
#[test]
fn the_control_plane_stays_while_it_is_not_known_what_is_left() {
    let mut world = World::awake(0);
    world.step(false);
    world.seen.left = Some(Left::Unknown("timed out".to_owned()));
    let plan = plan(&world.seen);
    assert_eq!(plan.phase, Phase::Stop(Part::Machines));
    assert!(!plan.held.contains(&Part::Adapters));
}

#[test]
fn who_would_not_wake_is_not_put_to_sleep() {
    let mut world = World::awake(1);
    world.webhooks = vec![true; 5];
    for _ in 0..3 {
        let plan = world.step(true);
        assert_eq!((plan.record, plan.held.len()), (None, 0));
        let Phase::Busy(why) = plan.phase else {
            panic!("{:?}", plan.phase);
        };
        assert!(why.contains("policy/nodes and 2 more"), "{why}");
    }
    world.webhooks = vec![false; 5];
    world.until(&Phase::Asleep);
}

#[test]
fn webhooks_let_requests_pass_from_before_it_is_drained_until_somebody_answers() {
    let mut world = World::awake(2);
    world.webhooks = vec![true; 2];
    world.seen.policy = HibernationWebhooks::Relax;
    world.until(&Phase::Asleep);
    assert_eq!(world.webhooks, [false; 2]);
    (world.seen.enabled, world.responds) = (false, false);
    for _ in 0..10 {
        world.step(true);
    }
    let phase = world.step(true).phase;
    assert!(
        matches!(&phase, Phase::Relaxed(why) if why.contains("policy/nodes")),
        "{phase:?}"
    );
    assert_eq!(phase.told(), Some(HibernationPhase::Awake));
    world.responds = true;
    world.until(&Phase::Awake);
    world.step(true);
    assert_eq!((world.seen.facts, &*world.webhooks), (None, &[true; 2][..]));
}

/// One that undoes it, as a tool that keeps its webhooks does.
#[test]
fn whoever_makes_them_strict_again_is_waited_for() {
    let mut world = World::awake(1);
    world.webhooks = vec![true];
    world.seen.policy = HibernationWebhooks::Relax;
    while world.step(true).phase != Phase::Stop(Part::Machines) {}
    (world.webhooks, world.undoes) = (vec![true], true);
    world.until(&Phase::Asleep);
    assert_eq!(world.webhooks, [false]);
}

proptest! {
    /// Whatever is wanted in between, at whatever pace: it ends asleep when it is to sleep, and awake when not; and the
    /// laws of every moment hold.
    #[test]
    fn it_ends_where_it_is_wanted(
        machines in 0..4_usize,
        steps in prop::collection::vec((any::<bool>(), 0..10_u8), 0..60),
        sleeps in any::<bool>(),
        webhooks in 0..3_usize,
        relaxes in any::<bool>(),
    ) {
        let mut world = World::awake(machines);
        if relaxes {
            world.webhooks = vec![true; webhooks];
            world.seen.policy = HibernationWebhooks::Relax;
        }
        for (ends, event) in steps {
            match event {
                0 => world.seen.enabled = !world.seen.enabled,
                1 => world.seen.asked = Some(at(world.clock)),
                _ => {}
            }
            if !world.seen.enabled || world.seen.asked.is_some() {
                // Awake, nodes come back.
                world.inside = world.inside.max(u32::from(world.seen.answers));
            }
            world.step(ends);
        }
        world.seen.asked = None;
        world.seen.enabled = sleeps;
        world.until(if sleeps { &Phase::Asleep } else { &Phase::Awake });
        if !sleeps {
            world.step(true);
            prop_assert!(!world.webhooks.contains(&false), "requests pass for ever");
        }
    }

    /// A crash before a fact is written: it is seen again, or was not acted upon.
    #[test]
    fn a_write_that_is_lost_changes_nothing_but_time(lost in prop::collection::vec(any::<bool>(), 60)) {
        let mut world = World::awake(2);
        world.webhooks = vec![true];
        world.seen.policy = HibernationWebhooks::Relax;
        for is_lost in lost {
            let before = world.seen.facts;
            world.step(true);
            if is_lost {
                world.seen.facts = before;
            }
        }
        world.until(&Phase::Asleep);
    }
}
