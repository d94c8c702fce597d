//! Whether an upgrade that has begun fails.
//!
//! Invariant: computed from the pods that run, from Machines, and from when their phase was first seen; where pods are not known
//! nothing has failed.

use std::time::Duration;

use api::tenant_cluster::{UpgradeFailureReason, UpgradePhase};
use jiff::Timestamp;
use tenant_cp::rollout::order::Progress;
use tenant_cp::rollout::template;
use tenant_cp::{Settings, Validated, names};

use super::facts::pods_of;
use super::soak::Soak;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::plan::namespace::NamespacePlan;
use crate::upgrades::failure::{Failed, NewPods};
use crate::upgrades::versions::Wanted;

/// What is seen of an upgrade that has begun.
pub(in super::super) struct Watched {
    /// How far it is.
    pub(super) phase: UpgradePhase,
    /// Why it fails; none where it does not.
    pub(super) failed: Option<Failed>,
    /// When to look again, though nothing happens.
    pub(super) again: Option<Duration>,
}

impl Watched {
    /// `valid`: what is planned for now.
    pub(super) fn new(
        (phase, wanted): (UpgradePhase, &Wanted),
        valid: &Validated,
        observed: &Observed,
        settings: &Settings,
        now: Timestamp,
    ) -> Self {
        let since = since(phase, wanted, observed).unwrap_or(now);
        let components = new_pods(valid, observed, settings, since);
        let nodes = &observed.nodes;
        let begun = components.iter().map(NewPods::begun).min();
        let begun = begun.unwrap_or(since);
        let failed = components.iter().find_map(|pods| pods.failed(now));
        let again = components.iter().filter_map(|pods| pods.again(now));
        Self {
            phase,
            failed: failed.or_else(|| nodes.failed(begun, now)),
            again: again.chain(nodes.again(begun, now)).min(),
        }
    }

    /// With what was found when the soak was over.
    pub(super) fn with(mut self, soak: &Soak) -> Self {
        if let Soak::Unreadable(message) = soak {
            self.failed = self.failed.or_else(|| {
                Some(Failed {
                    reason: UpgradeFailureReason::StoredObjects,
                    message: message.clone(),
                })
            });
        }
        self
    }
}

/// Since when this phase goes on, as far as the status says.
fn since(phase: UpgradePhase, wanted: &Wanted, observed: &Observed) -> Option<Timestamp> {
    let status = observed.cluster.status.as_ref()?.upgrade.as_ref()?;
    let is_it = status.phase == phase && wanted.is_of(status);
    let since = status.phase_since.as_ref().filter(|_| is_it)?;
    since.parse().ok()
}

/// New pods of the workloads that have their new template.
fn new_pods<'a>(
    valid: &Validated,
    observed: &'a Observed,
    settings: &Settings,
    since: Timestamp,
) -> Vec<NewPods<'a>> {
    if observed.pods.is_none() {
        return Vec::new();
    }
    let [_, control_plane, controllers] = NamespacePlan::new(valid, observed, settings).progress;
    // Before all kube-apiservers are new, and while they serve the minor before, they are the old ones.
    let controllers = match control_plane {
        Progress::Current if valid.emulated.is_none() => controllers,
        _ => Progress::Behind,
    };
    let each = [
        (names::CONTROL_PLANE, control_plane),
        (names::CONTROLLERS, controllers),
    ];
    let has_its_template = each
        .into_iter()
        .filter(|(_, progress)| *progress != Progress::Behind);
    let pods = |(component, _): (&'static str, _)| {
        let ns = observed.tenant_namespace();
        let live = observed.find("Deployment", &ns, component).there()?;
        let hash = template::of_workload(live)?;
        let is_new = |pod: &&serde_json::Value| {
            let ends = &pod["metadata"]["deletionTimestamp"];
            ends.is_null() && template::of_pod(pod) == Some(hash)
        };
        Some(NewPods {
            component,
            pods: pods_of(observed, component).filter(is_new).collect(),
            wanted: usize::try_from(valid.replicas).unwrap_or(0),
            since,
            deadline: observed
                .cluster
                .spec
                .upgrade
                .deadline
                .get()
                .unwrap_or(LONGEST),
            etcd_answers: does_etcd_answer(valid, observed),
        })
    };
    has_its_template.filter_map(pods).collect()
}

/// Where the spec says none that can be had, which admission keeps out.
const LONGEST: Duration = Duration::from_hours(24);

/// Whether most members of etcd are ready, as far as their StatefulSet says.
fn does_etcd_answer(valid: &Validated, observed: &Observed) -> bool {
    let ns = observed.tenant_namespace();
    let ready = observed.number("StatefulSet", &ns, names::ETCD, "/status/readyReplicas");
    ready
        .or_absent(0)
        .is_some_and(|ready| ready > i64::from(valid.etcd.replicas) / 2)
}
