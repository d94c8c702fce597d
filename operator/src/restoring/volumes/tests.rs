//! Volumes after a restore: which are orphans, which go, and what is said.
//!
//! Invariant: whatever is there and whatever is decided, none goes that anybody may still need.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const SINCE: &str = "2026-11-26T20:00:00Z";
const BEFORE: &str = "2026-11-26T19:00:00Z";
const AFTER: &str = "2026-11-26T20:00:01Z";

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

/// One that was made before, for the claim of this UID.
fn volume(uid: &str) -> Volume {
    Volume {
        name: format!("vol-pvc-{uid}"),
        uid: format!("of-{uid}"),
        version: "7".to_owned(),
        created: Some(at(BEFORE)),
        asked_as: format!("pvc-{uid}"),
        made_for: Some("default/data".to_owned()),
        ..Volume::default()
    }
}

fn known(uid: &str) -> Known {
    Known {
        name: format!("pvc-{uid}"),
        handle: Some(format!("vol-pvc-{uid}")),
        is_ours: true,
        claim: Some("default/data".to_owned()),
    }
}

/// `a` is known, `b` is not, `c` points nowhere.
fn mixed() -> Seen {
    Seen {
        volumes: vec![volume("b"), volume("a")],
        known: vec![known("c"), known("a")],
        ..Seen::default()
    }
}

fn restore(orphans: &str, confirmed: bool) -> Restore {
    serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Restore",
        "metadata": { "name": "back", "namespace": "team-a", "uid": "r", "generation": 2 },
        "spec": { "clusterName": "demo", "orphans": orphans, "confirmed": confirmed },
        "status": { "conditions": [{ "type": "Restored", "status": "True", "reason": "Restored",
            "message": "", "lastTransitionTime": SINCE }] },
    }))
    .unwrap()
}

fn names<'a>(volumes: &[&'a Volume]) -> Vec<&'a str> {
    volumes.iter().map(|volume| volume.name.as_str()).collect()
}

/// The restore with what was said of volumes in its status.
fn saying(mut restore: Restore, look: &Listed) -> Restore {
    let said = said(&restore, look, at(SINCE));
    let condition = json!({ "type": "OrphanedVolumes", "status": said.status.as_str(),
        "reason": said.reason.as_str(), "message": said.message, "lastTransitionTime": SINCE,
        "observedGeneration": restore.metadata.generation });
    let conditions = &mut restore.status.as_mut().unwrap().conditions;
    conditions.push(serde_json::from_value(condition).unwrap());
    restore
}

#[test]
fn orphan_is_what_nothing_inside_names_and_was_there_when_the_restore_began() {
    let seen = mixed();
    assert_eq!(names(&seen.orphans(at(SINCE))), ["vol-pvc-b"]);
    let spoils: [fn(&mut Seen); 6] = [
        // Its PersistentVolume is on its way, as it was at the moment.
        |seen| {
            seen.requests.insert("b".to_owned());
        },
        // A PersistentVolume of another name, made by hand, or of another driver.
        |seen| seen.known[0].handle = Some("vol-pvc-b".to_owned()),
        |seen| seen.known[0].name = "pvc-b".to_owned(),
        |seen| seen.volumes[0].created = Some(at(AFTER)),
        |seen| seen.volumes[0].created = None,
        |seen| seen.volumes[0].is_going = true,
    ];
    for (number, spoil) in spoils.into_iter().enumerate() {
        let mut other = seen.clone();
        spoil(&mut other);
        assert!(other.orphans(at(SINCE)).is_empty(), "{number}");
    }
}

#[test]
fn persistent_volume_points_nowhere_where_its_claim_is_gone_or_lost_and_is_told_only() {
    let seen = mixed();
    let nowhere = |seen: &Seen| -> Vec<String> {
        let missing = seen.missing().into_iter();
        missing.map(|known| known.name.clone()).collect()
    };
    assert_eq!(nowhere(&seen), ["pvc-c"]);
    let mut later = seen.clone();
    later.later.insert("vol-pvc-c".to_owned());
    assert!(nowhere(&later).is_empty(), "it was made meanwhile");
    let mut theirs = seen.clone();
    theirs.known[0].is_ours = false;
    assert!(nowhere(&theirs).is_empty());
    let mut lost = seen.clone();
    lost.volumes[1].is_lost = true;
    assert_eq!(nowhere(&lost), ["pvc-a", "pvc-c"]);
    let told = said(&restore("Keep", true), &Ok(seen), at(SINCE));
    let missing = told.missing.unwrap();
    assert_eq!(missing[0].volume, "vol-pvc-c");
    assert_eq!(missing[0].claim.as_deref(), Some("default/data"));
    assert!(told.message.contains("status.missing"), "{}", told.message);
}

#[test]
fn every_decision_is_said_and_settles_what_it_decides() {
    let attached = || {
        let mut seen = mixed();
        seen.volumes[0].is_attached = true;
        seen
    };
    let none = Seen::default;
    let unknown = || -> Listed { Err("it is silent") };
    for (orphans, confirmed, look, reason, is_settled) in [
        ("Report", true, Ok(mixed()), Reason::VolumesFound, false),
        ("Report", true, Ok(none()), Reason::NoOrphans, true),
        ("Report", true, unknown(), Reason::LookingForVolumes, false),
        ("Keep", true, Ok(mixed()), Reason::VolumesKept, true),
        ("Keep", true, unknown(), Reason::LookingForVolumes, true),
        ("Delete", false, Ok(mixed()), Reason::VolumesDeleted, false),
        ("Delete", true, Ok(mixed()), Reason::VolumesDeleted, false),
        ("Delete", true, Ok(attached()), Reason::VolumesKept, true),
        ("Delete", true, Ok(none()), Reason::NoOrphans, true),
        ("Delete", true, unknown(), Reason::LookingForVolumes, false),
    ] {
        let asked = restore(orphans, confirmed);
        let told = said(&asked, &look, at(SINCE));
        assert_eq!(told.reason, reason, "{orphans} {look:?}");
        assert!(!are_settled(&asked), "nobody has said anything");
        let mut said = saying(asked, &look);
        assert_eq!(are_settled(&said), is_settled, "{orphans} {look:?}");
        // What was said of the spec of before says nothing of this one.
        said.metadata.generation = Some(3);
        assert!(!are_settled(&said), "{orphans} {look:?}");
    }
}

#[test]
fn what_is_not_known_keeps_what_was_named() {
    let told = said(&restore("Delete", true), &Err("it is silent"), at(SINCE));
    assert_eq!((told.orphans, told.missing), (None, None));
    assert!(told.message.contains("all volumes are kept"));
}

prop_compose! {
    fn any_seen()(
        volumes in proptest::collection::vec((0_u8..6, any::<bool>(), any::<bool>(), any::<bool>()), 0..6),
        known in proptest::collection::vec((0_u8..6, any::<bool>()), 0..6),
        requests in proptest::collection::btree_set(0_u8..6, 0..4),
    ) -> Seen {
        let volumes = volumes.into_iter().map(|(uid, attached, going, late)| Volume {
            is_attached: attached,
            is_going: going,
            created: Some(at(if late { AFTER } else { BEFORE })),
            ..volume(&uid.to_string())
        });
        let known = known.into_iter().map(|(uid, ours)| Known {
            is_ours: ours,
            ..self::known(&uid.to_string())
        });
        Seen {
            volumes: volumes.collect(),
            known: known.collect(),
            requests: requests.into_iter().map(|uid| uid.to_string()).collect(),
            later: BTreeSet::new(),
        }
    }
}

proptest! {
    #[test]
    fn no_volume_goes_that_is_needed_attached_or_not_decided_of(
        seen in any_seen(), orphans in 0_usize..3, confirmed in any::<bool>(), going in any::<bool>(),
        restored in any::<bool>(), dry in any::<bool>(),
    ) {
        let decision = ["Keep", "Report", "Delete"][orphans];
        let mut asked = restore(decision, confirmed);
        asked.spec.dry_run = dry;
        if going {
            let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(AFTER));
            asked.metadata.deletion_timestamp = Some(now);
        }
        if !restored {
            asked.status.as_mut().unwrap().conditions.clear();
        }
        let look = Ok(seen.clone());
        let gone = to_delete(&asked, &look, at(SINCE));
        let same = look.clone();
        prop_assert_eq!(&gone, &to_delete(&asked, &same, at(SINCE)));
        let may = decision == "Delete" && confirmed && restored && !going && !dry;
        prop_assert!(may || gone.is_empty());
        for volume in gone {
            let uid = volume.asked_as.strip_prefix("pvc-").unwrap();
            prop_assert!(!volume.is_attached && !volume.is_going);
            prop_assert!(volume.created < Some(at(SINCE)));
            prop_assert!(!seen.requests.contains(uid));
            let mut known = seen.known.iter();
            prop_assert!(!known.any(|known| known.handle.as_ref() == Some(&volume.name)));
        }
        prop_assert!(to_delete(&asked, &Err("it is silent"), at(SINCE)).is_empty());
    }

    #[test]
    fn whatever_operator_goes_on_all_orphans_but_attached_ones_are_gone_in_the_end_and_it_ends(
        seen in any_seen(), losses in proptest::collection::vec(any::<bool>(), 0..20),
    ) {
        let asked = restore("Delete", true);
        let mut world = seen.clone();
        let mut losses = losses.into_iter();
        for _ in 0..40 {
            let look = match losses.next() {
                Some(true) => Err("it is silent"),
                Some(false) | None => Ok(world.clone()),
            };
            // It dies after the first one.
            let gone = to_delete(&asked, &look, at(SINCE));
            if let Some(first) = gone.first() {
                let uid = first.name.clone();
                world.volumes.retain(|volume| volume.name != uid || volume.is_attached);
            }
        }
        let look = Ok(world.clone());
        prop_assert!(to_delete(&asked, &look, at(SINCE)).is_empty());
        prop_assert!(are_settled(&saying(asked, &look)));
        let stays = |volume: &&Volume| {
            !seen.orphans(at(SINCE)).contains(volume) || volume.is_attached
        };
        for volume in seen.volumes.iter().filter(stays) {
            // Two of one name are none of a real API.
            let twice = seen.volumes.iter().filter(|v| v.name == volume.name).count() > 1;
            prop_assert!(twice || world.volumes.contains(volume));
        }
    }
}
