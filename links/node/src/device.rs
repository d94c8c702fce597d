//! What carries packets to peers: the kernel's WireGuard, or this process and a TUN device.
//!
//! Invariant: both are told the same steps, and hold nothing that they were not told.

pub mod kernel;
pub mod process;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use futures::future::BoxFuture;
use ipnet::IpNet;

use crate::key::PublicKey;
use crate::plan::Peer;
use crate::plan::change::Step;
use crate::tunnels::{Dropped, Session};

/// A device.
pub trait Device: Send + Sync {
    /// What it is called in metrics and `/state`.
    fn driver(&self) -> &'static str;

    /// Number of the network device.
    fn index(&self) -> u32;

    /// The peers that it has from before this process, without their names.
    ///
    /// # Errors
    /// When it does not say.
    fn held(&self) -> BoxFuture<'_, Result<BTreeMap<PublicKey, Peer>>>;

    /// Carries out steps, one after the other. `own` are the addresses that packets of peers may be for.
    ///
    /// # Errors
    /// When one is refused; those before it are carried out.
    fn carry_out<'a>(
        &'a self,
        steps: &'a [Step],
        own: BTreeSet<IpNet>,
    ) -> BoxFuture<'a, Result<()>>;

    /// How it stands with each peer.
    ///
    /// # Errors
    /// When it does not say.
    fn sessions(&self) -> BoxFuture<'_, Result<BTreeMap<PublicKey, Session>>>;

    /// What was let go, where it counts.
    fn dropped(&self) -> Dropped;

    /// Ends when it carries packets no more, and says why.
    fn broken(&self) -> BoxFuture<'_, anyhow::Error>;
}
