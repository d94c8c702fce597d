//! Who makes machines: the contract that every provider keeps. Each provider is a crate of its own beside this one
//! (`operator/providers/<provider>`), and uses this one; none knows another. `docs/providers.md` has the whole.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`presence`] | a machine is there, proven gone, or nobody knows |
//! | [`absence`] | what proves that one is gone |
//! | [`capabilities`] | what a provider can do and others cannot |
//! | [`checked`] | what a check of it found out |
//! | [`offering`] | what can be had, and what it takes |
//! | [`description`] | what is there of a machine |
//! | [`doubt`] | what may be somebody's although nobody is known to have it |
//! | [`fault`] | what went wrong, by kind |
//! | [`refused`] | what a cloud said to that |
//!
//! What clouds that are asked over HTTP share:
//!
//! | Module | What it holds |
//! |---|---|
//! | [`clock`] | the time, and waiting |
//! | [`token`] | what lets a client in |
//! | [`tokens`] | one that is kept for as long as it lives, and the cloud's clock |
//! | [`budget`] | how often an API may be asked; pure |
//! | [`by_uid`] | what is remembered of each Machine; pure |
//! | [`http_client`] | one request and its answer |
//! | [`identity`] | names and labels of what is made; pure |
//! | [`tags`] | the same where names of tags have no slash; pure |
//! | [`subject`] | one Machine to be looked at |
//! | [`looks`] | what was seen, and what was looked for and not found; pure |
//! | [`leaks`] | what nobody has any more; pure |
//! | [`template`] | the node that a machine becomes; pure |
//! | [`cloud`] | what a cloud is, and the contract over it |
//!
//! Invariant: everything that a provider makes carries the UID of its Machine, so each call can be repeated after
//! a crash, and nothing of somebody else is ever taken for a machine's. What is decided is a pure function; only
//! the calls themselves are I/O.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use api::machine::MachineRequest;
use api::machine_addresses::PublishedAddresses;
use api::node_pool::{self, NodeTemplate, ProviderKind};
use api::{Machine, NodePoolSpec};

pub mod absence;
pub mod budget;
pub mod by_uid;
pub mod capabilities;
pub mod checked;
pub mod clock;
pub mod cloud;
pub mod description;
pub mod doubt;
mod error;
pub mod fault;
pub mod http_client;
pub mod identity;
pub mod leaks;
pub mod looks;
pub mod offering;
pub mod presence;
pub mod refused;
pub mod subject;
pub mod tags;
pub mod template;
pub mod token;
pub mod tokens;

pub use absence::Proof;
pub use capabilities::Capabilities;
pub use checked::Checked;
pub use description::{Description, Evacuation, Listed, State, Topology};
pub use doubt::{Doubt, Standing};
pub use error::Error;
pub use fault::FaultKind;
pub use offering::{Needs, Offering};
pub use presence::{Inventory, Presence, Scope};
pub use refused::Refused;

/// What a call gives, later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Makes machines.
pub trait Provider: Send + Sync {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// What provider and node call the machine, where that is known before it is made; none where the provider
    /// chooses it ([`Capabilities::id_before_create`]).
    fn provider_id(&self, machine: &Machine) -> Option<String>;

    /// Proves that machines such as a pool asks for can be made: that the provider is there and lets us in, and as
    /// much of what the pool names as can be asked for without making anything. Nothing is changed by it. It is asked
    /// again whenever the credentials change. `namespace`: the pool's, in which what it names is.
    ///
    /// # Errors
    /// [`Error`]: why none could be made.
    fn check<'a>(
        &'a self,
        namespace: &'a str,
        provider: &'a node_pool::Provider,
    ) -> Answer<'a, Checked>;

    /// The sizes that fit what a pool of a namespace asks for, the first choice first; pure, and none of it asked for
    /// at a provider.
    ///
    /// # Errors
    /// When such a machine could not be made.
    fn offerings(
        &self,
        namespace: &str,
        provider: &node_pool::Provider,
    ) -> Result<Vec<Offering>, Error>;

    /// The node that a machine of a pool becomes in one of its places, for growing from none; pure, and none of it asked
    /// for at a provider. Rather a little too small: a pod that fits it and not the real one would make a pool grow in
    /// vain. None where that is not known, or not known now. Default: none, which is also right where it follows from the
    /// pool alone (`provider_kubevirt::template`).
    fn template(
        &self,
        _namespace: &str,
        _pool: &NodePoolSpec,
        _provider: &node_pool::Provider,
    ) -> Option<NodeTemplate> {
        None
    }

    /// What it would be asked for today: everything that is looked up (the image of a version, the name of a size)
    /// looked up, in the Machine's own namespace where what it names is there. Pure. It is stored in the Machine's status before the first creation, and only what is stored is
    /// sent.
    ///
    /// # Errors
    /// When such a machine could not be made.
    fn request(&self, machine: &Machine) -> Result<MachineRequest, Error>;

    /// Makes the machine as `status.request` says. That it is there already is fine. Asked for again, the same bytes
    /// are sent under the same key, which is the Machine's UID or a name that is its own.
    ///
    /// [`Presence::Present`] only where the answer comes from the store that [`Self::describe`] asks, so that the
    /// machine is found from then on. A cloud that answers, and does not know the machine for a while after that, says
    /// [`Presence::Unknown`]: it counts as made once it was described.
    ///
    /// # Errors
    /// [`Error`]; also when the name is taken by what is not this Machine's.
    fn create<'a>(&'a self, machine: &'a Machine) -> Answer<'a, Presence>;

    /// What is there of the machine. `published`: its addresses, as far as they were found before; where they
    /// still hold they are not looked for again.
    ///
    /// # Errors
    /// [`Error`]; then nobody knows, as with [`Presence::Unknown`].
    fn describe<'a>(
        &'a self,
        machine: &'a Machine,
        published: Option<&'a PublishedAddresses>,
    ) -> Answer<'a, Presence>;

    /// Writes down, where the cloud controller manager finds it, where the machine is. What is not this Machine's
    /// is left alone. Default: nothing, which is right wherever somebody else says it.
    ///
    /// # Errors
    /// [`Error`].
    fn label<'a>(&'a self, _machine: &'a Machine, _topology: &'a Topology) -> Answer<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Starts the machine anew on the disk that it has, and does not wait. What is not this Machine's is left alone,
    /// and nothing is made where nothing is. Default, for those that cannot ([`Capabilities::restarts`]): refused.
    ///
    /// # Errors
    /// [`Error::NotSupported`] where it cannot, else [`Error`].
    fn restart<'a>(&'a self, _machine: &'a Machine) -> Answer<'a, ()> {
        let refused = Error::NotSupported { verb: "restart" };
        Box::pin(std::future::ready(Err(refused)))
    }

    /// Asks for everything of the machine to go, and does not wait. That nothing is there is fine;
    /// what is not this Machine's is left alone. It is gone only when [`Self::describe`] proves it.
    ///
    /// # Errors
    /// [`Error`].
    fn delete<'a>(&'a self, machine: &'a Machine) -> Answer<'a, ()>;

    /// Every machine in a scope, whether or not there is a Machine for it.
    ///
    /// # Errors
    /// [`Error`].
    fn list<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Inventory>;
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
