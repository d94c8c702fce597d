//! What is a signal beside silence: SSH where machines are reached by it, and whether the published endpoint lets the operator
//! in.
//!
//! Invariant: the world says what sessions and tries said; whether nodes speak is played as for all outages.

use placement::endpoint::Probe;
use proptest::prelude::*;

use super::*;
use crate::endpoint_probes::Word;

/// Machines reached by SSH; by the published endpoint.
fn site(name: &str) -> Value {
    json!({ "name": name, "weight": 1, "provider": { "static": {} } })
}

#[test]
fn site_that_ssh_does_not_reach_is_out_by_half_of_its_nodes_and_comes_back_once() {
    let mut played = Played::settled(8, &spec(&json!([site("a"), site("b")]), &json!({})));
    let before = played.world.live();
    let of_a = played.of("a");
    played.dead = of_a[..2].to_vec();
    let lost_at = played.second;
    played.pass(40);
    assert!(
        played.made.is_empty(),
        "half of a site that answers: an ordinary loss"
    );
    played.world.answers = BTreeMap::from([("a".to_owned(), false)]);
    played.pass(20);
    assert_eq!(
        (played.state("a").as_str(), played.reason("a").as_deref()),
        ("Out", Some("SiteOutage"))
    );
    let asked: Vec<_> = played.made.iter().map(|(_, at)| at - lost_at).collect();
    assert!(
        asked.len() == 2 && asked.iter().all(|after| *after <= 60),
        "{asked:?}"
    );
    assert_eq!(played.of("b").len(), 6);
    // A restart knows nothing of SSH, and goes on from what is stored.
    played.world.answers.clear();
    played.restart();
    played.pass(300);
    assert_eq!(played.state("a"), "Out");

    played.dead.clear();
    played.pass(300);
    assert_eq!(
        played.state("a"),
        "Out",
        "its nodes speak, and nobody knows of SSH"
    );
    played.world.answers = BTreeMap::from([("a".to_owned(), true)]);
    let mut states = vec![played.state("a")];
    for _ in 0..400 {
        played.pass(5);
        states.push(played.state("a"));
    }
    states.dedup();
    assert_eq!(states, ["Out", "Recovering", "Healthy"]);
    assert_eq!(played.world.live(), before, "the machines of before");
    assert_eq!(played.made.len(), 2);
}

#[test]
fn site_whose_nodes_are_all_silent_is_out_whatever_ssh_says_and_what_it_says_is_told() {
    let mut played = Played::settled(4, &spec(&json!([site("a"), site("b")]), &json!({})));
    played.world.answers = BTreeMap::from([("a".to_owned(), true)]);
    played.cut = vec!["a"];
    played.pass(60);
    assert_eq!(played.made.len(), 2);
    assert_eq!(played.reason("a").as_deref(), Some("LocationOutage"));
    let message = |played: &Played| {
        let status = played.world.pool.status.clone().unwrap();
        let said = status
            .conditions
            .iter()
            .find(|c| c.type_ == "LocationsHealthy");
        said.unwrap().message.clone()
    };
    assert!(message(&played).contains("way to the published endpoint"));
    // Silence was seen sooner than that nobody answers.
    played.world.answers = BTreeMap::from([("a".to_owned(), false)]);
    played.pass(30);
    assert_eq!(played.reason("a").as_deref(), Some("SiteOutage"));
    assert!(message(&played).contains("SSH does not reach them"));
    assert_eq!(played.made.len(), 2);
}

#[test]
fn ssh_alone_replaces_nobody_and_new_machines_go_elsewhere() {
    let mut played = Played::settled(4, &spec(&json!([site("a"), site("b")]), &json!({})));
    played.world.answers = BTreeMap::from([("a".to_owned(), false), ("b".to_owned(), true)]);
    played.pass(1800);
    assert!(played.made.is_empty() && played.world.going().is_empty());
    assert_eq!(
        (played.state("a").as_str(), played.reason("a").as_deref()),
        ("Suspect", Some("ApiOutage"))
    );
    played.world.pool.spec.replicas = 6;
    played.pass(5);
    assert_eq!((played.of("a").len(), played.of("b").len()), (2, 4));
    played.world.answers = BTreeMap::from([("a".to_owned(), true), ("b".to_owned(), true)]);
    played.pass(30);
    assert_eq!(played.state("a"), "Healthy");
}

#[test]
fn endpoint_by_which_all_are_silent_is_named_until_one_is_heard_or_a_cloud_says_that_they_ended() {
    let mut locations = inside(&["k"]);
    let list = locations.as_array_mut().unwrap();
    list.extend([cloud("a"), cloud("b")]);
    let said = |played: &Played| {
        let status = played.world.pool.status.clone().unwrap();
        let mut all = status.conditions.into_iter();
        let found = all.find(|c| c.type_ == "EndpointUnreachable");
        found.map(|c| (c.reason, c.message))
    };
    let reason = |played: &Played| said(played).map(|(reason, _)| reason);
    let word = |probe, words: &str| Word {
        probe,
        words: words.to_owned(),
    };
    let mut played = Played::settled(6, &spec(&locations, &json!({})));
    assert_eq!(said(&played), None);
    played.cut = vec!["a"];
    played.pass(60);
    assert_eq!(said(&played), None, "b comes the same way and is heard");
    played.cut.clear();
    played.pass(3600);
    assert_eq!(played.world.live().len(), 6);
    played.made.clear();

    played.cut = vec!["a", "b"];
    played.pass(60);
    assert_eq!(reason(&played).as_deref(), Some("EndpointSilent"));
    // That the operator gets in is no witness: it may do so from within.
    played.world.endpoint = word(Probe::Answers, "api.example.com:6443");
    played.pass(600);
    assert_eq!(reason(&played).as_deref(), Some("EndpointSilent"));
    assert!(said(&played).unwrap().1.contains("from where it runs"));
    played.world.endpoint = word(Probe::Fails, "api.example.com:6443: connection refused");
    played.pass(600);
    assert_eq!(reason(&played).as_deref(), Some("EndpointNotAnswering"));
    assert!(said(&played).unwrap().1.contains("connection refused"));
    assert!(played.made.is_empty() && played.world.going().is_empty());
    // A restart unsays nothing.
    played.world.endpoint = Word::default();
    played.restart();
    played.pass(10);
    assert_eq!(reason(&played).as_deref(), Some("EndpointNotAnswering"));
    played.pass(60);
    assert_eq!(reason(&played).as_deref(), Some("EndpointSilent"));
    played.cut = vec!["a"];
    played.pass(60);
    assert_eq!(said(&played), None);
}

#[test]
fn where_everybody_is_silent_the_endpoint_is_named_only_if_the_operator_does_not_get_in() {
    let mut played = Played::settled(4, &spec(&json!([cloud("a"), cloud("b")]), &json!({})));
    let has = |played: &Played| {
        let status = played.world.pool.status.clone().unwrap();
        status
            .conditions
            .iter()
            .any(|c| c.type_ == "EndpointUnreachable")
    };
    played.cut = vec!["a", "b"];
    played.pass(300);
    assert!(!has(&played));
    played.world.endpoint = Word {
        probe: Probe::Fails,
        words: "api.example.com:6443: connection refused".to_owned(),
    };
    played.pass(60);
    assert!(has(&played));
    assert!(played.made.is_empty() && played.world.going().is_empty());
    played.cut.clear();
    played.pass(120);
    assert!(!has(&played));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// Whatever SSH does while nodes speak, nobody is replaced and nobody goes; and once it answers everywhere all is well.
    #[test]
    fn no_story_of_ssh_alone_replaces_anybody(
        story in prop::collection::vec((prop::option::of(any::<bool>()), prop::option::of(any::<bool>()), 2_i64..60), 1..8),
    ) {
        let mut played = Played::settled(4, &spec(&json!([site("a"), site("b")]), &json!({})));
        let before = played.world.live();
        let says = |a: Option<bool>, b: Option<bool>| {
            let all = [("a", a), ("b", b)].into_iter();
            all.filter_map(|(name, says)| Some((name.to_owned(), says?))).collect()
        };
        for (a, b, fives) in story {
            played.world.answers = says(a, b);
            played.pass(fives * 5);
            prop_assert!(played.made.is_empty());
            prop_assert!(played.world.going().is_empty());
            for (name, says) in [("a", a), ("b", b)] {
                let expected = match says {
                    Some(true) => "Healthy",
                    Some(false) => "Suspect",
                    None => continue,
                };
                prop_assert_eq!(played.state(name), expected);
            }
        }
        played.world.answers = says(Some(true), Some(true));
        played.pass(60);
        prop_assert_eq!((played.state("a"), played.state("b")), ("Healthy".to_owned(), "Healthy".to_owned()));
        prop_assert_eq!(played.world.live(), before);
    }
}
