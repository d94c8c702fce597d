//! Every way in which waiting goes on or ends.
//!
//! Invariant: that of the module.

use super::*;
use serde_json::json;

fn condition(type_: &str, status: &str, reason: &str) -> Condition {
    serde_json::from_value(
        json!({"type": type_, "status": status, "reason": reason, "message": "",
        "lastTransitionTime": "2026-11-27T11:00:00Z"}),
    )
    .unwrap()
}

fn seen(generation: i64, observed: i64, conditions: &[(&str, &str, &str)]) -> Seen {
    let conditions = conditions.iter().map(|(t, s, r)| condition(t, s, r));
    Seen {
        uid: Some("a".to_owned()),
        resource_version: Some("7".to_owned()),
        generation,
        observed,
        conditions: conditions.collect(),
        ready: 0,
        version: None,
    }
}

fn begun(version: &str) -> Begun {
    Begun {
        uid: Some("a".to_owned()),
        resource_version: Some(version.to_owned()),
        generation: 2,
    }
}

#[test]
fn what_was_ready_before_the_change_is_waited_for() {
    let old = seen(2, 1, &[("Ready", "True", "Answering")]);
    let verdict = judge(&Goal::ready(), &begun("1"), Some(&old));
    assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?}");
    // The watch may show an object of before the write.
    let older = seen(1, 1, &[("Ready", "True", "Answering")]);
    let verdict = judge(&Goal::ready(), &begun("1"), Some(&older));
    assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?}");
    let new = seen(2, 2, &[("Ready", "True", "Answering")]);
    assert_eq!(
        judge(&Goal::ready(), &begun("1"), Some(&new)),
        Verdict::Done
    );
}

#[test]
fn only_what_a_person_has_to_mend_ends_it_and_not_what_it_began_with() {
    let judged = |begun: &Begun, reason, status| {
        let seen = seen(
            2,
            2,
            &[("Degraded", status, reason), ("Ready", "False", "Starting")],
        );
        judge(&Goal::ready(), begun, Some(&seen))
    };
    assert!(matches!(
        judged(&begun("1"), "QuorumLost", "True"),
        Verdict::Stuck(_)
    ));
    assert!(matches!(
        judged(&begun("7"), "QuorumLost", "True"),
        Verdict::Wait(_)
    ));
    assert!(matches!(
        judged(&begun("1"), "QuorumLost", "Unknown"),
        Verdict::Wait(_)
    ));
    assert!(matches!(
        judged(&begun("1"), "TransientFailure", "True"),
        Verdict::Wait(_)
    ));
    assert!(matches!(
        judged(&begun("1"), "OfALaterVersion", "True"),
        Verdict::Wait(_)
    ));
}

#[test]
fn gone_is_what_is_absent_and_what_has_another_uid() {
    let mut other = seen(2, 2, &[("Ready", "True", "Answering")]);
    assert_eq!(judge(&Goal::ready(), &begun("1"), None), Verdict::Gone);
    assert_eq!(judge(&Goal::Deleted, &begun("1"), None), Verdict::Done);
    let verdict = judge(&Goal::Deleted, &begun("1"), Some(&other));
    assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?}");
    other.uid = Some("b".to_owned());
    assert_eq!(
        judge(&Goal::Deleted, &begun("1"), Some(&other)),
        Verdict::Done
    );
    assert_eq!(
        judge(&Goal::ready(), &begun("1"), Some(&other)),
        Verdict::Gone
    );
}

#[test]
fn a_pool_is_there_when_it_is_ready_with_as_many_machines() {
    let mut pool = seen(2, 2, &[("Ready", "True", "Scaled")]);
    pool.ready = 2;
    let verdict = judge(&Goal::Machines(3), &begun("1"), Some(&pool));
    assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?}");
    pool.ready = 3;
    assert_eq!(
        judge(&Goal::Machines(3), &begun("1"), Some(&pool)),
        Verdict::Done
    );
}

#[test]
fn an_upgrade_is_done_when_the_version_runs_and_it_is_ready() {
    let goal = goal("version=v1.36.1").unwrap();
    let mut cluster = seen(
        2,
        2,
        &[
            ("Ready", "True", "Answering"),
            ("Progressing", "True", "RollingOut"),
        ],
    );
    cluster.version = Some("1.35.4".to_owned());
    let Verdict::Wait(what) = judge(&goal, &begun("1"), Some(&cluster)) else {
        panic!("1.35.4 is not 1.36.1");
    };
    assert!(
        what.contains("it runs 1.35.4, not 1.36.1; Progressing True"),
        "{what}"
    );
    cluster.version = Some("1.36.1".to_owned());
    assert_eq!(judge(&goal, &begun("1"), Some(&cluster)), Verdict::Done);
    cluster.conditions[0].status = "False".to_owned();
    let verdict = judge(&goal, &begun("1"), Some(&cluster));
    assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?}");
}

#[test]
fn conditions_are_named_with_or_without_status() {
    let wanted = |type_: &str, status: &str| {
        Ok(Goal::Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
        })
    };
    assert_eq!(goal("ready"), wanted("Ready", "True"));
    assert_eq!(goal("condition=EtcdReady"), wanted("EtcdReady", "True"));
    assert_eq!(
        goal("condition=Degraded=false"),
        wanted("Degraded", "False")
    );
    assert_eq!(goal("deleted"), Ok(Goal::Deleted));
    assert!(goal("condition=").is_err());
    assert!(goal("condition=Ready=Perhaps").is_err());
}

#[test]
fn only_changes_are_told() {
    let before = [condition("EtcdReady", "False", "MembersNotReady")];
    let now = [
        condition("EtcdReady", "True", "MembersReady"),
        condition("Paused", "False", "Strange"),
    ];
    let told = changes(&before, &now);
    assert_eq!(told.len(), 2);
    assert!(
        told[0].starts_with("EtcdReady True MembersReady"),
        "{told:?}"
    );
    assert_eq!(told[1], "Paused False Strange");
    assert_eq!(changes(&now, &now), [""; 0]);
}

#[test]
fn asleep_is_what_ready_says_once_nothing_runs() {
    let falls = seen(2, 2, &[("Ready", "False", "FallingAsleep")]);
    let verdict = judge(&Goal::Asleep, &begun("1"), Some(&falls));
    assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?}");
    let asleep = seen(2, 2, &[("Ready", "False", "Hibernated")]);
    assert_eq!(
        judge(&Goal::Asleep, &begun("1"), Some(&asleep)),
        Verdict::Done
    );
    assert_eq!(judge(&Goal::Asleep, &begun("1"), None), Verdict::Gone);
    assert_eq!(goal("asleep"), Ok(Goal::Asleep));
}

#[test]
fn nodes_are_those_of_all_pools_together() {
    let pool = |ready, conditions: &[(&str, &str, &str)]| Seen {
        ready,
        ..seen(1, 1, conditions)
    };
    let (two, grows) = (pool(2, &[]), pool(1, &[("Ready", "False", "ScalingUp")]));
    let of = |wanted| judge_nodes(wanted, &[("a", &two, false), ("b", &grows, false)]);
    assert_eq!((of(3), of(0)), (Verdict::Done, Verdict::Done));
    let Verdict::Wait(what) = of(4) else {
        panic!("{:?}", of(4));
    };
    assert!(
        what.starts_with("3 of 4 nodes are ready; b: Ready False ScalingUp"),
        "{what}"
    );
    let ill = pool(0, &[("Degraded", "True", "InvalidSpec")]);
    let is_stuck = |is_new| matches!(judge_nodes(1, &[("a", &ill, is_new)]), Verdict::Stuck(_));
    assert!(is_stuck(true) && !is_stuck(false));
    assert!(matches!(judge_nodes(1, &[]), Verdict::Wait(_)));
    assert_eq!(goal("nodes=3"), Ok(Goal::Nodes(3)));
    assert!(goal("nodes=-1").is_err() && goal("nodes=").is_err());
}
