//! The Hetzner Cloud: `https://api.hetzner.cloud/v1`, as far as machines take it.
//!
//! From its documentation (API reference and changelog, as of July 2026): names are unique in a project
//! (`uniqueness_error`); a server is made and deleted by actions; `locked` while one runs; a deleted server's primary
//! IPs go along where they have `auto_delete`, and one that is assigned cannot be deleted (`must_be_unassigned`, since
//! May 2026); lists have pages of 25, 50 at most; selectors of labels; `user_data` of 32 KiB; a password where no SSH
//! key is named; 3,600 requests an hour and project, one more each second, told in headers; 429
//! `rate_limit_exceeded`; tokens are of one project, and may be for reading alone (`token_readonly`).
//!
//! Not proven by it, and so as it is harder: a server can be found a while after it was made
//! ([`behaviour::Behaviour::visible_after`]); one that is locked is not deleted; the statuses of HTTP beside some codes.
//! Invariant: nothing happens but by requests and the clock.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;

use crate::clock::VirtualClock;
use crate::journal::Journal;
use crate::serve;

mod answer;
pub mod behaviour;
mod catalogue;
pub mod contents;
mod creation;
mod limit;
mod pages;
pub mod project;
mod routes;
mod selector;
mod settle;

use contents::Contents;
use project::Project;

/// A fake that answers.
#[derive(Clone, Debug)]
pub struct FakeHetzner {
    /// Its time.
    pub clock: VirtualClock,
    contents: Arc<Mutex<Contents>>,
    address: SocketAddr,
}

impl FakeHetzner {
    /// Starts one, with a project for each of these tokens.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(clock: VirtualClock, tokens: &[&str]) -> Result<Self> {
        let mut contents = Contents {
            next_id: 1000,
            ..Contents::default()
        };
        for token in tokens {
            let project = Project::new(&mut contents.next_id, clock.now());
            contents.projects.insert((*token).to_owned(), project);
        }
        let contents = Arc::new(Mutex::new(contents));
        let address = serve::serve(Arc::clone(&contents), clock.clone()).await?;
        Ok(Self {
            clock,
            contents,
            address,
        })
    }

    /// What stands before `/servers`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}/v1", self.address)
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
