//! Reservations: address ranges that are decided but not yet in the status of a TenantCluster.
//!
//! Invariant: between a decision and the moment at which its status is read back, no other tenant
//! cluster is given the same addresses. Held by the process that decides, behind one lock; a new
//! leader starts with an empty one, because it begins with a fresh list.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;

use api::TenantCluster;
use api::tenant_cluster::NetworkStatus;
use kube::ResourceExt;

use crate::network::{claims, decide};
use crate::problem::Problem;
use crate::settings::NetworkSettings;

/// What was decided for which UID and is not in a status yet.
#[derive(Clone, Debug, Default)]
pub struct Reservations {
    pending: BTreeMap<String, NetworkStatus>,
}

impl Reservations {
    /// [`decide`], remembered until the status of `tc` shows it. Asked again for the same UID, it
    /// answers the same. `all` must hold every TenantCluster; those that are gone from it are
    /// forgotten.
    ///
    /// # Errors
    /// Those of [`decide`].
    pub fn decide<T: Borrow<TenantCluster>>(
        &mut self,
        tc: &TenantCluster,
        all: &[T],
        settings: &NetworkSettings,
    ) -> Result<NetworkStatus, Problem> {
        let all: Vec<&TenantCluster> = all.iter().map(Borrow::borrow).collect();
        self.pending.retain(|uid, _| {
            let found = all.iter().find(|other| other.uid().as_ref() == Some(uid));
            found.is_some_and(|other| !claims::in_force(other))
        });
        let seen: Vec<Cow<'_, TenantCluster>> = all
            .into_iter()
            .map(|other| self.with_pending(other))
            .collect();
        let decided = decide(self.with_pending(tc).as_ref(), &seen, settings)?;
        if let Some(uid) = tc.uid().filter(|_| !claims::in_force(tc)) {
            self.pending.insert(uid, decided.clone());
        }
        Ok(decided)
    }

    /// `tc` as it will look once the decision is in its status.
    fn with_pending<'a>(&self, tc: &'a TenantCluster) -> Cow<'a, TenantCluster> {
        let pending = tc
            .metadata
            .uid
            .as_ref()
            .and_then(|uid| self.pending.get(uid));
        match pending {
            Some(network) if !claims::in_force(tc) => {
                let mut decided = tc.clone();
                decided.status.get_or_insert_default().network = Some(network.clone());
                Cow::Owned(decided)
            }
            _ => Cow::Borrowed(tc),
        }
    }
}
