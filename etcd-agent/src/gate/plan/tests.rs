//! Laws of the start gate, over what an operator may know and a volume may hold; and the cases that
//! people meet.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::ids::Id;

mod golden;
mod restored;
mod set_back;

fn id(number: u64) -> Id {
    Id::new(number).unwrap()
}

fn ids(cluster: u64, member: u64) -> MemberIds {
    MemberIds {
        cluster: id(cluster),
        member: id(member),
    }
}

/// Three members that the operator has just made claims for.
fn new_cluster() -> Identity {
    let member = |number: u64| Member {
        name: format!("etcd-{number}"),
        claim: format!("claim-{number}"),
        id: None,
        may_start_empty: true,
        last_index: None,
    };
    Identity {
        cluster: None,
        restore: None,
        golden: None,
        members: (0..3).map(member).collect(),
    }
}

/// The same, once all were seen: cluster 100, members 10, 11 and 12.
fn running_cluster() -> Identity {
    let mut identity = new_cluster();
    identity.cluster = Some(id(100));
    for (member, number) in identity.members.iter_mut().zip(10..) {
        member.id = Some(id(number));
        member.may_start_empty = false;
    }
    identity
}

fn marker(claim: &str, name: &str, data: Option<MemberIds>) -> Result<Option<Marker>, String> {
    Ok(Some(Marker {
        claim: claim.to_owned(),
        name: name.to_owned(),
        data,
    }))
}

fn volume(data: Data, marker: Result<Option<Marker>, String>) -> Observed {
    Observed {
        data,
        last_index: None,
        marker,
        built: None,
    }
}

fn whole_log(cluster: u64, member: u64) -> Data {
    Data::Log {
        ids: ids(cluster, member),
        has_database: true,
    }
}

fn reason(decision: &Decision) -> &'static str {
    match decision {
        Decision::Start { .. } => "Start",
        Decision::Refuse(refusal) => refusal.reason(),
    }
}

/// What is decided for etcd-0, in a word.
fn judge(identity: &Identity, data: Data, marker: Result<Option<Marker>, String>) -> &'static str {
    let state = match identity.cluster {
        Some(_) => ClusterState::Existing,
        None => ClusterState::New,
    };
    reason(&plan("etcd-0", state, identity, &volume(data, marker)))
}

#[test]
fn a_new_cluster_starts_on_empty_volumes_and_marks_them() {
    let decision = plan(
        "etcd-1",
        ClusterState::New,
        &new_cluster(),
        &volume(Data::Nothing, Ok(None)),
    );
    let wanted = marker("claim-1", "etcd-1", None).unwrap();
    let start = Start::First;
    assert_eq!(
        decision,
        Decision::Start {
            start,
            marker: wanted
        }
    );
}

#[test]
fn an_empty_volume_of_a_member_that_has_run_is_refused() {
    assert_eq!(
        judge(&running_cluster(), Data::Nothing, Ok(None)),
        "VolumeLost"
    );
    // The volume is the old one and only what was in it is gone.
    let emptied = marker("claim-0", "etcd-0", Some(ids(100, 10)));
    assert_eq!(
        judge(&running_cluster(), Data::Nothing, emptied),
        "VolumeLost"
    );
}

#[test]
fn a_member_that_was_added_anew_joins_on_its_empty_volume() {
    let mut identity = running_cluster();
    identity.members[0] = Member {
        name: "etcd-0".to_owned(),
        claim: "claim-9".to_owned(),
        id: Some(id(19)),
        may_start_empty: true,
        last_index: None,
    };
    assert_eq!(judge(&identity, Data::Nothing, Ok(None)), "Start");
    // Its pod is older: etcd would take part as somebody else.
    let empty = volume(Data::Nothing, Ok(None));
    let old = plan("etcd-0", ClusterState::New, &identity, &empty);
    assert_eq!(reason(&old), "IdentityUnusable");
    // What it was before it was removed is still on its old volume.
    let before = marker("claim-0", "etcd-0", Some(ids(100, 10)));
    assert_eq!(judge(&identity, whole_log(100, 10), before), "OtherMember");
}

#[test]
fn a_member_that_came_late_to_a_new_cluster_starts() {
    let mut identity = running_cluster();
    identity.members[0].id = None;
    identity.members[0].may_start_empty = true;
    let empty = volume(Data::Nothing, Ok(None));
    for state in [ClusterState::New, ClusterState::Existing] {
        assert_eq!(reason(&plan("etcd-0", state, &identity, &empty)), "Start");
    }
}

#[test]
fn a_cluster_that_nobody_has_the_data_of_is_not_begun_again() {
    let mut identity = running_cluster();
    for member in &mut identity.members {
        member.may_start_empty = true;
    }
    assert_eq!(judge(&identity, Data::Nothing, Ok(None)), "VolumeLost");
    // The template remembers, though the operator has forgotten.
    let empty = volume(Data::Nothing, Ok(None));
    let decision = plan("etcd-0", ClusterState::Existing, &new_cluster(), &empty);
    assert_eq!(reason(&decision), "VolumeLost");
}

#[test]
fn data_of_another_cluster_is_refused() {
    assert_eq!(
        judge(&running_cluster(), whole_log(200, 10), Ok(None)),
        "ForeignData"
    );
    // Whatever was on a volume before a tenant cluster first ran is not its own.
    assert_eq!(
        judge(&new_cluster(), whole_log(200, 10), Ok(None)),
        "ForeignData"
    );
    let theirs = marker("claim-x", "etcd-0", Some(ids(200, 10)));
    assert_eq!(
        judge(&new_cluster(), whole_log(200, 10), theirs),
        "ForeignData"
    );
    let replaced = marker("claim-0", "etcd-0", Some(ids(100, 10)));
    assert_eq!(
        judge(&new_cluster(), whole_log(200, 10), replaced),
        "ForeignData"
    );
}

#[test]
fn swapped_volumes_are_refused_by_name_of_their_owner() {
    let swapped = volume(
        whole_log(100, 11),
        marker("claim-1", "etcd-1", Some(ids(100, 11))),
    );
    let mut identity = running_cluster();
    for known in [true, false] {
        let decision = plan("etcd-0", ClusterState::Existing, &identity, &swapped);
        let Decision::Refuse(Refusal::OtherMember { member, found }) = decision else {
            panic!("{decision:?}");
        };
        assert_eq!([member, found], ["etcd-0", "etcd-1"], "{known}");
        // Then the marker alone tells.
        for member in &mut identity.members {
            member.id = None;
        }
    }
}

#[test]
fn a_volume_of_another_claim_is_refused() {
    let moved = marker("claim-before", "etcd-0", Some(ids(100, 10)));
    assert_eq!(
        judge(&running_cluster(), whole_log(100, 10), moved),
        "OtherClaim"
    );
}

#[test]
fn damage_is_named_and_never_taken_for_emptiness() {
    let own = || marker("claim-0", "etcd-0", Some(ids(100, 10)));
    let broken = Data::BrokenLog {
        path: "member/wal/x".to_owned(),
        problem: "it ends".to_owned(),
    };
    let half = Data::Log {
        ids: ids(100, 10),
        has_database: false,
    };
    let stray = Data::Stray {
        path: "member/snap/x.snap".to_owned(),
    };
    for data in [broken, half, stray, Data::DatabaseAlone] {
        assert_eq!(
            judge(&running_cluster(), data.clone(), own()),
            "Damaged",
            "{data:?}"
        );
        assert_eq!(
            judge(&running_cluster(), data.clone(), Ok(None)),
            "Damaged",
            "{data:?}"
        );
    }
    let unreadable = Err("is not a file".to_owned());
    assert_eq!(
        judge(&running_cluster(), whole_log(100, 10), unreadable),
        "Damaged"
    );
}

#[test]
fn a_first_start_that_was_broken_off_goes_on() {
    let begun = || marker("claim-0", "etcd-0", None);
    assert_eq!(judge(&new_cluster(), Data::DatabaseAlone, begun()), "Start");
    assert_eq!(judge(&new_cluster(), whole_log(100, 10), begun()), "Start");
    // Without the marker it is somebody else's.
    assert_eq!(
        judge(&new_cluster(), Data::DatabaseAlone, Ok(None)),
        "Damaged"
    );
}

#[test]
fn a_member_from_before_there_were_markers_is_given_one() {
    let observed = volume(whole_log(100, 10), Ok(None));
    let decision = plan("etcd-0", ClusterState::New, &running_cluster(), &observed);
    let wanted = marker("claim-0", "etcd-0", Some(ids(100, 10))).unwrap();
    let start = Start::Again(ids(100, 10));
    assert_eq!(
        decision,
        Decision::Start {
            start,
            marker: wanted
        }
    );
}

#[test]
fn a_member_that_the_operator_does_not_name_is_refused() {
    let empty = volume(Data::Nothing, Ok(None));
    let decision = plan("etcd-7", ClusterState::New, &new_cluster(), &empty);
    assert_eq!(reason(&decision), "IdentityUnusable");
}

// Few values, so that they meet.

fn some_ids() -> impl Strategy<Value = MemberIds> {
    (100_u64..103, 10_u64..14).prop_map(|(cluster, member)| ids(cluster, member))
}

fn some_marker() -> impl Strategy<Value = Option<Marker>> {
    let name = (0..3).prop_map(|number| format!("etcd-{number}"));
    let claim = (0..4).prop_map(|number| format!("claim-{number}"));
    option::of(
        (claim, name, option::of(some_ids())).prop_map(|(claim, name, data)| Marker {
            claim,
            name,
            data,
        }),
    )
}

fn some_data() -> impl Strategy<Value = Data> {
    let path = || "member/wal/x".to_owned();
    prop_oneof![
        4 => Just(Data::Nothing),
        1 => Just(Data::DatabaseAlone),
        1 => Just(Data::Stray { path: path() }),
        1 => Just(Data::BrokenLog { path: path(), problem: String::new() }),
        4 => (some_ids(), prop::bool::weighted(0.9))
            .prop_map(|(ids, has_database)| Data::Log { ids, has_database }),
    ]
}

fn some_observed() -> impl Strategy<Value = Observed> {
    let marker = prop_oneof![
        9 => some_marker().prop_map(Ok),
        1 => Just(Err("is not a file".to_owned())),
    ];
    (some_data(), marker).prop_map(|(data, marker)| volume(data, marker))
}

/// One to three members, known to be distinct as [`Identity::parse`] makes sure.
fn some_identity() -> impl Strategy<Value = Identity> {
    let known = vec((any::<bool>(), any::<bool>()), 1..=3);
    (option::of(100_u64..102), known).prop_map(|(cluster, known)| Identity {
        cluster: cluster.map(id),
        restore: None,
        golden: None,
        members: (0_u64..)
            .zip(known)
            .map(|(number, (has_id, may_start_empty))| Member {
                name: format!("etcd-{number}"),
                claim: format!("claim-{number}"),
                id: has_id.then(|| id(10 + number)),
                may_start_empty,
                last_index: None,
            })
            .collect(),
    })
}

fn some_state() -> impl Strategy<Value = ClusterState> {
    select(vec![ClusterState::New, ClusterState::Existing])
}

/// The volume after a start: with the marker that was written.
fn after(observed: &Observed, written: Option<Marker>) -> Observed {
    match written {
        Some(marker) => volume(observed.data.clone(), Ok(Some(marker))),
        None => observed.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn nothing_starts_without_data_but_by_leave_and_where_none_is_lost(
        identity in some_identity(), state in some_state(), observed in some_observed(),
    ) {
        let decision = plan("etcd-0", state, &identity, &observed);
        let Decision::Start { start, .. } = decision else { return Ok(()) };
        let member = identity.member("etcd-0").unwrap();
        if !matches!(start, Start::Again(_)) {
            prop_assert!(member.may_start_empty);
            prop_assert!(matches!(observed.data, Data::Nothing | Data::DatabaseAlone));
            let marker = observed.marker.unwrap();
            prop_assert!(marker.is_none_or(|marker| marker.data.is_none()));
            let never_ran = identity.cluster.is_none() && state == ClusterState::New;
            prop_assert_eq!(start == Start::First, never_ran);
            prop_assert!(never_ran || identity.members.iter().any(|m| !m.may_start_empty));
        }
    }

    #[test]
    fn a_cluster_of_one_that_has_run_never_starts_without_data(
        may_start_empty: bool, has_id: bool, marker in some_marker(), state in some_state(),
        database: bool,
    ) {
        let mut identity = running_cluster();
        identity.members.truncate(1);
        identity.members[0].may_start_empty = may_start_empty;
        identity.members[0].id = has_id.then(|| id(10));
        let data = if database { Data::DatabaseAlone } else { Data::Nothing };
        let decision = plan("etcd-0", state, &identity, &volume(data, Ok(marker)));
        prop_assert!(matches!(decision, Decision::Refuse(_)), "{:?}", decision);
    }

    #[test]
    fn nothing_starts_on_data_that_is_not_known_to_be_its_own(
        identity in some_identity(), state in some_state(), observed in some_observed(),
    ) {
        let decision = plan("etcd-0", state, &identity, &observed);
        let Decision::Start { start: Start::Again(found), .. } = decision else { return Ok(()) };
        prop_assert_eq!(&observed.data, &Data::Log { ids: found, has_database: true });
        let member = identity.member("etcd-0").unwrap();
        let marker = observed.marker.unwrap();
        match (identity.cluster, &marker) {
            (Some(cluster), _) => prop_assert_eq!(found.cluster, cluster),
            (None, marker) => prop_assert!(marker.is_some()),
        }
        prop_assert!(member.id.is_none_or(|id| id == found.member));
        prop_assert!(identity.members.iter().all(|m| m.name == "etcd-0" || m.id != Some(found.member)));
        if let Some(marker) = marker {
            prop_assert_eq!((&*marker.name, &marker.claim), ("etcd-0", &member.claim));
            prop_assert!(marker.data.is_none_or(|data| data == found));
        }
    }

    #[test]
    fn facts_of_a_marker_are_written_once_and_then_nothing_is(
        identity in some_identity(), state in some_state(), observed in some_observed(),
    ) {
        let decision = plan("etcd-0", state, &identity, &observed);
        let Decision::Start { start, marker: written } = decision else { return Ok(()) };
        let before = observed.marker.clone().unwrap();
        if let (Some(before), Some(written)) = (&before, &written) {
            prop_assert_eq!((&before.claim, &before.name), (&written.claim, &written.name));
            prop_assert!(before.data.is_none_or(|data| Some(data) == written.data));
        }
        let after = after(&observed, written);
        prop_assert!(after.marker.as_ref().is_ok_and(Option::is_some));
        let again = plan("etcd-0", state, &identity, &after);
        prop_assert_eq!(again, Decision::Start { start, marker: None });
    }

    #[test]
    fn a_life_without_accidents_is_never_refused(
        size in 1_usize..=3, recorded_late: bool, breaks in 0_usize..4,
    ) {
        let mut identity = new_cluster();
        identity.members.truncate(size);
        for (member, number) in (0..size).zip(10_u64..) {
            let name = format!("etcd-{member}");
            let mut volume = volume(Data::Nothing, Ok(None));
            let mut state = ClusterState::New;
            for attempt in 0..8 {
                let decision = plan(&name, state, &identity, &volume);
                let Decision::Start { marker, .. } = decision else {
                    panic!("{attempt}: {decision:?}");
                };
                volume = after(&volume, marker);
                // etcd makes the database, then its log; it may be killed in between.
                volume.data = match attempt < breaks {
                    true => Data::DatabaseAlone,
                    false => whole_log(100, number),
                };
                // The operator learns of it some starts later.
                if attempt >= breaks + usize::from(recorded_late) {
                    identity.cluster = Some(id(100));
                    identity.members[member].id = Some(id(number));
                    identity.members[member].may_start_empty = false;
                    state = ClusterState::Existing;
                }
            }
        }
    }

    #[test]
    fn whoever_has_run_is_refused_without_its_volume_and_with_anothers(
        lost in 0_usize..3, other in 0_usize..3, state in some_state(), marked: bool,
    ) {
        let identity = running_cluster();
        let name = format!("etcd-{lost}");
        let number = 10 + other as u64;
        let held = format!("etcd-{other}");
        let marker = match marked {
            true => marker(&format!("claim-{other}"), &held, Some(ids(100, number))),
            false => Ok(None),
        };
        let decision = plan(&name, state, &identity, &volume(whole_log(100, number), marker));
        let expected = if lost == other { "Start" } else { "OtherMember" };
        prop_assert_eq!(reason(&decision), expected);
        let decision = plan(&name, state, &identity, &volume(Data::Nothing, Ok(None)));
        prop_assert_eq!(reason(&decision), "VolumeLost");
    }

    #[test]
    fn every_refusal_has_a_code_of_its_own_and_a_short_sentence(
        identity in some_identity(), state in some_state(), observed in some_observed(),
    ) {
        let decision = plan("etcd-0", state, &identity, &observed);
        let Decision::Refuse(refusal) = decision else { return Ok(()) };
        prop_assert!((10..19).contains(&refusal.exit_code()));
        let sentence = refusal.to_string();
        prop_assert!(sentence.len() > 40 && sentence.len() < 400, "{}", sentence);
    }
}
