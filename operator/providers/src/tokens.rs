//! A token, or whatever else lets in for a while, that was had for something else, kept for as long as it lives; and what time it is where it was had.
//!
//! Invariant: a token is kept in memory alone, and not longer than it lives; many who need one at once have one.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

use crate::clock::Clock;
use crate::http_client::Reply;
use crate::refused::Refused;
use crate::token::Token;

/// How long before its end a token is not used any more.
const EARLY: SignedDuration = SignedDuration::from_mins(5);

/// Keeps one.
pub struct Tokens<T = Token> {
    clock: Arc<dyn Clock>,
    /// By how much the cloud's clock is ahead of ours.
    ahead: Mutex<SignedDuration>,
    /// Held while one is had.
    kept: tokio::sync::Mutex<Option<(T, Timestamp)>>,
}

impl<T: Clone + PartialEq + Send> Tokens<T> {
    /// With none.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            ahead: Mutex::default(),
            kept: tokio::sync::Mutex::default(),
        }
    }

    /// What time it is by the cloud's clock, as far as that was heard.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let ahead = *self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        now.saturating_add(ahead).unwrap_or(now)
    }

    /// Takes in what time the cloud says it is.
    pub fn hears(&self, reply: &Reply) {
        if let Some(date) = reply.date {
            let ahead = date.duration_since(self.clock.now());
            *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) = ahead;
        }
    }

    /// The one that is kept, or the one that `exchange` gives with how long it lives.
    ///
    /// # Errors
    /// Those of `exchange`.
    pub async fn token(
        &self,
        exchange: impl Future<Output = Result<(T, SignedDuration), Refused>> + Send,
    ) -> Result<T, Refused> {
        let mut kept = self.kept.lock().await;
        let now = self.clock.now();
        if let Some((token, until)) = &*kept
            && now < *until
        {
            return Ok(token.clone());
        }
        *kept = None;
        let (token, lives) = exchange.await?;
        let until = now.saturating_add(lives - EARLY).unwrap_or(now);
        *kept = Some((token.clone(), until));
        Ok(token)
    }

    /// Lets go of a token that lets in no more.
    pub async fn forget(&self, token: &T) {
        let mut kept = self.kept.lock().await;
        if kept.as_ref().is_some_and(|(known, _)| known == token) {
            *kept = None;
        }
    }
}
