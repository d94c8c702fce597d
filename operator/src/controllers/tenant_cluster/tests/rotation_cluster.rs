//! The authority of the cluster is turned: what kube-apiservers show, who believes it, and that nodes of before are waited for.
//!
//! Long because all of them look at who believes what through the same parties.
//! Invariant: whatever is cut off, every node, pod, program and kubeconfig believes, by what it was told, whatever any
//! kube-apiserver may show: the bundle that it started or joined with, or one that it has read again.

use std::collections::BTreeSet;

use api::tenant_cluster::{ClusterAuthorityTurn, NodesOfBefore, RotationPhase, RotationStatus};
use base64::engine::general_purpose::STANDARD;
use tenant_cp::certificates::OF_CLUSTER;
use tenant_cp::generations::{authority_name, of_authority};
use tenant_cp::names;
use tenant_cp::rollout::template;

use super::*;

const NAME: &str = "clusterCA";

fn turn(world: &mut World, asked: ClusterAuthorityTurn) {
    world.cluster.spec.rotation.cluster_ca = Some(asked);
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
}

fn to(generation: u32) -> ClusterAuthorityTurn {
    ClusterAuthorityTurn {
        generation,
        ..ClusterAuthorityTurn::default()
    }
}

fn told(world: &World) -> RotationStatus {
    world.rotation(NAME).unwrap()
}

fn waits(world: &World) -> String {
    told(world).waiting_for.unwrap_or_default()
}

fn file(secret: &Value, file: &str) -> Option<String> {
    let content = secret["data"][file].as_str()?;
    String::from_utf8(STANDARD.decode(content).unwrap()).ok()
}

fn in_secret(world: &World, secret: &str, name: &str) -> String {
    let live = world.secret(secret);
    live.and_then(|live| file(live, name)).unwrap_or_default()
}

/// Every generation that there ever was.
fn generations(world: &World) -> pki::Store {
    let one = |generation: u32| {
        let name = authority_name(names::CA, generation);
        let live = world.secret(&name)?;
        let pair = pki::KeyPair {
            certificate: file(live, "ca.crt")?,
            key: pki::Key::new(file(live, "ca.key")?),
        };
        Some((name, pair))
    };
    (1..6).filter_map(one).collect()
}

/// What new kube-apiservers show: each certificate with what stands beside it.
fn shown(world: &World) -> BTreeSet<String> {
    let of = |leaf: &&str| in_secret(world, "apiserver", &format!("{leaf}.crt"));
    OF_CLUSTER.iter().map(of).collect()
}

/// The generation that signed it.
fn signer(chain: &str, store: &pki::Store) -> Option<String> {
    let pair = pki::KeyPair {
        certificate: chain.to_owned(),
        key: pki::Key::new(String::new()),
    };
    let mut store = store.clone();
    store.insert("leaf".to_owned(), pair);
    match pki::as_issued("leaf", &store)?.signer {
        pki::Signer::By(name) => Some(name),
        pki::Signer::Own => None,
    }
}

fn signs(world: &World) -> BTreeSet<u32> {
    let store = generations(world);
    let signer = |chain: &String| of_authority(&signer(chain, &store)?, names::CA);
    shown(world).iter().filter_map(signer).collect()
}

/// Whether who was told this bundle believes who shows this.
fn believes(bundle: &str, chain: &str, store: &pki::Store) -> bool {
    let Some(signer) = signer(chain, store) else {
        return false;
    };
    let is_told = |name: &str| bundle.contains(store[name].certificate.trim());
    let (_, beside) = pki::first_certificate(chain);
    let crossed = |(name, pair): (&String, &pki::KeyPair)| {
        is_told(name) && pki::is_crossed(beside, &store[&signer], pair)
    };
    is_told(&signer) || store.iter().any(crossed)
}

/// Generations that a bundle has.
fn of_bundle(world: &World, bundle: &str) -> Vec<u32> {
    let store = generations(world);
    let has = store
        .iter()
        .filter(|(_, pair)| bundle.contains(pair.certificate.trim()));
    let numbers = has.filter_map(|(name, _)| of_authority(name, names::CA));
    let all: BTreeSet<_> = numbers.collect();
    all.into_iter().collect()
}

/// Who was told what, and who shows what.
#[derive(Default)]
struct Parties {
    /// By the template of the pod, and the Secret.
    started: BTreeMap<String, String>,
    /// By the hash that kube-apiservers started with.
    shown: BTreeMap<String, BTreeSet<String>>,
    nodes: BTreeMap<String, String>,
}

impl Parties {
    fn joins(&mut self, world: &World, node: &str) {
        self.nodes.insert(node.to_owned(), world.told_to_nodes());
    }

    /// Looks at everybody.
    fn look(&mut self, world: &World, when: &str) {
        let store = generations(world);
        let now = shown(world);
        let mut all = now.clone();
        let mut told: BTreeMap<String, String> = BTreeMap::new();
        let workloads = world.objects.iter();
        let addons = workloads.filter(|(key, _)| key.kind == "Deployment");
        let addons = addons.map(|(key, live)| (key, &live["spec"]["template"]));
        for (key, pod) in addons.chain(&world.pods) {
            let hash = template::of_pod(pod).unwrap_or_default();
            if key.name.starts_with("control-plane") {
                let place = pod["metadata"]["annotations"][names::CLUSTER_CA_HASH].to_string();
                all.extend(
                    self.shown
                        .entry(place)
                        .or_insert_with(|| now.clone())
                        .clone(),
                );
            }
            let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
            let secrets = volumes.filter_map(|volume| volume["secret"]["secretName"].as_str());
            for secret in secrets {
                let bundle = in_secret(world, secret, "ca.crt");
                // Another authority, or none.
                if of_bundle(world, &bundle).is_empty() {
                    continue;
                }
                let place = format!("{} of {hash}, {secret}", key.name);
                let started = self.started.entry(place.clone());
                told.insert(format!("{place}, again"), bundle.clone());
                told.insert(place, started.or_insert(bundle).clone());
            }
        }
        for (node, bundle) in &self.nodes {
            told.insert(node.clone(), bundle.clone());
        }
        told.insert("nodes that join".to_owned(), world.told_to_nodes());
        if !world.root.is_empty() {
            told.insert("pods inside".to_owned(), world.root.clone());
        }
        for (who, bundle) in &told {
            for chain in &all {
                let signer = signer(chain, &store);
                assert!(
                    believes(bundle, chain, &store),
                    "{when}: {who} was told {:?}, and {signer:?} is shown",
                    of_bundle(world, bundle),
                );
            }
        }
    }
}

/// One write after the other, each followed by a crash, until nothing is written any more.
fn write_by_write(world: &mut World, parties: &mut Parties, when: &str, erased: bool) {
    for number in 0..400 {
        let before = world.writes;
        if erased {
            world.cluster.status.as_mut().unwrap().rotation.clear();
        }
        let is_done = world.reconcile(&mut 1);
        world.play_controllers();
        parties.look(world, &format!("{when}, write {number}"));
        let is_over = world
            .rotation(NAME)
            .is_some_and(|told| told.waiting_for.is_none());
        // The status itself is one write.
        if is_done && world.writes <= before + usize::from(erased) && (!erased || is_over) {
            return;
        }
    }
    panic!("{when}: writes never end: {:?}", world.rotation(NAME));
}

#[test]
fn nobody_is_cut_off_and_the_end_is_the_new_one_alone() {
    for (spec, erased) in [(minimal(), false), (large(), false), (minimal(), true)] {
        let mut world = ready(spec);
        let mut parties = Parties::default();
        parties.look(&world, "before");
        turn(&mut world, to(2));
        write_by_write(&mut world, &mut parties, "turned", erased);
        world.settle();
        let over = told(&world);
        assert_eq!(over.phase, RotationPhase::Idle);
        assert_eq!((over.signs, over.believed), (2, vec![2]));
        assert_eq!(signs(&world), BTreeSet::from([2]));
        for chain in shown(&world) {
            assert_eq!(pki::first_certificate(&chain).1, "", "it is dropped");
        }
        for secret in ["controller-manager", "scheduler", "operator-client"] {
            let bundle = in_secret(&world, secret, "ca.crt");
            assert_eq!(of_bundle(&world, &bundle), [2], "{secret}");
        }
        assert_eq!(of_bundle(&world, &world.told_to_nodes()), [2]);
        assert_eq!(of_bundle(&world, &world.root.clone()), [2]);
        let dropped = world.secret("ca").unwrap();
        assert!(dropped["metadata"]["annotations"][names::DROPPED].is_string());
        for key in world.pods.keys() {
            assert!(world.is_newest(&key.name), "{key}");
        }
        assert_eq!(world.condition("Ready").0, "True");
        assert_eq!(world.condition("Progressing").1, "AsDesired");
        assert_eq!(world.condition("CertificatesReady").0, "True");
        let writes = world.writes;
        world.settle();
        assert_eq!(world.writes, writes);
    }
}

/// The new one signs, and one node of before is there.
fn drained(asked: ClusterAuthorityTurn) -> (World, Parties) {
    let mut world = ready(minimal());
    let made = world.now.checked_sub(jiff::SignedDuration::from_hours(1));
    world.kubelets.machines = [("workers-a".to_owned(), made.ok())].into();
    let mut parties = Parties::default();
    parties.joins(&world, "workers-a");
    parties.look(&world, "before");
    turn(&mut world, asked);
    write_by_write(&mut world, &mut parties, "turned", false);
    (world, parties)
}

#[test]
fn nodes_of_before_are_waited_for_and_believe_what_is_shown_until_they_are_gone() {
    let (mut world, mut parties) = drained(to(2));
    let held = told(&world);
    assert_eq!(held.phase, RotationPhase::Draining);
    assert_eq!((held.signs, held.believed), (2, vec![1, 2]));
    assert_eq!(held.believed_since, Some(world.now.to_string()));
    assert_eq!(signs(&world), BTreeSet::from([2]));
    let said = waits(&world);
    assert!(said.ends_with("cut off then: workers-a"), "{said}");
    assert!(said.contains("clusterCA.nodes to Replace"), "{said}");
    assert!(said.contains("clusterCA.complete to 2"), "{said}");
    assert_eq!(world.condition("Progressing").1, "AsDesired");
    let writes = world.writes;
    world.settle();
    assert_eq!(world.writes, writes, "it is at rest");

    // Its machine is replaced, and a node that somebody joined by hand is left.
    parties.joins(&world, "own");
    parties.joins(&world, "workers-b");
    assert_eq!(of_bundle(&world, &parties.nodes["workers-b"]), [1, 2]);
    parties.nodes.remove("workers-a");
    world.kubelets.machines = [("workers-b".to_owned(), Some(world.now))].into();
    world.kubelets.nodes = Some(Ok(["workers-b", "own"].map(str::to_owned).into()));
    write_by_write(&mut world, &mut parties, "by hand", false);
    assert!(waits(&world).ends_with("cut off then: own"));
    world.kubelets.nodes = Some(Ok(["workers-b".to_owned()].into()));
    write_by_write(&mut world, &mut parties, "gone", false);
    assert_eq!(told(&world).phase, RotationPhase::Idle);
    assert_eq!(of_bundle(&world, &world.told_to_nodes()), [2]);
}

#[test]
fn who_says_so_waits_for_no_node_and_machines_of_before_are_known_afterwards() {
    let asked = ClusterAuthorityTurn {
        nodes: NodesOfBefore::Replace,
        ..to(2)
    };
    let (mut world, _) = drained(asked.clone());
    assert!(!waits(&world).contains("to Replace"), "{}", waits(&world));
    let since = crate::rotation::kubelets::replaced_before(&world.cluster);
    assert_eq!(since, Some(world.now));
    let complete = ClusterAuthorityTurn {
        complete: Some(2),
        ..asked
    };
    turn(&mut world, complete);
    world.settle();
    assert_eq!(told(&world).phase, RotationPhase::Idle);
    assert_eq!(of_bundle(&world, &world.told_to_nodes()), [2]);
    let after = crate::rotation::kubelets::replaced_before(&world.cluster);
    assert_eq!(after, since, "they are replaced all the same");
}

#[test]
fn until_it_is_dropped_the_one_of_before_signs_again_and_no_node_is_waited_for() {
    let (mut world, mut parties) = drained(to(2));
    turn(&mut world, to(1));
    write_by_write(&mut world, &mut parties, "back", false);
    let back = told(&world);
    assert_eq!((back.phase, back.signs), (RotationPhase::Idle, 1));
    assert_eq!((back.believed, back.believed_since), (vec![1], None));
    assert_eq!(signs(&world), BTreeSet::from([1]));
    turn(&mut world, to(2));
    world.settle();
    assert_eq!(world.condition("Degraded").1, "RotationRefused");
    // Forth again by another one, of which nodes know nothing either.
    turn(&mut world, to(3));
    write_by_write(&mut world, &mut parties, "forth", false);
    let forth = told(&world);
    assert_eq!((forth.phase, forth.signs), (RotationPhase::Draining, 3));
    parties.nodes.clear();
    world.kubelets.machines.clear();
    write_by_write(&mut world, &mut parties, "over", false);
    assert_eq!(told(&world).believed, [3]);
}

#[test]
fn authority_that_nodes_of_before_would_not_believe_never_signs() {
    let mut world = ready(minimal());
    let held = ClusterAuthorityTurn {
        hold: true,
        ..to(2)
    };
    turn(&mut world, to(2));
    for _ in 0..400 {
        if world.secret("ca-g2").is_some() {
            break;
        }
        world.reconcile(&mut 1);
        world.play_controllers();
    }
    turn(&mut world, held);
    world.settle();
    let key = Key::new("Secret", NS, "ca-g2");
    let secret = world.objects.get_mut(&key).unwrap();
    assert!(file(secret, "by-ca.crt").is_some());
    secret["data"].as_object_mut().unwrap().remove("by-ca.crt");
    turn(&mut world, to(2));
    world.settle();
    let stays = told(&world);
    assert_eq!((stays.phase, stays.signs), (RotationPhase::Preparing, 1));
    assert!(waits(&world).contains("signed by the oldest one"));
    assert_eq!(signs(&world), BTreeSet::from([1]));
    // As the message says.
    turn(&mut world, to(3));
    world.settle();
    assert_eq!(told(&world).believed, [3]);
}

#[test]
fn nothing_signs_before_pods_and_nodes_are_told_of_it() {
    let mut world = ready(minimal());
    // What pods are told comes late: kube-controller-managers are not replaced.
    world.stuck = true;
    turn(&mut world, to(2));
    for _ in 0..12 {
        world.reconcile(&mut usize::MAX.clone());
    }
    assert_eq!(told(&world).phase, RotationPhase::Preparing);
    assert_eq!(told(&world).believed_since, None);
    assert_eq!(signs(&world), BTreeSet::from([1]));
    world.stuck = false;
    world.play_controllers();
    world.settle();
    assert_eq!(told(&world).believed, [2]);
}

/// Generation 2 is made because the key of the first was stolen.
fn compromised(nodes: NodesOfBefore) -> ClusterAuthorityTurn {
    ClusterAuthorityTurn {
        nodes,
        compromised: Some(2),
        ..to(2)
    }
}

/// What is told is the same when all of it was erased.
fn is_told_again(world: &mut World) {
    let before = told(world);
    world.cluster.status.as_mut().unwrap().rotation.clear();
    world.settle();
    let after = told(world);
    let since = before.since.clone();
    assert_eq!(RotationStatus { since, ..after }, before);
}

#[test]
fn where_a_key_was_stolen_nodes_are_told_before_the_new_one_signs_and_again_when_it_is_alone() {
    let (mut world, mut parties) = drained(compromised(NodesOfBefore::Replace));
    let waiting = told(&world);
    assert_eq!(waiting.phase, RotationPhase::Preparing);
    assert_eq!(
        (waiting.signs, waiting.believed.as_slice()),
        (1, &[1, 2][..])
    );
    assert_eq!(waiting.told_since, Some(world.now.to_string()));
    let said = waits(&world);
    assert!(
        said.contains("told of generation 2, which signs when"),
        "{said}"
    );
    assert!(said.ends_with("cut off then: workers-a"), "{said}");
    assert_eq!(signs(&world), BTreeSet::from([1]));
    let made = world.secret("ca-g2").unwrap();
    assert_eq!(file(made, "by-ca.crt"), None, "nobody would be refused");
    let since = crate::rotation::kubelets::replaced_before(&world.cluster);
    assert_eq!(since, Some(world.now), "its pool replaces it");
    assert_eq!(world.condition("Progressing").1, "AsDesired");
    let writes = world.writes;
    world.settle();
    assert_eq!(world.writes, writes, "it is at rest");
    is_told_again(&mut world);

    // One more that was made by then counts as one of before: it believes the stolen one, too.
    parties.nodes.remove("workers-a");
    parties.joins(&world, "workers-b");
    assert_eq!(of_bundle(&world, &parties.nodes["workers-b"]), [1, 2]);
    world.kubelets.machines = [("workers-b".to_owned(), Some(world.now))].into();
    world.kubelets.nodes = Some(Ok(["workers-b".to_owned()].into()));
    world.now = world
        .now
        .checked_add(jiff::SignedDuration::from_hours(1))
        .unwrap();
    write_by_write(&mut world, &mut parties, "signs", false);
    let alone = told(&world);
    assert_eq!(alone.phase, RotationPhase::Dropping);
    assert_eq!((alone.signs, alone.believed.as_slice()), (2, &[2][..]));
    assert_eq!(alone.told_since, Some(world.now.to_string()));
    assert!(
        waits(&world).ends_with("one of which was stolen: workers-b"),
        "{}",
        waits(&world)
    );
    for chain in shown(&world) {
        assert_eq!(pki::first_certificate(&chain).1, "");
    }
    let since = crate::rotation::kubelets::replaced_before(&world.cluster);
    assert_eq!(since, Some(world.now), "it is replaced once more");
    assert_eq!(world.condition("Progressing").1, "AsDesired");
    is_told_again(&mut world);
    let told_inside = std::mem::replace(&mut world.root, "not asked for".to_owned());
    let writes = world.writes;
    world.settle();
    assert_eq!((&*world.root, world.writes), ("not asked for", writes));
    world.root = told_inside;

    parties.nodes.clear();
    parties.joins(&world, "workers-c");
    assert_eq!(of_bundle(&world, &parties.nodes["workers-c"]), [2]);
    world.kubelets.machines = [("workers-c".to_owned(), Some(world.now))].into();
    world.kubelets.nodes = Some(Ok(["workers-c".to_owned()].into()));
    write_by_write(&mut world, &mut parties, "over", false);
    let over = told(&world);
    assert_eq!((over.phase, over.told_since), (RotationPhase::Idle, None));
}

#[test]
fn where_a_key_was_stolen_kubelets_are_told_in_place_twice() {
    let asked = || crate::rotation::kubelets::renewed_before;
    let (mut world, mut parties) = drained(compromised(NodesOfBefore::InPlace));
    assert_eq!(asked()(&world.cluster), Some(world.now));
    parties.joins(&world, "workers-a");
    world.kubelets.machines = [("workers-a".to_owned(), Some(world.now))].into();
    world.kubelets.nodes = Some(Ok(["workers-a".to_owned()].into()));
    world.now = world
        .now
        .checked_add(jiff::SignedDuration::from_hours(1))
        .unwrap();
    write_by_write(&mut world, &mut parties, "signs", false);
    assert_eq!(told(&world).phase, RotationPhase::Dropping);
    assert_eq!(asked()(&world.cluster), Some(world.now));
    parties.joins(&world, "workers-a");
    world.kubelets.machines = [("workers-a".to_owned(), Some(world.now))].into();
    write_by_write(&mut world, &mut parties, "over", false);
    assert_eq!(told(&world).phase, RotationPhase::Idle);
    assert_eq!(asked()(&world.cluster), None);
}

#[test]
fn where_a_key_was_stolen_and_nothing_may_wait_nodes_that_believe_it_are_named_until_they_are_gone()
{
    let (mut world, _) = drained(compromised(NodesOfBefore::Wait));
    assert_eq!(told(&world).phase, RotationPhase::Preparing);
    let complete = ClusterAuthorityTurn {
        complete: Some(2),
        ..compromised(NodesOfBefore::Wait)
    };
    turn(&mut world, complete);
    world.settle();
    let alone = told(&world);
    assert_eq!((alone.phase, alone.signs), (RotationPhase::Dropping, 2));
    let said = waits(&world);
    assert!(
        said.ends_with("nodes to Replace or InPlace: workers-a"),
        "{said}"
    );
    world.kubelets.machines.clear();
    world.kubelets.nodes = Some(Ok(BTreeSet::new()));
    world.settle();
    assert_eq!(told(&world).phase, RotationPhase::Idle);
}
