//! A session with a machine by SSH.
//!
//! Invariant: every hop has shown a pinned key before anything was sent to it; a session ends, with all that runs
//! over it, when it is dropped.

mod addresses;
mod command;
mod connector;
mod cut;
pub(crate) mod error;
mod handshake;
mod limits;
pub(crate) mod opened;
mod output;
mod pins;
pub mod retry;
mod slots;
mod target;
mod text;
pub(crate) mod upload;

pub use addresses::AddressRules;
pub use connector::Connector;
pub use error::Error;
pub use limits::Limits;
pub use opened::Session;
pub use output::MOST;
pub use pins::{HostKeys, MOST_KEYS, PinError, fingerprint};
pub use target::{Escalation, Hop, KeyError, LoginKey, Target};
pub use text::TAIL;
pub use upload::{Upload, Uploaded};
