//! What of a plan is written into the TenantCluster itself, or onto its namespace.

use api::names::LABEL_TAKEN_OVER_BY;
use api::tenant_cluster::TenantIdentity;
use kit_objects::object::Key;
use serde_json::json;

use super::{NS, World};
use crate::controllers::stored::stored;
use crate::controllers::tenant_cluster::plan::Action;
use crate::standby::fit;

impl World {
    pub(in super::super) fn own(&mut self, action: &Action) {
        match action {
            Action::AddFinalizer => {
                self.cluster.metadata.finalizers = Some(vec![api::names::FINALIZER.into()]);
            }
            Action::RemoveFinalizer => self.cluster.metadata.finalizers = None,
            Action::KeepEtcd(etcd) => {
                self.cluster.status.get_or_insert_default().etcd = Some(etcd.clone());
            }
            Action::KeepRollout(rollout) => {
                self.cluster.status.get_or_insert_default().rollout =
                    Some(rollout.as_ref().clone());
            }
            Action::KeepHibernation { told, .. } => {
                self.cluster.status.get_or_insert_default().hibernation = told.clone();
                self.sleep.look.0 = None;
            }
            Action::KeepRestore { restore, etcd } => {
                let status = self.cluster.status.get_or_insert_default();
                status.restore = restore.as_deref().cloned();
                status.etcd = etcd.clone().or(status.etcd.take());
            }
            Action::KeepNetwork(ranges) => {
                self.cluster.status.get_or_insert_default().network = Some(ranges.clone());
            }
            Action::TakeOver(of) => {
                let (identity, status) = self.standby.clone().unwrap();
                assert_eq!(of, std::slice::from_ref(&identity));
                self.label(LABEL_TAKEN_OVER_BY);
                self.cluster.status = Some(fit::inherited(status, identity));
            }
            Action::Retire => self.label(LABEL_TAKEN_OVER_BY),
            _ => {}
        }
        self.cluster = stored(&self.cluster);
    }

    /// Writes onto the tenant namespace whose it is.
    fn label(&mut self, label: &str) {
        let namespace = self.objects.get_mut(&Key::new("Namespace", "", NS));
        namespace.unwrap()["metadata"]["labels"][label] = json!(self.cluster.metadata.uid);
    }

    /// What may be taken over.
    pub(super) fn see_standby(&self) -> Vec<TenantIdentity> {
        let waits = self.standby.as_ref();
        let waits = waits.filter(|_| fit::is_unmade(self.cluster.status.as_ref()));
        waits
            .map(|(identity, _)| identity.clone())
            .into_iter()
            .collect()
    }

    pub(in super::super) fn spend(&mut self, budget: &mut usize) -> bool {
        if *budget == 0 {
            return false;
        }
        *budget -= 1;
        self.writes += 1;
        true
    }
}
