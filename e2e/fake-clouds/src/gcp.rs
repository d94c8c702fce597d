//! Compute Engine of the Google Cloud: `https://compute.googleapis.com/compute/v1`, and the exchange of tokens beside it,
//! as far as machines take them.
//!
//! From its documentation (reference of the API, "Handling API responses", "Troubleshooting resource availability", OAuth
//! 2.0 for service accounts, as of 2026): what is made and deleted is done by operations, and that nothing is left or a
//! quota is reached may stand in the operation alone; `requestId` answers with the first operation for a day; a name is
//! unique in a zone (`alreadyExists`); labels are lower case; a value of metadata has 256 KiB; lists have pages and
//! filters, and may be partial with a warning; an assertion lives an hour at most and at the time of the server; each
//! call needs its permission.
//!
//! Not proven by it, and so as it is harder: an instance is not found for a while after it was asked for
//! ([`behaviour::Behaviour::visible_after`]), also to be deleted; what is worked on is not deleted (`resourceNotReady`).
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
pub mod contents;
mod creation;
mod filter;
mod key;
mod lists;
pub mod project;
mod refused;
mod routes;
mod settle;

use contents::{Account, Contents};
use project::Project;

/// A fake that answers.
#[derive(Clone, Debug)]
pub struct FakeGcp {
    /// Its time.
    pub clock: VirtualClock,
    contents: Arc<Mutex<Contents>>,
    address: SocketAddr,
}

impl FakeGcp {
    /// Starts one, with these projects. In each the account `covey@PROJECT` may do everything, by the key of [`Self::key_file`].
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(clock: VirtualClock, projects: &[&str]) -> Result<Self> {
        let public_key = key::public()?;
        let mut contents = Contents {
            next_id: 1000,
            ..Contents::default()
        };
        for name in projects {
            let number = contents.id();
            contents
                .projects
                .insert((*name).to_owned(), Project::new(name, number));
            let account = Account {
                projects: vec![(*name).to_owned()],
                public_key: public_key.clone(),
                permissions: None,
            };
            contents.accounts.insert(format!("covey@{name}"), account);
        }
        let contents = Arc::new(Mutex::new(contents));
        let address = serve::serve(Arc::clone(&contents), clock.clone()).await?;
        Ok(Self {
            clock,
            contents,
            address,
        })
    }

    /// What stands before `/projects`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}/compute/v1", self.address)
    }

    /// Where tokens are had.
    #[must_use]
    pub fn token_uri(&self) -> String {
        format!("http://{}/token", self.address)
    }

    /// The file of an account's key, as Google gives it.
    #[must_use]
    pub fn key_file(&self, account: &str) -> Value {
        json!({
            "type": "service_account", "private_key_id": "k1", "private_key": key::KEY,
            "client_email": account, "token_uri": self.token_uri(),
        })
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
