//! A session that was opened.
//!
//! Invariant: it ends, with all that runs over it, when it is dropped.

use std::fmt;

use tokio::io::empty;

use super::error::Error;
use super::handshake::Login;
use super::limits::Limits;
use super::slots::Slot;
use super::target::{Escalation, Target};
use crate::answer::Answer;
use crate::scripts::Script;
use crate::scripts::parameters::Parameters;

/// A machine that was entered.
pub struct Session {
    pub(super) name: String,
    pub(super) user: String,
    pub(super) escalation: Escalation,
    pub(super) limits: Limits,
    passed_over: Vec<Error>,
    // In this order they are dropped: what runs inside, what carries it, the place.
    pub(super) login: Login,
    _outer: Option<Login>,
    _slot: Slot,
}

impl Session {
    pub(super) fn new(
        target: &Target,
        login: Login,
        outer: Option<Login>,
        slot: Slot,
        limits: Limits,
        passed_over: Vec<Error>,
    ) -> Self {
        Self {
            name: target.host.name(),
            user: target.host.user.clone(),
            escalation: target.escalation,
            limits,
            passed_over,
            login,
            _outer: outer,
            _slot: slot,
        }
    }

    /// Why jump hosts before the one that led here did not: the machine is reached, and one way to it is broken.
    #[must_use]
    pub fn passed_over(&self) -> &[Error] {
        &self.passed_over
    }

    /// Kind and SHA256 fingerprint of the key that the machine showed: one of the pinned ones.
    #[must_use]
    pub fn host_key(&self) -> &str {
        &self.login.host_key
    }

    /// Whether the connection has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.login.handle.is_closed()
    }

    /// Runs a script as root and gives its answer.
    ///
    /// # Errors
    /// [`Error`]; that it is [`Error::Cut`] says nothing about what the script did.
    pub async fn run(&self, script: &Script, parameters: &Parameters) -> Result<Answer, Error> {
        self.call(script, parameters, &mut empty()).await
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({}@{})", self.user, self.name)
    }
}
