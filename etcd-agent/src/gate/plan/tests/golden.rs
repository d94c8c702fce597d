//! Laws of golden starts: nothing is given but at a first start, and whatever breaks one off, what follows is that same
//! first start, or the member's own data.

use super::*;

fn some_golden() -> Golden {
    Golden {
        file: "a.db".to_owned(),
        sha256: "00".to_owned(),
        token: "t".to_owned(),
        peer_url: "https://etcd-0:2380".to_owned(),
    }
}

/// One member that the operator has just made a claim for, and what it is to begin with.
fn alone() -> Identity {
    let mut identity = new_cluster();
    identity.members.truncate(1);
    identity.golden = Some(some_golden());
    identity
}

fn given(identity: &Identity, observed: &Observed) -> bool {
    match plan("etcd-0", ClusterState::New, identity, observed) {
        Decision::Start { start, .. } => golden(start, identity, observed).is_some(),
        Decision::Refuse(_) => false,
    }
}

#[test]
fn empty_volume_of_a_new_cluster_of_one_is_given_it_and_no_other() {
    let empty = volume(Data::Nothing, Ok(None));
    assert!(given(&alone(), &empty));
    let mut three = new_cluster();
    three.golden = Some(some_golden());
    assert!(!given(&three, &empty));
    let mut ran = alone();
    ran.cluster = Some(id(100));
    assert!(!given(&ran, &empty));
    let mut late = alone();
    late.members[0].may_start_empty = false;
    assert!(!given(&late, &empty));
    // etcd has begun there by itself.
    let begun = volume(Data::DatabaseAlone, marker("claim-0", "etcd-0", None));
    assert!(!given(&alone(), &begun));
}

#[test]
fn broken_off_anywhere_it_is_begun_anew_or_goes_on_with_what_is_in_place() {
    let identity = alone();
    let ours = |data| marker("claim-0", "etcd-0", data);
    // The marker alone: what was built beside the data directory was not put there.
    assert!(given(&identity, &volume(Data::Nothing, ours(None))));
    // In place, and the marker does not say yet whose it is; and then it does.
    for said in [None, Some(ids(100, 10))] {
        let observed = volume(whole_log(100, 10), ours(said));
        let decision = plan("etcd-0", ClusterState::New, &identity, &observed);
        let Decision::Start { start, marker } = decision else {
            panic!("{decision:?}");
        };
        assert_eq!(start, Start::Again(ids(100, 10)));
        assert_eq!(marker.is_some(), said.is_none());
        assert!(!given(&identity, &observed));
    }
    // And what was in place is gone: it may have been written to.
    let emptied = volume(Data::Nothing, ours(Some(ids(100, 10))));
    let decision = plan("etcd-0", ClusterState::New, &identity, &emptied);
    assert_eq!(reason(&decision), "VolumeLost");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn what_may_start_is_the_same_with_it_and_only_a_first_start_on_nothing_is_given_it(
        identity in some_identity(), state in some_state(), observed in some_observed(),
    ) {
        let mut with = identity.clone();
        with.golden = Some(some_golden());
        let decision = plan("etcd-0", state, &with, &observed);
        prop_assert_eq!(&decision, &plan("etcd-0", state, &identity, &observed));
        let Decision::Start { start, .. } = decision else { return Ok(()) };
        prop_assert!(golden(start, &identity, &observed).is_none());
        if golden(start, &with, &observed).is_some() {
            prop_assert_eq!(start, Start::First);
            prop_assert_eq!(&observed.data, &Data::Nothing);
            prop_assert_eq!(with.members.len(), 1);
            prop_assert!(with.cluster.is_none() && state == ClusterState::New);
            let marker = observed.marker.unwrap();
            prop_assert!(marker.is_none_or(|marker| marker.data.is_none()));
        }
    }
}
