//! The keys of service account tokens are turned: who signs, who verifies, and how long tokens of before are let in.
//!
//! Invariant: whatever is cut off, every kube-apiserver that runs verifies by every key that signs, and by every key that
//! signed a token which lasts; and finds its files when it starts again.

use std::collections::BTreeSet;

use api::tenant_cluster::{KeyTurn, RotationPhase, RotationStatus};
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use tenant_cp::names;

use super::*;
use crate::tenant_session::held_tokens::{HeldToken, key_id};

const DAY: i64 = 24 * 3600;

fn turn(world: &mut World, generation: u32, hold: bool, complete: Option<u32>) {
    world.cluster.spec.rotation.service_account_keys = Some(KeyTurn {
        generation,
        hold,
        complete,
    });
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
}

fn told(world: &World) -> Option<RotationStatus> {
    world.rotation("serviceAccountKeys")
}

fn waits(world: &World) -> String {
    told(world).unwrap().waiting_for.unwrap_or_default()
}

fn phase(world: &World) -> RotationPhase {
    told(world).unwrap().phase
}

fn flags(pod: &Value, flag: &str) -> Vec<String> {
    let containers = pod["spec"]["containers"].as_array().unwrap().iter();
    let args = containers.filter_map(|container| container["args"].as_array());
    let start = format!("--{flag}=/etc/kubernetes/");
    let files = args
        .flatten()
        .filter_map(|arg| arg.as_str()?.strip_prefix(&start));
    files.map(str::to_owned).collect()
}

fn number(file: &str) -> u32 {
    let (name, _) = file.split_once('.').unwrap();
    name.strip_prefix("sa-k").unwrap().parse().unwrap()
}

fn verifies(pod: &Value) -> BTreeSet<u32> {
    let files = flags(pod, "service-account-key-file");
    files.iter().map(|file| number(file)).collect()
}

fn signs(pod: &Value) -> Option<u32> {
    let signing = [
        "service-account-signing-key-file",
        "service-account-private-key-file",
    ];
    let mut files = signing.iter().flat_map(|flag| flags(pod, flag));
    files.next().map(|file| number(&file))
}

fn servers(world: &World) -> impl Iterator<Item = &Value> {
    let pods = world.pods.iter();
    let pods = pods.filter(|(key, _)| key.name.starts_with("control-plane"));
    pods.map(|(_, pod)| pod)
}

fn files(world: &World, secret: &str) -> BTreeSet<String> {
    let live = &world.objects[&Key::new("Secret", NS, secret)]["data"];
    live.as_object().unwrap().keys().cloned().collect()
}

/// When each key could have signed a token last.
#[derive(Default)]
struct Tokens(BTreeMap<u32, Timestamp>);

impl Tokens {
    /// Looks at every pod.
    fn look(&mut self, world: &World, when: &str) {
        for signer in world.pods.values().filter_map(signs) {
            self.0.insert(signer, world.now);
        }
        let lasts = |signed: &Timestamp| world.now.duration_since(*signed).as_secs() <= DAY;
        let last: BTreeSet<u32> = self
            .0
            .iter()
            .filter(|(_, signed)| lasts(signed))
            .map(|(n, _)| *n)
            .collect();
        for pod in servers(world) {
            let verifies = verifies(pod);
            assert!(
                last.is_subset(&verifies),
                "{when}: {verifies:?} of {last:?}"
            );
            let named = flags(pod, "service-account-key-file");
            let there = files(world, "apiserver");
            assert!(
                named.iter().all(|file| there.contains(file)),
                "{when}: {named:?} of {there:?}"
            );
        }
    }
}

/// One write after the other, each followed by a crash, until nothing is written any more.
fn write_by_write(world: &mut World, tokens: &mut Tokens, when: &str) {
    for number in 0..400 {
        let before = world.writes;
        let is_done = world.reconcile(&mut 1);
        world.play_controllers();
        tokens.look(world, &format!("{when}, write {number}"));
        if is_done && world.writes == before {
            return;
        }
    }
    panic!("{when}: writes never end: {:?}", told(world));
}

fn pass(world: &mut World, seconds: i64) {
    world.now += SignedDuration::from_secs(seconds);
}

#[test]
fn tokens_of_before_are_let_in_until_the_last_of_them_ended() {
    for spec in [minimal(), large()] {
        let mut world = ready(spec);
        let mut tokens = Tokens::default();
        tokens.look(&world, "before");
        turn(&mut world, 2, false, None);
        write_by_write(&mut world, &mut tokens, "turned");
        assert_eq!(phase(&world), RotationPhase::Draining);
        let both = told(&world).unwrap();
        assert_eq!((both.signs, both.believed), (2, vec![1, 2]));
        assert!(
            waits(&world).contains("2026-11-22T12:10:00Z"),
            "{}",
            waits(&world)
        );
        assert_eq!(
            world.condition("Progressing").1,
            "AsDesired",
            "it is at rest"
        );
        for pod in servers(&world) {
            assert_eq!(
                (verifies(pod), signs(pod)),
                (BTreeSet::from([1, 2]), Some(2))
            );
        }
        pass(&mut world, DAY);
        write_by_write(&mut world, &mut tokens, "a day later");
        assert_eq!(phase(&world), RotationPhase::Draining, "clocks differ");
        pass(&mut world, 600);
        write_by_write(&mut world, &mut tokens, "and ten minutes");
        assert_eq!(phase(&world), RotationPhase::Idle);
        assert_eq!(told(&world).unwrap().believed, [2]);
        for pod in servers(&world) {
            assert_eq!((verifies(pod), signs(pod)), (BTreeSet::from([2]), Some(2)));
        }
        // It is not deleted, and no pod has it.
        let dropped = &world.objects[&Key::new("Secret", NS, "service-account")];
        assert!(dropped["metadata"]["annotations"][names::DROPPED].is_string());
        for secret in ["apiserver", "controller-manager"] {
            let files = files(&world, secret);
            assert!(
                files.iter().all(|file| !file.starts_with("sa-k1")),
                "{files:?}"
            );
        }
        assert_eq!(world.condition("Ready").0, "True");
        assert_eq!(world.condition("CertificatesReady").0, "True");
    }
}

#[test]
fn time_and_phase_may_be_erased_and_tokens_are_let_in_all_the_same() {
    let mut world = ready(minimal());
    let mut tokens = Tokens::default();
    turn(&mut world, 2, false, None);
    write_by_write(&mut world, &mut tokens, "turned");
    pass(&mut world, DAY / 2);
    let secret = Key::new("Secret", NS, "service-account");
    let annotations = &mut world.objects.get_mut(&secret).unwrap()["metadata"]["annotations"];
    annotations
        .as_object_mut()
        .unwrap()
        .remove(names::SIGNED_UNTIL)
        .unwrap();
    world.cluster.status.as_mut().unwrap().rotation.clear();
    write_by_write(&mut world, &mut tokens, "erased");
    assert!(
        waits(&world).contains("2026-11-23T00:10:00Z"),
        "{}",
        waits(&world)
    );
    pass(&mut world, DAY + 600);
    for _ in 0..400 {
        world.cluster.status.as_mut().unwrap().rotation.clear();
        world.reconcile(&mut 1);
        world.play_controllers();
        tokens.look(&world, "erased at every write");
    }
    assert_eq!(phase(&world), RotationPhase::Idle);
}

#[test]
fn complete_ends_the_wait_of_its_own_generation_alone() {
    let mut world = ready(minimal());
    turn(&mut world, 2, false, Some(2));
    world.settle();
    assert_eq!(phase(&world), RotationPhase::Idle);
    assert_eq!(told(&world).unwrap().believed, [2]);
    turn(&mut world, 3, false, Some(2));
    world.settle();
    assert_eq!(phase(&world), RotationPhase::Draining);
    assert!(
        waits(&world).contains("complete to be 3"),
        "{}",
        waits(&world)
    );
    turn(&mut world, 3, true, Some(3));
    world.settle();
    assert_eq!(told(&world).unwrap().believed, [2, 3], "it is held");
    turn(&mut world, 3, false, Some(3));
    world.settle();
    assert_eq!(told(&world).unwrap().believed, [3]);
}

#[test]
fn tokens_that_never_end_are_named_and_let_in_until_they_are_replaced() {
    let mut world = ready(minimal());
    let held = |key: &str| HeldToken {
        place: "default/robot".to_owned(),
        key: key.to_owned(),
    };
    world.held_tokens = Ok(vec![held("first")]);
    turn(&mut world, 2, false, None);
    world.settle();
    assert!(
        waits(&world).contains("(default/robot)"),
        "{}",
        waits(&world)
    );
    pass(&mut world, DAY + 600);
    world.settle();
    assert_eq!(told(&world).unwrap().believed, [1, 2]);
    assert!(
        waits(&world).starts_with("Secrets whose tokens never end"),
        "{}",
        waits(&world)
    );
    world.held_tokens = Err("it is dark".to_owned());
    world.settle();
    assert_eq!(told(&world).unwrap().believed, [1, 2], "it is not known");
    let public = &world.objects[&Key::new("Secret", NS, "service-account-g2")]["data"]["sa-k2.pub"];
    let public = STANDARD.decode(public.as_str().unwrap()).unwrap();
    let id = key_id(std::str::from_utf8(&public).unwrap()).unwrap();
    world.held_tokens = Ok(vec![held(&id)]);
    world.settle();
    assert_eq!(told(&world).unwrap().believed, [2]);
}

#[test]
fn key_that_signs_again_begins_its_time_anew() {
    let mut world = ready(minimal());
    let mut tokens = Tokens::default();
    for generation in [2, 1, 2] {
        turn(&mut world, generation, false, None);
        write_by_write(&mut world, &mut tokens, "turned");
        assert_eq!(told(&world).unwrap().signs, generation);
        assert_eq!(phase(&world), RotationPhase::Draining);
        pass(&mut world, DAY / 2);
    }
    // By the times that were written first all of them would have ended.
    write_by_write(&mut world, &mut tokens, "half a day later");
    assert_eq!(told(&world).unwrap().believed, [1, 2]);
    pass(&mut world, DAY);
    write_by_write(&mut world, &mut tokens, "another day later");
    assert_eq!(told(&world).unwrap().believed, [2]);
}

#[test]
fn nothing_signs_anew_while_an_old_kube_apiserver_ends() {
    let mut world = ready(minimal());
    let old = world.pods[&Key::new("Pod", NS, "control-plane-0")].clone();
    turn(&mut world, 2, false, Some(2));
    let ends = Key::new("Pod", NS, "control-plane-old");
    world.pods.insert(ends.clone(), old);
    world.pods.get_mut(&ends).unwrap()["metadata"]["deletionTimestamp"] =
        json!("2026-11-21T12:00:00Z");
    let mut tokens = Tokens::default();
    write_by_write(&mut world, &mut tokens, "while it ends");
    assert_eq!(phase(&world), RotationPhase::Preparing);
    assert_eq!(told(&world).unwrap().signs, 1);
    assert_eq!(world.condition("Progressing").1, "Rotating");
    world.pods.remove(&ends);
    world.settle();
    assert_eq!(told(&world).unwrap().believed, [2]);
}

#[test]
fn key_that_is_lost_while_it_verifies_comes_back_and_one_that_was_dropped_does_not() {
    let mut world = ready(minimal());
    turn(&mut world, 2, false, None);
    world.settle();
    for name in ["service-account", "service-account-g2"] {
        let key = Key::new("Secret", NS, name);
        let before = world.objects.remove(&key).unwrap();
        world.settle();
        assert_eq!(world.objects[&key]["data"], before["data"], "{name}");
    }
    turn(&mut world, 2, false, Some(2));
    world.settle();
    let key = Key::new("Secret", NS, "service-account");
    let dropped = world.objects[&key].clone();
    world.objects.remove(&Key::new("Secret", NS, "apiserver"));
    world
        .objects
        .remove(&Key::new("Secret", NS, "controller-manager"));
    world.settle();
    assert_eq!(world.objects[&key], dropped);
    assert!(!files(&world, "apiserver").contains("sa-k1.pub"));
    turn(&mut world, 1, false, None);
    world.settle();
    assert_eq!(world.condition("Degraded").1, "RotationRefused");
    assert_eq!(told(&world).unwrap().believed, [2]);
}

#[test]
fn both_are_turned_at_once_and_share_their_rollouts() {
    let mut world = ready(minimal());
    world.cluster.spec.rotation.users_ca = Some(api::tenant_cluster::AuthorityTurn {
        generation: 2,
        ..api::tenant_cluster::AuthorityTurn::default()
    });
    turn(&mut world, 2, false, None);
    let (mut tokens, mut templates) = (Tokens::default(), BTreeSet::new());
    for number in 0..400 {
        let before = world.writes;
        let is_done = world.reconcile(&mut 1);
        world.play_controllers();
        tokens.look(&world, &format!("both, write {number}"));
        let of =
            |pod: &Value| pod["metadata"]["annotations"]["covey.dev/template-hash"].to_string();
        templates.extend(servers(&world).map(of));
        if is_done && world.writes == before {
            break;
        }
    }
    // Before, with both of each, signing anew, without the authority of before.
    assert!(templates.len() <= 4, "{templates:?}");
    let status = world.cluster.status.clone().unwrap().rotation;
    let phases: Vec<_> = status
        .iter()
        .map(|told| (told.name.as_str(), told.phase))
        .collect();
    let wanted = [
        ("usersCA", RotationPhase::Idle),
        ("serviceAccountKeys", RotationPhase::Draining),
    ];
    assert_eq!(phases, wanted);
}
