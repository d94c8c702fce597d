//! Until when each member is known to have etcd's log, to which its start gate holds its volume
//! (docs/adr/0020-volumes-set-back.md).
//!
//! Invariant: it is what the member itself said of what was in its database, never what others have: one that is behind is
//! none that was set back. Nothing is noted at rest.

use api::tenant_cluster::EtcdMemberStatus;
use kit_objects::known::Known;

use super::facts::pod;
use super::identity::accepted;
use crate::controllers::tenant_cluster::observed::Observed;

/// Entries after which it is noted of a member that serves, too: three hours of an idle tenant cluster, in which leases are
/// renewed twice a second. Where operator and member end at once, so much may be missed.
const STEP: i64 = 20_000;

/// What is to be noted of a member of this etcd cluster; `may_run`: nobody wants it to have no pod.
pub(super) fn of(
    observed: &Observed,
    member: &EtcdMemberStatus,
    cluster_id: Option<&str>,
    may_run: bool,
) -> Option<i64> {
    let is_its_own =
        |cluster: &str, id: &str| cluster_id == Some(cluster) && member.id.as_deref() == Some(id);
    let mut answers = observed.etcd.answers();
    let answer = answers.find(|(name, _)| *name == member.name);
    let answer = answer.map(|(_, answer)| answer);
    let answer = answer.filter(|answer| is_its_own(&answer.cluster_id, &answer.member_id));
    let before = observed.etcd_said.get(&member.name);
    let before = before.filter(|said| is_its_own(&said.cluster_id, &said.member_id));
    let said = answer.map(|answer| answer.applied);
    let Some(said) = said.or_else(|| before.map(|said| said.applied)) else {
        return member.last_index;
    };
    // One that answers goes on, and would be noted again and again.
    let is_up = answer.is_some()
        || match pod(observed, &member.name) {
            Known::Known(pod) => pod.ready && !pod.terminating,
            Known::Absent => false,
            Known::Unknown { .. } => may_run,
        };
    let said = i64::try_from(said).unwrap_or(i64::MAX);
    noted(member.last_index, said, accepted(&observed.cluster), is_up)
}

fn noted(before: Option<i64>, said: i64, accepted: i64, is_up: bool) -> Option<i64> {
    let had = before.unwrap_or(0);
    let is_due = match is_up {
        true => said >= had.saturating_add(STEP) || (said < had && had <= accepted),
        // What people accept is not noted again by what was said before it was set back.
        false => said > had.max(accepted),
    };
    match is_due {
        true => Some(said),
        false => before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_that_serves_is_noted_seldom_and_one_that_does_not_at_once() {
        assert_eq!(noted(None, 19_999, 0, true), None);
        assert_eq!(noted(None, 20_000, 0, true), Some(20_000));
        assert_eq!(noted(Some(20_000), 39_999, 0, true), Some(20_000));
        assert_eq!(noted(Some(20_000), 40_000, 0, true), Some(40_000));
        assert_eq!(noted(None, 7, 0, false), Some(7));
        assert_eq!(noted(Some(7), 8, 0, false), Some(8));
        assert_eq!(noted(Some(8), 8, 0, false), Some(8));
    }

    #[test]
    fn what_is_noted_is_lowered_by_people_alone() {
        for is_up in [true, false] {
            assert_eq!(noted(Some(5678), 1234, 0, is_up), Some(5678));
            assert_eq!(noted(Some(5678), 1234, 5677, is_up), Some(5678));
        }
        // Once it serves, and not by what it said before.
        assert_eq!(noted(Some(5678), 1234, 5678, true), Some(1234));
        assert_eq!(noted(Some(1234), 5678, 5678, false), Some(1234));
        assert_eq!(noted(Some(1234), 5679, 5678, false), Some(5679));
    }
}
