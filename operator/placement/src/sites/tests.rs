//! Words of sessions, and whole lives of a site in played seconds.
//!
//! Invariant: what the model calls failing is counted over all words that were ever said, without what `Contact` keeps.

use proptest::prelude::*;

use super::*;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A host that said these words at these seconds.
fn host(is_silent: bool, words: &[(u64, Option<Word>)]) -> Host {
    let mut contact = Contact::default();
    for (at, word) in words {
        contact.on_try(s(*at));
        contact.on_end(*word, s(*at));
    }
    Host { contact, is_silent }
}

use Word::{Answers, Fails, Refuses};

#[test]
fn half_of_a_site_that_fails_and_two_at_least_is_a_failure() {
    let well = host(false, &[(0, Some(Answers))]);
    let lost = host(true, &[(0, Some(Answers)), (90, Some(Fails))]);
    let refuses = host(true, &[(90, Some(Refuses))]);
    let unknown = Host::default();
    for (hosts, expected) in [
        (vec![], Some(true)),
        (vec![lost], Some(true)),
        (vec![unknown], Some(true)),
        (vec![lost, lost], Some(false)),
        (vec![lost, well], Some(true)),
        (vec![lost, unknown], None),
        (vec![unknown, unknown], None),
        (vec![lost, lost, well, well], Some(false)),
        (vec![lost, lost, well, well, well], Some(true)),
        (vec![lost, unknown, well, well], None),
        (vec![lost, lost, unknown, unknown], Some(false)),
        (vec![refuses, refuses], Some(true)),
        (vec![refuses, lost], Some(true)),
    ] {
        assert_eq!(answers(&hosts, s(100)), expected, "{hosts:?}");
    }
}

#[test]
fn one_failure_while_the_node_speaks_is_none() {
    let once = host(false, &[(0, Some(Answers)), (90, Some(Fails))]);
    assert_eq!(answers(&[once, once], s(100)), None);
    let again = host(false, &[(90, Some(Fails)), (95, Some(Fails))]);
    assert_eq!(answers(&[again, again], s(200)), None);
    let long = host(false, &[(90, Some(Fails)), (110, Some(Fails))]);
    assert_eq!(answers(&[long, long], s(110)), Some(false));
    let between = [
        (90, Some(Fails)),
        (100, Some(Answers)),
        (110, Some(Fails)),
        (120, Some(Fails)),
    ];
    let between = host(false, &between);
    assert_eq!(answers(&[between, between], s(120)), None);
    // All places were taken: that says nothing, and ends nothing.
    let busy = host(false, &[(90, Some(Fails)), (95, None), (110, Some(Fails))]);
    assert_eq!(answers(&[busy, busy], s(110)), Some(false));
}

#[test]
fn a_failure_that_nobody_looked_after_is_forgotten() {
    let lost = host(true, &[(0, Some(Fails))]);
    let long = KNOWN_FOR;
    assert_eq!(answers(&[lost, lost], long), Some(false));
    assert_eq!(answers(&[lost, lost], long + s(1)), None);
    // The next one begins anew.
    let again = host(false, &[(0, Some(Fails)), (2000, Some(Fails))]);
    assert_eq!(answers(&[again, again], s(2000)), None);
}

#[test]
fn nobody_is_tried_while_its_node_speaks_and_no_more_often_than_every_thirty_seconds() {
    let due = |host: Host, at: u64| host.is_probe_due(false, s(at));
    assert!(!due(Host::default(), 1000));
    assert!(!due(host(false, &[(0, Some(Fails))]), 1000));
    assert!(due(host(true, &[]), 1000));
    let failed = host(true, &[(1000, Some(Fails))]);
    assert!(!due(failed, 1029) && due(failed, 1030));
    // Whatever came of it.
    let busy = host(true, &[(1000, None)]);
    assert!(!due(busy, 1029) && due(busy, 1030));
    assert!(!due(host(true, &[(0, Some(Refuses))]), 100_000));
}

#[test]
fn who_failed_is_tried_until_it_answers_while_its_location_is_out() {
    for (words, expected) in [
        (vec![], true),
        (vec![(0, Some(Fails))], true),
        (vec![(0, Some(Answers))], false),
        (vec![(0, Some(Refuses))], false),
    ] {
        let host = host(false, &words);
        assert_eq!(host.is_probe_due(true, s(100)), expected, "{words:?}");
    }
}

fn word() -> impl Strategy<Value = Option<Word>> {
    prop_oneof![
        4 => Just(Some(Fails)),
        2 => Just(Some(Answers)),
        1 => Just(Some(Refuses)),
        1 => Just(None),
    ]
}

/// Pauses and words.
fn story() -> impl Strategy<Value = Vec<(u64, Option<Word>)>> {
    prop::collection::vec((1_u64..400, word()), 0..8).prop_map(|steps| {
        let mut at = 0;
        let told = steps.into_iter().map(|(pause, word)| {
            at += pause;
            (at, word)
        });
        told.collect()
    })
}

/// What was said, and at which seconds.
type Story = Vec<(u64, Option<Word>)>;

fn hosts() -> impl Strategy<Value = Vec<(bool, Story)>> {
    prop::collection::vec((any::<bool>(), story()), 0..6)
}

/// The same from all words.
fn fails(is_silent: bool, story: &[(u64, Option<Word>)]) -> bool {
    let said: Vec<_> = story.iter().filter(|(_, word)| word.is_some()).collect();
    let row = said.iter().rev().take_while(|(_, w)| *w == Some(Fails));
    let row: Vec<_> = row.map(|(at, _)| *at).collect();
    match (row.last(), row.first()) {
        (Some(first), Some(last)) => is_silent || last - first >= 20,
        _ => false,
    }
}

proptest! {
    /// As by a model that forgets nothing; no pause here is as long as a failure is heard.
    #[test]
    fn a_site_fails_as_all_its_words_say(hosts in hosts()) {
        let now = hosts.iter().flat_map(|(_, story)| story).map(|(at, _)| *at).max().unwrap_or_default();
        let is_heard = |story: &[(u64, Option<Word>)]| story.iter().rev()
            .find(|(_, word)| word.is_some())
            .is_none_or(|(at, _)| now - at <= KNOWN_FOR.as_secs());
        let all: Vec<_> = hosts.iter().map(|(silent, story)| host(*silent, story)).collect();
        let failing = hosts.iter().filter(|(silent, story)| fails(*silent, story) && is_heard(story)).count();
        let gap = |story: &[(u64, Option<Word>)]| {
            let said: Vec<_> = story.iter().filter(|(_, w)| w.is_some()).map(|(at, _)| *at).collect();
            said.windows(2).any(|pair| pair[1] - pair[0] > KNOWN_FOR.as_secs())
        };
        prop_assume!(!hosts.iter().any(|(_, story)| gap(story)));
        let is_out = failing >= 2 && 2 * failing >= hosts.len();
        prop_assert_eq!(answers(&all, s(now)) == Some(false), is_out);
    }

    /// Whoever answers last, refusals too, is no reason; and one that answers takes no verdict of failure back to none.
    #[test]
    fn an_answer_makes_nothing_worse(hosts in hosts(), who in any::<prop::sample::Index>(), refuses in any::<bool>()) {
        prop_assume!(!hosts.is_empty());
        let now = s(4000);
        let mut all: Vec<_> = hosts.iter().map(|(silent, story)| host(*silent, story)).collect();
        let before = answers(&all, now);
        let word = if refuses { Refuses } else { Answers };
        let one = who.index(all.len());
        all[one].contact.on_end(Some(word), now);
        let after = answers(&all, now);
        prop_assert!(before != Some(true) || after == Some(true), "{before:?} → {after:?}");
        prop_assert!(before.is_some() || after != Some(false), "{before:?} → {after:?}");
        for host in &mut all {
            host.contact.on_end(Some(word), now);
        }
        prop_assert_eq!(answers(&all, now), Some(true));
    }

    #[test]
    fn order_changes_nothing(hosts in hosts(), by in 0_usize..6) {
        let mut all: Vec<_> = hosts.iter().map(|(silent, story)| host(*silent, story)).collect();
        let before = answers(&all, s(4000));
        let by = by.min(all.len());
        all.rotate_left(by);
        prop_assert_eq!(answers(&all, s(4000)), before);
    }

    /// Tried at every second at which it is due, nobody is tried twice within thirty.
    #[test]
    fn tries_are_thirty_seconds_apart(story in story(), is_out in any::<bool>(), is_silent in any::<bool>(), takes in 0_u64..25) {
        let mut host = Host { is_silent, ..Host::default() };
        let mut words = story.into_iter();
        let (mut last, mut ends) = (None::<u64>, None::<u64>);
        for now in 0..600_u64 {
            if ends.is_some_and(|at| at <= now) {
                ends = None;
                host.contact.on_end(words.next().and_then(|(_, word)| word), s(now));
            }
            if ends.is_none() && host.is_probe_due(is_out, s(now)) {
                prop_assert!(is_out || is_silent);
                prop_assert!(last.is_none_or(|at| now - at >= 30));
                (last, ends) = (Some(now), Some(now + takes));
                host.contact.on_try(s(now));
            }
        }
    }
}
