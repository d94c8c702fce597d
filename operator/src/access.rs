//! What of AccessGrants and of their tenant clusters has to do with each other.
//!
//! Invariant: pure. When a grant ends follows from when it was made or deleted and from its spec alone, so nothing that is
//! forgotten or computed again makes it longer.

use api::access_grant::{LEAST_SECONDS, MOST_SECONDS};
use api::condition::is_true;
use api::tenant_cluster::{HibernationPhase, RotationPhase};
use api::{AccessGrant, ConditionType, TenantCluster};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use crate::rotation::kubelets::CLUSTER;

/// What `status.rotation` calls the authority of people.
const USERS: &str = "usersCA";
/// What it calls that of machinery.
const CLIENTS: &str = "clientCA";
/// By how much the clocks may differ of the API server that stamps a deletion and of the operator that signs.
const CLOCKS: SignedDuration = SignedDuration::from_mins(5);

/// When a grant ends; one that was never stored has ended. That of a program goes on until it is deleted, and a certificate
/// that was signed before that has ended by then.
#[must_use]
pub fn end(grant: &AccessGrant) -> Timestamp {
    let metadata = &grant.metadata;
    let begin = match grant.spec.secret_name {
        None => metadata.creation_timestamp.as_ref(),
        Some(_) => match metadata.deletion_timestamp.as_ref() {
            None => return Timestamp::MAX,
            deleted => deleted,
        },
    };
    let begin = begin.map_or(Timestamp::UNIX_EPOCH, |begin| begin.0);
    let seconds = grant.spec.ttl_seconds.min(MOST_SECONDS);
    let life = SignedDuration::from_secs(i64::from(seconds));
    let life = match grant.spec.secret_name {
        None => life,
        Some(_) => life.saturating_add(CLOCKS),
    };
    begin.checked_add(life).unwrap_or(begin)
}

/// Until when somebody may have something that opens the tenant cluster, as long as the grant's binding is there. A token lasts
/// ten minutes at least, so one that was made shortly before the end lasts longer than the grant.
#[must_use]
pub fn held_until(grant: &AccessGrant) -> Timestamp {
    let end = end(grant);
    if grant.spec.token_key.is_none() {
        return end;
    }
    let longer = SignedDuration::from_secs(i64::from(LEAST_SECONDS)).saturating_add(CLOCKS);
    end.checked_add(longer).unwrap_or(end)
}

/// The generation of the authority of people that signs.
#[must_use]
pub fn users_generation(cluster: &TenantCluster) -> u32 {
    signs(cluster, USERS)
}

/// The generation of the authority of machinery that signs.
#[must_use]
pub fn clients_generation(cluster: &TenantCluster) -> u32 {
    signs(cluster, CLIENTS)
}

fn signs(cluster: &TenantCluster, name: &str) -> u32 {
    let status = cluster.status.iter();
    let mut told = status.flat_map(|status| &status.rotation);
    let told = told.find(|told| told.name == name);
    told.map_or(1, |told| told.signs.max(1))
}

/// Whether a tenant cluster sleeps, falls asleep or wakes: it is left alone.
#[must_use]
pub fn is_asleep(cluster: &TenantCluster) -> bool {
    let status = cluster.status.as_ref();
    let sleep = status.and_then(|status| status.hibernation.as_ref());
    sleep.is_some_and(|sleep| sleep.phase != HibernationPhase::Awake)
}

/// Whether another generation is brought to whoever believes the kube-apiserver: kubeconfigs of grants have it, too.
fn is_trust_changing(cluster: &TenantCluster) -> bool {
    let status = cluster.status.iter();
    let mut told = status.flat_map(|status| &status.rotation);
    told.any(|told| told.name == CLUSTER && told.phase != RotationPhase::Idle)
}

/// Whether a grant is of the tenant cluster of this name.
#[must_use]
pub fn is_of(grant: &AccessGrant, cluster: &TenantCluster) -> bool {
    grant.spec.cluster_name == cluster.name_any() && grant.namespace() == cluster.namespace()
}

/// Whether a change of its tenant cluster may change anything about a grant: not while it is granted by the authority that
/// signs.
#[must_use]
pub fn is_concerned(grant: &AccessGrant, cluster: &TenantCluster) -> bool {
    let Some(status) = &grant.status else {
        return true;
    };
    let is_settled = grant.metadata.deletion_timestamp.is_none()
        && is_true(&status.conditions, ConditionType::Ready)
        && status.authority == Some(users_generation(cluster))
        && !is_trust_changing(cluster)
        && status.cluster_uid == cluster.uid()
        && cluster.metadata.deletion_timestamp.is_none();
    !is_settled
}
