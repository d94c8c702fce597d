//! What every process of ours begins with.
//!
//! Invariant: whatever happens afterwards is logged, and a panic outside of contained work ends the process.

use std::io;
use std::time::Duration;

use kit_client::crypto::install_crypto;

use crate::args::LogArgs;
use crate::shutdown::Shutdown;
use crate::{panics, telemetry};

/// Why a process cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log cannot be set up.
    #[error(transparent)]
    Log(#[from] telemetry::Error),
    /// Signals cannot be caught.
    #[error("catch signals")]
    Signals(#[source] io::Error),
}

/// Sets up the log, cryptography and what a panic does, and gives what ends the process at SIGTERM or SIGINT,
/// at the latest after `grace` (see [`Shutdown::on_signals`]). Called once.
///
/// # Errors
/// See [`Error`].
pub fn begin(log: &LogArgs, grace: Duration) -> Result<Shutdown, Error> {
    telemetry::init(log)?;
    panics::abort_unless_contained();
    install_crypto();
    Shutdown::on_signals(grace).map_err(Error::Signals)
}
