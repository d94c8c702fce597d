//! Validation of a NodePool: everything that is wrong with it, by itself and beside its tenant cluster.
//!
//! Invariant: total and in a fixed order; admission and the reconciler call this same [`check_pool`],
//! so that what was accepted can be made. A tenant cluster that is not there (yet) is no mistake:
//! people apply both in one file, in any order.

use std::borrow::Borrow;

use api::names::MAX_POOL_NAME_LENGTH;
use api::node_pool::Autoscaling;
use api::{Duration, NodePool, Reason, TenantCluster};

use crate::problem::Problem;
use crate::settings::Settings;
use crate::text;
use crate::validate::policy;
use crate::version::{self, VersionError};

mod capacity;
mod kubelet;
mod locations;
pub(super) mod machine;
mod node;
mod offer;

/// What a kubelet that pauses, and a machine that boots, are given at least.
const LEAST_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// Everything that is wrong with `pool` by itself.
#[must_use]
pub fn check_pool(pool: &NodePool, settings: &Settings) -> Vec<Problem> {
    let mut problems = Vec::new();
    let spec = &pool.spec;
    name(pool, &mut problems);
    if !text::is_label(&spec.cluster_name) {
        problems.push(Problem::new(
            "spec.clusterName",
            Reason::ClusterNameMalformed,
            format!(
                "\"{}\" is not the name of a TenantCluster: `kubectl get tc` lists those of this \
                 namespace",
                spec.cluster_name
            ),
        ));
    }
    if spec.replicas < 0 {
        problems.push(Problem::new(
            "spec.replicas",
            Reason::ReplicasRange,
            format!("{} machines cannot be had: choose 0 or more", spec.replicas),
        ));
    }
    if let Some(autoscaling) = &spec.autoscaling {
        check_autoscaling(autoscaling, &mut problems);
        offer::check(&autoscaling.capacity, &mut problems);
    }
    if let Some(version) = &spec.version
        && let Err(error) = version::parse_supported(version)
    {
        problems.push(version_problem(&error));
    }
    locations::check(pool, &settings.providers, &mut problems);
    machine::check_keys(&spec.ssh_authorized_keys, &mut problems);
    kubelet::check(&spec.kubelet, &mut problems);
    node::check_labels(&spec.labels, &mut problems);
    node::check_taints(&spec.taints, &mut problems);
    rollout(pool, &mut problems);
    budget(pool, &mut problems);
    let (drain, health) = (&spec.drain_timeout, &spec.health);
    let failover = &spec.placement.failover;
    for (field, duration, least) in [
        ("spec.placement.failover.after", &failover.after, None),
        (
            "spec.placement.failover.returnAfter",
            &failover.return_after,
            None,
        ),
        (
            "spec.placement.failover.giveUpAfter",
            &failover.give_up_after,
            None,
        ),
        ("spec.drainTimeout", drain, None),
        (
            "spec.health.joinTimeout",
            &health.join_timeout,
            Some("no machine boots that fast"),
        ),
        (
            "spec.health.notReadyTimeout",
            &health.not_ready_timeout,
            Some("a kubelet that restarts would lose its machine"),
        ),
    ] {
        problems.extend(timeout(field, duration, least));
    }
    problems
}

/// What speaks against creating `new`, or against changing `old` into it. CEL rules of the CRD ran
/// before; `clusters` are all TenantClusters. As with [`super::admit`], what was wrong before and
/// is still wrong in the same way is not held against a change.
#[must_use]
pub fn admit_pool<T: Borrow<TenantCluster>>(
    old: Option<&NodePool>,
    new: &NodePool,
    clusters: &[T],
    settings: &Settings,
) -> Vec<Problem> {
    if new.metadata.deletion_timestamp.is_some() || old.is_some_and(|old| old.spec == new.spec) {
        return Vec::new();
    }
    let review = |pool: &NodePool| {
        let mut problems = check_pool(pool, settings);
        problems.extend(policy::check_pool(pool, settings));
        problems.extend(skew(pool, clusters));
        let cluster = cluster_of(pool, clusters);
        problems.extend(
            cluster
                .into_iter()
                .flat_map(|tc| capacity::check(pool, tc, settings)),
        );
        problems
    };
    let known = old.map(review).unwrap_or_default();
    let mut problems = review(new);
    problems.retain(|problem| !known.contains(problem));
    problems
}

/// What is accepted but deserves a word.
#[must_use]
pub fn pool_warnings<T: Borrow<TenantCluster>>(pool: &NodePool, clusters: &[T]) -> Vec<String> {
    let mut warnings = Vec::new();
    if cluster_of(pool, clusters).is_none() {
        warnings.push(format!(
            "spec.clusterName: there is no TenantCluster {} in this namespace yet; machines are \
             made once there is",
            pool.spec.cluster_name
        ));
    }
    warnings.extend(autoscaling_warning(pool, clusters));
    for (field, provider) in pool.spec.providers() {
        let kubevirt = provider.kubevirt.as_ref();
        if let Some(image) = kubevirt.and_then(|kubevirt| kubevirt.image.as_deref())
            && !text::image::is_pinned(image)
        {
            warnings.push(format!(
                "{field}.kubevirt.image: {image} has no tag, so machines made later may boot \
                 something else"
            ));
        }
    }
    warnings
}

/// Pools that the control plane of `tc`, in the version asked for, would leave too far behind.
#[must_use]
pub fn left_behind<P: Borrow<NodePool>>(tc: &TenantCluster, pools: &[P]) -> Vec<Problem> {
    let Ok(wanted) = version::parse(&tc.spec.version) else {
        return Vec::new();
    };
    let mut behind: Vec<(&str, String)> = Vec::new();
    for pool in pools.iter().map(Borrow::borrow) {
        if !is_of(pool, tc) || pool.metadata.deletion_timestamp.is_some() {
            continue;
        }
        // A pool without a version of its own follows the control plane; until it has, its status
        // says what its machines run.
        let status = pool.status.as_ref();
        let runs = status.and_then(|status| status.version.as_deref());
        let version = pool.spec.version.as_deref().or(runs);
        let Some(version) = version.and_then(|text| version::parse(text).ok()) else {
            continue;
        };
        if let Err(VersionError::WorkerTooOld { .. }) = version::check_worker(&wanted, &version) {
            let name = pool.metadata.name.as_deref().unwrap_or_default();
            behind.push((name, version.to_string()));
        }
    }
    behind.sort();
    let problem = |(name, version): (&str, String)| {
        Problem::new(
            "spec.version",
            Reason::NodePoolTooOld,
            format!(
                "node pool {name} runs {version}, which {wanted} does not support: nodes may be \
                 at most {} minors older; upgrade the NodePool first and wait until its machines \
                 are replaced",
                version::WORKER_SKEW
            ),
        )
    };
    behind.into_iter().map(problem).collect()
}

/// The TenantCluster that a pool belongs to.
#[must_use]
pub fn cluster_of<'a, T: Borrow<TenantCluster>>(
    pool: &NodePool,
    clusters: &'a [T],
) -> Option<&'a TenantCluster> {
    let mut clusters = clusters.iter().map(Borrow::borrow);
    clusters.find(|tc| is_of(pool, tc))
}

fn is_of(pool: &NodePool, tc: &TenantCluster) -> bool {
    tc.metadata.namespace == pool.metadata.namespace
        && tc.metadata.name.as_deref() == Some(pool.spec.cluster_name.as_str())
}

/// The version that the pool asks for, beside the one that is asked for the control plane: whoever
/// upgrades both at once is let through, and the pool waits for the control plane.
fn skew<T: Borrow<TenantCluster>>(pool: &NodePool, clusters: &[T]) -> Option<Problem> {
    let worker = version::parse(pool.spec.version.as_deref()?).ok()?;
    let control_plane = version::parse(&cluster_of(pool, clusters)?.spec.version).ok()?;
    let error = version::check_worker(&control_plane, &worker).err()?;
    Some(version_problem(&error))
}

fn version_problem(error: &VersionError) -> Problem {
    Problem::new("spec.version", error.reason(), error.to_string())
}

fn name(pool: &NodePool, problems: &mut Vec<Problem>) {
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    if name.is_empty() && pool.metadata.generate_name.is_some() {
        return; // not generated yet; checked again once it is
    }
    if !text::is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        problems.push(Problem::new(
            "metadata.name",
            Reason::NameMalformed,
            format!(
                "\"{name}\" cannot become part of the names of nodes: use lower-case letters, \
                 digits and -, beginning with a letter"
            ),
        ));
    } else if name.len() > MAX_POOL_NAME_LENGTH {
        problems.push(Problem::new(
            "metadata.name",
            Reason::NameTooLong,
            format!(
                "{} characters are too many: at most {MAX_POOL_NAME_LENGTH}, because nodes are \
                 called <name>-<5 characters> and certificates hold their names",
                name.len()
            ),
        ));
    }
}

fn rollout(pool: &NodePool, problems: &mut Vec<Problem>) {
    let rollout = &pool.spec.rollout;
    for (field, amount) in [
        ("spec.rollout.maxSurge", &rollout.max_surge),
        ("spec.rollout.maxUnavailable", &rollout.max_unavailable),
        ("spec.health.maxReplaced", &pool.spec.health.max_replaced),
        (
            "spec.placement.failover.maxExtra",
            &pool.spec.placement.failover.max_extra,
        ),
    ] {
        if amount.of(100, api::int_or_percent::Round::Up).is_none() {
            let message = "write a number of machines, such as 1, or a share, such as 25%";
            problems.push(Problem::new(field, Reason::AmountMalformed, message));
        }
    }
    let none =
        |amount: &api::IntOrPercent| amount.of(100, api::int_or_percent::Round::Up) == Some(0);
    if none(&rollout.max_surge) && none(&rollout.max_unavailable) {
        problems.push(Problem::new(
            "spec.rollout",
            Reason::RolloutImpossible,
            "maxSurge and maxUnavailable cannot both be 0: no machine could ever be replaced; set \
             one of them to 1 or more",
        ));
    }
}

/// Also while the schema was not asked: what is no amount is no bound.
fn budget(pool: &NodePool, problems: &mut Vec<Problem>) {
    let Some(budget) = &pool.spec.placement.budget else {
        return;
    };
    let hourly = budget.hourly.as_str();
    let (whole, part) = hourly.split_once('.').unwrap_or((hourly, "0"));
    let is_number = |text: &str, most: usize| {
        (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_number(whole, 8) || !is_number(part, 6) {
        problems.push(Problem::new(
            "spec.placement.budget.hourly",
            Reason::AmountMalformed,
            "write an amount of money, such as 12.50: up to eight digits, and up to six behind the point",
        ));
    }
    let is_currency = |text: &str| text.len() == 3 && text.bytes().all(|b| b.is_ascii_uppercase());
    if !is_currency(&budget.currency) {
        problems.push(Problem::new(
            "spec.placement.budget.currency",
            Reason::AmountMalformed,
            "write the three capital letters of a currency, such as EUR",
        ));
    }
}

fn check_autoscaling(autoscaling: &Autoscaling, problems: &mut Vec<Problem>) {
    let Autoscaling { min, max, .. } = autoscaling;
    if *min < 0 || max < min || *max < 1 {
        problems.push(Problem::new(
            "spec.autoscaling",
            Reason::BoundsImpossible,
            format!(
                "no number of machines is between min {min} and max {max}: choose a min of 0 or \
                 more, and a max of 1 or more that is not below it"
            ),
        ));
    }
    let Some(delay) = &autoscaling.scale_down_delay else {
        return;
    };
    let field = "spec.autoscaling.scaleDownDelay";
    match delay.get() {
        None => problems.extend(timeout(field, delay, None)),
        Some(time) if time.is_zero() => problems.push(Problem::new(
            field,
            Reason::DelayZero,
            format!(
                "{} would take a node away as soon as it joined: use a time above zero, or remove \
                 it for 10m",
                delay.0
            ),
        )),
        Some(_) => {}
    }
}

/// Nobody moves `replicas` while the addon is off, and where it is on it may not stay as it is.
fn autoscaling_warning<T: Borrow<TenantCluster>>(
    pool: &NodePool,
    clusters: &[T],
) -> Option<String> {
    let autoscaling = pool.spec.autoscaling.as_ref()?;
    let cluster = cluster_of(pool, clusters)?;
    if !cluster.spec.addons.autoscaler.enabled {
        return Some(format!(
            "spec.autoscaling: TenantCluster {} has the addon autoscaler off, so nothing changes \
             replicas; set its spec.addons.autoscaler.enabled to true",
            pool.spec.cluster_name
        ));
    }
    let replicas = pool.spec.replicas;
    let nearest = autoscaling.clamp(replicas);
    (nearest != replicas).then(|| {
        format!(
            "spec.replicas: {replicas} is outside of spec.autoscaling, so the autoscaler makes it \
             {nearest}"
        )
    })
}

/// What is wrong with a length of time; `least` says why it cannot be shorter than [`LEAST_TIMEOUT`].
pub(super) fn timeout(field: &str, duration: &Duration, least: Option<&str>) -> Option<Problem> {
    let Some(time) = duration.get() else {
        return Some(Problem::new(
            field,
            Reason::DurationMalformed,
            format!(
                "\"{}\" is not a length of time: write hours, minutes and seconds, such as 90s, \
                 5m or 1h30m",
                duration.0
            ),
        ));
    };
    let why = least.filter(|_| time < LEAST_TIMEOUT)?;
    Some(Problem::new(
        field,
        Reason::TimeoutTooShort,
        format!("{} is too short: {why}; use 30s or more", duration.0),
    ))
}

#[cfg(test)]
mod tests;
