//! Admission of a TenantCluster: whether it may be created or changed this way.
//!
//! Invariant: nothing that keeps an object from being deleted, and nothing that was wrong before
//! and is still wrong in the same way, is held against a change (a newer operator may know better
//! than the one that let it in).

use std::borrow::Borrow;

use api::{Reason, TenantCluster};
use semver::Version;

use crate::network::claims::conflicts;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::validate::check::{check, ranges, storage};
use crate::validate::{maintenance, overlay, policy, quantity, rotation};
use crate::version;

/// What speaks against creating `new`, or against changing `old` into it. CEL rules of the CRD ran
/// before; `others` are all TenantClusters (the object itself among them is passed over).
#[must_use]
pub fn admit<T: Borrow<TenantCluster>>(
    old: Option<&TenantCluster>,
    new: &TenantCluster,
    others: &[T],
    settings: &Settings,
) -> Vec<Problem> {
    if new.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let Some(old) = old else {
        return review(new, others, settings);
    };
    if old.spec == new.spec {
        return Vec::new();
    }
    let known = review(old, others, settings);
    let mut problems = review(new, others, settings);
    problems.retain(|problem| !known.contains(problem));
    for problem in transition(old, new) {
        // The same field may already have been found wrong against the running version.
        if !problems.iter().any(|found| found.field == problem.field) {
            problems.push(problem);
        }
    }
    problems
}

fn review<T: Borrow<TenantCluster>>(
    tc: &TenantCluster,
    others: &[T],
    settings: &Settings,
) -> Vec<Problem> {
    let mut problems = check(tc, settings);
    problems.extend(policy::check(tc, settings));
    problems.extend(storage(tc, settings));
    problems.extend(overlay::reserved(tc, settings));
    problems.extend(conflicts(
        tc,
        &ranges(tc, settings).0,
        others,
        &settings.network,
    ));
    problems
}

/// What the largest of etcd's volumes was given, or will be, in billionths and as it is written; none where
/// that is not known.
fn held(tc: &TenantCluster) -> Option<(i128, &String)> {
    let etcd = tc.status.as_ref()?.etcd.as_ref()?;
    let sizes = etcd.members.iter().filter_map(|m| m.volume_size.as_ref());
    sizes
        .filter_map(|size| Some((quantity::nanos(size)?, size)))
        .max()
}

/// What may not change in this direction. (What may not change at all is said by CEL.)
fn transition(old: &TenantCluster, new: &TenantCluster) -> Vec<Problem> {
    let mut problems = Vec::new();
    // Where one serves, `check` has compared with that: a version that never came to serve can be set back.
    let serves = old
        .status
        .as_ref()
        .and_then(|s| s.version.as_ref())
        .is_some();
    let versions = (
        version::parse(&old.spec.version),
        version::parse(&new.spec.version),
    );
    if let (Ok(from), Ok(to)) = versions
        && !serves
        && let Err(error) = version::check_upgrade(&from, &to)
    {
        problems.push(Problem::new(
            "spec.version",
            error.reason(),
            error.to_string(),
        ));
    }
    problems.extend(rotation::transition(old, new));
    let (from, to) = (&old.spec.etcd.storage.size.0, &new.spec.etcd.storage.size.0);
    if let (Some(was), Some(is)) = (quantity::nanos(from), quantity::nanos(to))
        && is < was
    {
        // What was asked for and never came about can be taken back.
        let (least, text) = held(old).unwrap_or((was, from));
        if is < least {
            problems.push(Problem::new(
                "spec.etcd.storage.size",
                Reason::StorageShrinks,
                format!("{to} is less than {text}: volumes cannot shrink; keep {text} or more"),
            ));
        }
    }
    problems
}

/// The version that serves, where it is of this minor: the operator may have taken a newer patch than was asked for.
fn serves(tc: &TenantCluster, of: &Version) -> Option<Version> {
    let version = version::parse(tc.status.as_ref()?.version.as_deref()?).ok()?;
    version::is_same_minor(&version, of).then_some(version)
}

/// What is accepted but deserves a word, for [`warnings`](super::warnings) of a change.
#[must_use]
pub fn transition_warnings(old: &TenantCluster, new: &TenantCluster) -> Vec<String> {
    let mut warnings = Vec::new();
    let stays = maintenance::stays_newer(old, new);
    if let (Ok(from), Ok(to)) = (
        version::parse(&old.spec.version),
        version::parse(&new.spec.version),
    ) && version::is_same_minor(&from, &to)
        && let from = from.max(serves(new, &to).unwrap_or_else(|| to.clone()))
        && old.spec.version != new.spec.version
        && to < from
        && stays.is_none()
    {
        warnings.push(format!(
            "spec.version: {to} lacks the fixes that came with {from}"
        ));
    }
    warnings.extend(stays);
    let (was, is) = (
        &old.spec.control_plane.endpoint,
        &new.spec.control_plane.endpoint,
    );
    if was.host != is.host || was.port != is.port {
        warnings.push(
            "spec.controlPlane.endpoint: kubeconfigs and nodes that hold the old host or port must \
             be given the new one"
                .to_owned(),
        );
    }
    if old.spec.addons.cni != new.spec.addons.cni {
        warnings.push(
            "spec.addons.cni: nodes keep the network that they have; replace them once the new one \
             is in place"
                .to_owned(),
        );
    }
    warnings
}
