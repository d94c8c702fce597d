//! What the status says of a backup.
//!
//! Invariant: what is not known stays as it was said; that there is none is said only once nothing is left of one.

use api::tenant_cluster::BackupStatus;
use api::{
    ConditionStatus, ConditionType, Reason, TenantClusterStatus, remove_condition, set_condition,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::backups::Said;
use crate::controllers::tenant_cluster::observed::Observed;

/// Says it.
pub(super) fn report(status: &mut TenantClusterStatus, observed: &Observed, now: Timestamp) {
    let is_told = |status: &TenantClusterStatus| {
        let mut all = status.conditions.iter();
        all.any(|c| c.type_ == ConditionType::BackupReady.as_str())
    };
    let is_wanted = observed.cluster.spec.backup.is_some();
    let generation = observed.cluster.metadata.generation;
    match (&observed.backup, is_wanted) {
        (Some(Said::Nothing), false) => {
            remove_condition(&mut status.conditions, ConditionType::BackupReady);
            status.backup = None;
        }
        (
            Some(Said::Is {
                value,
                reason,
                message,
                last_full,
                verified,
                restore_test,
            }),
            true,
        ) => {
            set_condition(
                &mut status.conditions,
                ConditionType::BackupReady,
                *value,
                *reason,
                message,
                generation,
                Time(now),
            );
            let before = status.backup.clone().unwrap_or_default();
            let text = |at: &Option<Timestamp>| at.map(|at| at.to_string());
            let after = BackupStatus {
                last_full: text(last_full).or(before.last_full),
                verified: text(verified).or(before.verified),
                restore_test: restore_test.clone().or(before.restore_test),
            };
            status.backup = Some(after).filter(|after| *after != BackupStatus::default());
        }
        (None | Some(Said::Nothing), true) if !is_told(status) => {
            let message = "it has not been looked at yet";
            set_condition(
                &mut status.conditions,
                ConditionType::BackupReady,
                ConditionStatus::Unknown,
                Reason::BackupStarting,
                message,
                generation,
                Time(now),
            );
        }
        (None | Some(_), _) => {}
    }
}
