//! Storage and KubeVirt of an environment: claims are bound and grow, virtual machines run, disks that a
//! template names become ready, and go when it no longer does.
//!
//! Invariant: they act on what watches tell, and never look at what the driver does.

use testkit::fakes::kubevirt::{Behaviour, FakeKubeVirt, Selection, Volumes};
use testkit::fakes::storage::{self, FakeStorage};

use super::Environment;

/// What they do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// Everything works.
    Works,
    /// Storage makes no volume, and says so.
    Full,
    /// Disks come as far as the management cluster's node, and no farther.
    Stuck,
    /// What runs lets go of nothing, and outlives its virtual machine.
    Clings,
    /// Nothing is plugged and nothing unplugged, up to the next mode.
    Asleep,
}

/// Running ones; they end when they are dropped.
pub(crate) struct Fakes {
    kubevirt: FakeKubeVirt,
    storage: FakeStorage,
}

impl Fakes {
    pub(crate) fn start(environment: &Environment) -> Self {
        let machines = Selection::namespace(&environment.ns);
        Self {
            // No tenant cluster is there to be joined.
            kubevirt: FakeKubeVirt::start(&environment.admin, &machines, |_| {}),
            storage: FakeStorage::start(
                &environment.admin,
                &environment.ns,
                kit_objects::quantity::bytes,
            ),
        }
    }

    /// Changes what they do; what is there already is looked at again.
    pub(crate) fn set(&self, mode: Mode) {
        self.kubevirt.set(Behaviour {
            volumes: match mode {
                Mode::Stuck => Volumes::Stuck,
                Mode::Works | Mode::Full | Mode::Clings | Mode::Asleep => Volumes::Ready,
            },
            awake: mode != Mode::Asleep,
            lets_go: mode != Mode::Clings,
            ..Behaviour::default()
        });
        self.storage.set(match mode {
            Mode::Full => storage::Mode::Full,
            Mode::Works | Mode::Stuck | Mode::Clings | Mode::Asleep => storage::Mode::Works,
        });
    }
}
