//! Hosts whose Machine goes, and Hosts that go.

use super::*;

fn undone(clean: Cleanliness) -> Outcome {
    Outcome::Reset {
        progress: Progress::Undone,
        clean,
        kubelet: None,
    }
}

#[test]
fn host_is_free_again_only_once_it_said_that_it_is_clean() {
    let traces = Cleanliness::Traces(vec!["mount /var/lib/kubelet/x".to_owned()]);
    for (clean, phase) in [
        (Cleanliness::Clean, HostPhase::Available),
        (traces, HostPhase::Quarantined),
        (Cleanliness::Unknown, HostPhase::Quarantined),
    ] {
        let mut case = Case::claimed(HostPhase::Resetting);
        case.observed.machine = MachineState::Going;
        case.sees(Errand::Reset, undone(clean.clone()));
        assert_eq!(case.phase(), phase, "{clean:?}");
        assert_eq!(case.is_claimed(), phase == HostPhase::Quarantined);
        // It is tried again, and found clean.
        case.sees(Errand::Reset, undone(Cleanliness::Clean));
        assert_eq!(
            (case.phase(), case.is_claimed()),
            (HostPhase::Available, false)
        );
    }
}

#[test]
fn silent_machine_lets_its_machine_go_and_keeps_the_claim() {
    let mut case = Case::claimed(HostPhase::Resetting);
    case.observed.machine = MachineState::Going;
    let uid = "uid-w-1";
    case.sees(Errand::Reset, failed(Reason::HostUnreachable));
    assert_eq!(case.phase(), HostPhase::Resetting);
    assert!(!lets_go(&case.observed.host, uid));
    let later = plan(&case.observed, now() + SignedDuration::from_mins(2));
    case.observed.host.status = Some(later.status);
    assert_eq!(case.phase(), HostPhase::Quarantined);
    assert!(case.is_claimed() && lets_go(&case.observed.host, uid));
    case.says(ConditionType::Clean, "Unknown", Reason::ResetPending);
    // It comes back.
    case.observed.machine = MachineState::Gone;
    case.sees(Errand::Reset, undone(Cleanliness::Clean));
    assert_eq!(
        (case.phase(), case.is_claimed()),
        (HostPhase::Available, false)
    );
}

#[test]
fn another_machine_in_its_place_lets_the_machine_go_that_waits_for_a_reset() {
    let mut case = Case::claimed(HostPhase::Resetting);
    case.observed.machine = MachineState::Going;
    let machine_id = "two".to_owned();
    case.sees(Errand::Reset, Outcome::AnotherMachine { machine_id });
    assert_eq!(case.phase(), HostPhase::Resetting);
    let later = plan(&case.observed, now() + SignedDuration::from_mins(2));
    case.observed.host.status = Some(later.status);
    assert_eq!(case.phase(), HostPhase::Quarantined);
    assert!(case.is_claimed() && lets_go(&case.observed.host, "uid-w-1"));
}

#[test]
fn person_says_that_it_is_clean_by_the_uid_of_the_machine() {
    for (said, machine, is_heard) in [
        ("uid-w-1", MachineState::Gone, true),
        ("uid-w-1", MachineState::Going, true),
        ("uid-w-1", MachineState::Wanted, false),
        ("uid-w-1", MachineState::Unknown, false),
        ("uid-w-2", MachineState::Gone, false),
        ("", MachineState::Gone, false),
    ] {
        let mut case = Case::claimed(HostPhase::Quarantined);
        case.observed.machine = machine;
        let annotations = [(names::ANNOTATION_HOST_IS_CLEAN.to_owned(), said.to_owned())];
        case.observed.host.metadata.annotations = Some(annotations.into());
        case.plan();
        assert_eq!(case.is_claimed(), !is_heard, "{said} {machine:?}");
        // What is said is looked at all the same.
        assert_ne!(case.phase(), HostPhase::Available);
    }
}

#[test]
fn deleted_host_waits_for_its_machine_and_abandons_it_by_its_own_uid() {
    let deleted = "2026-01-02T00:00:00Z".parse::<Timestamp>().unwrap();
    let deleted = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(deleted);
    let mut case = Case::available();
    case.observed.host.metadata.deletion_timestamp = Some(deleted.clone());
    let plan = case.plan();
    assert_eq!(
        (plan.action, plan.errand),
        (Some(Action::RemoveFinalizer), None)
    );
    let mut case = Case::claimed(HostPhase::Joined);
    case.observed.host.metadata.deletion_timestamp = Some(deleted);
    assert_eq!(case.plan().action, None);
    let (_, _, words) = case.condition(ConditionType::Clean);
    assert!(
        words.contains("kubectl delete machine w-1") && words.contains("covey.dev/abandon=uid-a"),
        "{words}"
    );
    for (said, goes) in [("uid-b", false), ("uid-a", true)] {
        let annotations = [(names::ANNOTATION_ABANDON.to_owned(), said.to_owned())];
        case.observed.host.metadata.annotations = Some(annotations.into());
        let plan = case.plan();
        assert_eq!(plan.action == Some(Action::RemoveFinalizer), goes);
        assert_eq!(plan.told.len(), usize::from(goes));
    }
}

/// What was sent is gone with the reset: whoever comes next must not count on it.
#[test]
fn kubelet_of_a_clean_machine_is_the_one_that_it_has_then() {
    let mut case = Case::claimed(HostPhase::Resetting);
    case.observed.machine = MachineState::Going;
    case.sees(Errand::Reset, undone(Cleanliness::Clean));
    let status = case.observed.host.status.clone().unwrap();
    assert_eq!(status.phase, Some(HostPhase::Available));
    assert_eq!(status.facts.unwrap().kubelet, None);
}
