//! The authority of front proxies is turned: who is shown, and whom aggregated API servers believe.
//!
//! Invariant: whatever is cut off, aggregated API servers believe whoever signed what any kube-apiserver shows.

use std::collections::BTreeSet;

use api::tenant_cluster::{AuthorityTurn, RotationPhase, RotationStatus};
use base64::engine::general_purpose::STANDARD;
use tenant_cp::generations::authority_name;
use tenant_cp::names;

use super::*;
use crate::tenant_session::aggregated::{Believed, Field};

fn turn(world: &mut World, generation: u32, hold: bool) {
    world.cluster.spec.rotation.front_proxy_ca = Some(AuthorityTurn {
        generation,
        hold,
        complete: None,
    });
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
}

fn told(world: &World) -> Option<RotationStatus> {
    world.rotation("frontProxyCA")
}

fn file(world: &World, secret: &str, file: &str) -> Option<String> {
    let live = world.objects.get(&Key::new("Secret", NS, secret))?;
    let content = live["data"][file].as_str()?;
    String::from_utf8(STANDARD.decode(content).unwrap()).ok()
}

/// What somebody wrote.
pub(super) fn note(told: &mut Believed, field: Field, authorities: &str) {
    let told = match field {
        Field::Clients => &mut told.clients,
        Field::FrontProxies => &mut told.front_proxies,
    };
    authorities.clone_into(told);
}

/// With what new kube-apiservers believe.
pub(super) fn with(world: &World) -> Believed {
    let with = |told: &str, name: &str| {
        let bundle = file(world, "apiserver", name);
        merged(told, &bundle.unwrap_or_default())
    };
    Believed {
        clients: with(&world.aggregated.clients, "clients.crt"),
        front_proxies: with(&world.aggregated.front_proxies, "front-proxy-ca.crt"),
    }
}

fn merged(told: &str, bundle: &str) -> String {
    let end = "-----END CERTIFICATE-----";
    let mut all = told.to_owned();
    for one in bundle.split_inclusive(end).filter(|one| one.contains(end)) {
        if !all.contains(one.trim()) {
            all.push_str(one.trim());
            all.push('\n');
        }
    }
    all
}

/// Generations whose certificates are in a bundle.
fn of_bundle(world: &World, bundle: &str) -> BTreeSet<u32> {
    let known = (1..6).filter(|generation| {
        let name = authority_name(names::FRONT_PROXY_CA, *generation);
        file(world, &name, "ca.crt").is_some_and(|pem| bundle.contains(pem.trim()))
    });
    known.collect()
}

/// The generation that signed what new kube-apiservers show.
fn shown(world: &World) -> Option<u32> {
    let mut store = pki::Store::new();
    let mut put = |name: String, certificate: String| {
        let key = pki::Key::new(String::new());
        store.insert(name, pki::KeyPair { certificate, key });
    };
    for generation in 1..6 {
        let name = authority_name(names::FRONT_PROXY_CA, generation);
        if let Some(certificate) = file(world, &name, "ca.crt") {
            put(name, certificate);
        }
    }
    let leaf = file(world, "apiserver", "front-proxy-client.crt")?;
    put("front-proxy-client".to_owned(), leaf);
    match pki::as_issued("front-proxy-client", &store)?.signer {
        pki::Signer::By(name) => tenant_cp::generations::of_authority(&name, names::FRONT_PROXY_CA),
        pki::Signer::Own => None,
    }
}

/// What pods believe and show, by the hash that they started with.
#[derive(Default)]
struct Started(BTreeMap<String, (String, Option<u32>)>);

impl Started {
    /// Looks at every pod; each adds what it believes.
    fn look(&mut self, world: &mut World, when: &str) {
        let bundle = file(world, "apiserver", "front-proxy-ca.crt").unwrap_or_default();
        let now = (bundle, shown(world));
        let servers = world.pods.iter();
        let servers = servers.filter(|(key, _)| key.name.starts_with("control-plane"));
        let hashes: Vec<String> = servers
            .map(|(_, pod)| {
                let hash = pod["metadata"]["annotations"][names::FRONT_PROXY_HASH].as_str();
                hash.unwrap_or_default().to_owned()
            })
            .collect();
        // One that runs may have read its certificate again, or not.
        let mut shown: BTreeSet<u32> = now.1.into_iter().collect();
        for hash in hashes {
            let (bundle, signer) = self.0.entry(hash).or_insert_with(|| now.clone());
            world.aggregated.front_proxies = merged(&world.aggregated.front_proxies, bundle);
            shown.extend(*signer);
        }
        let believed = of_bundle(world, &world.aggregated.front_proxies);
        assert!(
            shown.is_subset(&believed),
            "{when}: {shown:?} is shown, and {believed:?} believed"
        );
    }
}

/// One write after the other, each followed by a crash.
fn write_by_write(world: &mut World, started: &mut Started, when: &str, erased: bool) {
    for number in 0..400 {
        let before = world.writes;
        if erased {
            world.cluster.status.as_mut().unwrap().rotation.clear();
        }
        let is_done = world.reconcile(&mut 1);
        world.play_controllers();
        started.look(world, &format!("{when}, write {number}"));
        let is_over = told(world).is_some_and(|told| told.waiting_for.is_none());
        if is_done && world.writes <= before + usize::from(erased) && (!erased || is_over) {
            return;
        }
    }
    panic!("{when}: writes never end: {:?}", told(world));
}

#[test]
fn nobody_shows_what_is_not_believed_and_what_was_dropped_is_taken_out() {
    for (spec, erased) in [(minimal(), false), (large(), false), (minimal(), true)] {
        let mut world = ready(spec);
        let mut started = Started::default();
        started.look(&mut world, "before");
        turn(&mut world, 2, false);
        write_by_write(&mut world, &mut started, "turned", erased);
        world.settle();
        let over = told(&world).unwrap();
        assert_eq!(over.phase, RotationPhase::Idle);
        assert_eq!((over.signs, over.believed), (2, vec![2]));
        assert_eq!(shown(&world), Some(2));
        let believed = of_bundle(&world, &world.aggregated.front_proxies);
        assert_eq!(believed, BTreeSet::from([2]));
        let dropped = &world.objects[&Key::new("Secret", NS, "front-proxy-ca")];
        assert!(dropped["metadata"]["annotations"][names::DROPPED].is_string());
        assert_eq!(world.condition("Ready").0, "True");
        assert_eq!(world.condition("Progressing").1, "AsDesired");
        let writes = world.writes;
        world.settle();
        assert_eq!(world.writes, writes);
    }
}

#[test]
fn until_it_is_dropped_the_authority_of_before_can_be_had_back() {
    let mut world = ready(minimal());
    let mut started = Started::default();
    started.look(&mut world, "before");
    turn(&mut world, 2, false);
    for number in 0..400 {
        if shown(&world) == Some(2) {
            break;
        }
        world.reconcile(&mut 1);
        world.play_controllers();
        started.look(&mut world, &format!("turned, write {number}"));
    }
    turn(&mut world, 2, true);
    write_by_write(&mut world, &mut started, "held", false);
    let held = told(&world).unwrap();
    assert_eq!((held.signs, held.believed), (2, vec![1, 2]));
    turn(&mut world, 1, false);
    write_by_write(&mut world, &mut started, "back", false);
    assert_eq!(shown(&world), Some(1));
    let believed = of_bundle(&world, &world.aggregated.front_proxies);
    assert_eq!(believed, BTreeSet::from([1]));
    turn(&mut world, 2, false);
    world.settle();
    assert_eq!(world.condition("Degraded").1, "RotationRefused");
}

#[test]
fn who_says_so_waits_for_no_aggregated_api_server() {
    let mut world = ready(minimal());
    turn(&mut world, 2, false);
    let asked = world.cluster.spec.rotation.front_proxy_ca.as_mut();
    asked.unwrap().complete = Some(2);
    let mut was_asked = false;
    for _ in 0..400 {
        let plan = plan(&world.observe(), &world.settings, world.now);
        let asks = |action: &Action| matches!(action, Action::Aggregated { .. });
        was_asked |= plan.actions().any(asks) && shown(&world) == Some(1);
        let before = world.writes;
        let is_done = world.reconcile(&mut 1);
        world.play_controllers();
        if is_done && world.writes == before {
            break;
        }
    }
    assert!(!was_asked);
    let over = told(&world).unwrap();
    assert_eq!((over.phase, over.signs), (RotationPhase::Idle, 2));
    // What was dropped is taken out all the same.
    let believed = of_bundle(&world, &world.aggregated.front_proxies);
    assert_eq!(believed, BTreeSet::from([2]));
}
