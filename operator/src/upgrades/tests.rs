//! What is found, and what is not.

use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;

use super::checks::{Facts, all};
use super::finding::{Check, Finding, Verdict, told};
use super::versions::Wanted;
use crate::tenant_session::etcd::answers::{Alarm, MemberStatus};
use crate::tenant_session::preflight::answers::{Counted, Deprecated, Inside, Responder, Webhook};
use crate::tenant_session::preflight::names::Names;

fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

fn wanted(from: u64, to: u64) -> Wanted {
    Wanted {
        from: semver::Version::new(1, from, 4),
        to: semver::Version::new(1, to, 3),
    }
}

fn member() -> MemberStatus {
    MemberStatus {
        leader: Some("60".to_owned()),
        quota: 1 << 30,
        ..MemberStatus::default()
    }
}

/// What is found of an upgrade from 1.35 to 1.36 where all else is well.
fn found(members: &[Result<MemberStatus, &str>], inside: &Inside) -> Vec<Finding> {
    let names = ["etcd-0", "etcd-1", "etcd-2"];
    let etcd: BTreeMap<_, _> = (names.into_iter())
        .zip(members.iter().map(|m| m.as_ref().map_err(|why| *why)))
        .collect();
    let wanted = wanted(35, 36);
    let facts = Facts {
        wanted: &wanted,
        unrest: None,
        members: members.len(),
        etcd,
        authorities: vec![("ca", "2036-11-21T12:00:00Z".parse().unwrap())],
        certificates_ready: true,
        inside,
        room: &[],
        has_pools: true,
    };
    all(&facts, now())
}

fn one(inside: &Inside) -> (Check, Verdict, String) {
    let mut found = found(&[Ok(member())], inside);
    assert_eq!(found.len(), 1, "{found:?}");
    let Finding {
        check,
        verdict,
        message,
    } = found.remove(0);
    (check, verdict, message)
}

#[test]
fn nothing_is_found_where_all_is_well() {
    assert_eq!(found(&[Ok(member())], &Inside::empty()), []);
}

#[test]
fn members_of_etcd_that_are_not_whole_are_told() {
    let told = |change: &dyn Fn(&mut MemberStatus)| {
        let mut other = member();
        change(&mut other);
        let found = found(&[Ok(member()), Ok(other), Ok(member())], &Inside::empty());
        let each: Vec<_> = found.into_iter().map(|f| (f.check, f.message)).collect();
        assert_eq!(each.len(), 1, "{each:?}");
        assert_eq!(each[0].0, Check::Etcd);
        each[0].1.clone()
    };
    assert!(told(&|m| m.is_learner = true).starts_with("2 of 3 members"));
    assert!(told(&|m| m.leader = Some("61".to_owned())).contains("who leads"));
    assert!(told(&|m| m.leader = None).contains("who leads"));
    assert!(told(&|m| m.index = 1000).contains("far behind"));
    assert!(told(&|m| m.alarms = vec![Alarm::Corrupt]).contains("alarm"));
    assert!(told(&|m| m.size_in_use = 800 << 20).contains("more than 70 of a hundred"));
    let silent = found(&[Ok(member()), Err("timed out")], &Inside::empty());
    assert!(
        silent[0]
            .message
            .contains("1 member of etcd did not say how it is: etcd-1")
    );
    assert_eq!(found(&[], &Inside::empty()), [], "no members are wanted");
}

#[test]
fn member_that_was_not_asked_is_missing() {
    let wanted = wanted(35, 36);
    let inside = Inside::empty();
    let facts = Facts {
        wanted: &wanted,
        unrest: None,
        members: 1,
        etcd: BTreeMap::new(),
        authorities: Vec::new(),
        certificates_ready: true,
        inside: &inside,
        room: &[],
        has_pools: false,
    };
    let found = all(&facts, now());
    assert_eq!(found[0].check, Check::Etcd);
    assert_eq!(found[0].verdict, Verdict::Block);
}

#[test]
fn nodes_are_too_old_by_the_skew_policy_and_named() {
    let nodes = |names: &[&str]| names.iter().collect::<Names>();
    let inside = Inside {
        kubelets: Ok([
            ("v1.32.4".to_owned(), nodes(&["a", "b", "c", "d"])),
            ("v1.33.0-vendor.1".to_owned(), nodes(&["fine"])),
        ]
        .into()),
        ..Inside::empty()
    };
    let (check, verdict, message) = one(&inside);
    assert_eq!((check, verdict), (Check::Kubelets, Verdict::Block));
    assert_eq!(
        message,
        "4 nodes are older than Kubernetes 1.36 takes: a, b, c and 1 more; bring it to 1.33 or newer (spec.version \
         of its NodePool), or delete it"
    );
    let odd = Inside {
        kubelets: Ok([("banana".to_owned(), nodes(&["odd"]))].into()),
        ..Inside::empty()
    };
    assert!(
        one(&odd)
            .2
            .starts_with("1 node says no version that can be read: odd")
    );
}

#[test]
fn deprecated_apis_block_where_the_new_version_lacks_them_and_are_told_one_before() {
    let calling = |removed: u64| Inside {
        counted: Ok(Counted {
            deprecated: [Deprecated {
                removed,
                resource: "networking.k8s.io/v1beta1 servicecidrs".to_owned(),
            }]
            .into(),
            ..Counted::default()
        }),
        ..Inside::empty()
    };
    let (check, verdict, message) = one(&calling(36));
    assert_eq!((check, verdict), (Check::DeprecatedApis, Verdict::Block));
    assert!(message.starts_with(
        "clients call 1 API that 1.36 does not serve: networking.k8s.io/v1beta1 servicecidrs; move them"
    ));
    assert_eq!(one(&calling(37)).1, Verdict::Warn);
    for nobodys in [35, 38] {
        assert_eq!(found(&[Ok(member())], &calling(nobodys)), [], "{nobodys}");
    }
}

#[test]
fn objects_that_cannot_be_read_block() {
    let inside = Inside {
        counted: Ok(Counted {
            undecodable: ["pods".to_owned()].into(),
            ..Counted::default()
        }),
        ..Inside::empty()
    };
    assert_eq!(one(&inside).0, Check::StoredObjects);
}

#[test]
fn webhooks_block_only_where_nobody_answers_or_that_is_not_known() {
    let of = |must_answer, seconds, of_leases, responder| Inside {
        webhooks: Ok(vec![Webhook {
            name: "policy/a".to_owned(),
            must_answer,
            seconds,
            of_leases,
            responder,
        }]),
        ..Inside::empty()
    };
    let verdict = |inside: &Inside| one(inside).1;
    assert_eq!(
        verdict(&of(true, 10, false, Responder::Nobody)),
        Verdict::Block
    );
    assert_eq!(
        verdict(&of(true, 10, false, Responder::Unknown("x".into()))),
        Verdict::Block
    );
    assert_eq!(
        verdict(&of(true, 10, false, Responder::Answered)),
        Verdict::Warn
    );
    assert_eq!(
        verdict(&of(false, 16, false, Responder::Nobody)),
        Verdict::Warn
    );
    assert_eq!(
        verdict(&of(false, 4, true, Responder::Nobody)),
        Verdict::Warn
    );
    let calm = of(false, 10, false, Responder::Nobody);
    assert_eq!(found(&[Ok(member())], &calm), []);
}

#[test]
fn authority_that_ends_soon_is_told_before_all_is_made_by_it() {
    let wanted = wanted(35, 36);
    let inside = Inside::empty();
    let facts = Facts {
        wanted: &wanted,
        unrest: None,
        members: 0,
        etcd: BTreeMap::new(),
        authorities: vec![("ca", "2026-12-20T12:00:00Z".parse().unwrap())],
        certificates_ready: false,
        inside: &inside,
        room: &[],
        has_pools: false,
    };
    let verdicts: Vec<_> = all(&facts, now())
        .iter()
        .map(|f| (f.check, f.verdict))
        .collect();
    let check = Check::Certificates;
    assert_eq!(verdicts, [(check, Verdict::Block), (check, Verdict::Wait)]);
}

#[test]
fn what_only_warns_warns_where_it_could_not_be_asked_too() {
    let inside = Inside {
        unavailable: Err("forbidden".to_owned()),
        tight_budgets: Ok(Names::from_iter(["shop/db"])),
        ..Inside::empty()
    };
    let found = found(&[Ok(member())], &inside);
    assert!(found.iter().all(|f| f.verdict == Verdict::Warn));
    let checks: Vec<_> = found.iter().map(|f| f.check).collect();
    assert_eq!(checks, [Check::ApiServices, Check::DisruptionBudgets]);
}

proptest! {
    /// Whatever a tenant says, the status takes it.
    #[test]
    fn findings_are_bounded_and_one_for_each_check(
        names in prop::collection::vec("\\PC{0,300}", 0..60),
        versions in prop::collection::vec("\\PC{0,20}", 0..60),
    ) {
        let kubelets = versions.iter().map(|v| (v.clone(), names.iter().collect())).collect();
        let webhook = |name: &String| Webhook {
            name: name.clone(),
            must_answer: true,
            seconds: 30,
            of_leases: true,
            responder: Responder::Unknown(name.clone()),
        };
        let inside = Inside {
            kubelets: Ok(kubelets),
            counted: Err(names.concat()),
            webhooks: Ok(names.iter().map(webhook).collect()),
            unavailable: Ok(names.iter().collect()),
            tight_budgets: Err(names.concat()),
        };
        let found = found(&[Ok(member())], &inside);
        let told = told(found.iter());
        prop_assert!(told.iter().all(|f| f.message.len() <= 1024 && !f.message.contains('\n')));
        let mut checks: Vec<_> = told.iter().map(|f| f.check.clone()).collect();
        let many = checks.len();
        checks.dedup();
        prop_assert_eq!(checks.len(), many);
    }
}
