//! What is said of load balancers that a tenant cluster, brought back, may not know. No I/O, no clock, no chance.
//!
//! Laws: one of which nobody has said whether it is known is told as neither; what was decided is said whatever is known.

use api::restore::{Orphan, Orphans};
use api::{ConditionStatus, ConditionType, Reason, Restore, TenantCluster};

use crate::restoring::Mark;
use crate::restoring::volumes::{NAMED, is_storage};

/// What is said.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// Of the condition `Orphans`.
    pub status: ConditionStatus,
    /// Of the condition.
    pub reason: Reason,
    /// Of the condition.
    pub message: String,
    /// Those that are known to be orphans, by name.
    pub orphans: Vec<Orphan>,
    /// Whether somebody is to say more of them.
    pub is_looked_for: bool,
}

/// Says it.
#[must_use]
pub fn said(restore: &Restore, cluster: &TenantCluster, balancers: &[(Mark, Orphan)]) -> Said {
    use ConditionStatus::{False, True, Unknown};
    let is = |wanted: Mark| balancers.iter().filter(move |(mark, _)| *mark == wanted);
    let orphans: Vec<_> = is(Mark::Orphan).map(|(_, told)| told.clone()).collect();
    let (found, unknown) = (orphans.len(), is(Mark::Unknown).count());
    let is_told_apart = cluster.spec.addons.cloud_controller.enabled;
    let (status, reason, message) = match restore.spec.orphans {
        Orphans::Delete => {
            let and = match is_told_apart {
                true => "",
                false => " and a cloud controller manager runs (spec.addons.cloudController)",
            };
            let message = format!(
                "load balancers that the tenant cluster does not know are deleted once this is confirmed{and}"
            );
            ((found > 0).into(), Reason::OrphansDeleted, message)
        }
        // Also what was answered while somebody could: nobody is waited for.
        Orphans::Keep | Orphans::Report if unknown + found > 0 && !is_told_apart => {
            let all = unknown + found;
            let message = format!(
                "all of {all} load balancers are kept, because no cloud controller manager runs \
                 (spec.addons.cloudController) that could say which of them the tenant cluster knows; this ends without it"
            );
            (Unknown, Reason::OrphansUnknown, message)
        }
        Orphans::Keep | Orphans::Report if unknown > 0 => {
            let message = format!(
                "it is not known of {unknown} load balancers whether the tenant cluster knows them; all are kept"
            );
            (Unknown, Reason::LookingForOrphans, message)
        }
        Orphans::Keep | Orphans::Report if found == 0 => (False, Reason::NoOrphans, String::new()),
        Orphans::Keep => {
            let message =
                format!("{found} load balancers that the tenant cluster does not know are kept");
            (True, Reason::OrphansKept, message)
        }
        Orphans::Report => {
            let message = format!(
                "{found} load balancers that the tenant cluster does not know are kept until spec.orphans is Keep or Delete"
            );
            (True, Reason::OrphansFound, message)
        }
    };
    Said {
        status,
        reason,
        message,
        orphans: orphans.into_iter().take(NAMED).collect(),
        is_looked_for: reason == Reason::LookingForOrphans,
    }
}

/// Whether it was said for good what became of them.
#[must_use]
pub fn is_said(restore: &Restore) -> bool {
    let Some(status) = &restore.status else {
        return false;
    };
    let mut conditions = status.conditions.iter();
    let said = conditions.find(|c| c.type_ == ConditionType::Orphans.as_str());
    let wait = [Reason::LookingForOrphans, Reason::OrphansFound];
    let mut balancers = status.orphans.iter().filter(|told| !is_storage(told));
    let is_gone = restore.spec.orphans != Orphans::Delete || balancers.next().is_none();
    is_gone && said.is_some_and(|said| wait.iter().all(|reason| said.reason != *reason))
}

/// Whether people have to decide before it ends.
#[must_use]
pub fn are_undecided(
    restore: &Restore,
    cluster: &TenantCluster,
    balancers: Option<&[(Mark, Orphan)]>,
) -> bool {
    let balancers = balancers.unwrap_or_default();
    said(restore, cluster, balancers).reason == Reason::OrphansFound
}
