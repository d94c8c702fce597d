//! Whether a tenant cluster may be held back until a moment, or have these windows, and whether its version is no older than the
//! platform allows.

use api::{Reason, TenantCluster, instant};
use jiff::{SignedDuration, Timestamp};

use crate::problem::Problem;
use crate::settings::Settings;
use crate::{version, windows};

const FIELD: &str = "spec.maintenance.heldUntil";

/// How far ahead it may be held back: whoever stays behind for longer misses what mends holes.
pub const LONGEST: SignedDuration = SignedDuration::from_hours(90 * 24);

/// How long before it is patched whoever runs an older version than the platform allows is told.
pub const NOTICE: SignedDuration = SignedDuration::from_hours(14 * 24);

pub(super) fn check(tc: &TenantCluster, problems: &mut Vec<Problem>) {
    let text = tc.spec.maintenance.held_until.as_ref();
    if let Some(text) = text.filter(|text| instant::read(text).is_none()) {
        let message =
            format!("{text:?} is no day of the calendar: write one as 2027-01-31T12:00:00Z");
        problems.push(Problem::new(FIELD, Reason::HoldRefused, message));
    }
    let read = windows::read(&tc.spec.maintenance.windows);
    for (number, fault) in read.err().into_iter().flatten() {
        let field = format!("spec.maintenance.windows[{number}].{}", fault.field);
        problems.push(Problem::new(field, Reason::WindowRefused, fault.message));
    }
}

/// What speaks against a version that is asked for: the platform allows none that is so old. Nothing where it was asked for
/// before, so that whoever is behind can change everything else.
#[must_use]
pub fn admit_version(
    old: Option<&TenantCluster>,
    new: &TenantCluster,
    settings: &Settings,
    now: Timestamp,
) -> Option<Problem> {
    if old.is_some_and(|old| old.spec.version == new.spec.version) {
        return None;
    }
    let asked = version::parse(&new.spec.version).ok()?;
    let (least, from) = settings.minimum_version(&asked)?;
    (from <= now && asked < least).then(|| {
        let message = format!(
            "the platform allows nothing older than {least} of Kubernetes {}.{}: choose {least} or a newer patch",
            least.major, least.minor
        );
        Problem::new("spec.version", Reason::VersionBelowMinimum, message)
    })
}

/// What deserves a word where a version is asked for that is older than the one that runs: with `autoPatch` nothing goes back.
#[must_use]
pub fn stays_newer(old: &TenantCluster, new: &TenantCluster) -> Option<String> {
    let asked = version::parse(&new.spec.version).ok()?;
    let runs = new.status.as_ref().or(old.status.as_ref())?;
    let runs = version::parse(runs.version.as_deref()?).ok()?;
    let is_lower = version::is_same_minor(&asked, &runs) && asked < runs;
    let is_new = old.spec.version != new.spec.version;
    (new.spec.maintenance.auto_patch && is_lower && is_new).then(|| {
        format!(
            "spec.version: {runs} runs and stays, because with spec.maintenance.autoPatch {asked} is the least that runs; set \
             autoPatch to false to go back"
        )
    })
}

/// What is wrong with the versions that the operator's configuration names.
pub(super) fn check_settings(settings: &Settings, problems: &mut Vec<Problem>) {
    for (number, text) in settings.patch_versions.iter().enumerate() {
        if let Err(error) = version::parse_supported(text) {
            let field = format!("patchVersions[{number}]");
            problems.push(Problem::new(field, error.reason(), error.to_string()));
        }
    }
    let mut known = Vec::new();
    for (number, one) in settings.minimum_versions.iter().enumerate() {
        let mut refuse = |field: &str, reason, message: String| {
            let field = format!("minimumVersions[{number}].{field}");
            problems.push(Problem::new(field, reason, message));
        };
        if instant::read(&one.from).is_none() {
            let message = format!(
                "{:?} is no moment: write one in UTC as 2027-01-31T12:00:00Z",
                one.from
            );
            refuse("from", Reason::HoldRefused, message);
        }
        let least = match version::parse_supported(&one.version) {
            Ok(least) => least,
            Err(error) => {
                refuse("version", error.reason(), error.to_string());
                continue;
            }
        };
        if known.contains(&(least.major, least.minor)) {
            let message = format!(
                "{}.{} has a least patch already: remove one of them",
                least.major, least.minor
            );
            refuse("version", Reason::VersionBelowMinimum, message);
        }
        known.push((least.major, least.minor));
        if let Some(newest) = settings
            .newest_patch(&least)
            .filter(|newest| *newest < least)
        {
            let message = format!(
                "{least} is newer than {newest}, the newest of patchVersions of that minor: add {least} there"
            );
            refuse("version", Reason::VersionBelowMinimum, message);
        }
    }
}

/// What speaks against holding it back for so long; nothing where it was held until then before.
#[must_use]
pub fn admit_hold(
    old: Option<&TenantCluster>,
    new: &TenantCluster,
    now: Timestamp,
) -> Option<Problem> {
    let asked = &new.spec.maintenance;
    if old.is_some_and(|old| old.spec.maintenance.held_until == asked.held_until) {
        return None;
    }
    let latest = now.checked_add(LONGEST).ok()?;
    let until = asked.holds(now).filter(|until| *until > latest)?;
    let message = format!(
        "{until} is more than 90 days ahead, and it would miss what mends holes for as long: choose {} or earlier",
        latest.strftime("%Y-%m-%dT%H:%M:%SZ")
    );
    Some(Problem::new(FIELD, Reason::HoldRefused, message))
}
