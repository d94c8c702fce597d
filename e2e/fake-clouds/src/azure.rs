//! Azure Resource Manager: `https://management.azure.com`, and the exchange of tokens of Microsoft Entra ID beside it, as
//! far as virtual machines take them.
//!
//! From its documentation (REST reference of compute and network, "Track asynchronous Azure operations", "Understand how
//! Azure Resource Manager throttles requests", "Resolve errors for SKU not available", "Delete a VM and attached
//! resources", the OAuth 2.0 client credentials flow, as of 2026): what is there is put by name, and once only with
//! `If-None-Match: *`; what takes a while is told at an address (`Azure-AsyncOperation`) and by `provisioningState`; that
//! nothing of a size is left may be said by the operation, and leaves a machine that failed; an interface of a machine
//! that went is reserved for three minutes; a disk that is there is made no second time under its name; what is not
//! there is deleted with 204; lists have a `nextLink`; names of tags have no slash; buckets of requests are told in
//! headers; each call needs its action.
//!
//! Not proven by it, and so as it is harder: something is not found for a while after it was put
//! ([`behaviour::Behaviour::found_after`]), and not listed for longer; what is being made is not deleted.
//! Invariant: nothing happens but by requests and the clock.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use serde_json::{Value, json};

use crate::clock::VirtualClock;
use crate::journal::Journal;
use crate::serve;

mod accounts;
pub mod behaviour;
mod catalogue;
mod change;
pub mod contents;
mod creation;
mod lists;
mod rates;
mod refused;
mod routes;
mod settle;
pub mod thing;

use contents::{Contents, Principal};
use thing::Group;

/// The one secret of each principal.
pub const SECRET: &str = "s3cret~of.tests";

/// A fake that answers.
#[derive(Clone, Debug)]
pub struct FakeAzure {
    /// Its time.
    pub clock: VirtualClock,
    contents: Arc<Mutex<Contents>>,
    address: SocketAddr,
}

impl FakeAzure {
    /// Starts one, with these subscriptions, each of the tenant beside it and with one resource group (`workers`), in which
    /// a principal that has the subscription's own ID may do everything by [`SECRET`].
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(clock: VirtualClock, subscriptions: &[(&str, &str)]) -> Result<Self> {
        let mut contents = Contents {
            next_id: 1000,
            ..Contents::default()
        };
        for (subscription, tenant) in subscriptions {
            let group = Group::new(subscription, "workers");
            contents
                .groups
                .insert(((*subscription).to_owned(), group.name.clone()), group);
            contents
                .tenants
                .insert((*subscription).to_owned(), (*tenant).to_owned());
            let principal = Principal {
                tenant: (*tenant).to_owned(),
                secret: SECRET.to_owned(),
                secret_ended: false,
                federated: None,
                subscriptions: vec![(*subscription).to_owned()],
                actions: None,
            };
            let client = (*subscription).to_owned();
            contents.principals.insert(client, principal);
        }
        let contents = Arc::new(Mutex::new(contents));
        let address = serve::serve(Arc::clone(&contents), clock.clone()).await?;
        let fake = Self {
            clock,
            contents,
            address,
        };
        fake.contents().base = fake.endpoint();
        Ok(fake)
    }

    /// What stands before `/subscriptions`, and before the tenant where tokens are had.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What is said of a principal when it is made, as if it were of this tenant.
    #[must_use]
    pub fn principal_file(client: &str, tenant: &str) -> Value {
        json!({ "appId": client, "displayName": "covey", "password": SECRET, "tenant": tenant })
    }

    /// All of it, to be looked at and changed. Not to be held over an await.
    pub fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happened, with what the clock brought since.
    #[must_use]
    pub fn journal(&self) -> Journal {
        let now = self.clock.now();
        let mut contents = self.contents();
        serve::catch_up(&mut *contents, now);
        contents.settle(now);
        contents.journal.clone()
    }
}
