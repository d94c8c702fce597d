//! The authority of machinery's client certificates is turned: who is believed, who shows what, and that nodes of before
//! are waited for.
//!
//! Invariant: whatever is cut off, every kube-apiserver that runs believes who signed what any component, addon, kubelet or
//! the operator shows, whether it has read its pair again or not, and who would sign the next kubelet's.

use std::collections::BTreeSet;

use api::tenant_cluster::{NodeAuthorityTurn, NodesOfBefore, RotationPhase, RotationStatus};
use base64::engine::general_purpose::STANDARD;
use tenant_cp::generations::{authority_name, of_authority};
use tenant_cp::names;
use tenant_cp::rollout::template;

use super::*;

fn turn(world: &mut World, asked: NodeAuthorityTurn) {
    world.cluster.spec.rotation.client_ca = Some(asked);
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
}

fn to(generation: u32) -> NodeAuthorityTurn {
    NodeAuthorityTurn {
        generation,
        ..NodeAuthorityTurn::default()
    }
}

fn told(world: &World) -> Option<RotationStatus> {
    world.rotation("clientCA")
}

fn waits(world: &World) -> String {
    told(world).unwrap().waiting_for.unwrap_or_default()
}

fn phase(world: &World) -> RotationPhase {
    told(world).unwrap().phase
}

fn file(secret: &Value, file: &str) -> Option<String> {
    let content = secret["data"][file].as_str()?;
    String::from_utf8(STANDARD.decode(content).unwrap()).ok()
}

fn secret<'a>(world: &'a World, name: &str) -> Option<&'a Value> {
    world.objects.get(&Key::new("Secret", NS, name))
}

/// Every generation that there ever was, as it is called, and its certificate.
fn generations(world: &World) -> Vec<(u32, String)> {
    let of = |generation: u32| {
        let live = secret(world, &authority_name(names::CLIENT_CA, generation))?;
        Some((generation, file(live, "ca.crt")?))
    };
    (1..6).filter_map(of).collect()
}

/// Whom kube-apiservers believe that start now.
fn published(world: &World) -> BTreeSet<u32> {
    let bundle = secret(world, "apiserver").and_then(|live| file(live, "clients.crt"));
    let bundle = bundle.unwrap_or_default();
    let all = generations(world).into_iter();
    let believed = all.filter(|(_, certificate)| bundle.contains(certificate.trim()));
    believed.map(|(generation, _)| generation).collect()
}

/// Who signed what is in each Secret, of certificates with a key.
fn shown(world: &World) -> BTreeMap<String, BTreeSet<u32>> {
    let pair = |certificate: String| pki::KeyPair {
        certificate,
        key: pki::Key::new(String::new()),
    };
    let mut store = pki::Store::new();
    for (generation, certificate) in generations(world) {
        let name = authority_name(names::CLIENT_CA, generation);
        store.insert(name, pair(certificate));
    }
    let signer = |leaf: &str, certificate: String| {
        let mut store = store.clone();
        store.insert(leaf.to_owned(), pair(certificate));
        match pki::as_issued(leaf, &store)?.signer {
            pki::Signer::By(name) => of_authority(&name, names::CLIENT_CA),
            pki::Signer::Own => None,
        }
    };
    let mut shown = BTreeMap::new();
    for (key, live) in &world.objects {
        if key.kind != "Secret" || key.namespace != NS {
            continue;
        }
        let files = live["data"].as_object().into_iter().flatten();
        let leaves = files.filter_map(|(name, _)| name.strip_suffix(".crt"));
        let leaves = leaves.filter(|leaf| live["data"][format!("{leaf}.key")].is_string());
        let signers = leaves.filter_map(|leaf| signer(leaf, file(live, &format!("{leaf}.crt"))?));
        shown.insert(key.name.clone(), signers.collect());
    }
    shown
}

/// The generation that signs kubelets' certificates, by what kube-controller-managers are started with.
fn flag(pod: &Value) -> Option<u32> {
    let containers = pod["spec"]["containers"].as_array()?.iter();
    let mut args = containers.filter_map(|c| c["args"].as_array()).flatten();
    let start = "--cluster-signing-kubelet-client-cert-file=/etc/kubernetes/";
    let file = args.find_map(|arg| arg.as_str()?.strip_prefix(start))?;
    of_authority(file.strip_suffix(".crt")?, names::CLIENT_CA)
}

/// Names of the Secrets that a pod mounts.
fn mounts(pod: &Value) -> impl Iterator<Item = &str> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.filter_map(|volume| volume["secret"]["secretName"].as_str())
}

/// What pods believe and show, by the template that they started with: what was in their Secrets then.
#[derive(Default)]
struct Parties {
    believe: BTreeMap<String, BTreeSet<u32>>,
    show: BTreeMap<String, BTreeSet<u32>>,
    /// Who signed the certificate of each kubelet.
    kubelets: BTreeMap<String, u32>,
}

impl Parties {
    /// Looks at everybody.
    fn look(&mut self, world: &World, when: &str) {
        let secrets = shown(world);
        // Whoever reads its pair again has this.
        let mut all: BTreeSet<u32> = secrets.values().flatten().copied().collect();
        all.extend(self.kubelets.values());
        let deployments = world.objects.iter();
        let addons = deployments.filter(|(key, _)| key.kind == "Deployment");
        let addons =
            addons.filter(|(key, _)| !["control-plane", "controllers"].contains(&&*key.name));
        let addons = addons.map(|(key, live)| (key, &live["spec"]["template"]));
        for (key, pod) in addons.chain(&world.pods) {
            all.extend(flag(pod));
            let template = template::of_pod(pod).unwrap_or_default();
            let of_it = mounts(pod).filter_map(|name| secrets.get(name)).flatten();
            let of_it = || of_it.copied().collect();
            let place = format!("{} of {template}", key.name);
            all.extend(&*self.show.entry(place).or_insert_with(of_it));
        }
        let servers = world.pods.iter();
        let servers = servers.filter(|(key, _)| key.name.starts_with("control-plane"));
        for (key, pod) in servers {
            let hash = pod["metadata"]["annotations"][names::CLIENT_CA_HASH].as_str();
            let hash = hash.unwrap_or_default().to_owned();
            let believes = self.believe.entry(hash).or_insert_with(|| published(world));
            assert!(
                all.is_subset(believes),
                "{when}: {} believes {believes:?}, and {all:?} are shown",
                key.name
            );
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
        let is_over = told(world).is_some_and(|told| told.waiting_for.is_none());
        // The status itself is one write.
        if is_done && world.writes <= before + usize::from(erased) && (!erased || is_over) {
            return;
        }
    }
    panic!("{when}: writes never end: {:?}", told(world));
}

#[test]
fn nobody_is_refused_and_the_end_is_the_new_one_alone() {
    for (spec, erased) in [(minimal(), false), (large(), false), (minimal(), true)] {
        let mut world = ready(spec);
        let mut parties = Parties::default();
        parties.look(&world, "before");
        turn(&mut world, to(2));
        write_by_write(&mut world, &mut parties, "turned", erased);
        world.settle();
        let over = told(&world).unwrap();
        assert_eq!(over.phase, RotationPhase::Idle);
        assert_eq!((over.signs, over.believed), (2, vec![2]));
        assert_eq!(published(&world), BTreeSet::from([2]));
        let shown: BTreeSet<u32> = shown(&world).into_values().flatten().collect();
        assert_eq!(shown, BTreeSet::from([2]));
        for (key, pod) in &world.pods {
            assert!(world.is_newest(&key.name), "{key}");
            assert!(flag(pod).is_none_or(|signs| signs == 2), "{key}");
        }
        let dropped = secret(&world, "client-ca").unwrap();
        assert!(dropped["metadata"]["annotations"][names::DROPPED].is_string());
        let left = secret(&world, "controller-manager").unwrap();
        assert_eq!(file(left, "client-ca.key"), None);
        assert_eq!(world.condition("Ready").0, "True");
        assert_eq!(world.condition("Progressing").1, "AsDesired");
        assert_eq!(world.condition("CertificatesReady").0, "True");
        let writes = world.writes;
        world.settle();
        assert_eq!(world.writes, writes);
    }
}

/// The new one signs, and one node of before is there.
fn drained(asked: NodeAuthorityTurn) -> (World, Parties) {
    let mut world = ready(large());
    let made = world.now.checked_sub(jiff::SignedDuration::from_hours(1));
    let machines = [("workers-a".to_owned(), made.ok())];
    world.kubelets.machines = machines.into();
    let mut parties = Parties::default();
    parties.kubelets.insert("workers-a".to_owned(), 1);
    parties.look(&world, "before");
    turn(&mut world, asked);
    write_by_write(&mut world, &mut parties, "turned", false);
    (world, parties)
}

#[test]
fn nodes_of_before_are_waited_for_and_named() {
    let (mut world, mut parties) = drained(to(2));
    let held = told(&world).unwrap();
    assert_eq!(held.phase, RotationPhase::Draining);
    assert_eq!((held.signs, held.believed), (2, vec![1, 2]));
    assert_eq!(held.signed_until, Some(world.now.to_string()));
    let said = waits(&world);
    assert!(said.ends_with("refused then: workers-a"), "{said}");
    assert!(said.contains("clientCA.nodes to Replace"), "{said}");
    assert!(said.contains("clientCA.complete to 2"), "{said}");
    assert_eq!(world.condition("Progressing").1, "AsDesired");
    let writes = world.writes;
    world.settle();
    assert_eq!(world.writes, writes, "it is at rest");

    // Its machine is replaced, and nobody can say whether there are other nodes.
    let made = Some(world.now);
    world.kubelets.machines = [("workers-b".to_owned(), made)].into();
    world.kubelets.nodes = Some(Err("it is dark".to_owned()));
    parties.kubelets = [("workers-b".to_owned(), 2)].into();
    write_by_write(&mut world, &mut parties, "dark", false);
    assert!(waits(&world).starts_with("what cannot be seen now"));
    assert_eq!(published(&world), BTreeSet::from([1, 2]));
    // A node that somebody joined by hand.
    let nodes = ["workers-b", "own"].map(str::to_owned);
    world.kubelets.nodes = Some(Ok(nodes.into()));
    parties.kubelets.insert("own".to_owned(), 1);
    write_by_write(&mut world, &mut parties, "by hand", false);
    assert!(waits(&world).ends_with("refused then: own"));
    world.kubelets.nodes = Some(Ok(["workers-b".to_owned()].into()));
    parties.kubelets.remove("own");
    write_by_write(&mut world, &mut parties, "gone", false);
    assert_eq!(phase(&world), RotationPhase::Idle);
    assert_eq!(published(&world), BTreeSet::from([2]));
}

#[test]
fn last_certificate_of_a_kubelet_ends_after_a_year() {
    let (mut world, mut parties) = drained(to(2));
    let later = |days: i64| jiff::SignedDuration::from_hours(24 * days);
    world.now = world.now.checked_add(later(364)).unwrap();
    world.settle();
    assert_eq!(phase(&world), RotationPhase::Draining);
    world.now = world.now.checked_add(later(2)).unwrap();
    // By then it has another one.
    parties.kubelets.insert("workers-a".to_owned(), 2);
    write_by_write(&mut world, &mut parties, "a year later", false);
    assert_eq!(phase(&world), RotationPhase::Idle);
}

#[test]
fn who_says_so_waits_for_no_node_and_machines_of_before_are_known_afterwards() {
    let asked = NodeAuthorityTurn {
        nodes: NodesOfBefore::Replace,
        ..to(2)
    };
    let (mut world, _) = drained(asked.clone());
    assert!(!waits(&world).contains("to Replace"), "{}", waits(&world));
    let until = crate::rotation::kubelets::replaced_before(&world.cluster);
    assert_eq!(until, Some(world.now));
    turn(
        &mut world,
        NodeAuthorityTurn {
            complete: Some(2),
            ..asked
        },
    );
    world.settle();
    assert_eq!(phase(&world), RotationPhase::Idle);
    assert_eq!(published(&world), BTreeSet::from([2]));
    let after = crate::rotation::kubelets::replaced_before(&world.cluster);
    assert_eq!(after, until, "they are replaced all the same");
}

#[test]
fn until_it_is_dropped_the_one_of_before_signs_again_and_its_end_counts_for_nothing() {
    let (mut world, mut parties) = drained(to(2));
    turn(&mut world, to(1));
    write_by_write(&mut world, &mut parties, "back", false);
    let annotation = |world: &World, name: &str| {
        let live = secret(world, name).unwrap();
        live["metadata"]["annotations"][names::SIGNED_UNTIL].clone()
    };
    assert_eq!(annotation(&world, "client-ca"), json!(""));
    assert!(annotation(&world, "client-ca-g2").is_string());
    let back = told(&world).unwrap();
    assert_eq!((back.signs, back.phase), (1, RotationPhase::Draining));
    // And forth again: each time all is seen anew.
    turn(&mut world, to(2));
    write_by_write(&mut world, &mut parties, "forth", false);
    assert_eq!(annotation(&world, "client-ca-g2"), json!(""));
    assert_eq!(
        annotation(&world, "client-ca"),
        json!(world.now.to_string())
    );
    assert_eq!(told(&world).unwrap().signs, 2);
    parties.kubelets.clear();
    world.kubelets.machines.clear();
    write_by_write(&mut world, &mut parties, "over", false);
    assert_eq!(phase(&world), RotationPhase::Idle);
    turn(&mut world, to(1));
    world.settle();
    assert_eq!(world.condition("Degraded").1, "RotationRefused");
    assert_eq!(published(&world), BTreeSet::from([2]));
}

#[test]
fn rotation_of_one_authority_of_clients_looks_like_none_of_the_other() {
    let mut world = ready(minimal());
    world.cluster.spec.rotation.users_ca = Some(api::tenant_cluster::AuthorityTurn {
        generation: 2,
        ..api::tenant_cluster::AuthorityTurn::default()
    });
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
    world.settle();
    let before = world.rotation("usersCA").unwrap();
    assert_eq!(before.phase, RotationPhase::Idle);
    turn(&mut world, to(2));
    for _ in 0..400 {
        let writes = world.writes;
        let is_done = world.reconcile(&mut 1);
        world.play_controllers();
        assert_eq!(world.rotation("usersCA").as_ref(), Some(&before));
        if is_done && world.writes == writes {
            break;
        }
    }
    assert_eq!(phase(&world), RotationPhase::Idle);
}
