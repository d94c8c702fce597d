//! Grants: what the leader lets TenantClusters and NodePools take.
//!
//! Admission decides on what a replica has seen, so two that are created together may both get in.
//! Whoever is about to start or grow asks here, one after another, and the second is refused.
//! Invariant: a grant is given only within every quota of the namespace, and never taken back but by
//! its owner, who asks for less. Held by the process that leads, behind one lock; a new leader begins
//! with what statuses say, in a list that it makes first.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use api::{ConditionType, NodePool, TenantCluster, TenantQuota};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

use super::admit::sum;
use super::exceeded::{REASON, bounds, exceeded};
use super::takes;
use crate::amounts::Amounts;
use crate::problem::Problem;
use crate::settings::Settings;

/// What a TenantCluster or NodePool asks for.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its UID.
    pub uid: String,
    /// The user's namespace.
    pub namespace: String,
    generation: i64,
    takes: Amounts,
    seen: Seen,
}

/// What its status says of former grants.
#[derive(Clone, Debug)]
enum Seen {
    /// Nothing was let in.
    Nothing,
    /// It was let in as it is.
    LetIn,
    /// It was refused to grow, and has so much.
    Refused(Amounts),
}

impl Claim {
    /// Of a TenantCluster.
    #[must_use]
    pub fn of_cluster(tc: &TenantCluster, settings: &Settings) -> Self {
        let takes = takes::cluster(tc, settings);
        let status = tc.status.as_ref();
        let has_network = status.is_some_and(|status| status.network.is_some());
        let refused = status.is_some_and(|status| is_refused(&status.conditions));
        Self {
            uid: tc.uid().unwrap_or_default(),
            namespace: tc.namespace().unwrap_or_default(),
            generation: tc.metadata.generation.unwrap_or_default(),
            takes,
            seen: match (has_network, refused) {
                // Nothing is made before there is an address range.
                (false, _) => Seen::Nothing,
                (true, false) => Seen::LetIn,
                // How much it has is not known; it is not more than it asks for.
                (true, true) => Seen::Refused(takes),
            },
        }
    }

    /// Of a NodePool.
    #[must_use]
    pub fn of_pool(pool: &NodePool) -> Self {
        let status = pool.status.as_ref();
        let looked_at = status.is_some_and(|status| status.observed_generation.is_some());
        let refused = status.is_some_and(|status| is_refused(&status.conditions));
        let there = status.map_or(0, |status| status.replicas);
        Self {
            uid: pool.uid().unwrap_or_default(),
            namespace: pool.namespace().unwrap_or_default(),
            generation: pool.metadata.generation.unwrap_or_default(),
            takes: takes::pool(pool),
            seen: match (looked_at, refused) {
                (false, _) => Seen::Nothing,
                (true, false) => Seen::LetIn,
                (true, true) => Seen::Refused(takes::machines(pool, there)),
            },
        }
    }
}

fn is_refused(conditions: &[Condition]) -> bool {
    let degraded = ConditionType::Degraded.as_str();
    let mut found = conditions.iter();
    found.any(|c| c.type_ == degraded && c.status == "True" && c.reason == REASON)
}

#[derive(Clone, Debug)]
struct Grant {
    generation: i64,
    amounts: Amounts,
    /// It was refused by a leader before this one: it has to ask for all of it.
    contested: bool,
}

/// What was granted, by UID, and who was refused.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    granted: BTreeMap<String, Grant>,
    refused: BTreeSet<String>,
}

/// What somebody who asks is told.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    /// What speaks against it; empty where it was granted.
    pub problems: Vec<Problem>,
    /// Whether what is used has changed by it.
    pub changed: bool,
}

impl Grants {
    /// Grants what `asker` asks for, or says why not. `all` are the claims of all namespaces that one
    /// of `quotas` bounds together with the asker's, the asker's own as it was last seen among them or
    /// not.
    pub fn ask<Q: Borrow<TenantQuota>>(
        &mut self,
        asker: &Claim,
        all: &[Claim],
        quotas: &[Q],
    ) -> Answer {
        self.take_in(all);
        self.take_in(std::slice::from_ref(asker));
        let problems = self.problems(asker, all, quotas);
        if !problems.is_empty() {
            self.refused.insert(asker.uid.clone());
            let changed = false;
            return Answer { problems, changed };
        }
        let granted = self.granted.get(&asker.uid);
        let changed = granted.is_none_or(|grant| grant.amounts != asker.takes);
        self.refused.remove(&asker.uid);
        let grant = Grant {
            generation: asker.generation,
            amounts: asker.takes,
            contested: false,
        };
        self.granted.insert(asker.uid.clone(), grant);
        Answer { problems, changed }
    }

    /// What would speak against it if `asker` asked now.
    #[must_use]
    pub fn problems<Q: Borrow<TenantQuota>>(
        &self,
        asker: &Claim,
        all: &[Claim],
        quotas: &[Q],
    ) -> Vec<Problem> {
        let before = match self.granted.get(&asker.uid) {
            Some(grant) if !grant.contested => grant.amounts,
            _ => Amounts::default(),
        };
        let bounding = quotas
            .iter()
            .map(|quota| -> &TenantQuota { quota.borrow() });
        bounding
            .filter(|quota| bounds(quota, &asker.namespace))
            .flat_map(|quota| {
                let others = all
                    .iter()
                    .filter(|other| other.uid != asker.uid && bounds(quota, &other.namespace));
                let others = sum(others.map(|other| self.amounts(&other.uid)));
                exceeded(quota, &others, &before, &asker.takes)
            })
            .collect()
    }

    /// What the namespaces of a quota were granted together.
    pub fn used(&mut self, quota: &TenantQuota, all: &[Claim]) -> Amounts {
        self.take_in(all);
        let bounded = all.iter().filter(|c| bounds(quota, &c.namespace));
        sum(bounded.map(|claim| self.amounts(&claim.uid)))
    }

    /// Whether somebody was refused and did not get it since.
    #[must_use]
    pub fn is_refused(&self, uid: &str) -> bool {
        self.refused.contains(uid)
    }

    /// Forgets one that is gone.
    pub fn forget(&mut self, uid: &str) {
        self.granted.remove(uid);
        self.refused.remove(uid);
    }

    fn amounts(&self, uid: &str) -> Amounts {
        let granted = self.granted.get(uid);
        granted.map(|grant| grant.amounts).unwrap_or_default()
    }

    /// What statuses say of those that nobody asked for yet; and who asks for less gives the rest back,
    /// so that it has to ask again before it takes it again.
    fn take_in(&mut self, all: &[Claim]) {
        for claim in all {
            if let Some(grant) = self.granted.get_mut(&claim.uid) {
                // What was seen before the grant says nothing of it.
                if claim.generation > grant.generation {
                    grant.amounts = grant.amounts.least(&claim.takes);
                }
                continue;
            }
            let (amounts, contested) = match claim.seen {
                Seen::Nothing => continue,
                Seen::LetIn => (claim.takes, false),
                Seen::Refused(amounts) => (amounts, true),
            };
            let grant = Grant {
                generation: claim.generation,
                amounts,
                contested,
            };
            self.granted.insert(claim.uid.clone(), grant);
        }
    }
}
