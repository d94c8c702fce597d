//! Amazon EC2 and the Security Token Service: `https://ec2.REGION.amazonaws.com`, as far as instances take them.
//!
//! From its documentation (API references of EC2 and STS, "Ensure idempotency in Amazon EC2 API requests", "Eventual
//! consistency in the Amazon EC2 API", "Request throttling for the Amazon EC2 API", "Error codes", "Signature Version 4", as
//! of 2026): a token under which an instance was asked for gives the same one again, for other parameters
//! `IdempotentParameterMismatch`, and once it ended `IdempotentInstanceTerminated`; an instance is not found for a while
//! after it was made; nothing left of a type is said with 500, and one request too many with 503; one that ended is shown
//! for an hour; a page may be empty and have a next one; each call needs its right; requests are signed, with a time that is
//! five minutes off at most.
//!
//! Not proven by it, and so as it is harder: for how long an instance is not found, by its ID and by anything else
//! ([`behaviour::Behaviour::found_after`], [`behaviour::Behaviour::listed_after`]).
//! Invariant: nothing happens but by requests and the clock; signatures are computed here by the documentation alone, and by
//! nothing that whoever asks uses.

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
mod routes;
mod settle;
mod signature;
pub mod thing;
mod xml;

use contents::{Contents, Principal, Role};

/// The secret of each user.
pub const SECRET: &str = "s3cret/of+tests";
/// What each role asks whoever takes it on for.
pub const EXTERNAL_ID: &str = "installation-1/team-a/aws";

/// A fake that answers.
#[derive(Clone, Debug)]
pub struct FakeAws {
    /// Its time.
    pub clock: VirtualClock,
    contents: Arc<Mutex<Contents>>,
    address: SocketAddr,
}

impl FakeAws {
    /// Starts one, with these accounts, each with a user whose key is `AKIA` and the account's number, with [`SECRET`], and
    /// a role `covey` that this user may take on.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(clock: VirtualClock, accounts: &[&str]) -> Result<Self> {
        let mut contents = Contents {
            next_id: 1000,
            ..Contents::default()
        };
        for account in accounts {
            let principal = Principal {
                account: (*account).to_owned(),
                secret: SECRET.to_owned(),
                session: None,
                actions: None,
            };
            contents
                .principals
                .insert(format!("AKIA{account}"), principal);
            let role = Role {
                account: (*account).to_owned(),
                external_id: EXTERNAL_ID.to_owned(),
                web_token: None,
            };
            contents
                .roles
                .insert(format!("arn:aws:iam::{account}:role/covey"), role);
        }
        let contents = Arc::new(Mutex::new(contents));
        let address = serve::serve(Arc::clone(&contents), clock.clone()).await?;
        Ok(Self {
            clock,
            contents,
            address,
        })
    }

    /// What is said of the key of an account's user when it is made (`aws iam create-access-key`).
    #[must_use]
    pub fn key_file(account: &str) -> Value {
        json!({ "AccessKey": {
            "UserName": "covey", "AccessKeyId": format!("AKIA{account}"), "Status": "Active",
            "SecretAccessKey": SECRET, "CreateDate": "2026-07-01T12:00:00Z",
        } })
    }

    /// Where both services are.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
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
