//! The table of clouds.md 11.3, row by row, and what holds in any observation.
//!
//! Invariant: nothing is found out without somebody who is fresh.

use proptest::prelude::*;

use super::*;

/// A location in letters: `f`resh, `w`avering, `s`ilent, `d`ead (proven, and silent), `?` not known; zones
/// are parted by a slash; `!` behind the name: its API fails.
fn location(name: &str, endpoint: &str, text: &str) -> Signals {
    let (name, api) = match name.strip_suffix('!') {
        Some(name) => (name, Api::Errors),
        None => (name, Api::Answers),
    };
    let parts: Vec<_> = text.split('/').collect();
    let zone = |n: usize| match parts.len() {
        1 => String::new(),
        _ => format!("z{n}"),
    };
    let machine = |zone: String, letter: char| Machine {
        zone,
        unchanged_for: match letter {
            'f' => Some(Duration::from_secs(9)),
            'w' => Some(Duration::from_secs(29)),
            's' | 'd' => Some(Duration::from_secs(30)),
            _ => None,
        },
        is_proven_dead: letter == 'd',
    };
    let machines = parts.iter().enumerate();
    let machines = machines.flat_map(|(n, letters)| letters.chars().map(move |c| (n, c)));
    Signals {
        name: name.to_owned(),
        endpoint: endpoint.to_owned(),
        api,
        zones: (0..parts.len()).map(zone).collect(),
        machines: machines.map(|(n, c)| machine(zone(n), c)).collect(),
    }
}

fn observed(locations: Vec<Signals>) -> Observation {
    Observation {
        after: Duration::from_secs(25),
        is_trusted: true,
        locations,
        endpoints: BTreeMap::new(),
    }
}

/// Locations that come by one endpoint, and what is found of the first one's places.
fn found(locations: &[(&str, &str)]) -> Vec<Finding> {
    let locations = locations
        .iter()
        .map(|(name, text)| location(name, "public", text));
    of_first(&observed(locations.collect()))
}

fn of_first(observation: &Observation) -> Vec<Finding> {
    let first = observation.locations[0].name.clone();
    let places = judge(observation).places.into_iter();
    let places = places.filter(|(place, _)| place.location == first);
    places.map(|(_, finding)| finding).collect()
}

use Finding::{ApiOutage, Fine, Loss};

fn out(outage: Outage) -> Vec<Finding> {
    vec![Finding::Outage(outage)]
}

fn suspected(why: Suspicion) -> Vec<Finding> {
    vec![Finding::Suspected(why)]
}

#[test]
fn an_api_that_fails_alone_replaces_nothing() {
    assert_eq!(found(&[("a!", "fff"), ("b", "ff")]), [ApiOutage]);
    assert_eq!(found(&[("a!", "ffs"), ("b", "ff")]), [ApiOutage]);
    assert_eq!(found(&[("a!", ""), ("b", "ff")]), [ApiOutage]);
    assert_eq!(found(&[("a!", "s"), ("b", "ff")]), [ApiOutage]);
}

#[test]
fn one_or_few_are_an_ordinary_loss() {
    assert_eq!(found(&[("a", "fff"), ("b", "ff")]), [Fine]);
    assert_eq!(found(&[("a", "ffs"), ("b", "ff")]), [Loss { silent: 1 }]);
    assert_eq!(found(&[("a", "fss"), ("b", "ff")]), [Loss { silent: 2 }]);
    assert_eq!(found(&[("a", "s"), ("b", "ff")]), [Loss { silent: 1 }]);
    assert_eq!(found(&[("a", "d"), ("b", "ff")]), [Loss { silent: 1 }]);
}

#[test]
fn all_of_a_location_are_an_outage() {
    assert_eq!(found(&[("a", "ss"), ("b", "ff")]), out(Outage::Location));
    assert_eq!(
        found(&[("a", "s/s/"), ("b", "ff")]),
        out(Outage::Location).repeat(3)
    );
    // Who is not known is not silent.
    assert_eq!(found(&[("a", "ss?"), ("b", "ff")]), [Loss { silent: 2 }]);
}

#[test]
fn half_of_a_zone_is_an_outage_of_the_zone() {
    let zone = Finding::Outage(Outage::Zone);
    assert_eq!(found(&[("a", "ssff/ff"), ("b", "ff")]), [zone, Fine]);
    assert_eq!(
        found(&[("a", "sff/ff"), ("b", "ff")]),
        [Loss { silent: 1 }, Fine]
    );
    assert_eq!(
        found(&[("a", "s/ff"), ("b", "ff")]),
        [Loss { silent: 1 }, Fine]
    );
    assert_eq!(
        found(&[("a", "sffff/ss"), ("b", "ff")]),
        [Loss { silent: 1 }, zone]
    );
}

#[test]
fn api_and_half_of_the_machines_are_an_outage_of_the_provider() {
    assert_eq!(
        found(&[("a!", "sff/fs"), ("b", "ff")]),
        [ApiOutage, ApiOutage]
    );
    assert_eq!(
        found(&[("a!", "ssf/f"), ("b", "ff")]),
        out(Outage::Provider).repeat(2)
    );
    let mut site = location("a", "public", "ss");
    site.api = Api::SshFails;
    let others = [site, location("b", "public", "ff")];
    assert_eq!(of_first(&observed(others.to_vec())), out(Outage::Site));
    let mut site = others.to_vec();
    site[0].api = Api::SshAnswers;
    assert_eq!(of_first(&observed(site)), out(Outage::Location));
}

#[test]
fn there_is_a_second_look_before_anything_is_out() {
    assert_eq!(
        found(&[("a", "ww"), ("b", "ff")]),
        suspected(Suspicion::SecondLook)
    );
    assert_eq!(
        found(&[("a", "sw"), ("b", "ff")]),
        suspected(Suspicion::SecondLook)
    );
    assert_eq!(
        found(&[("a!", "sw"), ("b", "ff")]),
        suspected(Suspicion::SecondLook)
    );
}

#[test]
fn silence_of_all_who_come_by_one_endpoint_is_the_endpoints() {
    let mut observation = observed(vec![
        location("a", "public", "ss"),
        location("b!", "public", "ssw"),
        location("kubevirt", "inside", "ff"),
    ]);
    let verdict = judge(&observation);
    assert_eq!(
        of_first(&observation),
        suspected(Suspicion::EndpointUnreachable)
    );
    assert_eq!(verdict.unreachable["public"], ["a", "b"]);
    assert!(!verdict.is_all_silent);
    // An outside probe alone may come back inside; with agents it is a witness.
    for (has_agents, expected) in [
        (false, suspected(Suspicion::EndpointUnreachable)),
        (true, out(Outage::Location)),
    ] {
        let is_fine = true;
        let probe = EndpointProbe {
            is_fine,
            has_agents,
        };
        observation.endpoints.insert("public".to_owned(), probe);
        assert_eq!(of_first(&observation), expected);
    }
    // Until its API proves the machines dead.
    observation.endpoints.clear();
    observation.locations[0] = location("a", "public", "dd");
    assert_eq!(of_first(&observation), out(Outage::ProvenDead));
}

#[test]
fn a_witness_that_hardly_speaks_is_none() {
    let flaky = [("a", "ss"), ("b", "fss")];
    assert_eq!(found(&flaky), suspected(Suspicion::NoWitness));
    assert_eq!(found(&[("a", "ss"), ("b", "fs")]), out(Outage::Location));
}

#[test]
fn when_everybody_is_silent_it_is_our_side() {
    let observation = observed(vec![
        location("a", "public", "ss"),
        location("b", "public", "ws?"),
    ]);
    let verdict = judge(&observation);
    assert!(verdict.is_all_silent && verdict.unreachable.is_empty());
    assert_eq!(
        of_first(&observation),
        [Finding::Unknown(Unknown::AllSilent)]
    );
}

#[test]
fn who_did_not_listen_knows_nothing() {
    let mut observation = observed(vec![
        location("a", "public", "ss"),
        location("b", "public", "ff"),
    ]);
    observation.is_trusted = false;
    let verdict = judge(&observation);
    let unknown = Finding::Unknown(Unknown::NotListening);
    assert!(verdict.places.values().all(|finding| *finding == unknown));
    assert!(!verdict.is_all_silent);
}

fn text() -> impl Strategy<Value = String> {
    prop::string::string_regex("[fwsd?]{0,5}(/[fwsd?]{0,4}){0,2}").unwrap()
}

fn observation() -> impl Strategy<Value = Observation> {
    let one = (text(), any::<bool>(), any::<bool>());
    (
        prop::collection::vec(one, 1..5),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(all, is_trusted, is_fine, has_agents)| {
            let one = |(n, (text, fails, inside)): (usize, (String, bool, bool))| {
                let name = format!("l{n}{}", if fails { "!" } else { "" });
                location(&name, if inside { "inside" } else { "public" }, &text)
            };
            let locations = all.into_iter().enumerate().map(one).collect();
            let probe = EndpointProbe {
                is_fine,
                has_agents,
            };
            Observation {
                is_trusted,
                endpoints: [("public".to_owned(), probe)].into(),
                ..observed(locations)
            }
        })
}

proptest! {
    #[test]
    fn every_place_is_judged_and_nothing_is_out_without_silence(observation in observation()) {
        let verdict = judge(&observation);
        for signals in &observation.locations {
            for zone in &signals.zones {
                let place = Place::new(signals.name.clone(), zone.clone());
                let is_fresh = |m: &Machine| m.unchanged_for.is_some_and(|q| q < observation.after);
                if let Finding::Outage(outage) = verdict.places[&place] {
                    let lost = signals.machines.iter().filter(|m| !is_fresh(m)).count();
                    prop_assert!(lost >= 2);
                    prop_assert!(observation.is_trusted || outage == Outage::ProvenDead);
                }
                let is_well = signals.machines.iter().all(is_fresh);
                if is_well && observation.is_trusted && signals.api.is_fine()
                    && !verdict.is_all_silent
                {
                    prop_assert_eq!(verdict.places[&place], Fine);
                }
            }
        }
    }

    /// Silence without a witness, probe or proof takes nothing out, whatever else is true.
    #[test]
    fn one_endpoint_alone_takes_nothing_out(texts in prop::collection::vec(text(), 1..4)) {
        let mut locations: Vec<_> = texts.iter().enumerate()
            .map(|(n, text)| location(&format!("l{n}"), "public", &text.replace(['f', 'd'], "s")))
            .collect();
        locations.push(location("kubevirt", "inside", "fff"));
        let verdict = judge(&observed(locations));
        prop_assert!(!verdict.places.values().any(|f| matches!(f, Finding::Outage(_))));
    }

    #[test]
    fn the_order_of_the_locations_changes_nothing(
        (one, other) in observation().prop_flat_map(|o| {
            let shuffled = Just(o.locations.clone()).prop_shuffle();
            (Just(o.clone()), shuffled.prop_map(move |locations| Observation { locations, ..o.clone() }))
        }),
    ) {
        prop_assert_eq!(judge(&one).places, judge(&other).places);
    }
}
