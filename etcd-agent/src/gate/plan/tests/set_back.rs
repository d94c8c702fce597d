//! Laws of a volume that was set back: it is refused where the member had more, and nowhere else.

use super::*;

/// What the operator says once it has noted that etcd-0 had this entry.
fn noted(index: u64) -> Identity {
    let mut identity = running_cluster();
    identity.members[0].last_index = Some(index);
    identity
}

fn ending_at(index: u64) -> Observed {
    let marker = marker("claim-0", "etcd-0", Some(ids(100, 10)));
    Observed {
        last_index: Some(index),
        ..volume(whole_log(100, 10), marker)
    }
}

fn of(identity: &Identity, observed: &Observed) -> Decision {
    plan("etcd-0", ClusterState::Existing, identity, observed)
}

#[test]
fn volume_that_lacks_what_its_member_had_is_refused_with_both_numbers() {
    let Decision::Refuse(refusal) = of(&noted(5678), &ending_at(1234)) else {
        panic!("it starts");
    };
    assert_eq!(
        (refusal.reason(), refusal.exit_code()),
        ("OutdatedData", 18)
    );
    let sentence = refusal.to_string();
    for part in ["etcd-0", "1234", "5678", "covey.dev/accept-etcd-index"] {
        assert!(sentence.contains(part), "{part}: {sentence}");
    }
    assert!(sentence.len() < 400, "{sentence}");
    // It has all of it, and more.
    for index in [5678, 9000] {
        assert_eq!(reason(&of(&noted(5678), &ending_at(index))), "Start");
    }
}

#[test]
fn whose_data_it_is_comes_before_how_old_it_is() {
    let observed = Observed {
        last_index: Some(1),
        ..volume(whole_log(200, 10), Ok(None))
    };
    assert_eq!(reason(&of(&noted(5678), &observed)), "ForeignData");
    // What is not there is not old.
    let empty = volume(Data::Nothing, Ok(None));
    assert_eq!(reason(&of(&noted(5678), &empty)), "VolumeLost");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn what_is_noted_only_ever_forbids_and_only_data_that_is_older(
        identity in some_identity(), state in some_state(), observed in some_observed(),
        index in option::of(0_u64..4), last_index in option::of(0_u64..4),
    ) {
        let without = plan("etcd-0", state, &identity, &observed);
        let mut noted = identity;
        noted.members[0].last_index = index;
        let seen = Observed { last_index, ..observed };
        let with = plan("etcd-0", state, &noted, &seen);
        let is_older = index.is_some_and(|index| last_index.unwrap_or(0) < index);
        match (&without, &with) {
            (Decision::Start { start: Start::Again(_), .. }, Decision::Refuse(refusal)) => {
                prop_assert_eq!(refusal.reason(), "OutdatedData");
                prop_assert!(is_older);
            }
            _ => prop_assert_eq!(&without, &with),
        }
        if let Decision::Start { start: Start::Again(_), .. } = with {
            prop_assert!(!is_older);
        }
    }
}
