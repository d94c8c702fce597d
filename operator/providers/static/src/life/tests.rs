//! Lives of Hosts: what follows from each look, and laws over whole lives.
//!
//! Long lives are in [`laws`], machines and Machines that play along in [`world`].

use api::host::HostPhase;
use api::{ConditionType, Host, Reason, names};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::choose;
use super::observed::{Errand, Finding, MachineState, Observed, Outcome, Twin};
use super::plan::{AT_REST, Action, Plan, lets_go, plan};
use super::{Failure, identity};
use crate::plan::claim::{Claim, Owner};
use crate::plan::cleanliness::Cleanliness;
use crate::plan::facts::Facts;
use crate::plan::progress::Progress;
use crate::programs::Archives;

mod adopting;
mod choosing;
mod laws;
mod leaving;
mod world;

fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn host(name: &str) -> Host {
    serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Host",
        "metadata": {"name": name, "namespace": "team-a", "uid": format!("uid-{name}"), "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": [names::FINALIZER_HOST]},
        "spec": {"address": address_of(name), "user": "root", "sshKeySecretName": "ssh", "hostKeys": ["x"]},
    }))
    .unwrap()
}

/// One of its own for each name.
fn address_of(name: &str) -> String {
    let sum = name
        .bytes()
        .fold(0_u16, |sum, byte| sum * 7 % 241 + u16::from(byte) % 97);
    format!("10.1.{}.{}", sum / 200, 1 + sum % 200)
}

/// A machine that can become a node.
fn facts(machine_id: &str) -> Facts {
    Facts {
        machine_id: machine_id.to_owned(),
        arch: "x86_64".to_owned(),
        cpus: Some(8),
        memory_mib: Some(16_000),
        swap_mib: Some(0),
        disk_free_mib: Some(50_000),
        os: "debian 12".to_owned(),
        kernel: "6.1.0-28-amd64".to_owned(),
        clock_skew: Some(0),
        cgroup2: true,
        overlay: true,
        bridge_filter: true,
        writable: true,
        run_is_memory: true,
        kubelet: Some("1.35.4".to_owned()),
        addresses: ["a", "b", "c", "h0", "h1", "h2", "h3"]
            .map(|name| address_of(name).parse().unwrap())
            .to_vec(),
        ..Facts::default()
    }
}

fn seen(machine_id: &str) -> Outcome {
    Outcome::Seen {
        facts: Box::new(facts(machine_id)),
        host_key: format!("ssh-ed25519 SHA256:{machine_id}"),
        clean: Cleanliness::Clean,
    }
}

fn failed(reason: Reason) -> Outcome {
    Outcome::Failed(Failure {
        reason,
        message: "not reached".to_owned(),
        about: ConditionType::Reachable,
    })
}

fn look_of(host: &Host, errand: Errand, outcome: Outcome) -> Finding {
    let status = host.status.as_ref();
    let claim = status.and_then(|status| status.claim.as_ref());
    let look = Finding {
        errand,
        generation: host.metadata.generation,
        machine: claim.map(|claim| claim.machine_uid.clone()),
        at: now(),
        failures: 0,
        polls: 0,
        outcome,
    };
    look.after(None)
}

/// One host and what is known of it.
struct Case {
    observed: Observed,
}

impl Case {
    fn new() -> Self {
        let observed = Observed {
            host: host("a"),
            machine: MachineState::Unknown,
            others: Vec::new(),
            look: None,
            allows_cgroup1: false,
            programs: Archives::default(),
            owner_is_here: false,
        };
        Self { observed }
    }

    /// Available, and seen as it is.
    fn available() -> Self {
        let mut case = Self::new();
        case.sees(Errand::Inspect, seen("one"));
        assert_eq!(case.phase(), HostPhase::Available);
        case
    }

    fn claimed(phase: HostPhase) -> Self {
        let mut case = Self::available();
        case.observed.machine = MachineState::Wanted;
        let status = choose::claim(&case.observed.host, &world::machine("w-1"), now());
        case.observed.host.status = status;
        case.observed.host.status.as_mut().unwrap().phase = Some(phase);
        case.observed.look = None;
        case
    }

    fn plan(&mut self) -> Plan {
        let plan = plan(&self.observed, now());
        self.observed.host.status = Some(plan.status.clone());
        plan
    }

    /// Something came of an errand.
    fn sees(&mut self, errand: Errand, outcome: Outcome) -> Plan {
        self.observed.look = Some(look_of(&self.observed.host, errand, outcome));
        self.plan()
    }

    fn phase(&self) -> HostPhase {
        self.observed.host.status.as_ref().unwrap().phase.unwrap()
    }

    fn is_claimed(&self) -> bool {
        self.observed.host.status.as_ref().unwrap().claim.is_some()
    }

    fn condition(&self, type_: ConditionType) -> (String, String, String) {
        let status = self.observed.host.status.as_ref().unwrap();
        let found = status.conditions.iter().find(|c| c.type_ == type_.as_str());
        let found = found.unwrap();
        (
            found.status.clone(),
            found.reason.clone(),
            found.message.clone(),
        )
    }

    #[track_caller]
    fn says(&self, type_: ConditionType, status: &str, reason: Reason) {
        let (found, why, message) = self.condition(type_);
        assert_eq!((&*found, &*why), (status, reason.as_str()), "{message}");
    }
}

#[test]
fn new_host_gets_a_finalizer_and_is_looked_at_at_once() {
    let mut case = Case::new();
    case.observed.host.metadata.finalizers = None;
    let plan = case.plan();
    assert_eq!(plan.action, Some(Action::AddFinalizer));
    assert_eq!(plan.errand, Some((Errand::Inspect, now())));
    assert_eq!(case.phase(), HostPhase::Unverified);
    assert!(!choose::is_free(&case.observed.host));
}

#[test]
fn host_at_rest_writes_nothing_and_is_looked_at_slowly() {
    let mut case = Case::available();
    let before = case.observed.host.status.clone();
    let mut again = facts("one");
    (again.disk_free_mib, again.clock_skew) = (Some(49_999), Some(3));
    let later = Outcome::Seen {
        facts: Box::new(again),
        host_key: "ssh-ed25519 SHA256:one".to_owned(),
        clean: Cleanliness::Clean,
    };
    let plan = case.sees(Errand::Inspect, later);
    assert_eq!(Some(plan.status), before);
    let (errand, at) = plan.errand.unwrap();
    assert_eq!(errand, Errand::Inspect);
    let wait = at.duration_since(now());
    assert!(wait >= SignedDuration::try_from(AT_REST).unwrap(), "{wait}");
}

#[test]
fn words_that_differ_in_numbers_alone_are_no_news() {
    let mut case = Case::new();
    let full = |free| {
        let mut facts = facts("one");
        facts.disk_free_mib = Some(free);
        Outcome::Seen {
            facts: Box::new(facts),
            host_key: String::new(),
            clean: Cleanliness::Clean,
        }
    };
    case.sees(Errand::Inspect, full(900));
    case.says(ConditionType::Verified, "False", Reason::NotUsable);
    let before = case.observed.host.status.clone();
    case.sees(Errand::Inspect, full(899));
    assert_eq!(case.observed.host.status, before);
}

#[test]
fn everything_that_is_not_proven_keeps_a_host_from_machines() {
    let dirty = Cleanliness::Traces(vec!["link cni0".to_owned()]);
    for (clean, status, reason) in [
        (dirty, "False", Reason::TracesLeft),
        (Cleanliness::Unknown, "Unknown", Reason::NotLookedAt),
    ] {
        let mut case = Case::available();
        let outcome = Outcome::Seen {
            facts: Box::new(facts("one")),
            host_key: String::new(),
            clean,
        };
        case.sees(Errand::Inspect, outcome);
        assert_eq!(case.phase(), HostPhase::Unverified);
        case.says(ConditionType::Clean, status, reason);
    }
    let mut case = Case::available();
    case.sees(Errand::Inspect, failed(Reason::HostKeyUnknown));
    assert_eq!(case.phase(), HostPhase::Unverified);
    case.says(ConditionType::Reachable, "False", Reason::HostKeyUnknown);
    case.says(ConditionType::Clean, "Unknown", Reason::NotLookedAt);
    case.sees(Errand::Inspect, seen("one"));
    assert_eq!(case.phase(), HostPhase::Available);
}

#[test]
fn host_of_another_owner_is_quarantined() {
    for owner in [
        Owner::default(),
        Owner {
            installation: "other".to_owned(),
            tenant_cluster: "t".to_owned(),
            machine: "m".to_owned(),
        },
    ] {
        let mut case = Case::new();
        let mut facts = facts("one");
        facts.owner = Some(owner);
        let outcome = Outcome::Seen {
            facts: Box::new(facts),
            host_key: String::new(),
            clean: Cleanliness::Clean,
        };
        case.sees(Errand::Inspect, outcome);
        assert_eq!(case.phase(), HostPhase::Quarantined);
        case.says(ConditionType::Verified, "False", Reason::OwnedByAnother);
    }
}

#[test]
fn another_machine_in_its_place_waits_for_a_person() {
    let mut case = Case::available();
    assert_eq!(identity::expected(&case.observed.host), ["one"]);
    let other = Outcome::AnotherMachine {
        machine_id: "two".to_owned(),
    };
    case.sees(Errand::Inspect, other);
    assert_eq!(case.phase(), HostPhase::Unverified);
    case.says(ConditionType::Verified, "False", Reason::MachineChanged);
    let (_, _, words) = case.condition(ConditionType::Verified);
    assert!(
        words.contains("covey.dev/accept-machine-id=two") && words.contains("instead of one"),
        "{words}"
    );
    let annotations = [(
        names::ANNOTATION_ACCEPT_MACHINE_ID.to_owned(),
        "two".to_owned(),
    )];
    case.observed.host.metadata.annotations = Some(annotations.into());
    assert_eq!(identity::expected(&case.observed.host), ["one", "two"]);
    case.sees(Errand::Inspect, seen("two"));
    assert_eq!(case.phase(), HostPhase::Available);
}

#[test]
fn of_two_hosts_that_are_one_machine_the_second_is_refused() {
    let twin = |name: &str, claimed| Twin {
        namespace: "team-a".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        created: host("a").metadata.creation_timestamp.map(|time| time.0),
        is_claimed: claimed,
        machine_id: "one".to_owned(),
        host_key: "k".to_owned(),
    };
    let mut case = Case::new();
    case.observed.others = vec![twin("b", false)];
    case.sees(Errand::Inspect, seen("one"));
    assert_eq!(case.phase(), HostPhase::Available, "it was there first");
    case.observed.others = vec![twin("b", true)];
    case.plan();
    case.says(ConditionType::Verified, "False", Reason::Duplicate);
    assert_eq!(
        case.phase(),
        HostPhase::Unverified,
        "b has it for a Machine"
    );
    let mut elsewhere = twin("secret-name", true);
    elsewhere.namespace = "team-b".to_owned();
    case.observed.others = vec![elsewhere];
    case.plan();
    let (_, _, words) = case.condition(ConditionType::Verified);
    assert!(
        words.contains("of another namespace") && !words.contains("secret-name"),
        "{words}"
    );
    case.observed.others.clear();
    case.plan();
    assert_eq!(case.phase(), HostPhase::Available);
}

#[test]
fn claim_goes_on_to_the_join_and_gives_up_what_is_somebody_elses() {
    let mut case = Case::claimed(HostPhase::Claimed);
    assert_eq!(case.plan().errand, Some((Errand::Claim, now())));
    let plan = case.sees(Errand::Claim, Outcome::Claim(Claim::Ours));
    assert_eq!(plan.errand, Some((Errand::Join, now())));
    assert_eq!(case.phase(), HostPhase::Joining);
    for (claim, phase) in [
        (Claim::Foreign(Owner::default()), HostPhase::Quarantined),
        (Claim::Unwritable, HostPhase::Unverified),
    ] {
        let mut case = Case::claimed(HostPhase::Claimed);
        let plan = case.sees(Errand::Claim, Outcome::Claim(claim));
        assert_eq!((case.phase(), case.is_claimed()), (phase, false));
        assert_eq!(plan.errand, Some((Errand::Inspect, now())));
    }
}

#[test]
fn join_is_polled_while_it_works_and_tried_again_when_it_failed() {
    let mut case = Case::claimed(HostPhase::Joining);
    let mut waits = Vec::new();
    let mut before: Option<Finding> = None;
    for _ in 0..8 {
        let working = Outcome::Join(Progress::Working("files".to_owned()));
        let look = look_of(&case.observed.host, Errand::Join, working).after(before.as_ref());
        case.observed.look = Some(look.clone());
        before = Some(look);
        let (errand, at) = case.plan().errand.unwrap();
        assert_eq!(errand, Errand::Join);
        waits.push(at.duration_since(now()).as_secs());
    }
    assert_eq!(waits, [2, 2, 2, 2, 4, 8, 15, 15]);
    let failed = Outcome::Join(Progress::Failed("step files: none".to_owned()));
    let plan = case.sees(Errand::Join, failed);
    case.says(ConditionType::Verified, "False", Reason::HostFailing);
    assert!(plan.errand.unwrap().1 > now());
    let plan = case.sees(
        Errand::Join,
        Outcome::Join(Progress::Joined("w-1".to_owned())),
    );
    assert_eq!(case.phase(), HostPhase::Joined);
    assert_eq!(plan.errand, Some((Errand::Inspect, now())));
    case.says(ConditionType::Verified, "True", Reason::AsExpected);
    case.says(ConditionType::Clean, "False", Reason::InUse);
}

#[test]
fn nothing_is_undone_while_a_machine_wants_it_or_nobody_knows() {
    for machine in [
        MachineState::Wanted,
        MachineState::Unknown,
        MachineState::Going,
    ] {
        for phase in [HostPhase::Claimed, HostPhase::Joining, HostPhase::Joined] {
            let mut case = Case::claimed(phase);
            case.observed.machine = machine;
            let plan = case.plan();
            assert_ne!(plan.errand.unwrap().0, Errand::Reset);
            assert_eq!(case.phase(), phase);
        }
        let mut case = Case::claimed(HostPhase::Quarantined);
        case.observed.machine = machine;
        let is_reset = case.plan().errand.unwrap().0 == Errand::Reset;
        assert_eq!(is_reset, machine == MachineState::Going);
    }
    let mut case = Case::claimed(HostPhase::Joined);
    case.observed.machine = MachineState::Gone;
    assert_eq!(case.plan().errand, Some((Errand::Reset, now())));
}

/// It was asked nothing.
#[test]
fn what_could_not_be_found_out_to_ask_is_nothing_against_the_way_to_the_machine() {
    let mut case = Case::claimed(HostPhase::Claimed);
    case.observed.machine = MachineState::Wanted;
    let unread = Outcome::Failed(Failure {
        reason: Reason::TransientFailure,
        message: "a Secret could not be read".to_owned(),
        about: ConditionType::Verified,
    });
    case.sees(Errand::Claim, unread);
    case.says(ConditionType::Verified, "False", Reason::TransientFailure);
    case.says(ConditionType::Reachable, "True", Reason::AsExpected);
    case.sees(Errand::Claim, Outcome::Claim(Claim::Ours));
    assert_eq!(case.phase(), HostPhase::Joining);
    case.says(ConditionType::Verified, "True", Reason::AsExpected);
}
