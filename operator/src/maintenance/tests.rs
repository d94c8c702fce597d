//! Patches that the operator takes by itself, as they are decided: what is due, what is kept, and what never comes.

use api::TenantCluster;
use api::tenant_cluster::{PatchStatus, RolloutStatus, UpgradeStatus};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::json;
use tenant_cp::Settings;
use tenant_cp::settings::MinimumVersion;
use tenant_cp::version::{is_same_minor, parse};

use super::patches::{Due, HowFar, Patch, how_far, refused, taken};
use super::{Wait, waits};

fn now() -> Timestamp {
    "2026-11-20T12:00:00Z".parse().unwrap()
}

/// One that runs.
fn cluster(asked: &str, runs: &str) -> TenantCluster {
    let cluster = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": { "name": "demo", "namespace": "team-a", "uid": "u" },
        "spec": { "version": asked, "maintenance": { "autoPatch": true } },
        "status": { "version": runs, "bootstrapHash": "x" },
    });
    serde_json::from_value(cluster).unwrap()
}

fn offers(patches: &[&str]) -> Settings {
    Settings {
        patch_versions: patches.iter().map(|patch| (*patch).to_owned()).collect(),
        ..Settings::default()
    }
}

fn demands(version: &str, from: &str) -> Settings {
    Settings {
        minimum_versions: vec![MinimumVersion {
            version: version.to_owned(),
            from: from.to_owned(),
        }],
        ..Settings::default()
    }
}

fn note(cluster: &mut TenantCluster, version: &str, asked: &str) {
    let status = cluster.status.get_or_insert_default();
    status.rollout = Some(RolloutStatus {
        patch: Some(PatchStatus {
            version: version.to_owned(),
            asked: asked.to_owned(),
        }),
        ..RolloutStatus::default()
    });
}

fn fail(cluster: &mut TenantCluster, version: &str) {
    let status = cluster.status.get_or_insert_default();
    status.upgrade = Some(UpgradeStatus {
        from: status.version.clone().unwrap(),
        to: version.to_owned(),
        failed_version: Some(version.to_owned()),
        failed_retry: Some(0),
        ..UpgradeStatus::default()
    });
}

/// The version that is to run, and what is due.
fn decided(cluster: &TenantCluster, settings: &Settings) -> (String, Option<String>) {
    let (taken, patch) = taken(cluster.clone(), None, settings, now());
    let due = patch.due.map(|due| due.version.to_string());
    (taken.spec.version, due)
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn newest_patch_of_the_same_minor_is_due_where_its_user_wants_it() {
    let settings = offers(&["1.35.5", "1.35.6", "1.34.20", "1.36.9"]);
    let mut cluster = cluster("1.35.4", "1.35.4");
    let both = ("1.35.6".to_owned(), some("1.35.6"));
    assert_eq!(decided(&cluster, &settings), both);
    assert_eq!(
        decided(&cluster, &offers(&["1.35.3"])),
        ("1.35.4".to_owned(), None)
    );
    cluster.spec.maintenance.auto_patch = false;
    assert_eq!(decided(&cluster, &settings), ("1.35.4".to_owned(), None));
}

#[test]
fn what_was_taken_stays_until_its_user_says_something_else() {
    let settings = offers(&["1.35.6"]);
    let mut cluster = cluster("1.35.4", "1.35.6");
    note(&mut cluster, "1.35.6", "1.35.4");
    assert_eq!(decided(&cluster, &settings), ("1.35.6".to_owned(), None));
    // Whoever applies the same manifest again changes nothing, nor does who wants no more patches.
    cluster.spec.maintenance.auto_patch = false;
    assert_eq!(decided(&cluster, &settings), ("1.35.6".to_owned(), None));
    assert_eq!(
        decided(&cluster, &Settings::default()),
        ("1.35.6".to_owned(), None)
    );
    // Another version is its user's word.
    cluster.spec.version = "1.35.5".to_owned();
    assert_eq!(decided(&cluster, &settings), ("1.35.5".to_owned(), None));
    // With autoPatch it is the least that runs.
    cluster.spec.maintenance.auto_patch = true;
    assert_eq!(decided(&cluster, &settings), ("1.35.6".to_owned(), None));
    // Also where nobody knows any more how it came about.
    cluster.status.as_mut().unwrap().rollout = None;
    assert_eq!(decided(&cluster, &settings), ("1.35.6".to_owned(), None));
    // It is noted anew then, for what its user asks for now: nothing goes back without autoPatch, either.
    let kept = |cluster: &TenantCluster| {
        let (_, patch) = taken(cluster.clone(), None, &settings, now());
        patch.kept(cluster)
    };
    let noted = kept(&cluster).unwrap();
    assert_eq!(
        (noted.version.as_str(), noted.asked.as_str()),
        ("1.35.6", "1.35.5")
    );
    note(&mut cluster, "1.35.6", "1.35.4");
    assert_eq!(kept(&cluster), Some(noted.clone()));
    cluster.spec.maintenance.auto_patch = false;
    assert_eq!(kept(&cluster), None, "another version was its user's word");
    note(&mut cluster, "1.35.6", "1.35.5");
    assert_eq!(kept(&cluster), Some(noted));
    // As new a version needs no note.
    cluster.spec.version = "1.35.6".to_owned();
    assert_eq!(kept(&cluster), None);
}

#[test]
fn what_runs_is_seen_where_the_status_does_not_say_it() {
    let mut cluster = cluster("1.35.4", "1.35.6");
    cluster.status = None;
    let (seen, _) = taken(cluster, parse("v1.35.6").ok(), &offers(&["1.35.6"]), now());
    assert_eq!(seen.spec.version, "1.35.6", "nothing goes back");
}

#[test]
fn what_its_user_asks_for_is_under_way_alone() {
    let settings = offers(&["1.35.6", "1.36.3"]);
    for (asked, runs) in [("1.35.5", "1.35.4"), ("1.36.0", "1.35.4")] {
        let cluster = cluster(asked, runs);
        assert_eq!(
            decided(&cluster, &settings),
            (asked.to_owned(), None),
            "{asked}"
        );
    }
    assert_eq!(
        decided(&cluster("1.36.0", "1.36.0"), &settings).1,
        some("1.36.3")
    );
}

#[test]
fn what_was_begun_goes_on_and_what_is_withdrawn_goes_back() {
    let mut cluster = cluster("1.35.4", "1.35.4");
    note(&mut cluster, "1.35.6", "1.35.4");
    let taken = ("1.35.6".to_owned(), None);
    cluster.spec.maintenance.held_until = some("2026-12-01T00:00:00Z");
    assert_eq!(decided(&cluster, &offers(&["1.35.6"])), taken);
    assert_eq!(
        decided(&cluster, &offers(&["1.35.7"])),
        taken,
        "one after the other"
    );
    cluster.spec.maintenance.auto_patch = false;
    assert_eq!(decided(&cluster, &offers(&["1.35.6"])), taken);
    assert_eq!(
        decided(&cluster, &offers(&["1.35.5"])),
        ("1.35.4".to_owned(), None)
    );
    assert_eq!(
        how_far(&cluster, &offers(&["1.35.6"]), now()),
        HowFar::Begun
    );
}

#[test]
fn what_was_rolled_back_from_is_not_tried_again_by_itself() {
    let mut cluster = cluster("1.35.4", "1.35.5");
    note(&mut cluster, "1.35.6", "1.35.4");
    fail(&mut cluster, "1.35.6");
    // It is still what is wanted, so that what is seen of the upgrade is about it.
    assert_eq!(
        decided(&cluster, &offers(&["1.35.6"])),
        ("1.35.6".to_owned(), None)
    );
    assert!(matches!(
        how_far(&cluster, &offers(&["1.35.6"]), now()),
        HowFar::Failed(_)
    ));
    // A newer one is tried, and one that is withdrawn is forgotten.
    assert_eq!(decided(&cluster, &offers(&["1.35.7"])).1, some("1.35.7"));
    assert_eq!(
        decided(&cluster, &offers(&["1.35.5"])),
        ("1.35.5".to_owned(), None)
    );
    // Nor is it once nobody sees the upgrade any more, but where its user has it tried again.
    let refused = refused(&cluster, "1.35.4");
    assert_eq!(refused.as_ref().unwrap().version, "1.35.6");
    let mut later = cluster.clone();
    let status = later.status.as_mut().unwrap();
    status.upgrade = None;
    status.rollout.as_mut().unwrap().failed_patch = refused;
    assert_eq!(
        decided(&later, &offers(&["1.35.6"])),
        ("1.35.5".to_owned(), None)
    );
    later.spec.upgrade.retry = 1;
    assert_eq!(decided(&later, &offers(&["1.35.6"])).0, "1.35.6");
    // What is noted of it goes once it is withdrawn, and what was taken before stays noted.
    let kept = |settings: &Settings| {
        let (seen, patch) = taken(cluster.clone(), None, settings, now());
        patch.kept(&seen).map(|patch| patch.version)
    };
    assert_eq!(kept(&offers(&["1.35.6"])), some("1.35.6"));
    assert_eq!(kept(&offers(&["1.35.5"])), some("1.35.5"));
    // Who wants no more patches keeps what was taken before.
    cluster.spec.maintenance.auto_patch = false;
    assert_eq!(
        decided(&cluster, &offers(&["1.35.6"])),
        ("1.35.5".to_owned(), None)
    );
}

#[test]
fn windows_and_the_users_hold_are_waited_for() {
    let settings = offers(&["1.35.6"]);
    let mut cluster = cluster("1.35.4", "1.35.4");
    let windows = json!([{ "opens": "0 22 * * *", "closes": "0 4 * * *" }]);
    cluster.spec.maintenance.windows = serde_json::from_value(windows).unwrap();
    let opens = "2026-11-20T22:00:00Z".parse().ok();
    let due = |cluster: &TenantCluster, now| taken(cluster.clone(), None, &settings, now).1.due;
    let wait = Some(Wait::Window(opens));
    assert_eq!(waits(&cluster, now()), wait);
    assert_eq!(due(&cluster, now()).unwrap().waits, wait);
    assert_eq!(decided(&cluster, &settings).0, "1.35.4");
    assert_eq!(due(&cluster, opens.unwrap()).unwrap().waits, None);
    cluster.spec.maintenance.held_until = some("2026-12-01T00:00:00Z");
    let until = "2026-12-01T00:00:00Z".parse().unwrap();
    assert_eq!(
        due(&cluster, opens.unwrap()).unwrap().waits,
        Some(Wait::Held(until))
    );
}

#[test]
fn who_sleeps_is_patched_when_it_wakes_whatever_its_windows_are() {
    let settings = offers(&["1.35.6"]);
    let mut cluster = cluster("1.35.4", "1.35.4");
    let windows = json!([{ "opens": "0 22 * * *", "closes": "0 4 * * *" }]);
    cluster.spec.maintenance.windows = serde_json::from_value(windows).unwrap();
    cluster.spec.hibernation.idle_after = Some("1h".into());
    let status = json!({
        "version": "1.35.4", "bootstrapHash": "x",
        "hibernation": { "phase": "Asleep", "since": "2026-11-20T10:00:00Z" },
    });
    cluster.status = serde_json::from_value(status).unwrap();
    let wait = |cluster: &TenantCluster, now| {
        let due = taken(cluster.clone(), None, &settings, now).1.due;
        due.unwrap().waits
    };
    let night = "2026-11-20T23:00:00Z".parse().unwrap();
    assert_eq!(
        wait(&cluster, night),
        Some(Wait::Asleep),
        "nobody wakes it for that"
    );
    let status = json!({
        "version": "1.35.4", "bootstrapHash": "x",
        "conditions": [{ "type": "Ready", "status": "True", "reason": "Answering", "message": "",
                         "lastTransitionTime": now().to_string() }],
    });
    cluster.status = serde_json::from_value(status).unwrap();
    let minutes = |minutes| now() + SignedDuration::from_mins(minutes);
    assert_eq!(wait(&cluster, minutes(59)), None);
    assert!(matches!(wait(&cluster, minutes(60)), Some(Wait::Window(_))));
    cluster.spec.hibernation.idle_after = None;
    assert!(matches!(wait(&cluster, minutes(59)), Some(Wait::Window(_))));
}

#[test]
fn least_version_is_told_two_weeks_before_and_nobody_holds_it_back() {
    let mut cluster = cluster("1.35.4", "1.35.4");
    cluster.spec.maintenance.auto_patch = false;
    cluster.spec.maintenance.held_until = some("2027-02-01T00:00:00Z");
    let later = demands("1.35.6", "2027-01-10T00:00:00Z");
    let minimum = |cluster: &TenantCluster, settings: &Settings, now| {
        taken(cluster.clone(), None, settings, now).1.minimum
    };
    let told = minimum(&cluster, &later, now()).unwrap();
    assert_eq!(
        (told.version.as_str(), told.from.as_str()),
        ("1.35.6", "2027-01-10T00:00:00Z")
    );
    // It was told of too late, or is over already: two weeks all the same.
    let soon = demands("1.35.6", "2026-11-21T00:00:00Z");
    let told = minimum(&cluster, &soon, now()).unwrap();
    assert_eq!(told.from, "2026-12-04T12:00:00Z");
    assert_eq!(decided(&cluster, &soon), ("1.35.4".to_owned(), None));
    // It is remembered, and computed from when it was told of.
    cluster.status.as_mut().unwrap().minimum_version = Some(told.clone());
    let next_day = now() + SignedDuration::from_hours(24);
    assert_eq!(minimum(&cluster, &soon, next_day), Some(told.clone()));
    assert_eq!(
        minimum(&cluster, &later, next_day).unwrap().from,
        "2027-01-10T00:00:00Z"
    );
    let from: Timestamp = told.from.parse().unwrap();
    let (seen, patch) = taken(cluster.clone(), None, &soon, from);
    let due = Due {
        version: parse("1.35.6").unwrap(),
        is_demanded: true,
        waits: None,
    };
    assert_eq!(
        (seen.spec.version.as_str(), patch.due),
        ("1.35.6", Some(due))
    );
    // A newer one is another matter, and is told of anew.
    let newer = demands("1.35.7", "2026-11-21T00:00:00Z");
    assert_ne!(minimum(&cluster, &newer, from).unwrap().from, told.from);
    // Who has it is told nothing, and asks for as much.
    cluster.status.as_mut().unwrap().version = some("1.35.6");
    assert_eq!(minimum(&cluster, &soon, from), None);
}

#[test]
fn a_patch_that_something_speaks_against_is_blocked_and_holds_up_nobody() {
    let settings = offers(&["1.35.6"]);
    let mut cluster = cluster("1.35.4", "1.35.4");
    assert!(matches!(
        how_far(&cluster, &settings, now()),
        HowFar::Due(_)
    ));
    let upgrade = json!({
        "from": "1.35.4", "to": "1.35.6", "phase": "Checking", "since": "2026-11-20T11:00:00Z",
        "blockers": [{ "check": "Webhooks", "message": "…" }],
    });
    let status = cluster.status.as_mut().unwrap();
    status.upgrade = serde_json::from_value(upgrade).unwrap();
    assert_eq!(how_far(&cluster, &settings, now()), HowFar::Blocked);
    assert_eq!(how_far(&cluster, &Settings::default(), now()), HowFar::None);
}

proptest! {
    /// Whatever is asked for, runs, was taken, failed, is offered or demanded.
    #[test]
    fn only_newer_patches_of_the_users_minor_ever_come(
        asked in (34..37_u64, 0..9_u64), runs in (34..37_u64, 0..9_u64), live in prop::option::of(0..9_u64),
        noted in prop::option::of((0..9_u64, 0..9_u64)), failed in prop::option::of(0..9_u64),
        offered in prop::collection::vec((34..37_u64, 0..9_u64), 0..4), demanded in prop::option::of(0..9_u64),
        is_known in any::<bool>(), auto in any::<bool>(), held in any::<bool>(),
    ) {
        let text = |(minor, patch): (u64, u64)| format!("1.{minor}.{patch}");
        let of_asked = |patch: u64| text((asked.0, patch));
        let mut cluster = cluster(&text(asked), &text(runs));
        cluster.spec.maintenance.auto_patch = auto;
        cluster.spec.maintenance.held_until = held.then(|| "2027-02-01T00:00:00Z".to_owned());
        if let Some((taken, said)) = noted {
            note(&mut cluster, &of_asked(taken), &of_asked(said));
        }
        if let Some(failed) = failed {
            fail(&mut cluster, &of_asked(failed));
        }
        if !is_known {
            cluster.status.as_mut().unwrap().version = None;
        }
        let offered: Vec<_> = offered.into_iter().map(text).collect();
        let mut settings = offers(&offered.iter().map(String::as_str).collect::<Vec<_>>());
        if let Some(least) = demanded {
            settings.minimum_versions = demands(&of_asked(least), "2026-01-01T00:00:00Z").minimum_versions;
            let told = json!({ "version": of_asked(least), "told": "2026-01-01T00:00:00Z", "from": "2026-01-15T00:00:00Z" });
            cluster.status.as_mut().unwrap().minimum_version = serde_json::from_value(told).unwrap();
        }
        let live = live.and_then(|patch| parse(&of_asked(patch)).ok());
        let (seen, patch): (_, Patch) = taken(cluster.clone(), live, &settings, now());
        let (wanted, asks) = (parse(&seen.spec.version).unwrap(), parse(&text(asked)).unwrap());
        prop_assert!(is_same_minor(&wanted, &asks), "another minor");
        prop_assert!(wanted >= asks, "older than asked for");
        prop_assert_eq!(&patch.asked, &text(asked));
        let runs = parse(&text(runs)).unwrap();
        if is_known && !is_same_minor(&runs, &asks) {
            prop_assert_eq!(&wanted, &asks, "its user goes to another minor");
        }
        if auto && is_known && is_same_minor(&runs, &asks) {
            prop_assert!(wanted >= runs, "it goes back");
        }
        if !auto && noted.is_none() && demanded.is_none() {
            prop_assert_eq!(&wanted, &asks, "nobody asked for it");
        }
        if let Some(due) = &patch.due {
            prop_assert!(due.version > asks && is_same_minor(&due.version, &asks));
            prop_assert!(offered.contains(&due.version.to_string()) || due.is_demanded);
            prop_assert_eq!(due.waits.is_some(), held && !due.is_demanded);
            let is_failed = failed.is_some_and(|failed| due.version == parse(&of_asked(failed)).unwrap());
            prop_assert!(!is_failed, "it failed, and is tried again");
        }
        // What is planned by it says the same.
        let (again, of_again) = taken(cluster, None, &settings, now());
        if is_known {
            prop_assert_eq!((again.spec.version, of_again), (seen.spec.version, patch));
        }
    }
}
