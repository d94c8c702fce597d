//! Which patch of Kubernetes a tenant cluster is to run.
//!
//! `spec.version` is its user's and never written. With `autoPatch` it is the least that runs: the newest patch of that minor
//! which the configuration names is taken in a window and by turns, as another template is. A least version of the
//! configuration is taken so, too, and for that neither windows nor `heldUntil` count; everybody is told long before. What was
//! taken is noted with what `spec.version` said then (`status.rollout.patch`) before anything changes: until its user says
//! something else, nothing goes back, also where `autoPatch` is switched off.
//! Invariant: another minor is never taken; what its user asks for is under way alone; what was rolled back from is not tried
//! again by itself; once begun it goes on, unless the configuration names nothing as new any more.

use api::tenant_cluster::{FailedPatch, MinimumVersionStatus, PatchStatus, UpgradePhase};
use api::{ConditionStatus, ConditionType, TenantCluster};
use jiff::{SignedDuration, Timestamp};
use semver::Version;
use tenant_cp::Settings;
use tenant_cp::validate::maintenance::NOTICE;
use tenant_cp::version::{is_same_minor, parse};

use super::{Wait, waits};
use crate::hibernation;

/// For so long after it woke one that sleeps may be patched outside of its windows: it may sleep in all of them.
const AWAKE: SignedDuration = SignedDuration::from_hours(1);

/// What is decided of one tenant cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Patch {
    /// What `spec.version` says.
    pub asked: String,
    /// What it is to be brought to and was not begun with; none where nothing is newer than what it is to run.
    pub due: Option<Due>,
    /// The least version of the configuration, where an older one runs.
    pub minimum: Option<MinimumVersionStatus>,
}

/// A patch that it is to be brought to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Due {
    /// The version.
    pub version: Version,
    /// The platform allows nothing as old as what runs: its user does not hold it back.
    pub is_demanded: bool,
    /// Why it is not begun with now, by its user.
    pub waits: Option<Wait>,
}

/// How far a patch is, as the status alone says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HowFar {
    /// None is wanted or under way.
    None,
    /// One is due.
    Due(Due),
    /// One is due, and something speaks against it: nobody waits for that.
    Blocked,
    /// One was begun.
    Begun,
    /// One was rolled back; why.
    Failed(String),
}

/// The tenant cluster as it is to be now: its version is the one that it is to run, that of a patch included which may be
/// begun with. `live`: of which version its kube-apiservers are made, where that was seen and the status does not know.
#[must_use]
pub fn taken(
    mut cluster: TenantCluster,
    live: Option<Version>,
    settings: &Settings,
    now: Timestamp,
) -> (TenantCluster, Patch) {
    let (runs, patch) = decide(&cluster, live, settings, now);
    let open = patch.due.as_ref().filter(|due| due.waits.is_none());
    let wanted = open.map(|due| due.version.clone()).or(runs);
    if let Some(version) = wanted.filter(|wanted| patch.is_own(wanted)) {
        cluster.spec.version = version.to_string();
    }
    (cluster, patch)
}

impl Patch {
    /// Whether the version that a tenant cluster is to be brought to is the operator's wish, and its turn has to come first.
    #[must_use]
    pub fn awaits_turn(&self, cluster: &TenantCluster) -> bool {
        let open = self.due.as_ref().filter(|due| due.waits.is_none());
        open.is_some_and(|due| !is_noted(cluster, &due.version))
    }

    /// Whether a version is the operator's wish.
    #[must_use]
    pub fn is_own(&self, version: &Version) -> bool {
        parse(&self.asked).is_ok_and(|asked| asked != *version)
    }

    /// What is to be noted before it is begun with; none where nothing is due.
    #[must_use]
    pub fn note(&self) -> Option<PatchStatus> {
        Some(PatchStatus {
            version: self.due.as_ref()?.version.to_string(),
            asked: self.asked.clone(),
        })
    }

    /// What is to stand of the last one that was taken: nothing once its user asks for as new a version, or for another one
    /// than then. With `autoPatch` it stands for whatever runs, so that nothing goes back when that is switched off.
    #[must_use]
    pub fn kept(&self, cluster: &TenantCluster) -> Option<PatchStatus> {
        let status = cluster.status.as_ref()?;
        let asked = parse(&self.asked).ok()?;
        let is_newer = |text: &String| {
            parse(text).is_ok_and(|taken| is_same_minor(&taken, &asked) && taken > asked)
        };
        let noted = status.rollout.as_ref().and_then(|r| r.patch.as_ref());
        let is_said = noted.is_some_and(|noted| noted.asked == self.asked);
        if !is_said && !cluster.spec.maintenance.auto_patch {
            return None;
        }
        let serves = status.version.as_ref();
        // One that was taken back, or withdrawn, leaves the one before it.
        let stands =
            |version: &&String| serves == Some(*version) || cluster.spec.version == **version;
        let taken = noted.map(|noted| &noted.version).filter(stands);
        let mut taken = taken.into_iter().chain(serves);
        let version = taken.find(|version| is_newer(version))?;
        Some(PatchStatus {
            version: version.clone(),
            asked: self.asked.clone(),
        })
    }
}

/// What is to stand of the last patch that was rolled back: nothing of one that its user asks for, or has tried again.
#[must_use]
pub fn refused(cluster: &TenantCluster, asked: &str) -> Option<FailedPatch> {
    let status = cluster.status.as_ref()?;
    let upgrade = status.upgrade.as_ref();
    let failed = upgrade.and_then(|upgrade| {
        Some(FailedPatch {
            version: upgrade.failed_version.clone()?,
            retry: upgrade.failed_retry?,
        })
    });
    let known = status.rollout.as_ref();
    let known = known.and_then(|known| known.failed_patch.clone());
    let asked = parse(asked).ok()?;
    failed.or(known).filter(|failed| {
        let is_newer = parse(&failed.version)
            .is_ok_and(|version| is_same_minor(&version, &asked) && version >= asked);
        is_newer && failed.retry == cluster.spec.upgrade.retry
    })
}

fn is_noted(cluster: &TenantCluster, version: &Version) -> bool {
    noted(cluster).is_some_and(|(taken, _)| taken == *version)
}

/// The patch that was last taken, and what `spec.version` said then.
fn noted(cluster: &TenantCluster) -> Option<(Version, &str)> {
    let noted = cluster.status.as_ref()?.rollout.as_ref()?.patch.as_ref()?;
    Some((parse(&noted.version).ok()?, &noted.asked))
}

/// Whether the last upgrade was to this version, was rolled back, and is not to be tried again.
fn has_failed(cluster: &TenantCluster, version: &Version) -> bool {
    let status = cluster.status.as_ref().and_then(|s| s.upgrade.as_ref());
    status.is_some_and(|status| {
        status.failed_version.as_deref() == Some(version.to_string().as_str())
            && status.failed_retry == Some(cluster.spec.upgrade.retry)
    })
}

/// The version that is to run, where the operator has a say in it, and what is decided.
fn decide(
    cluster: &TenantCluster,
    live: Option<Version>,
    settings: &Settings,
    now: Timestamp,
) -> (Option<Version>, Patch) {
    let mut patch = Patch {
        asked: cluster.spec.version.clone(),
        ..Patch::default()
    };
    let status = cluster.status.as_ref();
    let serves = status.and_then(|status| parse(status.version.as_deref()?).ok());
    let asked = parse(&cluster.spec.version).ok();
    // While it starts, or goes to another minor, only its user has a say.
    let Some((asked, runs)) = asked
        .zip(serves.or(live))
        .filter(|(asked, runs)| is_same_minor(asked, runs))
    else {
        return (None, patch);
    };
    patch.minimum = minimum(cluster, &runs, settings, now);
    let is_in_force = |least: &&MinimumVersionStatus| {
        let from: Option<Timestamp> = least.from.parse().ok();
        from.is_some_and(|from| from <= now)
    };
    let demanded = patch.minimum.as_ref().filter(is_in_force);
    let demanded = demanded.and_then(|least| parse(&least.version).ok());
    let auto = cluster.spec.maintenance.auto_patch;
    let newest = settings.newest_patch(&asked);
    let offered = newest.clone().filter(|_| auto).max(demanded.clone());
    let least = settings.minimum_version(&asked).map(|(least, _)| least);
    // What its user said since then counts, unless that is only the least that runs.
    let own = noted(cluster).filter(|(_, said)| auto || *said == cluster.spec.version);
    let own = own.map(|(taken, _)| taken);
    let own = own.filter(|taken| is_same_minor(taken, &asked) && *taken > asked);
    let refused = refused(cluster, &patch.asked);
    let is_refused = |version: &Version| {
        let refused = refused.as_ref();
        refused.is_some_and(|refused| refused.version == version.to_string())
    };
    let mut base = asked;
    if let Some(own) = own {
        // Who withdraws it has it go back.
        let is_offered = Some(&own) <= newest.as_ref().max(least.as_ref());
        let is_given_up = match has_failed(cluster, &own) {
            true => offered.as_ref() > Some(&own) || (!auto && demanded.as_ref() < Some(&own)),
            false => is_refused(&own),
        };
        base = match own == runs || (is_offered && !is_given_up) {
            true => own,
            // One that was taken before.
            false => base.max(runs.clone()),
        };
    }
    if auto {
        base = base.max(runs.clone());
    }
    let due = offered.filter(|offered| base == runs && *offered > base && !is_refused(offered));
    patch.due = due.map(|version| Due {
        version,
        is_demanded: demanded.is_some(),
        waits: match demanded {
            _ if hibernation::holds_machines(cluster) => Some(Wait::Asleep),
            Some(_) => None,
            None => waits_for_patch(cluster, now),
        },
    });
    (Some(base), patch)
}

fn waits_for_patch(cluster: &TenantCluster, now: Timestamp) -> Option<Wait> {
    waits(cluster, now)
        .filter(|wait| !(matches!(wait, Wait::Window(_)) && woke_lately(cluster, now)))
}

/// Whether one that sleeps from time to time has been Ready for a short time.
fn woke_lately(cluster: &TenantCluster, now: Timestamp) -> bool {
    let spec = &cluster.spec.hibernation;
    let sleeps = spec.enabled || !spec.schedules.is_empty() || spec.idle_after.is_some();
    let status = cluster.status.as_ref();
    let mut conditions = status.iter().flat_map(|status| &status.conditions);
    let ready = conditions.find(|c| {
        c.type_ == ConditionType::Ready.as_str() && c.status == ConditionStatus::True.as_str()
    });
    sleeps && ready.is_some_and(|c| now.duration_since(c.last_transition_time.0) < AWAKE)
}

/// The least version of the configuration, where an older one runs; it counts from its moment, and from a while after it was
/// first told of.
fn minimum(
    cluster: &TenantCluster,
    runs: &Version,
    settings: &Settings,
    now: Timestamp,
) -> Option<MinimumVersionStatus> {
    let (least, from) = settings.minimum_version(runs)?;
    if *runs >= least {
        return None;
    }
    let version = least.to_string();
    let status = cluster.status.as_ref();
    let known = status.and_then(|status| status.minimum_version.as_ref());
    let known = known.filter(|known| known.version == version);
    let told = known.and_then(|known| known.told.parse().ok());
    let told: Timestamp = told.unwrap_or(now);
    let earliest = told.checked_add(NOTICE).unwrap_or(Timestamp::MAX);
    Some(MinimumVersionStatus {
        version,
        told: told.to_string(),
        from: from.max(earliest).to_string(),
    })
}

/// How far a patch is, as the status alone says.
#[must_use]
pub fn how_far(cluster: &TenantCluster, settings: &Settings, now: Timestamp) -> HowFar {
    let (base, patch) = decide(cluster, None, settings, now);
    let status = cluster.status.as_ref();
    let upgrade = status.and_then(|status| status.upgrade.as_ref());
    if let Some(due) = patch.due {
        let to = due.version.to_string();
        let is_blocked = upgrade.is_some_and(|upgrade| {
            let is_checked = upgrade.phase == UpgradePhase::Checking;
            upgrade.to == to && is_checked && !upgrade.blockers.is_empty()
        });
        return match is_blocked && due.waits.is_none() {
            true => HowFar::Blocked,
            false => HowFar::Due(due),
        };
    }
    let serves = status.and_then(|status| status.version.as_deref());
    let Some(base) = base.filter(|base| is_noted(cluster, base)) else {
        return HowFar::None;
    };
    if serves.and_then(|serves| parse(serves).ok()).as_ref() == Some(&base) {
        return HowFar::None;
    }
    match has_failed(cluster, &base) {
        true => {
            let failure = upgrade.and_then(|upgrade| upgrade.failure.as_ref());
            let why = failure.map_or("", |failure| failure.message.as_str());
            HowFar::Failed(format!("the patch to Kubernetes {base} failed: {why}"))
        }
        false => HowFar::Begun,
    }
}
