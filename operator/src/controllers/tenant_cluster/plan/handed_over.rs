//! A control plane that waited, and that another TenantCluster took over; and one that goes before anybody did.
//!
//! Invariant: nothing of a tenant namespace is touched for a TenantCluster whose identity another one bears, or may bear;
//! one that is to go makes sure first that nobody can take it over any more.

use std::time::Duration;

use kit_objects::known::Known;
use tenant_cp::Settings;

use super::types::{Action, Plan};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::standby::fit::is_standby;
use crate::standby::takeover::Taker;

/// Until the other one has written down what it bears.
const SOON: Duration = Duration::from_secs(2);

/// What is done in place of everything else; none of one that is nobody else's.
pub(super) fn plan(observed: &Observed, settings: &Settings) -> Option<Plan> {
    let is_going = observed.cluster.metadata.deletion_timestamp.is_some();
    let unchanged = Plan::unchanged(observed);
    match observed.taker {
        Some(Taker::Bears) if is_going => Some(Plan::own(observed, Action::RemoveFinalizer)),
        // It goes like any other, with what is in its namespace.
        Some(Taker::Gone) if is_going => None,
        Some(Taker::Bears | Taker::Gone) => Some(unchanged),
        Some(Taker::May) => Some(Plan {
            requeue_after: Some(SOON),
            ..unchanged
        }),
        None if is_going && is_standby(&observed.cluster, settings) => {
            let namespace = observed.tenant_namespace();
            let live = observed.find("Namespace", "", &namespace);
            let is_open = match live {
                Known::Known(live) => {
                    let meta = &live["metadata"];
                    meta["labels"][api::names::LABEL_TAKEN_OVER_BY].is_null()
                        && meta["deletionTimestamp"].is_null()
                }
                // The deletion decides what that means.
                Known::Absent | Known::Unknown { .. } => false,
            };
            is_open.then(|| Plan::own(observed, Action::Retire))
        }
        None => None,
    }
}
