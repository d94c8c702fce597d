//! Reservations: address ranges that are decided but not yet in the status of a TenantCluster.
//!
//! Invariant: between a decision and the moment at which its status is read back, no other tenant
//! cluster is given the same addresses. Held by the process that decides, behind one lock; a new
//! leader starts with an empty one, because it lists all TenantClusters anew before it decides
//! anything. What its predecessor sent and came later still is found out: of two that have the same
//! addresses the younger is given others, as long as nothing was made for it.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;

use api::TenantCluster;
use api::tenant_cluster::NetworkStatus;
use ipnet::IpNet;
use kube::ResourceExt;

use crate::network::{claims, decide_ours};
use crate::problem::Problem;
use crate::settings::NetworkSettings;

/// What was decided for which UID and is not in a status yet.
#[derive(Clone, Debug, Default)]
pub struct Reservations {
    pending: BTreeMap<String, Pending>,
}

#[derive(Clone, Debug)]
struct Pending {
    decided: NetworkStatus,
    /// What the status says until then.
    before: Option<NetworkStatus>,
}

impl Pending {
    /// Whether the status of `tc` does not show it yet.
    fn is_of(&self, tc: &TenantCluster) -> bool {
        in_status(tc) == self.before.as_ref()
    }
}

impl Reservations {
    /// [`crate::network::decide`], remembered until the status of `tc` shows it. Asked again for the same UID, it
    /// answers the same. `all` must hold every TenantCluster; those that are gone from it are
    /// forgotten. `fresh`: nothing was made for `tc` yet, so it can be given other ranges than its
    /// status says where these are [`claims::contested`].
    ///
    /// # Errors
    /// Those of [`decide_ours`].
    pub fn decide<T: Borrow<TenantCluster>>(
        &mut self,
        tc: &TenantCluster,
        all: &[T],
        settings: &NetworkSettings,
        fresh: bool,
    ) -> Result<NetworkStatus, Problem> {
        self.decide_ours(tc, all, settings, fresh, &|_| true)
    }

    /// As [`Self::decide`]; of the pools' ranges such that are ours, so that no other process that decides at the same
    /// moment takes them.
    ///
    /// # Errors
    /// Those of [`decide_ours`].
    pub fn decide_ours<T: Borrow<TenantCluster>>(
        &mut self,
        tc: &TenantCluster,
        all: &[T],
        settings: &NetworkSettings,
        fresh: bool,
        is_ours: &dyn Fn(&IpNet) -> bool,
    ) -> Result<NetworkStatus, Problem> {
        let all: Vec<&TenantCluster> = all.iter().map(Borrow::borrow).collect();
        self.pending.retain(|uid, pending| {
            let found = all.iter().find(|other| other.uid().as_ref() == Some(uid));
            found.is_some_and(|other| pending.is_of(other))
        });
        let seen: Vec<Cow<'_, TenantCluster>> = all
            .into_iter()
            .map(|other| self.with_pending(other))
            .collect();
        let mut asks = self.with_pending(tc);
        if fresh && claims::contested(&asks, &seen).is_some() {
            asks.to_mut().status.get_or_insert_default().network = None;
        }
        let decided = decide_ours(asks.as_ref(), &seen, settings, is_ours)?;
        let before = in_status(tc);
        if let Some(uid) = tc.uid().filter(|_| before != Some(&decided)) {
            let pending = Pending {
                decided: decided.clone(),
                before: before.cloned(),
            };
            self.pending.insert(uid, pending);
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
            Some(pending) if pending.is_of(tc) => {
                let mut decided = tc.clone();
                decided.status.get_or_insert_default().network = Some(pending.decided.clone());
                Cow::Owned(decided)
            }
            _ => Cow::Borrowed(tc),
        }
    }
}

fn in_status(tc: &TenantCluster) -> Option<&NetworkStatus> {
    tc.status.as_ref()?.network.as_ref()
}
