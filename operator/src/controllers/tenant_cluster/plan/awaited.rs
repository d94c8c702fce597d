//! A tenant cluster that begins with what a Restore brings, as long as nothing was brought.
//!
//! Invariant: it says the same each time.

use api::Reason;
use kube::ResourceExt as _;

use crate::controllers::tenant_cluster::observed::Observed;
use crate::status::Waiting;

/// What is said of etcd while nothing of it may start.
pub(super) fn waiting(observed: &Observed) -> Waiting {
    Waiting {
        reason: Reason::RestoreWaiting,
        message: format!(
            "etcd begins with what a Restore brings (spec.etcd.bootstrap): nothing starts before one with clusterName: {} \
             and from.clusterUID has brought it",
            observed.cluster.name_any()
        ),
    }
}
