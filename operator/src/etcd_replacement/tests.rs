//! Laws of the replacement over random lives of three members, and the ways of single ones.

use proptest::prelude::*;

use super::plan::next;
use super::step::{Next, Step};
use super::wait::{Slow, Wait};

mod sizes;
mod slow;
mod world;

use world::{Fate, Hidden, World};

#[derive(Clone, Debug)]
enum Happening {
    LoseClaim(usize),
    MarkClaim(usize),
    Spoil(usize, bool),
    DeletePod(usize),
    Down(usize),
    Up(usize),
    RemoveByHand(usize),
    AddByHand(usize),
    Pass(i64),
    ErasePhase,
    Want(usize),
    Class(&'static str),
    SlowDown(usize),
    Reconcile(Hidden, Fate, usize),
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::*;
    let hidden = (
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
        prop::option::weighted(0.2, 0..3_usize),
    );
    let hidden = hidden.prop_map(|(list, claims, pods, answers)| Hidden {
        list,
        claims,
        pods,
        answers,
    });
    let fate = prop_oneof![3 => Just(Fate::Done), 1 => Just(Fate::Lost)];
    prop_oneof![
        2 => (0..3_usize).prop_map(LoseClaim),
        1 => (0..3_usize).prop_map(MarkClaim),
        1 => (0..3_usize, any::<bool>()).prop_map(|(seat, gone)| Spoil(seat, gone)),
        2 => (0..3_usize).prop_map(DeletePod),
        1 => (0..3_usize).prop_map(Down),
        2 => (0..3_usize).prop_map(Up),
        1 => (0..3_usize).prop_map(RemoveByHand),
        1 => (0..3_usize).prop_map(AddByHand),
        4 => prop_oneof![1..5_i64, 30..90_i64, 300..900_i64].prop_map(Pass),
        2 => Just(ErasePhase),
        1 => prop_oneof![Just(1_usize), Just(3)].prop_map(Want),
        1 => prop_oneof![Just("slow"), Just("fast")].prop_map(Class),
        1 => (0..3_usize).prop_map(SlowDown),
        12 => (hidden, fate, 1..4_usize).prop_map(|(hidden, fate, most)| {
            Reconcile(hidden, fate, most)
        }),
    ]
}

fn live(world: &mut World, happening: Happening) {
    match happening {
        Happening::LoseClaim(seat) => world.lose_claim(seat),
        Happening::MarkClaim(seat) if world.can_lose(seat) => world.mark_claim(seat),
        Happening::MarkClaim(_) => {}
        Happening::Spoil(seat, is_gone) => world.spoil(seat, is_gone),
        Happening::DeletePod(seat) => world.delete_pod(seat),
        Happening::Down(seat) => world.set_up(seat, false),
        Happening::Up(seat) => world.set_up(seat, true),
        Happening::RemoveByHand(seat) => world.remove_by_hand(seat),
        Happening::AddByHand(seat) => world.add_by_hand(seat),
        Happening::Pass(seconds) => world.pass(seconds),
        Happening::ErasePhase => world.erase_phase(),
        Happening::SlowDown(seat) => world.slow_down(seat),
        Happening::Want(members) => world.wanted = members,
        Happening::Class(class) => world.class = class,
        Happening::Reconcile(hidden, fate, most) => {
            world.some_steps(hidden, fate, most);
        }
    }
}

/// Passes of a quarter of an hour: who rests for that long rests.
const LONG: u32 = 60;

/// Whoever looks after it is left alone, nodes come back, and people do what they are told, for two hours: ten minutes
/// for each of those that are lost and of those that move, and for as many whose claims were made before that.
fn settle(world: &mut World) {
    for seat in 0..3 {
        world.set_up(seat, true);
    }
    let mut at_rest = 0;
    for _ in 0..480 {
        world.pass(15);
        world.reconcile(Hidden::default(), Fate::Done);
        let next = next(&world.facts(Hidden::default()));
        at_rest = if world.rests() { at_rest + 1 } else { 0 };
        if at_rest == LONG {
            return;
        }
        if next.wait == Some(Wait::Overdue(Slow::Starting)) {
            world.delete_claim_and_pod(next.member.as_deref().unwrap());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Each step is held against the laws where it is carried out ([`World::reconcile`]).
    #[test]
    fn three_members_serve_again_after_any_life_and_no_step_of_it_is_unlawful(
        happenings in prop::collection::vec(happening(), 0..40),
    ) {
        let mut world = World::new();
        for happening in happenings {
            live(&mut world, happening);
        }
        settle(&mut world);
        prop_assert_eq!(world.is_whole(), Ok(()));
        let rest = next(&world.facts(Hidden::default()));
        prop_assert_eq!((rest.step, rest.wait), (None, None));
    }

    /// What is next does not depend on what was remembered of the phase.
    #[test]
    fn phase_that_is_erased_is_computed_again(
        happenings in prop::collection::vec(happening(), 0..30),
    ) {
        let mut world = World::new();
        for happening in happenings {
            live(&mut world, happening);
        }
        for seat in 0..3 {
            world.set_up(seat, true);
        }
        let mut at_rest = 0;
        // Between any two steps but the one that notes it and the next.
        for _ in 0..480 {
            world.pass(15);
            world.erase_phase();
            world.some_steps(Hidden::default(), Fate::Done, 2);
            at_rest = if world.rests() { at_rest + 1 } else { 0 };
            if at_rest == LONG {
                break;
            }
        }
        settle(&mut world);
        prop_assert_eq!(world.is_whole(), Ok(()));
    }
}

/// Passes time until the operator has something to do, or so many seconds.
fn steps_after(world: &mut World, seconds: i64) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..seconds {
        world.pass(1);
        let next = next(&world.facts(Hidden::default()));
        steps.extend(next.step);
        world.reconcile(Hidden::default(), Fate::Done);
    }
    steps
}

#[test]
fn member_whose_claim_is_lost_is_back_within_three_minutes() {
    for seat in 0..3 {
        let mut world = World::new();
        world.lose_claim(seat);
        world.pass(1);
        world.reconcile(Hidden::default(), Fate::Done);
        assert_eq!(world.voters(), 3, "it may come back within a minute");
        steps_after(&mut world, 120);
        assert_eq!(world.is_whole(), Ok(()));
        assert_eq!(world.added, 1);
    }
}

#[test]
fn whole_cluster_needs_nothing() {
    let mut world = World::new();
    assert_eq!(steps_after(&mut world, 5), []);
    // Nor one whose pod is made anew, or whose node is away.
    world.delete_pod(1);
    world.set_up(2, false);
    assert_eq!(steps_after(&mut world, 700), []);
    world.set_up(2, true);
    assert_eq!(steps_after(&mut world, 5), []);
}

#[test]
fn nobody_is_removed_while_another_one_is_away() {
    let mut world = World::new();
    world.lose_claim(0);
    world.pass(1);
    world.set_up(1, false);
    assert_eq!(steps_after(&mut world, 600), []);
    assert_eq!(world.voters(), 3);
    world.set_up(1, true);
    world.pass(30);
    assert_eq!(
        next(&world.facts(Hidden::default())).wait,
        Some(Wait::Others)
    );
    steps_after(&mut world, 120);
    assert_eq!(world.is_whole(), Ok(()));
}

/// E4: the second member fails while the learner is given the data.
#[test]
fn learner_stays_one_while_a_member_that_votes_is_away() {
    let mut world = World::new();
    world.lose_claim(0);
    for _ in 0..90 {
        world.pass(1);
        world.reconcile(Hidden::default(), Fate::Done);
        if world.added == 1 {
            break;
        }
    }
    assert_eq!((world.added, world.voters()), (1, 2));
    world.set_up(1, false);
    let steps = steps_after(&mut world, 600);
    let changes = steps
        .iter()
        .filter(|step| !matches!(step, Step::Restart { .. }));
    assert_eq!(changes.count(), 0, "{steps:?}");
    assert_eq!((world.added, world.voters()), (1, 2));
    world.set_up(1, true);
    steps_after(&mut world, 60);
    assert_eq!(world.is_whole(), Ok(()));
}

#[test]
fn next_replacement_waits_for_ten_minutes() {
    let mut world = World::new();
    world.lose_claim(0);
    steps_after(&mut world, 120);
    assert_eq!(world.is_whole(), Ok(()));
    world.lose_claim(1);
    world.pass(90);
    assert_eq!(
        next(&world.facts(Hidden::default())).wait,
        Some(Wait::Pause)
    );
    steps_after(&mut world, 660);
    assert_eq!(world.is_whole(), Ok(()));
    assert_eq!(world.added, 2);
}

#[test]
fn one_that_leads_hands_over_before_it_is_removed() {
    let mut world = World::new();
    let leads = world.leader_seat();
    world.mark_claim(leads);
    world.pass(61);
    world.reconcile(Hidden::default(), Fate::Done);
    assert_ne!(world.leader_seat(), leads);
    steps_after(&mut world, 60);
    assert_eq!(world.is_whole(), Ok(()));
}

#[test]
fn damaged_volume_is_given_up_and_its_claim_is_made_anew() {
    for is_gone in [true, false] {
        let mut world = World::new();
        let before = world.status.members[2].volume_uid.clone();
        world.spoil(2, is_gone);
        steps_after(&mut world, 150);
        assert_eq!(world.is_whole(), Ok(()));
        assert_ne!(world.status.members[2].volume_uid, before);
    }
}

#[test]
fn who_does_not_want_it_is_left_alone() {
    let mut world = World::new();
    world.auto_replace = false;
    world.lose_claim(0);
    assert_eq!(steps_after(&mut world, 900), []);
    assert_eq!(
        next(&world.facts(Hidden::default())).wait,
        Some(Wait::NotAllowed)
    );
}

#[test]
fn nothing_is_done_by_the_word_of_another_cluster_or_beside_a_member_that_nobody_knows() {
    let mut world = World::new();
    world.lose_claim(0);
    world.pass(120);
    let facts = world.facts(Hidden::default());
    assert!(next(&facts).step.is_some());
    let mut foreign = facts.clone();
    foreign.seats[1].answer.as_mut().unwrap().cluster_id = "1".to_owned();
    assert_eq!(next(&foreign).wait, Some(Wait::Foreign));
    let mut stranger = facts.clone();
    let mut one = stranger.listed.as_ref().unwrap()[0].clone();
    one.id = "ff".to_owned();
    one.peer_urls = vec!["https://somewhere:2380".to_owned()];
    stranger.listed.as_mut().unwrap().push(one.clone());
    let id = "ff".to_owned();
    assert_eq!(next(&stranger).wait, Some(Wait::Stranger { id }));
    // Nor beside two at one address.
    one.peer_urls = vec![facts.seats[0].peer_url.clone()];
    let mut twice = facts.clone();
    twice.listed.as_mut().unwrap().push(one);
    assert!(matches!(next(&twice).wait, Some(Wait::Stranger { .. })));
    let mut other_size = facts;
    other_size.seats.pop();
    assert_eq!(next(&other_size).step, None);
}

#[test]
fn alarm_of_a_member_that_was_removed_is_taken_away_before_anything_is_added() {
    let mut world = World::new();
    world.remove_by_hand(1);
    world.pass(1);
    world.reconcile(Hidden::default(), Fate::Lost);
    let mut facts = world.facts(Hidden::default());
    facts.known = match next(&facts).step {
        Some(Step::Record(status)) => status,
        step => panic!("{step:?}"),
    };
    for seat in &mut facts.seats {
        if let Some(answer) = &mut seat.answer {
            answer.corrupt = vec!["ee".to_owned()];
        }
    }
    let disarm = Step::Disarm {
        id: "ee".to_owned(),
    };
    assert_eq!(next(&facts).step, Some(disarm));
}

#[test]
fn one_that_has_other_data_than_the_two_others_is_replaced() {
    let world = World::new();
    let mut facts = world.facts(Hidden::default());
    assert_eq!(next(&facts).step, None);
    facts.odd = Some("etcd-1".to_owned());
    assert!(matches!(next(&facts).step, Some(Step::Record(status)) if status.replacing.is_some()));
}

/// The seconds that a replacement is gone on with, after which people are told.
const OVERDUE: i64 = 900;

/// One whose learner was added and is known, a moment ago.
fn with_a_learner() -> World {
    let mut world = World::new();
    world.lose_claim(2);
    for _ in 0..90 {
        world.pass(1);
        world.some_steps(Hidden::default(), Fate::Done, 1);
        if world.status.members[2].learner {
            return world;
        }
    }
    panic!("none was added: {world:#?}");
}

#[test]
fn learner_that_does_not_start_is_told_after_a_quarter_of_an_hour_and_left_alone() {
    let mut world = with_a_learner();
    world.set_up(2, false);
    steps_after(&mut world, 60);
    let wait = |world: &World| next(&world.facts(Hidden::default())).wait;
    assert_eq!(wait(&world), Some(Wait::Member(Slow::Starting)));
    let steps = steps_after(&mut world, OVERDUE);
    assert_eq!(steps, []);
    assert_eq!(wait(&world), Some(Wait::Overdue(Slow::Starting)));
    assert_eq!((world.added, world.voters()), (1, 2));
    world.set_up(2, true);
    steps_after(&mut world, 300);
    assert_eq!(world.is_whole(), Ok(()));
}

#[test]
fn learner_that_lags_gets_no_vote_and_that_is_told_after_a_quarter_of_an_hour() {
    let mut world = with_a_learner();
    world.learners_lag = true;
    steps_after(&mut world, 60);
    let wait = |world: &World| next(&world.facts(Hidden::default())).wait;
    assert_eq!(wait(&world), Some(Wait::Member(Slow::CatchingUp)));
    assert_eq!(steps_after(&mut world, OVERDUE), []);
    assert_eq!(wait(&world), Some(Wait::Overdue(Slow::CatchingUp)));
    assert_eq!((world.added, world.voters()), (1, 2));
    world.learners_lag = false;
    steps_after(&mut world, 300);
    assert_eq!(world.is_whole(), Ok(()));
}

/// A person's way out of either.
#[test]
fn learner_whose_claim_and_pod_are_deleted_begins_anew() {
    let mut world = with_a_learner();
    world.learners_lag = true;
    steps_after(&mut world, OVERDUE + 60);
    world.learners_lag = false;
    world.delete_claim_and_pod("etcd-2");
    steps_after(&mut world, 500);
    assert_eq!(world.is_whole(), Ok(()));
    assert_eq!(world.added, 2);
}

#[test]
fn member_that_says_what_it_is_is_not_lost_by_the_word_of_an_older_look_at_its_pod() {
    let mut world = World::new();
    world.spoil(2, true);
    world.pass(120);
    let mut facts = world.facts(Hidden::default());
    assert!(next(&facts).step.is_some());
    let mut answer = facts.seats[1].answer.clone().unwrap();
    answer.member_id = facts.known.members[2].id.clone().unwrap();
    facts.seats[2].answer = Some(answer);
    assert_eq!(next(&facts), Next::default());
}

#[test]
fn member_that_has_not_come_up_yet_is_not_lost() {
    let mut world = World::new();
    world.set_up(2, false);
    world.pass(3600);
    let mut facts = world.facts(Hidden::default());
    facts.known.members[2].id = None;
    facts.known.members[2].started = false;
    facts.seats[2].answer = None;
    assert_eq!(next(&facts), Next::default());
    // But for its claim: whatever it had is gone.
    facts.known.members[2].volume_uid = "another".to_owned();
    assert!(next(&facts).step.is_some());
}
