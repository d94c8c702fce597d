//! What a cloud is that makes machines by ProviderConfigs: a client of one account, and what tells clouds apart.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`provider`] | the contract over all accounts of a cloud |
//! | [`clients`] | the clients, one for each ProviderConfig |
//! | `answers` | whether each account's API answers |
//! | `exhausted` | of which sizes nothing was left lately; pure |
//! | [`requests`] | from Machines and ProviderConfigs to what is asked for; pure |
//!
//! Invariant: what is in here is the same for every cloud; what only one of them knows is in its own crate.

#![allow(
    clippy::result_large_err,
    reason = "what a cloud says is moved once for each request over the network, which takes a million times longer"
)]

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use api::machine::MachineRequest;
use api::node_pool::{Market, Provider as Wanted, ProviderKind};
use api::{Machine, ProviderConfig};

use crate::capabilities::Capabilities;
use crate::checked::Checked;
use crate::clock::Clock;
use crate::doubt::Doubt;
use crate::http_client::BuildError;
use crate::identity::Owner;
use crate::leaks::Outcome;
use crate::offering::Size;
use crate::presence::{Inventory, Presence};
use crate::refused::Refused;
use crate::subject::Subject;

mod answers;
pub mod clients;
mod exhausted;
pub mod provider;
pub mod requests;

/// Why there is no client.
#[derive(Debug)]
pub enum NoClient {
    /// What the Secret holds lets nobody in: why. It has nothing of the Secret in it.
    Credentials(String),
    /// The platform does not let the ProviderConfig be let in so: by what, why, and what to change.
    NotAllowed {
        /// `role arn:…`.
        object: String,
        /// Why.
        why: String,
        /// What to change.
        mend: String,
    },
    /// The client could not be made.
    Build(BuildError),
}

impl From<BuildError> for NoClient {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

/// One machine to be made, always the same for one Machine.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The Machine, whose spec never changes.
    pub machine: &'a Machine,
    /// What is asked for, as its status has it.
    pub request: &'a MachineRequest,
    /// Whose it is.
    pub owner: &'a Owner,
}

/// What a client of a cloud does under the same names as [`Cloud`] has, of which nothing is left to say: each call is
/// handed on. It stands in the implementation of that.
#[macro_export]
macro_rules! handed_on {
    () => {
        async fn describe(
            &self,
            subject: &$crate::subject::Subject,
        ) -> Result<$crate::presence::Presence, $crate::refused::Refused> {
            Self::describe(self, subject).await
        }

        async fn delete(
            &self,
            owner: &$crate::identity::Owner,
            instance: Option<u64>,
        ) -> Result<(), $crate::refused::Refused> {
            Self::delete(self, owner, instance).await
        }

        async fn restart(
            &self,
            owner: &$crate::identity::Owner,
        ) -> Result<(), $crate::refused::Refused> {
            Self::restart(self, owner).await
        }

        async fn found(&self) -> Result<Self::Found, $crate::refused::Refused> {
            Self::found(self).await
        }

        async fn sweep(
            &self,
            found: &Self::Found,
            machines: &std::collections::BTreeSet<String>,
            doubts: &[$crate::doubt::Doubt],
        ) -> Result<$crate::leaks::Outcome, $crate::refused::Refused> {
            Self::sweep(self, found, machines, doubts).await
        }
    };
}

/// A client of one account, in one place.
pub trait Cloud: Send + Sync + Sized + 'static {
    /// Which cloud: the field below `spec` of a ProviderConfig, and below `spec.provider` of a node pool.
    const KIND: ProviderKind;
    /// What it can do.
    const CAPABILITIES: Capabilities;
    /// The field of a Secret that has the credentials.
    const FIELD: &'static str;

    /// Where its API is.
    type Endpoints: Clone + Send + Sync + 'static;
    /// Where the machines of one ProviderConfig are made.
    type Project: Clone + PartialEq + Send + Sync + 'static;
    /// All that an installation has there.
    type Found: Send + Sync;

    /// Where the machines of a ProviderConfig are made; none where that is of another cloud.
    fn project(config: &ProviderConfig, installation: &str) -> Option<Self::Project>;

    /// A client; nothing is asked yet. `credentials`: what the Secret has, empty where it has nothing, and where the
    /// ProviderConfig names none.
    ///
    /// # Errors
    /// Why there is none.
    fn open(
        endpoints: &Self::Endpoints,
        credentials: &str,
        project: Self::Project,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, NoClient>;

    /// ID of the machine, as the cloud has it, that a Machine was known to have.
    fn instance(machine: &Machine) -> Option<u64>;

    /// Bytes of disk of a pool's machines; none where their size decides it.
    #[must_use]
    fn disk(_wanted: &Wanted) -> Option<i64> {
        None
    }

    /// The zone that nodes say they are in; empty where they say none.
    fn zone(&self) -> &str;

    /// Proves that machines can be made, as far as that can be asked without making one. What was known of the credentials is
    /// asked anew. `market`: how machines are bought.
    fn check(
        &self,
        types: &[String],
        images: &[String],
        market: Market,
    ) -> impl Future<Output = Result<Checked, Refused>> + Send;

    /// The sizes of these names as far as they are known already, with what they cost where they are bought in this way;
    /// none where nothing is.
    ///
    /// # Errors
    /// When one of them cannot be had.
    fn known(&self, types: &[String], market: Market) -> Result<Option<Vec<Size>>, Refused>;

    /// Makes a machine, unless it is there.
    fn create(
        &self,
        order: Order<'_>,
        user_data: String,
    ) -> impl Future<Output = Result<Presence, Refused>> + Send;

    /// What is there of a machine.
    fn describe(&self, subject: &Subject)
    -> impl Future<Output = Result<Presence, Refused>> + Send;

    /// Asks for everything of a machine to go. `instance`: the one that it was known to have.
    fn delete(
        &self,
        owner: &Owner,
        instance: Option<u64>,
    ) -> impl Future<Output = Result<(), Refused>> + Send;

    /// Starts a machine anew on the disk that it has.
    fn restart(&self, owner: &Owner) -> impl Future<Output = Result<(), Refused>> + Send;

    /// Every machine of the installation in a tenant namespace.
    fn list(&self, namespace: &str) -> impl Future<Output = Result<Inventory, Refused>> + Send;

    /// All that the installation has. Read before the Machines are, so that none of these is newer.
    fn found(&self) -> impl Future<Output = Result<Self::Found, Refused>> + Send;

    /// Deletes what nobody has any more. `machines`: UIDs of all Machines, read after `found`; `doubts`: of which times it is
    /// not known who made what.
    fn sweep(
        &self,
        found: &Self::Found,
        machines: &BTreeSet<String>,
        doubts: &[Doubt],
    ) -> impl Future<Output = Result<Outcome, Refused>> + Send;
}
