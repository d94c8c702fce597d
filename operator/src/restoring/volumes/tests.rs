//! Volumes and snapshots after a restore: which are orphans, which go, and what is said.
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

/// One that was cut before, for the VolumeSnapshot of this UID, of the volume of the same.
fn snapshot(uid: &str) -> Snapshot {
    Snapshot {
        name: format!("snap-snapshot-{uid}"),
        uid: format!("of-{uid}"),
        version: "7".to_owned(),
        created: Some(at(BEFORE)),
        asked_as: format!("snapshot-{uid}"),
        volume: format!("vol-pvc-{uid}"),
        is_going: false,
    }
}

fn content(uid: &str) -> Content {
    Content {
        name: format!("snapcontent-{uid}"),
        handles: [format!("snap-snapshot-{uid}")].into(),
        request: Some(uid.to_owned()),
        is_ours: true,
        snapshot: Some("default/cut".to_owned()),
    }
}

/// As [`mixed`], of snapshots, with volumes that are all known.
fn cut() -> Seen {
    Seen {
        volumes: vec![volume("a"), volume("b")],
        known: vec![known("a"), known("b")],
        snapshots: snapshots::Seen {
            snapshots: vec![snapshot("b"), snapshot("a")],
            contents: vec![content("c"), content("a")],
            ..snapshots::Seen::default()
        },
        ..Seen::default()
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
    let needed = || {
        let mut seen = cut();
        seen.volumes[1].made_of = Some("snap-snapshot-b".to_owned());
        seen
    };
    for (orphans, confirmed, look, reason, is_settled) in [
        ("Report", true, Ok(cut()), Reason::VolumesFound, false),
        ("Keep", true, Ok(cut()), Reason::VolumesKept, true),
        ("Delete", false, Ok(cut()), Reason::VolumesDeleted, false),
        ("Delete", true, Ok(cut()), Reason::VolumesDeleted, false),
        ("Delete", true, Ok(needed()), Reason::VolumesKept, true),
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

#[test]
fn snapshot_is_an_orphan_where_nothing_inside_names_or_asks_for_it() {
    let names = |seen: &Seen| -> Vec<String> {
        let orphans = seen.snapshots.orphans(at(SINCE)).into_iter();
        orphans.map(|found| found.name.clone()).collect()
    };
    let seen = cut();
    assert_eq!(names(&seen), ["snap-snapshot-b"]);
    let spoils: [fn(&mut snapshots::Seen); 7] = [
        // Its content is on its way, as it was at the moment.
        |seen| {
            seen.requests.insert("b".to_owned());
        },
        // It has one that does not name it yet, or that nobody has yet.
        |seen| {
            seen.contents[0].handles.clear();
            seen.contents[0].request = Some("b".to_owned());
        },
        |seen| seen.contents[0].name = "snapcontent-b".to_owned(),
        // One that was made by hand.
        |seen| seen.contents[0].handles = ["snap-snapshot-b".to_owned()].into(),
        |seen| seen.snapshots[0].created = Some(at(AFTER)),
        |seen| seen.snapshots[0].created = None,
        |seen| seen.snapshots[0].is_going = true,
    ];
    for (number, spoil) in spoils.into_iter().enumerate() {
        let mut other = seen.clone();
        spoil(&mut other.snapshots);
        assert!(names(&other).is_empty(), "{number}");
    }
}

#[test]
fn snapshots_are_told_with_their_claim_and_contents_without_one_beside_persistent_volumes() {
    let mut seen = cut();
    seen.known.push(known("c"));
    let told = said(&restore("Report", false), &Ok(seen.clone()), at(SINCE));
    let orphans = told.orphans.unwrap();
    assert_eq!(orphans.len(), 1);
    assert_eq!(orphans[0].kind, SNAPSHOT);
    assert_eq!(orphans[0].made_for.as_deref(), Some("default/data"));
    let missing = told.missing.unwrap();
    let kinds: Vec<_> = missing
        .iter()
        .map(|missing| missing.kind.as_str())
        .collect();
    assert_eq!(kinds, ["PersistentVolume", "VolumeSnapshotContent"]);
    assert_eq!(missing[1].volume, "snap-snapshot-c");
    assert_eq!(missing[1].claim.as_deref(), Some("default/cut"));
    let words = [
        "1 snapshots",
        "1 PersistentVolumes",
        "1 VolumeSnapshotContents",
    ];
    for words in words {
        assert!(told.message.contains(words), "{}", told.message);
    }
    let changes: [fn(&mut snapshots::Seen); 3] = [
        |seen| {
            seen.later.insert("snap-snapshot-c".to_owned());
        },
        |seen| seen.contents[0].is_ours = false,
        // It is being cut.
        |seen| seen.contents[0].handles.clear(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut other = seen.clone();
        change(&mut other.snapshots);
        assert!(other.snapshots.missing().is_empty(), "{number}");
    }
}

prop_compose! {
    fn any_snapshots()(
        snapshots in proptest::collection::vec((0_u8..6, any::<bool>(), any::<bool>()), 0..6),
        contents in proptest::collection::vec((0_u8..6, any::<bool>()), 0..6),
        requests in proptest::collection::btree_set(0_u8..6, 0..4),
    ) -> snapshots::Seen {
        let snapshots = snapshots.into_iter().map(|(uid, going, late)| Snapshot {
            is_going: going,
            created: Some(at(if late { AFTER } else { BEFORE })),
            ..snapshot(&uid.to_string())
        });
        let contents = contents.into_iter().map(|(uid, ours)| Content {
            is_ours: ours,
            ..content(&uid.to_string())
        });
        snapshots::Seen {
            snapshots: snapshots.collect(),
            contents: contents.collect(),
            requests: requests.into_iter().map(|uid| uid.to_string()).collect(),
            later: BTreeSet::new(),
        }
    }
}

prop_compose! {
    fn any_seen()(
        volumes in proptest::collection::vec((0_u8..6, any::<bool>(), any::<bool>(), any::<bool>()), 0..6),
        known in proptest::collection::vec((0_u8..6, any::<bool>()), 0..6),
        requests in proptest::collection::btree_set(0_u8..6, 0..4),
        snapshots in any_snapshots(),
        made in proptest::collection::vec(proptest::option::of(0_u8..6), 6),
    ) -> Seen {
        let volumes = volumes.into_iter().zip(made).map(|((uid, attached, going, late), of)| Volume {
            is_attached: attached,
            made_of: of.map(|of| format!("snap-snapshot-{of}")),
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
            snapshots,
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
        for snapshot in gone.snapshots {
            let uid = snapshot.asked_as.strip_prefix("snapshot-").unwrap();
            prop_assert!(!snapshot.is_going && snapshot.created < Some(at(SINCE)));
            let inside = &seen.snapshots;
            prop_assert!(!inside.requests.contains(uid));
            let mut contents = inside.contents.iter();
            prop_assert!(!contents.any(|content| content.handles.contains(&snapshot.name)));
            let mut volumes = seen.volumes.iter().filter(|volume| !volume.is_going);
            prop_assert!(!volumes.any(|volume| volume.made_of.as_ref() == Some(&snapshot.name)));
        }
        for volume in gone.volumes {
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
    fn whatever_operator_goes_on_all_orphans_but_those_in_use_are_gone_in_the_end_and_it_ends(
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
            if let Some(first) = gone.snapshots.first() {
                let name = first.name.clone();
                world.snapshots.snapshots.retain(|snapshot| snapshot.name != name);
            } else if let Some(first) = gone.volumes.first() {
                let name = first.name.clone();
                world.volumes.retain(|volume| volume.name != name || volume.is_attached);
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
        for snapshot in &seen.snapshots.snapshots {
            let inside = &seen.snapshots.snapshots;
            let twice = inside.iter().filter(|s| s.name == snapshot.name).count() > 1;
            let is_orphan = seen.snapshots.orphans(at(SINCE)).contains(&snapshot);
            let stays = world.snapshots.snapshots.contains(snapshot);
            prop_assert!(twice || stays || is_orphan);
            prop_assert!(twice || !stays || !is_orphan || world.is_needed(snapshot));
        }
    }
}
