//! A Restore of the simulated tenant cluster: pods that take their time to end, Jobs, and what they report.
//!
//! Invariant: etcd is what its members were told when they started.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::names::LABEL_COMPONENT;
use api::restore::Orphan;
use api::{Restore, Snapshot, TenantCluster};
use base64::Engine as _;
use kit_objects::object::Key;
use serde_json::{Value, json};

use super::{NS, UID, World};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::observed::restore::{Balancer, RestoreSeen};
use crate::restoring::Mark;
use crate::restoring::begin::holds_backup;
use crate::upgrades::{snapshot, versions};

/// The cluster that Jobs build.
pub(in super::super) const NEW: &str = "abcdabcdabcdabcd";
const OLD: &str = "cdf818194e3a8c32";

/// A Restore, and what becomes of it.
#[derive(Clone)]
pub(in super::super) struct Play {
    /// None once it is deleted.
    pub(in super::super) restore: Option<Restore>,
    /// Components whose pods do not end.
    pub(in super::super) lingering: BTreeSet<&'static str>,
    /// The member whose Job fails.
    pub(in super::super) failing: Option<&'static str>,
    /// Load balancers in the tenant namespace, which the tenant cluster of then does not know.
    pub(in super::super) balancers: BTreeMap<String, Balancer>,
}

impl Play {
    /// One that can be had.
    pub(in super::super) fn new() -> Self {
        let restore = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Restore",
            "metadata": { "name": "back", "namespace": "team-a", "uid": "5a1c0f6e-1111",
                "creationTimestamp": "2026-11-21T11:30:00Z" },
            "spec": { "clusterName": "demo", "at": { "revision": 700 } },
            "status": { "clusterUID": UID, "clusterID": OLD, "replaces": OLD,
                "revision": 700, "bump": 1_000_000_200,
                "conditions": [{ "type": "Possible", "status": "True", "reason": "RestorePossible",
                    "message": "", "lastTransitionTime": "2026-11-21T11:30:00Z" },
                  { "type": "OrphanedVolumes", "status": "False", "reason": "NoOrphans",
                    "message": "", "lastTransitionTime": "2026-11-21T11:30:00Z" }] },
        });
        Self {
            restore: Some(serde_json::from_value(restore).unwrap()),
            lingering: BTreeSet::new(),
            failing: None,
            balancers: [(
                "lb-late".to_owned(),
                Balancer {
                    uid: "late".to_owned(),
                    mark: Mark::None,
                    told: Orphan::default(),
                },
            )]
            .into(),
        }
    }

    /// Its status says how it ended.
    pub(in super::super) fn say(&mut self, reason: &str, status: &str) {
        let Some(restore) = &mut self.restore else {
            return;
        };
        let condition = json!({ "type": "Restored", "status": status, "reason": reason,
            "message": "", "lastTransitionTime": "2026-11-21T11:40:00Z" });
        let conditions = &mut restore.status.as_mut().unwrap().conditions;
        conditions.retain(|condition| condition.type_ != "Restored");
        conditions.push(serde_json::from_value(condition).unwrap());
    }
}

impl World {
    /// The Snapshot that was asked for before an upgrade.
    pub(super) fn see_snapshot(&self, cluster: &TenantCluster) -> Option<Arc<Snapshot>> {
        let upgrade = versions::wanted(cluster)?;
        let name = snapshot::name(&upgrade, cluster);
        self.snapshots.get(&name).cloned()
    }

    /// Names of Restores that are not over.
    pub(super) fn asks_for_restores(&self) -> BTreeSet<String> {
        let all = self.objects.iter().filter(|(key, _)| key.kind == "Restore");
        let asked = all.filter(|(_, restore)| restore["over"] != true);
        asked.map(|(key, _)| key.name.clone()).collect()
    }

    pub(super) fn see_restore(&self) -> Option<RestoreSeen> {
        let play = self.restore.as_ref()?;
        let target = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "BackupTarget",
            "metadata": { "name": "main", "uid": "t" },
            "spec": { "claim": { "size": "8Gi" }, "encryption": { "keySecret": "key" } },
        });
        let mut pods: Vec<_> = self.pods.values().cloned().collect();
        let of =
            |component: &str| json!({ "metadata": { "labels": { LABEL_COMPONENT: component } } });
        if !holds_backup(&self.cluster) {
            pods.push(of("backup"));
        }
        pods.extend(play.lingering.iter().map(|component| of(component)));
        let jobs = self.objects.iter().filter(|(key, _)| key.kind == "Job");
        pods.extend(jobs.map(|(key, job)| pod_of(&key.name, job)));
        Some(RestoreSeen {
            restore: play.restore.clone(),
            target: Some(Arc::new(serde_json::from_value(target).unwrap())),
            pods,
            balancers: play.balancers.clone(),
            leases: None,
        })
    }

    /// One load balancer after the other is marked, or its mark goes.
    pub(in super::super) fn mark(
        &mut self,
        observed: &mut Observed,
        (keep, release): (&BTreeSet<String>, &BTreeSet<String>),
        budget: &mut usize,
    ) -> bool {
        let all = keep.iter().map(|name| (name, true));
        for (name, is_marked) in all.chain(release.iter().map(|name| (name, false))) {
            if !self.spend(budget) {
                return false;
            }
            let play = self.restore.as_mut().unwrap();
            play.balancers.get_mut(name).unwrap().mark = match is_marked {
                true => Mark::Unknown,
                false => Mark::None,
            };
            let seen = observed.restore.as_mut().unwrap();
            seen.balancers.clone_from(&play.balancers);
        }
        true
    }

    /// Who cares for load balancers deletes those of which the tenant cluster knows nothing, or says so of them.
    pub(in super::super) fn sweep(&mut self) {
        if let Some(play) = &mut self.restore {
            play.balancers
                .retain(|_, balancer| balancer.mark != Mark::None);
            for balancer in play.balancers.values_mut() {
                balancer.mark = Mark::Orphan;
            }
        }
    }

    /// Jobs come to their end.
    pub(in super::super) fn play_jobs(&mut self) {
        let failing = self.restore.as_ref().and_then(|play| play.failing);
        let jobs = self.objects.iter_mut().filter(|(key, _)| key.kind == "Job");
        for (key, job) in jobs {
            let fails = failing.is_some_and(|member| key.name.ends_with(member));
            let type_ = if fails { "Failed" } else { "Complete" };
            job["status"]["conditions"] = json!([
                { "type": type_, "status": "True", "message": "no space left on device" },
            ]);
        }
    }

    pub(super) fn etcd_cluster(&self) -> String {
        let file = self
            .secret("etcd")
            .and_then(|secret| secret["data"]["identity.json"].as_str());
        let engine = base64::engine::general_purpose::STANDARD;
        let file = file.and_then(|file| engine.decode(file).ok());
        let file: Value = file
            .and_then(|file| serde_json::from_slice(&file).ok())
            .unwrap_or_default();
        file["clusterID"].as_str().unwrap_or(OLD).to_owned()
    }

    /// Whether a workload is to have pods.
    pub(in super::super) fn runs(&self, kind: &str, name: &str) -> bool {
        let live = self.objects.get(&Key::new(kind, NS, name));
        live.is_some_and(|live| live["spec"]["replicas"].as_i64() != Some(0))
    }
}

fn pod_of(job: &str, live: &Value) -> Value {
    let number = job.rsplit('-').next().unwrap();
    let is_survivor = job.ends_with("-survivor");
    let built = json!({ "claimUID": format!("uid-of-data-etcd-{number}"), "name": "x", "revision": 720,
        "data": { "clusterID": NEW, "memberID": format!("6{number}") } });
    let said = match is_survivor {
        true => json!({ "revision": 720, "deltas": 2 }),
        false => built,
    };
    let is_done = live["status"]["conditions"][0]["type"] == "Complete";
    let ended = json!({ "terminated": { "exitCode": 0, "message": said.to_string() } });
    json!({
        "metadata": { "name": format!("{job}-x"), "labels": {
            LABEL_COMPONENT: "etcd-restore", "batch.kubernetes.io/job-name": job } },
        "status": { "containerStatuses": [{ "name": if is_survivor { "append" } else { "seal" },
            "state": if is_done { ended } else { json!({}) } }] },
    })
}
