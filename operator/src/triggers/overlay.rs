//! Triggers of TenantClusters by what their overlays are told of Machines and Hosts.
//!
//! Invariant: what an overlay is not told of wakes nobody.

use std::sync::PoisonError;

use api::machine::MachinePhase;
use api::{Host, Machine};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use tenant_cp::network::overlay;

use super::Triggers;
use crate::stores::Stores;

impl Triggers {
    /// What the overlay of its tenant cluster is to know of a Machine changed.
    pub(super) fn on_member(&self, stores: &Stores, machine: &Machine, there: bool) {
        let namespace = machine.namespace().unwrap_or_default();
        let key = ObjectRef::new(&machine.spec.cluster_name).within(&namespace);
        let cluster = stores.clusters.get(&key);
        let has_overlay = cluster.is_some_and(|c| overlay::range(&c.spec.addons).is_some());
        let status = machine.status.as_ref();
        let member = status.and_then(|status| status.overlay.as_ref());
        let is_failed = status.is_some_and(|s| s.phase == Some(MachinePhase::Failed));
        // Also of one that has no address: there may be none left.
        let is_told = there && (has_overlay || member.is_some());
        let told = is_told.then(|| format!("{is_failed} {member:?}"));
        if self.is_news(machine.uid(), told) {
            let _ = self.clusters.send(key);
        }
    }

    /// Where nodes of other sites reach a Host changed, or which Machine has it: the overlay that this is in.
    pub(super) fn on_endpoint(&self, stores: &Stores, host: &Host, there: bool) {
        let status = host.status.as_ref().filter(|_| there);
        let claim = status.and_then(|status| status.claim.as_ref());
        let endpoint = host.spec.overlay_endpoint.as_ref();
        let told = claim.zip(endpoint);
        let told = told.map(|(claim, endpoint)| format!("{} {endpoint}", claim.machine_uid));
        if !self.is_news(host.uid(), told) {
            return;
        }
        let namespace = host.namespace().unwrap_or_default();
        let claim = host.status.as_ref().and_then(|s| s.claim.as_ref());
        // With the claim its Machine goes, which is news of its own.
        let machine = claim.and_then(|claim| {
            let key = ObjectRef::new(&claim.machine_name).within(&namespace);
            stores.machines.get(&key)
        });
        if let Some(machine) = machine {
            let cluster = ObjectRef::new(&machine.spec.cluster_name).within(&namespace);
            let _ = self.clusters.send(cluster);
        }
    }

    /// Whether an overlay is to be told something else of this object than before.
    fn is_news(&self, uid: Option<String>, told: Option<String>) -> bool {
        let known = &self.members;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = uid.unwrap_or_default();
        let before = match told.clone() {
            Some(told) => known.insert(uid, told),
            None => known.remove(&uid),
        };
        before != told
    }
}
