//! State of the cache: what there is, by name, and the questions that are asked of it.
//!
//! Invariant: pure; a question is answered from what was told, and decides nothing.

use std::collections::BTreeMap;

use super::objects::{Instance, Machine, Snapshot, Volume, may_write};

/// What there is, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Claims of ours.
    pub volumes: BTreeMap<String, Volume>,
    /// Virtual machines.
    pub machines: BTreeMap<String, Machine>,
    /// Instances.
    pub instances: BTreeMap<String, Instance>,
    /// Snapshots of ours.
    pub snapshots: BTreeMap<String, Snapshot>,
}

impl State {
    /// Whether a machine may still write to a volume.
    #[must_use]
    pub fn has(&self, volume: &str, machine: &str) -> bool {
        may_write(
            volume,
            self.machines.get(machine),
            self.instances.get(machine),
        )
    }

    /// Another machine than this one that has a volume, whatever its claim says.
    #[must_use]
    pub fn elsewhere(&self, volume: &str, machine: &str) -> Option<&str> {
        let names = self.machines.keys().chain(self.instances.keys());
        let mut others = names.map(String::as_str).filter(|name| *name != machine);
        others.find(|name| self.has(volume, name))
    }

    /// Whether a machine can use a volume that it is to have.
    #[must_use]
    pub fn is_attached(&self, volume: &str, machine: &str) -> bool {
        let kept = self
            .machines
            .get(machine)
            .is_some_and(|m| m.has(volume) && !m.deleting);
        kept && self
            .instances
            .get(machine)
            .is_some_and(|i| i.is_ready(volume))
    }

    /// The machines that can use a volume, and are to have it.
    #[must_use]
    pub fn attached(&self, volume: &Volume) -> Vec<String> {
        let wanted = volume.holders.wanted.iter();
        wanted
            .filter(|m| self.is_attached(&volume.id, m))
            .cloned()
            .collect()
    }
}
