//! What is seen of a tenant cluster before an upgrade.
//!
//! Invariant: what was not seen is not taken for well.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use api::ConditionType;
use api::names::LABEL_COMPONENT;
use jiff::Timestamp;
use serde_json::Value;
use tenant_cp::generations::is_authority;
use tenant_cp::rollout::order::Progress;
use tenant_cp::{Settings, Validated, names};

use crate::controllers::tenant_cluster::observed::{Etcd, Observed, Tenant};
use crate::controllers::tenant_cluster::plan::namespace::NamespacePlan;
use crate::pod_failures;
use crate::tenant_session::preflight::answers::Inside;
use crate::upgrades;
use crate::upgrades::checks::{self, Facts};
use crate::upgrades::finding::Finding;
use crate::upgrades::snapshot::State;
use crate::upgrades::versions::{self, Wanted};

/// Pods with a kube-apiserver.
pub(super) fn pods(observed: &Observed) -> impl Iterator<Item = &Value> {
    pods_of(observed, names::CONTROL_PLANE)
}

/// Pods of a component.
pub(super) fn pods_of<'a>(
    observed: &'a Observed,
    component: &'a str,
) -> impl Iterator<Item = &'a Value> {
    let ns = observed.tenant_namespace();
    let all = observed.objects.iter();
    let pods = all.filter(move |(key, pod)| {
        let its = &pod["metadata"]["labels"][LABEL_COMPONENT];
        key.kind == "Pod" && key.namespace == ns && *its == component
    });
    pods.map(|(_, pod)| pod)
}

/// Addresses of pods that serve; none where they are not known.
pub(super) fn servers(observed: &Observed) -> Vec<IpAddr> {
    let serving = pods(observed).filter(|pod| pod_failures::is_ready(pod));
    serving
        .filter_map(|pod| pod["status"]["podIP"].as_str()?.parse().ok())
        .collect()
}

pub(super) fn findings(
    wanted: &Wanted,
    (valid, inside): (&Validated, &Inside),
    observed: &Observed,
    settings: &Settings,
    now: Timestamp,
) -> Vec<Finding> {
    let held = versions::at(valid, &wanted.from);
    let progress = NamespacePlan::new(&held, observed, settings).progress;
    let store = &observed.material.store;
    let authorities = store.iter().filter(|(name, _)| is_authority(name));
    let authorities = authorities
        .filter_map(|(name, pair)| Some((name.as_str(), pki::not_after(&pair.certificate)?)));
    let asked = match &observed.etcd {
        Etcd::NotAsked => None,
        Etcd::Asked(answers) => Some(answers),
    };
    let etcd = asked.into_iter().flatten().map(|(name, answer)| {
        let answer = answer.as_ref().map_err(String::as_str);
        (name.as_str(), answer)
    });
    let facts = Facts {
        wanted,
        unrest: unrest(observed, &progress, now),
        members: usize::try_from(held.etcd.replicas).unwrap_or(0),
        etcd: etcd.collect(),
        authorities: authorities.collect(),
        certificates_ready: is_true(observed, ConditionType::CertificatesReady),
        inside,
        room: &observed.room,
        has_pools: observed.workers,
    };
    checks::all(&facts, now)
}

fn is_true(observed: &Observed, type_: ConditionType) -> bool {
    let status = observed.cluster.status.as_ref();
    status.is_some_and(|status| api::condition::is_true(&status.conditions, type_))
}

/// Why it is not at rest.
fn unrest(observed: &Observed, progress: &[Progress], now: Timestamp) -> Option<String> {
    let status = observed.cluster.status.as_ref();
    if observed.restore.is_some() {
        return Some(
            "it is brought back to a moment of its backup; wait until that is over".to_owned(),
        );
    }
    let etcd = status.and_then(|status| status.etcd.as_ref());
    if etcd.is_some_and(|etcd| etcd.replacing.is_some()) {
        return Some("a member of etcd is replaced; wait until that is over".to_owned());
    }
    let Some(pods) = &observed.pods else {
        return Some("its pods are not known".to_owned());
    };
    if progress.contains(&Progress::Rolling) || pods.iter().any(|pod| pod.terminating) {
        return Some(
            "pods are being replaced, or not all are ready; wait until all are".to_owned(),
        );
    }
    let left = until_calm(observed, now)?;
    (!left.is_zero()).then(|| {
        format!(
            "it is not Ready for {} seconds yet; wait, or see the condition Ready",
            observed.upgrade_calm.as_secs()
        )
    })
}

/// How long until it was Ready for long enough; none where that is not asked for.
pub(super) fn until_calm(observed: &Observed, now: Timestamp) -> Option<Duration> {
    let calm = observed.upgrade_calm;
    if calm.is_zero() && observed.was_ready() {
        return None;
    }
    let status = observed.cluster.status.as_ref()?;
    let mut conditions = status.conditions.iter();
    let ready = conditions.find(|c| c.type_ == ConditionType::Ready.as_str())?;
    if ready.status != "True" {
        return Some(calm.max(Duration::from_secs(1)));
    }
    let since = Duration::try_from(now.duration_since(ready.last_transition_time.0));
    Some(calm.saturating_sub(since.unwrap_or_default()))
}

/// Whether the status says that nothing stands against it, and of all that is warned of: that, and since when it is
/// wanted, is written before anything changes.
pub(super) fn is_told(wanted: &Wanted, findings: &[Finding], observed: &Observed) -> bool {
    let status = observed.cluster.status.as_ref();
    let upgrade = status.and_then(|status| status.upgrade.as_ref());
    upgrade.is_some_and(|told| {
        let warns = |found: &Finding| {
            let mut warnings = told.warnings.iter();
            warnings.any(|warning| warning.check == found.check.as_str())
        };
        wanted.is_of(told) && told.blockers.is_empty() && findings.iter().all(warns)
    })
}

/// How it is about the Snapshot before it.
pub(super) fn snapshot(wanted: &Wanted, observed: &Observed, now: Timestamp) -> State {
    let cluster = &observed.cluster;
    let status = cluster.status.as_ref().and_then(|s| s.upgrade.as_ref());
    let since = status.filter(|status| wanted.is_of(status));
    let since = since.map(|status| status.since.as_str());
    // What the operator takes by itself may have waited for its turn since.
    let toward = observed
        .rollout()
        .and_then(|rollout| rollout.toward.as_ref());
    let toward = toward.filter(|_| observed.patch.is_own(&wanted.to));
    let since = toward.map(|toward| toward.since.as_str()).or(since);
    let since = since.and_then(|since| since.parse().ok());
    let seen = observed.upgrade_snapshot.as_deref();
    upgrades::snapshot::state(wanted, cluster, seen, since.unwrap_or(now), now)
}

/// How long new kube-apiservers are to serve the minor before.
pub(super) fn soak_of(observed: &Observed) -> Duration {
    observed.cluster.spec.upgrade.soak.get().unwrap_or_default()
}

/// What the tenant's API said; none before it was asked.
pub(super) fn inside(observed: &Observed) -> Option<Cow<'_, Inside>> {
    match (&observed.preflight, &observed.tenant) {
        (Some(inside), _) => Some(Cow::Borrowed(inside)),
        (None, Tenant::Silent { message }) => {
            let why = format!("the API does not answer: {message}");
            Some(Cow::Owned(Inside::unknown(&why)))
        }
        (None, _) => None,
    }
}
