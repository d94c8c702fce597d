//! Machines of a node pool: equal ones together, or each by itself.
//!
//! Invariant: different machines never share a line.

use std::collections::BTreeMap;

use api::{ConditionType, Machine, NodePool};
use kube::ResourceExt as _;

use super::types::{MachineGroup, PoolDescription, State};
use super::{find, sentence, state_of};
use crate::facts::Facts;
use crate::text;

/// Most machines that one line names.
const NAMED: usize = 5;

pub(super) fn of_pool(pool: &NodePool, facts: &Facts, is_each: bool) -> PoolDescription {
    let status = pool.status.clone().unwrap_or_default();
    let (name, namespace) = (pool.name_any(), pool.namespace());
    let ready = find(&status.conditions, ConditionType::Ready);
    let machines = facts.machines.as_ref().there();
    let ours = machines
        .into_iter()
        .flatten()
        .filter(|machine| machine.spec.pool_name == name && machine.namespace() == namespace);
    PoolDescription {
        state: state_of(ready),
        desired: pool.spec.replicas,
        ready: status.ready_replicas,
        reason: ready
            .filter(|c| c.status != "True")
            .map(|c| c.reason.clone())
            .unwrap_or_default(),
        version: status.version,
        machines: groups(ours, is_each),
        name,
    }
}

fn groups<'a>(machines: impl Iterator<Item = &'a Machine>, is_each: bool) -> Vec<MachineGroup> {
    type Key = (State, String, String, String);
    let mut groups: BTreeMap<Key, Vec<&Machine>> = BTreeMap::new();
    for machine in machines {
        let status = machine.status.as_ref();
        let ready = status.and_then(|status| find(&status.conditions, ConditionType::Ready));
        let is_ready = ready.is_some_and(|c| c.status == "True");
        let phase = status.and_then(|status| status.phase).unwrap_or_default();
        let is_going = machine.metadata.deletion_timestamp.is_some();
        let state = match (is_ready, is_going) {
            (_, true) | (false, false) => State::Waiting,
            (true, false) => State::Ok,
        };
        let reason = ready
            .filter(|_| state != State::Ok)
            .map(|c| c.reason.clone());
        // Of one that has a line of its own it is said which.
        let own = if is_each {
            machine.name_any()
        } else {
            String::new()
        };
        let key = (
            state,
            phase.as_str().to_owned(),
            reason.unwrap_or_default(),
            own,
        );
        groups.entry(key).or_default().push(machine);
    }
    let groups = groups.into_iter().map(|((state, phase, reason, own), of)| {
        let condition = |machine: &&Machine| {
            let status = machine.status.as_ref()?;
            find(&status.conditions, ConditionType::Ready).cloned()
        };
        let told: Vec<_> = of.iter().filter_map(condition).collect();
        let text = match state {
            State::Ok => own,
            _ => {
                let names: Vec<_> = of.iter().map(|machine| machine.name_any()).collect();
                let names = text::names(names.iter().map(String::as_str), NAMED);
                let said = told.first().map(sentence).unwrap_or_default();
                if said.is_empty() {
                    names
                } else {
                    format!("{names}: {said}")
                }
            }
        };
        let since = told.iter().map(|c| c.last_transition_time.0).min();
        MachineGroup {
            state,
            phase,
            reason,
            count: of.len(),
            since: since.filter(|_| state != State::Ok),
            text,
        }
    });
    groups.collect()
}
