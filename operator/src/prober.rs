//! Asks each tenant cluster's API for one object, again and again, so that its availability is known: every other
//! request of the operator's has a reason of its own, and would count what somebody happened to ask for.
//!
//! One that sleeps is not asked, for that would wake it, and neither is one that never answered.
//!
//! Invariant: it reads, never writes, waits for no reconcile and decides nothing. One request at a time per tenant
//! cluster, on one connection that is kept, without a second try; each ends within [`TIMEOUT`].

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use api::TenantCluster;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, ResourceExt as _};
use tenant_cp::names;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use self::counts::Counts;
use self::outcome::Outcome;
use crate::context::Context;
use crate::hibernation;
use crate::tenant_session::session::Session;

pub mod counts;
pub mod outcome;

/// How long one request may take.
pub const TIMEOUT: Duration = Duration::from_secs(2);
/// No interval is shorter: all requests of a round have to end within it.
pub const SHORTEST: Duration = Duration::from_secs(4);
/// Where the object is that is asked for.
const NAMESPACE: &str = "kube-system";

/// One that is asked.
struct Target {
    session: Session,
    client: Client,
}

/// Asks those whose work is this replica's, each once in an interval, as long as this replica leads. With an interval of
/// zero nobody is asked. Ends never.
pub async fn run(context: Arc<Context>, counts: Counts, interval: Duration) {
    if interval.is_zero() {
        return std::future::pending().await;
    }
    let interval = interval.max(SHORTEST);
    let mut targets = HashMap::new();
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        renew(&context, &mut targets);
        counts.retain(|tenant| targets.contains_key(tenant));
        let mut round = JoinSet::new();
        for (tenant, target) in &targets {
            let pause = offset(tenant, interval.saturating_sub(TIMEOUT));
            let (tenant, client, counts) = (tenant.clone(), target.client.clone(), counts.clone());
            round.spawn(async move {
                // Not all at once: that is the jitter.
                tokio::time::sleep(pause).await;
                let begun = Instant::now();
                let outcome = ask(&client).await;
                counts.count(&tenant, outcome, begun.elapsed());
            });
        }
        // A panic ends one request, which is then not counted.
        while round.join_next().await.is_some() {}
    }
}

/// Brings those that are asked up to date, by their tenant namespaces.
fn renew(context: &Context, targets: &mut HashMap<String, Target>) {
    let mut present = HashMap::new();
    if context.leadership.is_leader() {
        for cluster in context.stores.clusters.state() {
            let owned = context
                .shards
                .owns(&cluster.namespace().unwrap_or_default());
            if !owned || !is_asked(&cluster) {
                continue;
            }
            let uid = cluster.identity_uid();
            let known = context.tenants.session(uid);
            // Of one that was silent when this process began, the other probes alone know how it is reached.
            if let Some(session) = known.or_else(|| context.recovery_probes.session(uid)) {
                present.insert(cluster.tenant_namespace(), session);
            }
        }
    }
    targets.retain(|tenant, target| present.get(tenant) == Some(&target.session));
    for (tenant, session) in present {
        if targets.contains_key(&tenant) {
            continue;
        }
        match session.client_without_budget(TIMEOUT) {
            Ok(client) => {
                targets.insert(tenant, Target { session, client });
            }
            // The reconcile tells of it: it is made from the same.
            Err(error) => tracing::debug!(tenant, %error, "a tenant cluster cannot be probed"),
        }
    }
}

/// Whether one is asked: it answered once, and nobody wants it to be left alone.
fn is_asked(cluster: &TenantCluster) -> bool {
    let status = cluster.status.as_ref();
    let was_ready = status.is_some_and(|status| status.bootstrap_hash.is_some());
    was_ready
        && cluster.metadata.deletion_timestamp.is_none()
        && !hibernation::holds_machines(cluster)
}

/// When in an interval a tenant cluster is asked: always at the same time, and all of them spread over it.
fn offset(tenant: &str, within: Duration) -> Duration {
    let mut hasher = DefaultHasher::new();
    tenant.hash(&mut hasher);
    let millis = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(hasher.finish() % millis.max(1))
}

/// Reads one object by its name, which a quorum of etcd answers. That there is none is an answer.
async fn ask(client: &Client) -> Outcome {
    let leases = Api::<Lease>::namespaced(client.clone(), NAMESPACE);
    match tokio::time::timeout(TIMEOUT, leases.get_opt(names::OPERATOR_LEASE)).await {
        Ok(Ok(_)) => Outcome::Ok,
        Ok(Err(error)) => Outcome::of(&error),
        Err(_) => Outcome::Timeout,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(status: &serde_json::Value) -> TenantCluster {
        let cluster = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": { "name": "demo", "namespace": "users", "uid": "0a1b2c3d-1111" },
            "spec": { "version": "1.35.4" }, "status": status,
        });
        serde_json::from_value(cluster).unwrap()
    }

    #[test]
    fn who_never_answered_or_sleeps_or_goes_is_not_asked() {
        assert!(!is_asked(&cluster(&json!({}))));
        let mut ready = cluster(&json!({ "bootstrapHash": "x" }));
        assert!(is_asked(&ready));
        let asleep = json!({
            "bootstrapHash": "x",
            "hibernation": { "phase": "Asleep", "since": "2027-01-31T12:00:00Z", "drained": true },
        });
        assert!(!is_asked(&cluster(&asleep)));
        let going = json!("2027-01-31T12:00:00Z");
        ready.metadata.deletion_timestamp = serde_json::from_value(going).unwrap();
        assert!(!is_asked(&ready));
    }

    #[test]
    fn all_are_asked_within_the_interval_and_not_at_once() {
        let within = Duration::from_secs(8);
        let offsets = (0..100).map(|n| offset(&format!("covey-demo-{n}"), within));
        let mut offsets: Vec<_> = offsets.collect();
        assert!(offsets.iter().all(|offset| *offset < within));
        assert_eq!(offset("a", within), offset("a", within));
        assert_eq!(offset("a", Duration::ZERO), Duration::ZERO);
        offsets.sort();
        offsets.dedup();
        assert!(offsets.len() > 80, "{}", offsets.len());
    }
}
