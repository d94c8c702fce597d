//! Who makes machines: the contract that every provider keeps. Each provider is a crate of its own beside this one
//! (`operator/providers/<provider>`), and uses this one; none knows another.
//!
//! Invariant: everything that a provider makes is named after its Machine and carries the Machine's
//! UID, so each call can be repeated after a crash, and nothing of somebody else is ever taken for
//! a machine's. What is decided is a pure function; only the calls themselves are I/O.

use api::ConditionReason;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use api::machine::MachineAddress;
use api::machine_addresses::PublishedAddresses;
use api::node_pool::{self, ProviderKind};
use api::{Machine, Quantity};
use k8s_openapi::api::core::v1::Toleration;

mod error;

pub use error::Error;

/// What a call gives, later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Makes machines.
pub trait Provider: Send + Sync {
    /// What provider and node call the machine; known before it is made.
    fn provider_id(&self, machine: &Machine) -> String;

    /// What a machine of this kind offers, and what it takes; pure.
    ///
    /// # Errors
    /// When such a machine could not be made.
    fn capabilities(&self, provider: &node_pool::Provider) -> Result<Capabilities, Error>;

    /// Makes the machine. That it is there already is fine.
    ///
    /// # Errors
    /// [`Error`]; also when the name is taken by what is not this Machine's.
    fn create<'a>(&'a self, machine: &'a Machine) -> Answer<'a, ()>;

    /// What is there of the machine; none only when nothing at all is left of it. `published`: its addresses,
    /// as far as they were found before; where they still hold they are not looked for again.
    ///
    /// # Errors
    /// [`Error`].
    fn describe<'a>(
        &'a self,
        machine: &'a Machine,
        published: Option<&'a PublishedAddresses>,
    ) -> Answer<'a, Option<Description>>;

    /// Writes down, where the cloud controller manager finds it, where the machine is. What is not this Machine's
    /// is left alone.
    ///
    /// # Errors
    /// [`Error`].
    fn label<'a>(&'a self, machine: &'a Machine, topology: &'a Topology) -> Answer<'a, ()>;

    /// Asks for everything of the machine to go, and does not wait. That nothing is there is fine;
    /// what is not this Machine's is left alone.
    ///
    /// # Errors
    /// [`Error`].
    fn delete<'a>(&'a self, machine: &'a Machine) -> Answer<'a, ()>;

    /// Every machine in a tenant namespace, whether or not there is a Machine for it; sorted by
    /// name.
    ///
    /// # Errors
    /// [`Error`].
    fn list<'a>(&'a self, tenant_namespace: &'a str) -> Answer<'a, Vec<Listed>>;
}

/// What a machine offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capabilities {
    /// Processors, in cores.
    pub cpu: Quantity,
    /// Memory, in bytes.
    pub memory: Quantity,
    /// Price of an hour in the provider's currency; none where it has no price.
    pub price: Option<f64>,
    /// Zones that a machine may be made in; empty where there is no choice.
    pub zones: Vec<String>,
    /// What it takes of the management cluster; none where it runs elsewhere, or where that is not
    /// known. Whether there is so much is not the provider's to say: it sees one machine, not what
    /// others have taken.
    pub needs: Option<Needs>,
}

/// What one machine takes of the management cluster: of a single node, and of the quotas of the tenant
/// namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs {
    /// Thousandths of a core that are reserved for it.
    pub cpu: i64,
    /// Bytes of memory that are reserved for it.
    pub memory: i64,
    /// Bytes of the node's own disk that are reserved for it.
    pub storage: i64,
    /// Labels that a node must have to run it.
    pub node_labels: BTreeMap<String, String>,
    /// Taints of a node that do not keep it away.
    pub tolerations: Vec<Toleration>,
    /// What quotas count one of for it, as they call it.
    pub objects: &'static [&'static str],
}

/// What is there of a machine.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Description {
    /// How far it is.
    pub state: State,
    /// UID of what runs, or is about to: another one has another disk.
    pub instance: Option<String>,
    /// Addresses, the primary one first: what the platform gave it, never what the machine says of itself.
    pub addresses: Vec<MachineAddress>,
    /// The same as it is to be published; none while it is not known.
    pub located: Option<PublishedAddresses>,
    /// Where it runs; none while that is not known.
    pub topology: Option<Topology>,
    /// Where it is said to be: what [`Provider::label`] wrote last.
    pub labelled: Topology,
    /// Whoever runs it wants it to leave: its pods should be drained, then it should be deleted.
    pub evacuating: bool,
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

/// The providers that are configured.
#[derive(Clone, Default)]
pub struct Providers {
    known: BTreeMap<ProviderKind, Arc<dyn Provider>>,
}

impl Providers {
    /// Adds one, or replaces it.
    #[must_use]
    pub fn with(mut self, kind: ProviderKind, provider: Arc<dyn Provider>) -> Self {
        self.known.insert(kind, provider);
        self
    }

    /// The provider that a node pool or a Machine names.
    ///
    /// # Errors
    /// [`Error::NotConfigured`].
    pub fn get(&self, provider: &node_pool::Provider) -> Result<&dyn Provider, Error> {
        let kind = provider.kind().ok_or(Error::NoneNamed)?;
        let known = self.known.get(&kind);
        known
            .map(AsRef::as_ref)
            .ok_or(Error::NotConfigured(kind.as_str()))
    }
}
