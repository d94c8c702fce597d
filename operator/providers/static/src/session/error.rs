//! Why a machine was not reached, or did not do what it was told.
//!
//! Invariant: every message says how to mend it, quotes at most [`super::text::TAIL`] bytes of the other side, and
//! has no secret in it.

use std::time::Duration;

use super::text::{last, printable};

/// Why a session or a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine showed another key than the pinned ones.
    #[error(
        "{hop} shows the host key {seen}, which is none of the pinned ones: compare it with the output of ssh-keygen \
         -lf on the machine itself, and only if it is the same there, write the key into {field}"
    )]
    WrongHostKey {
        /// "address:port".
        hop: String,
        /// Kind and SHA256 fingerprint.
        seen: String,
        /// The field that pins it.
        field: &'static str,
    },
    /// The machine has no key of a kind that can be pinned.
    #[error(
        "{hop} has no host key of the kinds ed25519 and ecdsa: run ssh-keygen -A there and restart its SSH server"
    )]
    NoHostKey {
        /// "address:port".
        hop: String,
    },
    /// The address is not to be dialled.
    #[error(
        "{hop} is not dialled: {address} belongs to the management cluster, to this machine or to a cloud's metadata"
    )]
    Forbidden {
        /// "address:port".
        hop: String,
        /// What the name led to.
        address: String,
    },
    /// No connection.
    #[error("{hop} is not reached: {source}; check address, port and firewalls")]
    Unreachable {
        /// "address:port".
        hop: String,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The jump host did not lead on.
    #[error(
        "{via} does not lead to {hop}: check that its SSH server has AllowTcpForwarding yes and reaches the address"
    )]
    Forward {
        /// The jump host.
        via: String,
        /// "address:port".
        hop: String,
    },
    /// Nothing came in time.
    #[error("{hop} did not {stage} within {limit:?}; check the machine and the network to it")]
    TimedOut {
        /// "address:port".
        hop: String,
        /// "answer", "accept the login", …
        stage: &'static str,
        /// How long it was waited.
        limit: Duration,
    },
    /// The key or the user was refused.
    #[error(
        "{hop} refuses the login of {user}: put the public half of the key into ~{user}/.ssh/authorized_keys there"
    )]
    LoginRefused {
        /// "address:port".
        hop: String,
        /// Who logged in.
        user: String,
    },
    /// What SSH itself complained about.
    #[error("{hop} breaks the connection off: {said}")]
    Protocol {
        /// "address:port".
        hop: String,
        /// The complaint, cut.
        said: String,
    },
    /// Too many sessions at once.
    #[error("all {places} are taken; this one is tried again by itself")]
    Busy {
        /// Which of them.
        places: &'static str,
    },
    /// The connection ended before the command did.
    #[error("{hop} was lost while {command} ran; it is asked again what came of it")]
    Cut {
        /// "address:port".
        hop: String,
        /// The script.
        command: &'static str,
    },
    /// The command said nothing for too long, or did not end.
    #[error("{command} on {hop} {what} {limit:?}, and was given up: {said}")]
    Stuck {
        /// "address:port".
        hop: String,
        /// The script.
        command: &'static str,
        /// "says nothing for" or "has not ended after".
        what: &'static str,
        /// How long.
        limit: Duration,
        /// The end of what it said.
        said: String,
    },
    /// The command said too much.
    #[error("{command} on {hop} said more than {most} bytes, and was given up: {said}")]
    TooMuchOutput {
        /// "address:port".
        hop: String,
        /// The script.
        command: &'static str,
        /// The bound.
        most: usize,
        /// What it said last.
        said: String,
    },
    /// No root.
    #[error("{user} on {hop} does not become root: {how} ({said})")]
    NotRoot {
        /// "address:port".
        hop: String,
        /// Who logged in.
        user: String,
        /// How to mend it.
        how: &'static str,
        /// What the machine said.
        said: String,
    },
    /// The script ended with an error.
    #[error("{command} on {hop} failed with status {status}: {said}")]
    Failed {
        /// "address:port".
        hop: String,
        /// The script.
        command: &'static str,
        /// Its status; 128 and more: killed.
        status: u32,
        /// What it said last.
        said: String,
    },
    /// The answer of a script is none.
    #[error("the answer of the machine cannot be read: {why}; it said: {said}")]
    Answer {
        /// What is wrong with it.
        why: &'static str,
        /// What it said last.
        said: String,
    },
    /// The file that arrived is another one.
    #[error(
        "{path} on {hop} has the digest {found} instead of {wanted}: it was left as it was; check what is uploaded"
    )]
    Digest {
        /// "address:port".
        hop: String,
        /// Where it belongs.
        path: String,
        /// What arrived.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// A file that is sent finds no room.
    #[error(
        "{path} cannot be written on {hop}: make room there, or see with dmesg and fsck whether its filesystem is read-only"
    )]
    NoRoom {
        /// "address:port".
        hop: String,
        /// Where it belongs.
        path: String,
    },
    /// What is to be uploaded cannot be read.
    #[error("what is to be uploaded cannot be read")]
    Source(#[source] std::io::Error),
}

impl Error {
    /// Whether no other way to the machine may be tried: a login that was refused is refused there, too, and each
    /// further try brings the machine nearer to locking us out.
    pub(super) fn is_final(&self, hop: &str) -> bool {
        match self {
            Self::LoginRefused { hop: refused, .. } => refused == hop,
            _ => false,
        }
    }

    /// Which of several failures people have to see: a wrong key before everything else.
    pub(super) fn weight(&self) -> u8 {
        match self {
            Self::WrongHostKey { .. } | Self::NoHostKey { .. } => 3,
            Self::LoginRefused { .. } | Self::Forbidden { .. } => 2,
            Self::Forward { .. } | Self::Protocol { .. } => 1,
            _ => 0,
        }
    }

    /// A complaint of SSH, whose text may be the other side's.
    pub(super) fn protocol(hop: &str, error: &russh::Error) -> Self {
        let said = printable(&error.to_string());
        Self::Protocol {
            hop: hop.to_owned(),
            said: last(&said, 256).to_owned(),
        }
    }
}
