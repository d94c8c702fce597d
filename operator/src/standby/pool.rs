//! How many control planes wait for somebody, and which of them go. No I/O, no clock, no chance.
//!
//! Invariant: at most as many as the configuration says, whatever was seen late: each has a name of its own, and a name is
//! used again only when nobody has it.

use std::sync::Arc;

use api::condition::is_true;
use api::tenant_cluster::TenantClusterSpec;
use api::{ConditionType, TenantCluster};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use tenant_cp::Settings;

use super::fit::{is_standby, is_taken, of_control_plane};

/// How long one may be without Ready before another one is made in its place.
const PATIENCE: SignedDuration = SignedDuration::from_mins(15);

/// What to do next.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// Make one of a version.
    Make {
        /// Its name.
        name: String,
        /// Its version.
        version: String,
    },
    /// Delete one: it was taken over, or nobody wants it.
    Delete {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
}

/// The spec of one of a version: what a user gets who writes nothing else.
#[must_use]
pub fn spec(version: &str) -> TenantClusterSpec {
    TenantClusterSpec {
        version: version.to_owned(),
        ..TenantClusterSpec::default()
    }
}

/// What to do next, and when to look again although nothing happened. `all`: every TenantCluster. `is_quiet`: nobody's
/// control plane starts or waits for that; one that nobody asked for comes behind all others.
#[must_use]
pub fn plan(
    all: &[Arc<TenantCluster>],
    settings: &Settings,
    is_quiet: bool,
    now: Timestamp,
) -> (Vec<Step>, Option<SignedDuration>) {
    let wanted: Vec<(String, &String)> = settings
        .standby
        .iter()
        .flat_map(|(version, count)| (0..*count).map(move |slot| (name(version, slot), version)))
        .collect();
    let there: Vec<_> = all.iter().filter(|c| is_standby(c, settings)).collect();
    let (mut steps, mut again) = (Vec::new(), None::<SignedDuration>);
    for standby in &there {
        if standby.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let slot = wanted.iter().find(|(name, _)| *name == standby.name_any());
        let is_right = slot.is_some_and(|(_, version)| {
            of_control_plane(&standby.spec) == of_control_plane(&spec(version))
        });
        let broken_in = breaks_in(standby, now);
        let is_broken = broken_in.is_some_and(|left| !left.is_positive());
        if !is_right || is_broken || is_taken(standby, all) {
            steps.push(Step::Delete {
                name: standby.name_any(),
                uid: standby.uid().unwrap_or_default(),
            });
        } else if let Some(left) = broken_in {
            again = Some(again.map_or(left, |before| before.min(left)));
        }
    }
    let missing = wanted
        .into_iter()
        .find(|(name, _)| !there.iter().any(|standby| standby.name_any() == *name));
    if let Some((name, version)) = missing.filter(|_| is_quiet) {
        steps.push(Step::Make {
            name,
            version: version.clone(),
        });
    }
    (steps, again)
}

fn name(version: &str, slot: u16) -> String {
    format!("standby-{}-{slot}", version.replace('.', "-"))
}

/// When it will have been without Ready for too long; none of one that is Ready.
fn breaks_in(standby: &TenantCluster, now: Timestamp) -> Option<SignedDuration> {
    let conditions = standby.status.as_ref().map(|status| &status.conditions);
    if conditions.is_some_and(|all| is_true(all, ConditionType::Ready)) {
        return None;
    }
    let mut all = conditions.into_iter().flatten();
    let ready = all.find(|c| c.type_ == ConditionType::Ready.as_str());
    let since = ready.map(|ready| &ready.last_transition_time);
    let since = since.or(standby.metadata.creation_timestamp.as_ref())?;
    Some(PATIENCE - now.duration_since(since.0))
}
