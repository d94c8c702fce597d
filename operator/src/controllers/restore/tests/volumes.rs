//! What is said of volumes beside load balancers, and when they are looked at.
//!
//! Invariant: neither hides the other, and what is not known now stays as it was said.

use api::restore::{Orphan, Orphans};

use super::*;
use crate::controllers::restore::plan::looks_for_volumes;
use crate::restoring::Mark;
use crate::restoring::volumes::{Known, Listed, Seen, Volume};

fn since() -> Timestamp {
    "2026-11-26T20:00:00Z".parse().unwrap()
}

/// One volume that is not known, and a PersistentVolume that points nowhere.
fn mixed() -> Listed {
    let volume = Volume {
        name: "vol-pvc-b".to_owned(),
        asked_as: "pvc-b".to_owned(),
        created: Some(Timestamp::UNIX_EPOCH),
        ..Volume::default()
    };
    let known = Known {
        name: "pvc-c".to_owned(),
        handle: Some("vol-pvc-c".to_owned()),
        is_ours: true,
        claim: None,
    };
    Ok(Seen {
        volumes: vec![volume],
        known: vec![known],
        ..Seen::default()
    })
}

fn serving() -> Arc<TenantCluster> {
    let prepared = json!({ "quiet": true, "switched": true, "prepared": true });
    holding(&prepared, ("True", "Answering"))
}

fn look(restore: &Restore, look: Listed) -> Plan {
    let balancer = Orphan {
        kind: "Service".to_owned(),
        name: "lb-late".to_owned(),
        ..Orphan::default()
    };
    let observed = Observed {
        cluster: Some(serving()),
        balancers: Some(vec![(Mark::Orphan, balancer)]),
        volumes: Some((look, since())),
        ..Observed::default()
    };
    plan(restore, &observed, Timestamp::UNIX_EPOCH)
}

fn told(plan: &Plan) -> (String, Vec<String>, usize) {
    let mut conditions = plan.status.conditions.iter();
    let said = conditions.find(|c| c.type_ == "OrphanedVolumes").unwrap();
    let names = plan.status.orphans.iter().map(|told| told.name.clone());
    (
        said.reason.clone(),
        names.collect(),
        plan.status.missing.len(),
    )
}

#[test]
fn volumes_are_told_beside_load_balancers_and_what_is_not_known_stays_said() {
    let mut real = real();
    real.spec.orphans = Orphans::Report;
    let found = look(&real, mixed());
    let both = vec!["lb-late".to_owned(), "vol-pvc-b".to_owned()];
    assert_eq!(told(&found), ("VolumesFound".to_owned(), both.clone(), 1));
    // Nothing is asked for again by the clock until somebody decides.
    assert_eq!(found.again, None);
    real.status = Some(found.status);
    let silent = look(&real, Err("it is silent"));
    assert_eq!(told(&silent), ("LookingForVolumes".to_owned(), both, 1));
    assert!(silent.again.is_some());
    let none = look(&real, Ok(Seen::default()));
    let balancer = vec!["lb-late".to_owned()];
    assert_eq!(told(&none), ("NoOrphans".to_owned(), balancer, 0));
}

#[test]
fn volumes_are_looked_at_while_what_was_built_serves_and_it_is_not_over() {
    let real = real();
    assert!(looks_for_volumes(&real, &serving()).is_some());
    let prepared = json!({ "quiet": true, "switched": true, "prepared": true });
    for (progress, ready) in [
        (json!({}), ("True", "Answering")),
        (
            json!({ "quiet": true, "switched": true }),
            ("True", "Answering"),
        ),
        (prepared, ("False", "ApiUnreachable")),
        (
            json!({ "uid": "other", "prepared": true }),
            ("True", "Answering"),
        ),
        (
            json!({ "prepared": true, "givenUp": "no room" }),
            ("True", "Answering"),
        ),
    ] {
        let cluster = holding(&progress, ready);
        assert!(looks_for_volumes(&real, &cluster).is_none(), "{progress}");
    }
    assert!(looks_for_volumes(&real, &cluster(&json!({ "target": "main" }))).is_none());
}
