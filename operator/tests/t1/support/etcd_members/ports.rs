//! Where members that are played listen.
//!
//! Invariant: no two stages have a port in common.

use anyhow::Result;
use testkit::ports::unused;

use super::MEMBERS;

/// Where a member listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(super) client: u16,
    pub(super) http: u16,
    pub(super) peer: u16,
    pub(super) metrics: u16,
}

/// A member that is restarted binds its ports anew: what they are is for [`unused`] to say.
pub(super) fn ports() -> Result<[Ports; MEMBERS]> {
    let all = || -> Result<Ports> {
        Ok(Ports {
            client: unused()?,
            http: unused()?,
            peer: unused()?,
            metrics: unused()?,
        })
    };
    Ok([all()?, all()?, all()?])
}
