//! Waiting: by a watch where there is one, else by asking with pauses.
//!
//! Invariant: a time-out says what was wanted and what was seen last.

pub(crate) mod ask;
mod wait;
mod watched;

pub use ask::ask_until;
pub use wait::{wait_for, wait_gone};
pub use watched::{Seen, Watched};

/// How long tests wait for what takes milliseconds on an idle machine.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
