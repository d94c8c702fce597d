//! Who goes first, and how many at once.
//!
//! Invariant: time is told, so that nothing here waits.

use super::*;

fn turn(second: i64, uid: &str) -> Turn {
    of("team-a", second, uid)
}

fn of(namespace: &str, second: i64, uid: &str) -> Turn {
    Turn {
        purpose: Purpose::Start,
        created: Timestamp::from_second(second).unwrap(),
        uid: uid.to_owned(),
        namespace: namespace.to_owned(),
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn oldest_goes_first_and_the_limit_holds() {
    let queue = RolloutQueue::new(1, 1);
    assert_eq!(queue.ask(&turn(1, "a"), at(10)), Answer::Go);
    assert_eq!(queue.ask(&turn(3, "c"), at(10)), Answer::Wait);
    assert_eq!(queue.ask(&turn(2, "b"), at(10)), Answer::Wait);
    assert_eq!(queue.ask(&turn(3, "c"), at(10)), Answer::Wait);
    assert!(queue.done("a"));
    assert_eq!(queue.next(), ["b"]);
    assert_eq!(queue.ask(&turn(3, "c"), at(11)), Answer::Wait);
    assert_eq!(queue.ask(&turn(2, "b"), at(11)), Answer::Go);
    assert_eq!(queue.ask(&turn(2, "b"), at(11)), Answer::Go);
}

#[test]
fn a_start_that_hangs_gives_its_place_up() {
    let queue = RolloutQueue::new(1, 1);
    assert_eq!(queue.ask(&turn(1, "a"), at(0)), Answer::Go);
    assert_eq!(queue.ask(&turn(2, "b"), at(89)), Answer::Wait);
    assert_eq!(queue.ask(&turn(2, "b"), at(90)), Answer::Go);
}

#[test]
fn a_deleted_one_no_longer_stands_in_the_way() {
    let queue = RolloutQueue::new(1, 1);
    assert_eq!(queue.ask(&turn(1, "a"), at(0)), Answer::Go);
    assert_eq!(queue.ask(&turn(2, "b"), at(0)), Answer::Wait);
    assert_eq!(queue.ask(&turn(3, "c"), at(0)), Answer::Wait);
    assert!(queue.done("b"));
    assert!(queue.done("a"));
    assert_eq!(queue.next(), ["c"]);
}

#[test]
fn what_ran_before_a_restart_counts() {
    let queue = RolloutQueue::new(1, 1);
    queue.resume("old", Purpose::Start, at(0));
    assert_eq!(queue.ask(&turn(1, "a"), at(0)), Answer::Wait);
    let counts = queue.counts();
    assert_eq!((counts.running, counts.waiting), (1, 1));
}

/// Starts one after another whoever is next, until nobody waits.
fn order(queue: &RolloutQueue, turns: &[Turn]) -> Vec<String> {
    let mut order = Vec::new();
    for second in 1.. {
        let going = turns
            .iter()
            .find(|turn| !order.contains(&turn.uid) && queue.ask(turn, at(second)) == Answer::Go);
        let Some(going) = going else { break };
        queue.done(&going.uid);
        order.push(going.uid.clone());
    }
    order
}

#[test]
fn fifty_of_one_namespace_do_not_hold_up_the_one_of_another() {
    let queue = RolloutQueue::new(1, 1);
    let first = of("team-a", 0, "first");
    assert_eq!(queue.ask(&first, at(0)), Answer::Go);
    let mut turns: Vec<_> = (1..=50)
        .map(|n| of("team-a", n, &format!("a{n:02}")))
        .collect();
    turns.push(of("team-b", 1000, "b01"));
    for turn in &turns {
        assert_eq!(queue.ask(turn, at(0)), Answer::Wait);
    }
    assert_eq!(queue.next(), [""; 0]);
    assert!(queue.done("first"));
    assert_eq!(queue.next(), ["b01"], "it never had its turn");
    let order = order(&queue, &turns);
    assert_eq!(order.len(), 51);
    assert_eq!(order[..3], ["b01", "a01", "a02"]);
}

#[test]
fn namespaces_take_turns_and_each_keeps_its_own_order() {
    let queue = RolloutQueue::new(1, 1);
    assert_eq!(queue.ask(&of("team-c", 0, "c"), at(0)), Answer::Go);
    let turns = [
        of("team-a", 1, "a1"),
        of("team-a", 2, "a2"),
        of("team-a", 3, "a3"),
        of("team-b", 4, "b1"),
        of("team-b", 5, "b2"),
    ];
    for turn in &turns {
        assert_eq!(queue.ask(turn, at(0)), Answer::Wait);
    }
    // Whoever asks one by one is served and then has had its turn, too.
    assert_eq!(queue.ask(&of("team-c", 6, "c2"), at(0)), Answer::Wait);
    assert!(queue.done("c"));
    assert_eq!(order(&queue, &turns), ["a1", "b1"], "then it is c2's turn");
    assert_eq!(queue.next(), ["c2"]);
    queue.done("c2");
    let rest = [&turns[1], &turns[2], &turns[4]].map(Clone::clone);
    assert_eq!(order(&queue, &rest), ["a2", "b2", "a3"]);
}

#[test]
fn several_places_are_shared_among_namespaces() {
    let queue = RolloutQueue::new(2, 1);
    let turns = [
        of("team-a", 1, "a1"),
        of("team-a", 2, "a2"),
        of("team-a", 3, "a3"),
        of("team-b", 4, "b1"),
    ];
    queue.resume("old-1", Purpose::Start, at(0));
    queue.resume("old-2", Purpose::Start, at(0));
    for turn in &turns {
        assert_eq!(queue.ask(turn, at(0)), Answer::Wait);
    }
    queue.done("old-1");
    queue.done("old-2");
    assert_eq!(queue.next(), ["a1", "b1"]);
}

fn rollout(second: i64, uid: &str, cause: Cause) -> Turn {
    Turn {
        purpose: Purpose::Rollout(cause),
        ..turn(second, uid)
    }
}

#[test]
fn fleet_waits_until_all_that_is_under_way_is_known_and_nobody_starts() {
    let queue = RolloutQueue::new(1, 2);
    let fleet: Vec<_> = ["f1", "f2", "f3"]
        .map(|uid| rollout(1, uid, Cause::Fleet))
        .into();
    assert_eq!(queue.ask(&fleet[0], at(0)), Answer::Wait);
    queue.resume("under-way", Purpose::Rollout(Cause::Fleet), at(0));
    assert!(queue.saw("under-way", Vec::new));
    assert!(!queue.saw("created-later", Vec::new));
    assert_eq!(queue.ask(&fleet[0], at(0)), Answer::Go, "two at once");
    assert_eq!(queue.ask(&fleet[1], at(0)), Answer::Wait);
    queue.done("under-way");
    assert_eq!(
        queue.ask(&turn(9, "starts"), at(1)),
        Answer::Go,
        "in a place of its own"
    );
    assert_eq!(queue.ask(&turn(9, "waits"), at(1)), Answer::Wait);
    assert_eq!(
        queue.ask(&fleet[1], at(1)),
        Answer::Wait,
        "after who starts"
    );
    queue.done("starts");
    assert_eq!(queue.ask(&turn(9, "waits"), at(1)), Answer::Go);
    assert_eq!(queue.ask(&fleet[1], at(1)), Answer::Go);
    assert_eq!(queue.ask(&fleet[2], at(1)), Answer::Wait);
    let counts = queue.counts();
    assert_eq!((counts.fleet_running, counts.fleet_waiting), (2, 1));
}

#[test]
fn tenant_clusters_that_new_templates_broke_keep_their_places_and_nobody_else_is_broken() {
    let queue = RolloutQueue::new(1, 1);
    queue.saw("any", Vec::new);
    assert_eq!(
        queue.ask(&rollout(1, "broken", Cause::Fleet), at(0)),
        Answer::Go
    );
    let next = rollout(2, "next", Cause::Fleet);
    assert_eq!(queue.ask(&next, at(100_000)), Answer::Wait);
    // Its user mends it, or it is deleted.
    assert!(queue.done("broken"));
    assert_eq!(queue.ask(&next, at(100_001)), Answer::Go);
}

#[test]
fn change_goes_before_the_fleet_and_gives_its_place_up_once() {
    let queue = RolloutQueue::new(1, 1);
    queue.saw("any", Vec::new);
    assert_eq!(queue.ask(&turn(1, "starts"), at(0)), Answer::Go);
    assert_eq!(
        queue.ask(&rollout(2, "a", Cause::Change), at(0)),
        Answer::Wait
    );
    // It is asked again when the user's change is in the status.
    assert_eq!(
        queue.ask(&rollout(2, "a", Cause::Fleet), at(0)),
        Answer::Wait
    );
    assert_eq!(
        queue.ask(&rollout(1, "b", Cause::Fleet), at(0)),
        Answer::Wait
    );
    assert!(queue.started("starts"));
    assert_eq!(queue.next(), ["a"]);
    assert_eq!(queue.ask(&rollout(2, "a", Cause::Fleet), at(0)), Answer::Go);
    assert!(
        !queue.started("a"),
        "a rollout is not over because the API answers"
    );
    assert_eq!(queue.counts().running, 1);
    assert_eq!(queue.ask(&turn(3, "c"), at(90)), Answer::Go);
    let under_way = rollout(2, "a", Cause::Change);
    assert_eq!(queue.ask(&under_way, at(91)), Answer::Go, "it goes on");
    queue.resume("a", Purpose::Rollout(Cause::Change), at(91));
    assert_eq!(queue.counts().running, 1, "and takes no place again");
}

#[test]
fn all_were_seen_once_and_late_comers_change_nothing() {
    let queue = RolloutQueue::new(1, 1);
    let all = || vec!["a".to_owned(), "b".to_owned()];
    assert!(!queue.saw("a", all));
    assert!(!queue.saw("a", all));
    assert!(queue.saw("b", all));
    assert!(!queue.saw("c", || vec!["c".to_owned(), "d".to_owned()]));
}

#[test]
fn policy_says_who_begins_and_how_many_and_who_has_begun_goes_on() {
    let queue = RolloutQueue::new(1, 5);
    queue.saw("any", Vec::new);
    let set =
        |uids: &[&str]| -> BTreeSet<String> { uids.iter().map(ToString::to_string).collect() };
    let gate = |admitted: &[&str], begun: &[&str]| Gate {
        by_policy: true,
        admitted: Some(set(admitted)),
        begun: set(begun),
        most: Some(2),
    };
    let fleet = |uid: &str| rollout(1, uid, Cause::Fleet);
    queue.gate(gate(&["a", "b", "c"], &[]));
    assert_eq!(queue.ask(&fleet("later"), at(0)), Answer::Held);
    assert_eq!(queue.ask(&fleet("a"), at(0)), Answer::Go);
    assert_eq!(queue.ask(&fleet("b"), at(0)), Answer::Go);
    assert_eq!(queue.ask(&fleet("c"), at(0)), Answer::Held, "two at once");
    assert_eq!(queue.fleet_running(), set(&["a", "b"]));
    // It halts: nobody begins, and who has a place keeps it.
    queue.gate(gate(&[], &["a", "b"]));
    assert!(queue.done("a"));
    assert_eq!(queue.next(), [""; 0]);
    assert_eq!(queue.ask(&fleet("c"), at(1)), Answer::Held);
    assert_eq!(queue.ask(&fleet("b"), at(1)), Answer::Go);
    // What a user changes waits for no policy.
    assert_eq!(
        queue.ask(&rollout(1, "d", Cause::Change), at(1)),
        Answer::Go
    );

    // Another leader: what has begun goes on, and takes places from those that may begin.
    let next = RolloutQueue::new(1, 5);
    next.saw("any", Vec::new);
    next.gate(gate(&["c", "e"], &["b"]));
    assert_eq!(next.ask(&fleet("c"), at(2)), Answer::Go);
    assert_eq!(next.ask(&fleet("e"), at(2)), Answer::Held);
    assert_eq!(next.ask(&fleet("b"), at(2)), Answer::Go);
    assert_eq!(next.counts().fleet_running, 2);
}
