//! Nodes that run already and are taken over as they run.

use api::Machine;
use api::host::HostOwner;

use super::*;
use crate::life::adoption::{self, OWNER_GONE};

const FINGERPRINT: &str = "ab";

/// What a machine says that is the node `w-old`.
fn node() -> Facts {
    Facts {
        kubelet_configured: true,
        kubelet_ca: "digest".to_owned(),
        kubelet_authorities: vec!["aa".to_owned(), FINGERPRINT.to_owned()],
        node_name: Some("w-old".to_owned()),
        tasks: 4,
        processes: vec!["kubelet".to_owned(), "containerd".to_owned()],
        ports: vec![10250],
        // A node runs with what a machine that is to become one may not have.
        swap_mib: Some(512),
        owner: Some(owner()),
        owner_looked: Some(OWNER_GONE.as_secs()),
        ..facts("one")
    }
}

fn owner() -> Owner {
    Owner {
        installation: "lost".to_owned(),
        tenant_cluster: "tc-lost".to_owned(),
        machine: "m-lost".to_owned(),
    }
}

fn says(facts: Facts) -> Outcome {
    Outcome::Seen {
        facts: Box::new(facts),
        host_key: "ssh-ed25519 SHA256:one".to_owned(),
        clean: Cleanliness::Traces(vec!["process kubelet".to_owned()]),
    }
}

fn seen_as(adopt: bool, facts: Facts) -> Case {
    let mut case = Case::new();
    case.observed.host.spec.adopt = adopt;
    case.sees(Errand::Inspect, says(facts));
    case
}

/// Made by a pool to take over `w-old`.
fn adopter(host: &str, fingerprint: &str) -> Machine {
    let mut machine = world::machine("w-old");
    let annotations = machine.metadata.annotations.get_or_insert_default();
    let adopts = format!("{host}/{fingerprint}");
    annotations.insert(names::ANNOTATION_ADOPTS.to_owned(), adopts);
    machine
}

fn verified(case: &Case) -> (String, String) {
    let status = case.observed.host.status.clone().unwrap();
    let found = status.conditions.into_iter();
    let mut found = found.filter(|c| c.type_ == ConditionType::Verified.as_str());
    let condition = found.next().unwrap();
    (condition.reason, condition.message)
}

#[test]
fn a_node_is_adoptable_only_where_that_is_asked_for_and_says_which_it_is() {
    let case = seen_as(true, node());
    assert_eq!(case.phase(), HostPhase::Adoptable);
    let status = case.observed.host.status.clone().unwrap();
    let found = status.node.unwrap();
    assert_eq!(
        (found.name.as_str(), found.ca_fingerprints.len()),
        ("w-old", 2)
    );
    let lost = HostOwner {
        installation_uid: "lost".to_owned(),
        tenant_cluster_uid: "tc-lost".to_owned(),
        machine_uid: "m-lost".to_owned(),
    };
    assert_eq!(found.owner, Some(lost));
    assert!(!choose::is_free(&case.observed.host));

    let case = seen_as(false, node());
    assert_eq!(case.phase(), HostPhase::Quarantined, "its owner's");
    assert_eq!(case.observed.host.status.unwrap().node, None);
    // It does not say which node it is, or what it believes.
    for (bad, word) in [
        (
            Facts {
                node_name: None,
                ..node()
            },
            "kubelet-client-current.pem",
        ),
        (
            Facts {
                node_name: Some("a.b".to_owned()),
                ..node()
            },
            "a.b",
        ),
        (
            Facts {
                kubelet_authorities: Vec::new(),
                ..node()
            },
            "certificate-authority-data",
        ),
        (
            Facts {
                kubelet: None,
                ..node()
            },
            "kubelet version",
        ),
    ] {
        let case = seen_as(true, bad);
        assert_eq!(case.phase(), HostPhase::Unverified);
        assert!(verified(&case).1.contains(word), "{:?}", verified(&case));
    }
    // A machine that is none is as any other.
    let case = seen_as(true, facts("one"));
    assert_eq!(case.observed.host.status.unwrap().node, None);
}

#[test]
fn nothing_is_taken_from_an_owner_that_may_be_alive() {
    let with = |facts: Facts, is_here: bool, annotation: Option<&str>| {
        let mut case = Case::new();
        case.observed.host.spec.adopt = true;
        case.observed.owner_is_here = is_here;
        let annotations =
            annotation.map(|uid| [(names::ANNOTATION_TAKE_OVER.to_owned(), uid.to_owned())].into());
        case.observed.host.metadata.annotations = annotations;
        case.sees(Errand::Inspect, says(facts));
        case
    };
    let looked = |seconds| Facts {
        owner_looked: seconds,
        ..node()
    };
    let just_now = with(looked(Some(OWNER_GONE.as_secs() - 1)), false, None);
    assert_eq!(just_now.phase(), HostPhase::Quarantined);
    assert_eq!(verified(&just_now).0, "OwnedByAnother");
    assert!(verified(&just_now).1.contains(names::ANNOTATION_TAKE_OVER));
    assert_eq!(just_now.observed.host.status.as_ref().unwrap().node, None);
    let (errand, due) = plan(&just_now.observed, now()).errand.unwrap();
    assert_eq!(errand, Errand::Inspect);
    assert!(
        due < now() + SignedDuration::from_mins(3),
        "looked at again soon"
    );

    assert_eq!(
        with(looked(None), false, None).phase(),
        HostPhase::Quarantined
    );
    let other = with(looked(None), false, Some("m-other"));
    assert_eq!(other.phase(), HostPhase::Quarantined);
    let said = with(looked(None), false, Some("m-lost"));
    assert_eq!(said.phase(), HostPhase::Adoptable);
    // Whatever a person says of a Machine that is there.
    let here = with(node(), true, Some("m-lost"));
    assert_eq!(here.phase(), HostPhase::Quarantined);
    let unread = Facts {
        owner: Some(Owner::default()),
        ..node()
    };
    assert_eq!(
        with(unread, false, Some("")).phase(),
        HostPhase::Quarantined
    );
    let nobody = Facts {
        owner: None,
        ..looked(None)
    };
    assert_eq!(with(nobody, false, None).phase(), HostPhase::Adoptable);
}

#[test]
fn only_the_machine_that_was_made_for_this_node_gets_it() {
    let case = seen_as(true, node());
    let hosts = [case.observed.host];
    let uid = hosts[0].metadata.uid.clone().unwrap();
    let selector = api::node_pool::HostSelector::default();
    let right = adopter(&uid, FINGERPRINT);
    assert!(choose::choose(&hosts, (&selector, &Archives::default()), &right).is_some());
    let status = choose::claim(&hosts[0], &right, now()).unwrap();
    assert_eq!(status.phase, Some(HostPhase::Claimed));
    assert!(status.node.is_some(), "what is replaced is what was seen");
    let mut namesake = adopter(&uid, FINGERPRINT);
    namesake.metadata.name = Some("w-1".to_owned());
    for other in [
        adopter("another", FINGERPRINT),
        adopter(&uid, "cc"),
        world::machine("w-old"),
        namesake,
    ] {
        assert!(choose::choose(&hosts, (&selector, &Archives::default()), &other).is_none());
        assert_eq!(choose::claim(&hosts[0], &other, now()), None);
    }
    // Nor does it take a machine that would have to become a node.
    let free = [Case::available().observed.host];
    assert!(choose::choose(&free, (&selector, &Archives::default()), &right).is_none());
    let uid = free[0].metadata.uid.clone().unwrap();
    assert_eq!(
        choose::claim(&free[0], &adopter(&uid, FINGERPRINT), now()),
        None
    );
    // Not while the status speaks of another spec.
    let mut changed = hosts;
    changed[0].metadata.generation = Some(7);
    assert!(choose::choose(&changed, (&selector, &Archives::default()), &right).is_none());
}

#[test]
fn what_changed_since_it_was_seen_is_not_touched() {
    let found = adoption::node(&node()).unwrap();
    assert_eq!(adoption::as_seen(&found, &node(), ""), Ok(()));
    let other = Facts {
        kubelet_authorities: vec!["cc".to_owned()],
        ..node()
    };
    assert!(adoption::as_seen(&found, &other, "").is_err());
    assert_eq!(
        adoption::as_seen(&found, &other, "digest"),
        Ok(()),
        "it was shown ours, and the answer was lost"
    );
    let renamed = Facts {
        node_name: Some("w-new".to_owned()),
        ..node()
    };
    assert!(adoption::as_seen(&found, &renamed, "digest").is_err());
}

/// Whatever phase is lost between two writes, the next plan is the same.
#[test]
fn an_adopted_machine_lives_as_any_other_and_is_clean_in_the_end() {
    let mut case = seen_as(true, node());
    let uid = case.observed.host.metadata.uid.clone().unwrap();
    case.observed.host.status =
        choose::claim(&case.observed.host, &adopter(&uid, FINGERPRINT), now());
    case.observed.machine = MachineState::Wanted;
    let next = |case: &Case| plan(&case.observed, now()).errand.unwrap().0;
    assert_eq!(next(&case), Errand::Claim);
    case.sees(Errand::Claim, Outcome::Claim(Claim::Ours));
    assert_eq!(next(&case), Errand::Join);
    case.sees(
        Errand::Join,
        Outcome::Join(Progress::Joined("w-old".to_owned())),
    );
    assert_eq!(case.phase(), HostPhase::Joined);
    assert!(case.observed.host.status.as_ref().unwrap().node.is_some());
    case.observed.host.status = choose::release(&case.observed.host, "uid-w-old");
    case.observed.machine = MachineState::Going;
    assert_eq!(next(&case), Errand::Reset);
    let undone = Outcome::Reset {
        progress: Progress::Undone,
        clean: Cleanliness::Clean,
        kubelet: None,
    };
    case.sees(Errand::Reset, undone);
    let status = case.observed.host.status.clone().unwrap();
    assert_eq!(
        (status.phase, status.claim, status.node),
        (Some(HostPhase::Available), None, None)
    );
}

#[test]
fn a_claim_that_somebody_was_quicker_with_leaves_the_node_alone() {
    for claim in [
        Claim::Foreign(owner()),
        Claim::Changed("it is another node".to_owned()),
    ] {
        let mut case = seen_as(true, node());
        let uid = case.observed.host.metadata.uid.clone().unwrap();
        case.observed.host.status =
            choose::claim(&case.observed.host, &adopter(&uid, FINGERPRINT), now());
        case.observed.machine = MachineState::Wanted;
        case.sees(Errand::Claim, Outcome::Claim(claim));
        let status = case.observed.host.status.clone().unwrap();
        assert_eq!(status.claim, None);
        assert_eq!(
            plan(&case.observed, now()).errand.unwrap().0,
            Errand::Inspect
        );
    }
}

#[test]
fn a_node_that_another_installation_took_over_is_its_own() {
    let mut case = Case::claimed(HostPhase::Joined);
    let theirs = Facts {
        owner: Some(owner()),
        ..node()
    };
    case.sees(Errand::Inspect, says(theirs));
    assert_eq!(case.phase(), HostPhase::Quarantined);
    assert_eq!(verified(&case).0, "OwnedByAnother");
    // Nothing is undone on it, and the claim goes with the Machine.
    assert_eq!(
        plan(&case.observed, now()).errand.unwrap().0,
        Errand::Inspect
    );
    case.observed.machine = MachineState::Going;
    let foreign = Progress::Foreign("another owner".to_owned());
    let reset = Outcome::Reset {
        progress: foreign,
        clean: Cleanliness::Unknown,
        kubelet: None,
    };
    case.sees(Errand::Reset, reset);
    assert_eq!(case.observed.host.status.unwrap().claim, None);
}
