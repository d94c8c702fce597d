//! What is seen of a Restore of a tenant cluster: the object itself, and pods and Jobs in the tenant namespace.
//!
//! Invariant: a pod that cannot be told to be over is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::names::{COMPONENT_WORKER, LABEL_COMPONENT};
use api::restore::Orphan;
use api::{BackupTarget, Restore};
use serde_json::Value;
use tenant_cp::backup::process::{BACKUP, RESTORE_TEST};
use tenant_cp::names;

use crate::restoring::{Mark, Workload};

/// A Restore, and what there is of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestoreSeen {
    /// That of the status, or the next one, read just now; none where it is gone.
    pub restore: Option<Restore>,
    /// The target that the TenantCluster names.
    pub target: Option<Arc<BackupTarget>>,
    /// Pods of the tenant namespace but those of machines, where one is under way.
    pub pods: Vec<Value>,
    /// Load balancers of the tenant namespace by name, where one is under way.
    pub balancers: BTreeMap<String, Balancer>,
    /// What came of the deletion of Leases of before in this reconcile; none where it was not tried.
    pub leases: Option<Result<(), String>>,
}

/// A Service of the tenant namespace that stands for one of the tenant cluster's.
#[derive(Clone, Debug, PartialEq)]
pub struct Balancer {
    /// Its UID.
    pub uid: String,
    /// Whether it is kept for the Restore that was looked for.
    pub mark: Mark,
    /// What is told of it where the tenant cluster does not know it.
    pub told: Orphan,
}

impl RestoreSeen {
    /// How many pods of each workload are there.
    #[must_use]
    pub fn workloads(&self) -> BTreeMap<Workload, u32> {
        let mut all = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| !is_over(pod)) {
            let workload = match component(pod) {
                names::ETCD => Workload::Etcd,
                BACKUP => Workload::Backup,
                // Of those that write to no etcd of the tenant cluster.
                names::ETCD_RESTORE | RESTORE_TEST | COMPONENT_WORKER => continue,
                // Whatever it is: it may write.
                _ => Workload::ControlPlane,
            };
            *all.entry(workload).or_default() += 1;
        }
        all
    }

    /// Pods of a Job.
    pub fn of_job(&self, job: &str) -> impl Iterator<Item = &Value> {
        self.pods.iter().filter(move |pod| {
            let labels = &pod["metadata"]["labels"];
            component(pod) == names::ETCD_RESTORE && labels["batch.kubernetes.io/job-name"] == job
        })
    }
}

fn component(pod: &Value) -> &str {
    let labels = &pod["metadata"]["labels"];
    labels[LABEL_COMPONENT].as_str().unwrap_or_default()
}

/// Nothing of it runs, or ever will.
fn is_over(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str();
    phase.is_some_and(|phase| ["Succeeded", "Failed"].contains(&phase))
}
