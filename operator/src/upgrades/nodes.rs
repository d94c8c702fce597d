//! Whether nodes are lost while an upgrade goes on, by the Machines whose nodes they are.
//!
//! Source: nodes Ready < 90 % of before for 3 minutes (`operations.md` §2.6).
//! Invariant: pure, and nothing is remembered: a node was Ready before where it is Ready, or has not been since the
//! upgrade began. One that goes, or was never ready, counts for nothing; nor does one that nobody knows of.

use std::collections::BTreeMap;
use std::time::Duration;

use api::machine::MachinePhase;
use api::tenant_cluster::UpgradeFailureReason;
use api::{ConditionType, Machine, Reason};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::failure::Failed;
use crate::tenant_session::preflight::names::Names;

/// So long a node has to be not Ready.
pub const PATIENCE: Duration = Duration::from_mins(3);
/// Of a hundred nodes that were Ready before so many may be lost.
const MOST_LOST: usize = 10;

/// Nodes that have been Ready.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Nodes {
    /// How many are.
    pub ready: usize,
    /// Those that are not: since when, by name.
    pub lost: BTreeMap<String, Timestamp>,
}

impl Nodes {
    /// Those of these Machines.
    pub fn of<'a>(machines: impl Iterator<Item = &'a Machine>) -> Self {
        let mut nodes = Self::default();
        for machine in machines.filter(|m| m.metadata.deletion_timestamp.is_none()) {
            let Some(status) = &machine.status else {
                continue;
            };
            let mut conditions = status.conditions.iter();
            let type_ = ConditionType::NodeReady.as_str();
            let Some(told) = conditions.find(|c| c.type_ == type_) else {
                continue;
            };
            let has_run = status.phase == Some(MachinePhase::Running);
            match told.status.as_str() {
                "True" => nodes.ready += 1,
                "False" if has_run && told.reason == Reason::NodeNotReady.as_str() => {
                    let name = status.node_name.clone();
                    let name = name.unwrap_or_else(|| machine.name_any());
                    nodes.lost.insert(name, told.last_transition_time.0);
                }
                _ => {}
            }
        }
        nodes
    }

    /// Why an upgrade that began then has failed by them; none where it has not.
    #[must_use]
    pub fn failed(&self, begun: Timestamp, now: Timestamp) -> Option<Failed> {
        self.failed_at(begun).filter(|at| *at <= now)?;
        let is_long = |since: Timestamp| since.checked_add(PATIENCE).is_ok_and(|at| at <= now);
        let lost: Names = (self.lost_since(begun))
            .filter(|(_, since)| is_long(*since))
            .map(|(name, _)| name)
            .collect();
        let before = self.ready + self.lost_since(begun).count();
        Some(Failed {
            reason: UpgradeFailureReason::NodesLost,
            message: format!(
                "{} of {before} nodes that were Ready before it are not any more, for {} minutes: {}",
                lost.count,
                PATIENCE.as_secs() / 60,
                lost.list()
            ),
        })
    }

    /// When to look at them again, though nothing happens; none where too few are lost.
    #[must_use]
    pub fn again(&self, begun: Timestamp, now: Timestamp) -> Option<Duration> {
        let at = self.failed_at(begun).filter(|at| *at > now)?;
        let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
        Some(left + Duration::from_secs(1))
    }

    /// From when on too many have not been Ready for long enough, if none of them becomes so.
    fn failed_at(&self, begun: Timestamp) -> Option<Timestamp> {
        let mut since: Vec<_> = self.lost_since(begun).map(|(_, since)| since).collect();
        since.sort_unstable();
        // The first that is one too many.
        let before = self.ready + since.len();
        let may_be_lost = before * MOST_LOST / 100;
        since.get(may_be_lost)?.checked_add(PATIENCE).ok()
    }

    fn lost_since(&self, begun: Timestamp) -> impl Iterator<Item = (&str, Timestamp)> {
        let lost = self
            .lost
            .iter()
            .map(|(name, since)| (name.as_str(), *since));
        lost.filter(move |(_, since)| *since >= begun)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        let start: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        start
            .checked_add(jiff::SignedDuration::from_secs(seconds))
            .unwrap()
    }

    fn nodes(ready: usize, lost: &[i64]) -> Nodes {
        let lost = lost.iter().enumerate();
        Nodes {
            ready,
            lost: lost
                .map(|(n, since)| (format!("n{n}"), at(*since)))
                .collect(),
        }
    }

    fn machine(name: &str, phase: &str, status: &str, reason: &str) -> Machine {
        let told = json!({ "type": "NodeReady", "status": status, "reason": reason, "message": "",
            "lastTransitionTime": at(7).to_string() });
        let machine = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Machine", "metadata": { "name": name },
            "spec": { "clusterName": "demo", "clusterUID": "u", "poolName": "workers",
                "version": "1.35.4", "provider": { "static": {} } },
            "status": { "phase": phase, "nodeName": name, "conditions": [told] },
        });
        serde_json::from_value(machine).unwrap()
    }

    #[test]
    fn machines_tell_which_nodes_were_ready() {
        let mut going = machine("going", "Running", "False", "NodeNotReady");
        let time: Value = json!("2026-11-21T12:00:00Z");
        going.metadata.deletion_timestamp = Some(serde_json::from_value(time).unwrap());
        let machines = [
            machine("a", "Running", "True", "NodeReady"),
            machine("b", "Running", "False", "NodeNotReady"),
            machine("new", "Joining", "False", "NodeNotReady"),
            machine("deleted", "Running", "False", "NodeGone"),
            machine("unknown", "Running", "Unknown", "ApiUnreachable"),
            going,
        ];
        let found = Nodes::of(machines.iter());
        assert_eq!(found.ready, 1);
        assert_eq!(found.lost, [("b".to_owned(), at(7))].into());
    }

    #[test]
    fn more_than_a_tenth_lost_for_three_minutes_fails_it_and_names_them() {
        let ten = nodes(9, &[10]);
        assert_eq!(ten.failed(at(0), at(10_000)), None, "nine tenths are left");
        assert_eq!(ten.again(at(0), at(10)), None);
        let two = nodes(8, &[10, 60]);
        assert_eq!(two.failed(at(0), at(239)), None);
        assert_eq!(two.again(at(0), at(230)).unwrap().as_secs(), 11);
        let failed = two.failed(at(0), at(240)).unwrap();
        assert_eq!(failed.reason, UpgradeFailureReason::NodesLost);
        assert_eq!(
            failed.message,
            "2 of 10 nodes that were Ready before it are not any more, for 3 minutes: n0, n1"
        );
        assert_eq!(two.again(at(0), at(240)), None, "it is known");
    }

    #[test]
    fn nodes_that_were_lost_before_are_not_the_upgrades() {
        let old = nodes(2, &[-60, -30]);
        assert_eq!(old.failed(at(0), at(10_000)), None);
        assert!(nodes(2, &[-60, 30]).failed(at(0), at(210)).is_some());
        assert_eq!(
            Nodes::default().failed(at(0), at(10_000)),
            None,
            "there are none"
        );
    }

    proptest! {
        /// Whatever is lost and when, it is what a count of each moment says.
        #[test]
        fn it_has_failed_exactly_when_fewer_than_nine_tenths_are_left(
            ready in 0..40_usize, lost in prop::collection::vec(-100..400_i64, 0..12), now in 0..900_i64,
        ) {
            let nodes = nodes(ready, &lost);
            let since = lost.iter().filter(|at| **at >= 0);
            let before = ready + since.clone().count();
            let long = since.filter(|at| now - **at >= 180).count();
            let failed = nodes.failed(at(0), at(now));
            prop_assert_eq!(failed.is_some(), (before - long) * 10 < before * 9);
            // Where nothing happens it is looked at again in time.
            let later = (now..1000).find(|then| nodes.failed(at(0), at(*then)).is_some());
            let again = nodes.again(at(0), at(now)).map(|again| now + i64::try_from(again.as_secs()).unwrap());
            match failed {
                Some(failed) => prop_assert!(failed.message.len() < 1000 && again.is_none()),
                None => prop_assert_eq!(again, later.map(|then| then + 1)),
            }
        }
    }
}
