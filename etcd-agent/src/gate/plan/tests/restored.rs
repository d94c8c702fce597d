//! Laws of what was built for a restore: who takes it over, and when, and that it happens once.

use super::*;

/// What the operator says once members are to take over: cluster 101, members 10 to 12.
fn restoring() -> Identity {
    let mut identity = running_cluster();
    identity.cluster = Some(id(101));
    identity.restore = Some("r1".to_owned());
    identity
}

fn built(claim: &str, name: &str, data: MemberIds) -> Built {
    Built {
        claim: claim.to_owned(),
        name: name.to_owned(),
        revision: 7,
        data,
    }
}

fn with(observed: Observed, built: Built) -> Observed {
    Observed {
        built: Some(Ok(built)),
        ..observed
    }
}

fn own() -> Built {
    built("claim-0", "etcd-0", ids(101, 10))
}

fn of(identity: &Identity, observed: &Observed) -> &'static str {
    reason(&plan("etcd-0", ClusterState::Existing, identity, observed))
}

#[test]
fn what_was_built_is_taken_over_whatever_was_there_before() {
    let stray = Data::Stray {
        path: "member/snap/x".to_owned(),
    };
    let marked = || marker("claim-0", "etcd-0", Some(ids(100, 10)));
    for (data, marker) in [
        (whole_log(100, 10), marked()),
        (Data::Nothing, marked()),
        (Data::Nothing, Ok(None)),
        (stray, marked()),
    ] {
        let seen = with(volume(data, marker), own());
        let decision = plan("etcd-0", ClusterState::Existing, &restoring(), &seen);
        let Decision::Start { start, marker } = decision else {
            panic!("{decision:?}");
        };
        assert_eq!(start, Start::Restored(ids(101, 10)));
        assert_eq!(marker.and_then(|marker| marker.data), Some(ids(101, 10)));
    }
}

#[test]
fn without_the_operators_word_it_is_not_touched() {
    let seen = with(
        volume(
            whole_log(100, 10),
            marker("claim-0", "etcd-0", Some(ids(100, 10))),
        ),
        own(),
    );
    let decision = plan("etcd-0", ClusterState::Existing, &running_cluster(), &seen);
    let Decision::Start { start, .. } = decision else {
        panic!("{decision:?}");
    };
    assert_eq!(start, Start::Again(ids(100, 10)));
    // And where the operator gave it, but nothing was built, nobody starts on what was there.
    let seen = Observed {
        built: None,
        ..seen
    };
    assert_eq!(of(&restoring(), &seen), "ForeignData");
}

#[test]
fn what_was_built_for_others_is_refused() {
    let seen = volume(Data::Nothing, Ok(None));
    let of = |built| of(&restoring(), &with(seen.clone(), built));
    assert_eq!(of(built("claim-9", "etcd-0", ids(101, 10))), "OtherClaim");
    assert_eq!(of(built("claim-0", "etcd-1", ids(101, 10))), "OtherMember");
    assert_eq!(of(built("claim-0", "etcd-0", ids(101, 11))), "OtherMember");
    assert_eq!(of(built("claim-0", "etcd-0", ids(102, 10))), "ForeignData");
    let unreadable = Observed {
        built: Some(Err("has a built.json that nobody wrote".to_owned())),
        ..seen.clone()
    };
    assert_eq!(
        reason(&plan(
            "etcd-0",
            ClusterState::Existing,
            &restoring(),
            &unreadable
        )),
        "Damaged"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn only_what_was_built_for_the_member_is_taken_over_and_only_once(
        observed in some_observed(), claim in 0..2, name in 0..2, data in some_ids(),
        is_asked: bool, is_built: bool,
    ) {
        let mut identity = restoring();
        identity.restore = identity.restore.filter(|_| is_asked);
        let built = built(&format!("claim-{claim}"), &format!("etcd-{name}"), data);
        let seen = match is_built {
            true => with(observed.clone(), built),
            false => observed.clone(),
        };
        let state = ClusterState::Existing;
        let decision = plan("etcd-0", state, &identity, &seen);
        let Decision::Start { start: Start::Restored(ids), marker } = decision else {
            // Nothing else starts than without it.
            if let Decision::Start { .. } = &decision {
                prop_assert_eq!(&decision, &plan("etcd-0", state, &identity, &observed));
            }
            return Ok(());
        };
        prop_assert!(is_asked && is_built && (claim, name) == (0, 0) && ids == data);
        prop_assert_eq!(ids, super::ids(101, 10));
        let has_it = matches!(&observed.data, Data::Log { ids, .. } if ids.cluster == id(101));
        prop_assert!(!has_it, "what is written to already is replaced");
        // Broken off after its marker it goes on; once it is taken over it is a member's own data.
        let marked = Observed { marker: Ok(marker.or(observed.marker.unwrap())), ..seen };
        let again = plan("etcd-0", state, &identity, &marked);
        prop_assert_eq!(again, Decision::Start { start: Start::Restored(ids), marker: None });
        let taken = Observed { data: whole_log(101, 10), ..marked };
        let again = plan("etcd-0", state, &identity, &taken);
        prop_assert_eq!(again, Decision::Start { start: Start::Again(ids), marker: None });
    }
}
