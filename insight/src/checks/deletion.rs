//! What is deleted and does not go: which finalizers hold it, and who takes each off.
//!
//! Invariant: how long a deletion has lasted is said by the object alone.

use api::names::{
    FINALIZER, FINALIZER_HOST, FINALIZER_LOAD_BALANCER, FINALIZER_MACHINE, FINALIZER_NODE_POOL,
};
use jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt as _};

use crate::check::Check;
use crate::facts::Facts;
use crate::finding::{Finding, Level, Scope, Subject};

/// How long a deletion may take.
const LONG: SignedDuration = SignedDuration::from_mins(5);

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    let now = facts.now;
    for cluster in facts.clusters.as_ref().there().into_iter().flatten() {
        found.extend(one(
            cluster,
            "TenantCluster",
            &cluster.name_any(),
            None,
            now,
        ));
    }
    for pool in facts.pools.as_ref().there().into_iter().flatten() {
        let cluster = &pool.spec.cluster_name;
        found.extend(one(pool, "NodePool", cluster, Some(pool.name_any()), now));
    }
    for machine in facts.machines.as_ref().there().into_iter().flatten() {
        let (cluster, pool) = (&machine.spec.cluster_name, &machine.spec.pool_name);
        found.extend(one(machine, "Machine", cluster, Some(pool.clone()), now));
    }
    for host in facts.hosts.as_ref().there().into_iter().flatten() {
        found.extend(one(host, "Host", "", None, now));
    }
    found
}

fn one<K: Resource>(
    object: &K,
    kind: &str,
    cluster: &str,
    pool: Option<String>,
    now: Timestamp,
) -> Option<Finding> {
    let since = object.meta().deletion_timestamp.as_ref()?.0;
    if now.duration_since(since) <= LONG {
        return None;
    }
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let held = object
        .finalizers()
        .iter()
        .map(|finalizer| format!("{finalizer} ({})", who(finalizer)));
    let held = held.collect::<Vec<_>>().join(", ");
    let cause = match held.is_empty() {
        true => format!("it has been going since {since}"),
        false => format!("it has been going since {since}, held by {held}"),
    };
    let resource = kind.to_lowercase();
    let mend = format!(
        "`kubectl -n {namespace} describe {resource} {name}`: its conditions say what is waited for"
    );
    let scope = Scope {
        cluster: Some((namespace.clone(), cluster.to_owned())),
        pool,
    };
    let subject = Subject::new(kind, &namespace, &name);
    let mut finding =
        Finding::new(Check::Deleting, Level::Warning, subject, &cause, &mend).within(&scope);
    finding.since = Some(since);
    Some(finding)
}

/// Who takes a finalizer off.
fn who(finalizer: &str) -> &'static str {
    match finalizer {
        FINALIZER => "the operator, once the tenant namespace is gone",
        FINALIZER_NODE_POOL => "the operator, once the pool has no machine",
        FINALIZER_MACHINE => "the operator, once the machine is gone for certain",
        FINALIZER_HOST => "the operator, once no Machine has the host",
        FINALIZER_LOAD_BALANCER => "the cloud controller manager",
        "foregroundDeletion" => "the garbage collector",
        _ => "not Covey",
    }
}
