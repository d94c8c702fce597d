//! Reconciles that write nothing of their object but its status: why one failed, and the write.
//!
//! Invariant: who does not lead writes nothing.

use kit::lease::NotLeader;
use kit::panics::Panicked;
use kit_client::errors::{Class, Classify};
use kube::Resource;
use serde::Serialize;

use crate::context::Context;
use crate::status;

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another replica leads.
    #[error("this is another replica's work now")]
    Fence(#[source] NotLeader),
    /// The API refused the status, or did not answer.
    #[error("write the status")]
    Write(#[source] kit_client::write::Error),
    /// It panicked.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Panicked(panicked) => panicked.class(),
            // Whoever leads now writes it.
            Self::Fence(_) => Class::Transient,
            Self::Write(source) => source.class(),
        }
    }
}

/// Writes it.
///
/// # Errors
/// [`Error::Fence`], [`Error::Write`].
pub(super) async fn write<K: Resource<DynamicType = ()>>(
    ctx: &Context,
    object: &K,
    status: &impl Serialize,
) -> Result<(), Error> {
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let written = status::write_status(&ctx.client, object, status).await;
    written.map(drop).map_err(Error::Write)
}
