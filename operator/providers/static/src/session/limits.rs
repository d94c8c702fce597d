//! How long and how much.
//!
//! Invariant: nothing that a machine could hold up is without a bound here.

use std::time::Duration;

/// Bounds of sessions. The defaults are what docs/hosts.md says.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Name, TCP and key exchange of a hop (10 s).
    pub connect: Duration,
    /// The login (10 s).
    pub login: Duration,
    /// A jump host altogether (5 s), so that a dead one does not hold up the next.
    pub jump: Duration,
    /// Pause of the other side after which it is asked whether it is there (10 s).
    pub keepalive: Duration,
    /// Such questions without answer after which it is gone (3).
    pub keepalives: usize,
    /// A command that says nothing for so long is given up (60 s).
    pub silence: Duration,
    /// A command altogether (10 min): one that says a byte a minute is not done either.
    pub command: Duration,
    /// Sessions in all (32).
    pub sessions: usize,
    /// Sessions through one jump host (4); its server starts refusing at ten that are not logged in yet.
    pub sessions_per_jump: usize,
    /// How long one waits for its turn (60 s).
    pub turn: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            login: Duration::from_secs(10),
            jump: Duration::from_secs(5),
            keepalive: Duration::from_secs(10),
            keepalives: 3,
            silence: Duration::from_secs(60),
            command: Duration::from_secs(600),
            sessions: 32,
            sessions_per_jump: 4,
            turn: Duration::from_secs(60),
        }
    }
}
