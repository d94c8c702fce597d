//! Patches of Kubernetes that the operator takes by itself, and windows in which it begins what nobody asked for.
//!
//! Invariant: `spec.version` is never written, nothing goes back, and nothing is written while it waits.

use api::tenant_cluster::{MinimumVersionStatus, UpgradePhase};
use jiff::{SignedDuration, Timestamp};
use tenant_cp::settings::MinimumVersion;

use super::rollouts::{apiserver, ask_for, upgrade_operator};
use super::upgrade_failures::{crashes, of_the_patch};
use super::upgrades::{checks, status, troubled};
use super::*;

/// Its user leaves patches to the operator, which has a newer one.
fn patched() -> World {
    let mut world = ready(minimal());
    world.list_due = true;
    world.cluster.spec.maintenance.auto_patch = true;
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
    world.settings.patch_versions = vec!["1.35.5".to_owned()];
    world
}

/// Its windows are closed now; gives when the next one opens.
fn close(world: &mut World) -> Timestamp {
    let now = world.now.to_zoned(jiff::tz::TimeZone::UTC);
    let (opens, closes) = ((now.hour() + 5) % 24, (now.hour() + 9) % 24);
    let windows =
        json!([{ "opens": format!("0 {opens} * * *"), "closes": format!("0 {closes} * * *") }]);
    world.cluster.spec.maintenance.windows = serde_json::from_value(windows).unwrap();
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
    let begin = now.round(
        jiff::ZonedRound::new()
            .smallest(jiff::Unit::Hour)
            .mode(jiff::RoundMode::Floor),
    );
    begin.unwrap().timestamp() + SignedDuration::from_hours(5)
}

fn message(world: &World, type_: &str) -> Option<String> {
    let status = world.cluster.status.clone().unwrap();
    let mut conditions = status.conditions.into_iter();
    Some(conditions.find(|c| c.type_ == type_)?.message)
}

fn serves(world: &World) -> String {
    world.cluster.status.clone().unwrap().version.unwrap()
}

/// What is noted of the patch: which, and what its user asked for.
fn noted(world: &World) -> Option<(String, String)> {
    let rollout = world.cluster.status.as_ref()?.rollout.clone()?;
    rollout.patch.map(|patch| (patch.version, patch.asked))
}

fn rests(world: &mut World) {
    let writes = world.writes;
    world.settle();
    assert_eq!(world.writes, writes, "nothing is written at rest");
}

#[test]
fn newest_patch_is_taken_at_its_turn_and_the_spec_stays() {
    let mut world = patched();
    world.turn = Answer::Held;
    world.settle();
    assert!(
        apiserver(&world).ends_with(":v1.35.4"),
        "it is not its turn"
    );
    let waits = ("True".to_owned(), "WaitingForRollout".to_owned());
    assert_eq!(world.condition("Progressing"), waits);
    let told = status(&world).unwrap();
    assert_eq!(
        (told.to.as_str(), told.phase),
        ("1.35.5", UpgradePhase::Checking)
    );
    assert_eq!(noted(&world), None);
    rests(&mut world);

    world.turn = Answer::Go;
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.35.5"));
    assert_eq!((serves(&world).as_str(), status(&world)), ("1.35.5", None));
    assert_eq!(world.cluster.spec.version, "1.35.4");
    assert_eq!(
        noted(&world),
        Some(("1.35.5".to_owned(), "1.35.4".to_owned()))
    );
    assert_eq!(world.condition("Progressing").1, "AsDesired");
    rests(&mut world);

    // Its user wants no more of them: what runs stays.
    world.cluster.spec.maintenance.auto_patch = false;
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
    world.settings.patch_versions.clear();
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.35.5"));
    rests(&mut world);
    // And another version is its user's word, also an older one.
    ask_for(&mut world, "1.35.3");
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.35.3"));
    assert_eq!((serves(&world).as_str(), noted(&world)), ("1.35.3", None));
}

#[test]
fn with_auto_patch_the_spec_is_the_least_that_runs() {
    let mut world = patched();
    world.settle();
    assert_eq!(serves(&world), "1.35.5");
    ask_for(&mut world, "1.35.3");
    world.settle();
    assert_eq!(serves(&world), "1.35.5", "nothing goes back");
    rests(&mut world);
    // Where all that was noted is lost, too.
    world.cluster.status.as_mut().unwrap().rollout = None;
    world.settle();
    assert_eq!(serves(&world), "1.35.5");
    ask_for(&mut world, "1.35.7");
    world.settle();
    assert_eq!((serves(&world).as_str(), noted(&world)), ("1.35.7", None));
}

#[test]
fn outside_of_its_windows_nothing_begins_that_its_user_did_not_ask_for() {
    let mut world = patched();
    let whole = apiserver(&world);
    upgrade_operator(&mut world);
    let opens = close(&mut world);
    world.settle();
    assert_eq!(apiserver(&world), whole);
    let waits = ("True".to_owned(), "WaitingForWindow".to_owned());
    assert_eq!(world.condition("Progressing"), waits);
    assert!(
        message(&world, "Progressing")
            .unwrap()
            .ends_with(&format!("opens at {opens}"))
    );
    assert_eq!(status(&world), None, "nobody is asked anything meanwhile");
    let plan = plan(&world.observe(), &world.settings, world.now);
    assert_eq!(plan.rollout, None, "it keeps no place from others");
    let left = opens.duration_since(world.now).unsigned_abs();
    assert!(plan.requeue_after.unwrap() <= left + std::time::Duration::from_millis(1));
    rests(&mut world);

    // What its user asks for comes at once, with the new templates.
    ask_for(&mut world, "1.34.9");
    world.cluster.spec.version = "1.35.4".to_owned();
    world.cluster.spec.control_plane.replicas = 2;
    world.settle();
    let deployment = &world.objects[&Key::new("Deployment", NS, "control-plane")];
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert!(
        apiserver(&world).ends_with(":v1.35.4"),
        "a patch is none of it"
    );
    assert_eq!(world.condition("Progressing"), waits);
    world.now = opens;
    world.settle();
    assert_eq!(serves(&world), "1.35.5");
    assert_eq!(world.condition("Progressing").1, "AsDesired");
}

#[test]
fn what_has_begun_goes_on_when_its_window_closes() {
    let mut world = patched();
    world.stuck = true;
    world.settle();
    assert_eq!(status(&world).unwrap().phase, UpgradePhase::Rolling);
    close(&mut world);
    world.stuck = false;
    world.turn = Answer::Held;
    world.settle();
    assert!(
        apiserver(&world).ends_with(":v1.35.5"),
        "it does not go back"
    );
    world.turn = Answer::Go;
    world.settle();
    assert_eq!(serves(&world), "1.35.5");
}

#[test]
fn a_user_who_holds_it_back_gets_no_patch_before() {
    let mut world = patched();
    let until = world.now.round(jiff::Unit::Second).unwrap() + SignedDuration::from_hours(24);
    world.cluster.spec.maintenance.held_until = Some(until.to_string());
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.35.4"));
    assert!(
        message(&world, "Progressing")
            .unwrap()
            .ends_with(&format!("until {until}"))
    );
    rests(&mut world);
    world.now = until;
    world.settle();
    assert_eq!(serves(&world), "1.35.5");
}

#[test]
fn what_speaks_against_a_patch_keeps_it_from_beginning_as_any_upgrade() {
    let mut world = patched();
    world.preflight = troubled();
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.35.4"));
    assert_eq!(checks(&world), ["Webhooks"]);
    assert_eq!(world.condition("Progressing").1, "UpgradeBlocked");
    let plan = plan(&world.observe(), &world.settings, world.now);
    assert_eq!(plan.rollout, None, "it keeps no place from others");
    assert_eq!(noted(&world), None);
    rests(&mut world);
    world.preflight = crate::tenant_session::preflight::answers::Inside::empty();
    world.settle();
    assert_eq!(serves(&world), "1.35.5");
}

#[test]
fn patch_that_fails_goes_back_is_not_tried_again_and_keeps_its_place() {
    let mut world = patched();
    world.fails = Some((of_the_patch, crashes()));
    world.settle();
    let told = status(&world).unwrap();
    assert_eq!(told.phase, UpgradePhase::RolledBack);
    assert_eq!(told.failed_version.as_deref(), Some("1.35.5"));
    assert!(apiserver(&world).ends_with(":v1.35.4"));
    assert_eq!(world.condition("Ready").0, "True");
    assert_eq!(
        world.condition("Progressing"),
        ("False".into(), "RolledBack".into())
    );
    let plan = plan(&world.observe(), &world.settings, world.now);
    assert_eq!(
        plan.rollout,
        Some(Cause::Fleet),
        "a bad one breaks as many as are rolled out at a time"
    );
    rests(&mut world);
    world.fails = None;
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.35.4"));
    // Where it is withdrawn, nothing is left of it, and it is not tried when it comes again.
    world.settings.patch_versions.clear();
    world.settle();
    assert_eq!(
        (status(&world), world.condition("Progressing").1.as_str()),
        (None, "AsDesired")
    );
    world.settings.patch_versions = vec!["1.35.5".to_owned()];
    world.settle();
    assert_eq!((serves(&world).as_str(), status(&world)), ("1.35.4", None));
    rests(&mut world);
    // A newer one is another matter.
    world.settings.patch_versions = vec!["1.35.6".to_owned()];
    world.settle();
    assert_eq!(serves(&world), "1.35.6");
}

#[test]
fn patch_comes_to_the_same_end_wherever_the_operator_dies() {
    let whole = patched();
    let mut end = whole.clone();
    end.settle();
    for budget in 0..40 {
        let mut world = whole.clone();
        world.reconcile(&mut budget.clone());
        world.settle();
        assert_eq!(serves(&world), "1.35.5", "{budget}");
        assert_eq!(apiserver(&world), apiserver(&end), "{budget}");
        assert_eq!(noted(&world), noted(&end), "{budget}");
        assert_eq!(status(&world), None, "{budget}");
    }
}

#[test]
fn least_version_is_announced_and_comes_although_its_user_holds_it_back() {
    let mut world = ready(minimal());
    world.list_due = true;
    let far = world.now.round(jiff::Unit::Second).unwrap() + SignedDuration::from_hours(80 * 24);
    world.cluster.spec.maintenance.held_until = Some(far.to_string());
    close(&mut world);
    world.settings.minimum_versions = vec![MinimumVersion {
        version: "1.35.5".to_owned(),
        from: "2020-01-01T00:00:00Z".to_owned(),
    }];
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.35.4"));
    let from = world.now + SignedDuration::from_hours(14 * 24);
    let told = MinimumVersionStatus {
        version: "1.35.5".to_owned(),
        told: world.now.to_string(),
        from: from.to_string(),
    };
    let minimum = |world: &World| world.cluster.status.clone().unwrap().minimum_version;
    assert_eq!(minimum(&world), Some(told));
    let outdated = ("True".to_owned(), "VersionBelowMinimum".to_owned());
    assert_eq!(world.condition("VersionOutdated"), outdated);
    let words = message(&world, "VersionOutdated").unwrap();
    assert!(words.contains(&format!("from {from} on")), "{words}");
    assert_eq!(world.condition("Progressing").1, "AsDesired");
    rests(&mut world);
    let plan = plan(&world.observe(), &world.settings, world.now);
    assert!(plan.requeue_after.unwrap() <= std::time::Duration::from_secs(14 * 24 * 3600 + 1));

    world.now = from - SignedDuration::from_secs(1);
    world.settle();
    assert_eq!(serves(&world), "1.35.4");
    world.now = from;
    world.settle();
    assert_eq!(serves(&world), "1.35.5");
    assert_eq!(
        (minimum(&world), message(&world, "VersionOutdated")),
        (None, None)
    );
    assert_eq!(world.cluster.spec.version, "1.35.4");
    rests(&mut world);
}

#[test]
fn who_sleeps_is_patched_when_it_wakes() {
    let mut world = patched();
    world.settings.patch_versions.clear();
    world.cluster.spec.hibernation.enabled = true;
    world.settle();
    assert_eq!(world.condition("Ready").1, "Hibernated");
    world.settings.patch_versions = vec!["1.35.5".to_owned()];
    rests(&mut world);
    assert_eq!(status(&world), None);
    world.cluster.spec.hibernation.enabled = false;
    world.cluster.spec.hibernation.idle_after = Some("240h".into());
    close(&mut world);
    world.settle();
    assert_eq!(serves(&world), "1.35.5");
}
