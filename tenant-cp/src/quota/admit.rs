//! Admission by quotas: whether a TenantCluster or NodePool may be created, or changed this way.
//!
//! Invariant: all that is stored counts, also what waits or is being deleted; the object itself counts
//! as it was before.

use std::borrow::Borrow;

use api::{NodePool, TenantCluster, TenantQuota};
use kube::ResourceExt;

use super::exceeded::{bounds, exceeded};
use super::takes;
use crate::amounts::Amounts;
use crate::problem::Problem;
use crate::settings::Settings;

/// All that quotas are compared with, as last seen.
pub struct Seen<'a, C, P, Q> {
    /// All TenantClusters.
    pub clusters: &'a [C],
    /// All NodePools.
    pub pools: &'a [P],
    /// All TenantQuotas.
    pub quotas: &'a [Q],
}

impl<C, P, Q> Seen<'_, C, P, Q>
where
    C: Borrow<TenantCluster>,
    P: Borrow<NodePool>,
    Q: Borrow<TenantQuota>,
{
    /// What of quotas speaks against creating this TenantCluster, or against changing `old` into it.
    #[must_use]
    pub fn admit_cluster(
        &self,
        old: Option<&TenantCluster>,
        new: &TenantCluster,
        settings: &Settings,
    ) -> Vec<Problem> {
        let before = old.map(|old| takes::cluster(old, settings));
        let after = takes::cluster(new, settings);
        let namespace = new.namespace().unwrap_or_default();
        self.compare(&namespace, before, &after, |quota| {
            let others = self
                .clusters_of(quota)
                .filter(|other| !is_same(*other, new));
            let others = sum(others.map(|other| takes::cluster(other, settings)));
            others.plus(&sum(self.pools_of(quota).map(takes::pool)))
        })
    }

    /// The same of a NodePool.
    #[must_use]
    pub fn admit_pool(
        &self,
        old: Option<&NodePool>,
        new: &NodePool,
        settings: &Settings,
    ) -> Vec<Problem> {
        let (before, after) = (old.map(takes::pool), takes::pool(new));
        let namespace = new.namespace().unwrap_or_default();
        self.compare(&namespace, before, &after, |quota| {
            let others = self.pools_of(quota).filter(|other| !is_same(*other, new));
            let clusters = self.clusters_of(quota);
            let clusters = clusters.map(|cluster| takes::cluster(cluster, settings));
            sum(others.map(takes::pool)).plus(&sum(clusters))
        })
    }

    fn compare(
        &self,
        namespace: &str,
        before: Option<Amounts>,
        after: &Amounts,
        others: impl Fn(&TenantQuota) -> Amounts,
    ) -> Vec<Problem> {
        let before = before.unwrap_or_default();
        let quotas = self.quotas.iter();
        let quotas = quotas.map(|quota| -> &TenantQuota { quota.borrow() });
        quotas
            .filter(|quota| bounds(quota, namespace))
            .flat_map(|quota| exceeded(quota, &others(quota), &before, after))
            .collect()
    }

    fn clusters_of<'a>(
        &'a self,
        quota: &'a TenantQuota,
    ) -> impl Iterator<Item = &'a TenantCluster> {
        let all = self.clusters.iter();
        let all = all.map(|tc| -> &TenantCluster { tc.borrow() });
        all.filter(|tc| bounds(quota, &tc.namespace().unwrap_or_default()))
    }

    fn pools_of<'a>(&'a self, quota: &'a TenantQuota) -> impl Iterator<Item = &'a NodePool> {
        let all = self.pools.iter();
        let all = all.map(|pool| -> &NodePool { pool.borrow() });
        all.filter(|pool| bounds(quota, &pool.namespace().unwrap_or_default()))
    }
}

/// By name: one that is being created has no UID yet.
fn is_same<K: ResourceExt>(one: &K, other: &K) -> bool {
    one.namespace() == other.namespace() && one.name_any() == other.name_any()
}

pub(super) fn sum(all: impl Iterator<Item = Amounts>) -> Amounts {
    all.fold(Amounts::default(), |sum, one| sum.plus(&one))
}
