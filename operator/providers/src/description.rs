//! What is there of a machine, as its provider says it.
//!
//! Invariant: what the machine says of itself is not in here.

use api::ConditionReason;
use api::machine::MachineAddress;
use api::machine_addresses::PublishedAddresses;
use jiff::Timestamp;

/// What is there of a machine.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Description {
    /// How far it is.
    pub state: State,
    /// What runs, or is about to, by the provider's own name for it (a UID, an ID): another one has another disk,
    /// unless the provider keeps disks ([`crate::Capabilities::keeps_disk`]).
    pub instance: Option<String>,
    /// What provider and node call it, where the provider chose that; none where it was known before
    /// ([`crate::Provider::provider_id`]), or is not known yet.
    pub provider_id: Option<String>,
    /// Addresses, the primary one first: what the platform gave it, never what the machine says of itself.
    pub addresses: Vec<MachineAddress>,
    /// The same as it is to be published; none while it is not known.
    pub located: Option<PublishedAddresses>,
    /// Where it runs; none while that is not known.
    pub topology: Option<Topology>,
    /// What kind of machine it is, as a label of its node says it; none where nobody said.
    pub instance_type: Option<String>,
    /// Where it is said to be: what [`crate::Provider::label`] wrote last.
    pub labelled: Topology,
    /// Whoever runs it wants it to leave: its pods should be drained, then it should be deleted.
    pub evacuation: Option<Evacuation>,
    /// It is being deleted.
    pub deleting: bool,
    /// It has the Machine's name and is not the Machine's.
    pub foreign: bool,
}

impl Description {
    /// Takes in which addresses the platform gave it. While that is not known, those hold that were published
    /// of this very instance.
    pub fn locate(
        &mut self,
        located: Option<PublishedAddresses>,
        published: Option<&PublishedAddresses>,
    ) {
        let of_it = |known: &&PublishedAddresses| Some(&known.instance) == self.instance.as_ref();
        let addresses = located.as_ref().or(published.filter(of_it));
        let addresses = addresses.into_iter().flat_map(|known| &known.addresses);
        let internal = |address: &std::net::IpAddr| MachineAddress {
            type_: "InternalIP".to_owned(),
            address: address.to_string(),
        };
        self.addresses = addresses.map(internal).collect();
        self.located = located;
    }
}

/// A machine has to leave: a node below it is drained, a spot instance is taken back, a host is maintained.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Evacuation {
    /// When it ends, drained or not; none: nobody said.
    pub deadline: Option<Timestamp>,
}

/// Where something is. None of it where the platform has no such thing.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Topology {
    /// What fails together.
    pub zone: Option<String>,
    /// What is near each other.
    pub region: Option<String>,
}

/// How far a machine is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum State {
    /// It is being made, or starts.
    #[default]
    Creating,
    /// It runs.
    Running,
    /// It was shut down.
    Stopped,
    /// Something keeps it from running.
    Failing {
        /// Ours, or the platform's as it was read.
        reason: ConditionReason,
        /// What is wrong and, where that is known, how to mend it.
        message: String,
    },
}

/// A machine in a list.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// UID of the Machine that it was made for.
    pub machine_uid: String,
    /// What is there of it.
    pub description: Description,
}
