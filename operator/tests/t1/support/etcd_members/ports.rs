//! Where members that are played listen.
//!
//! Invariant: no two stages have a port in common.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;

use super::MEMBERS;

/// Where a member listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(super) client: u16,
    pub(super) http: u16,
    pub(super) peer: u16,
    pub(super) metrics: u16,
}

/// Below those that the kernel gives connections of (`net.ipv4.ip_local_port_range`, 32768 to 60999): a member that is
/// restarted binds its ports anew, and meanwhile a connection of another test may have got one. A test is a process
/// here, and each begins at another number.
pub(super) fn ports() -> Result<[Ports; MEMBERS]> {
    const FIRST: u32 = 12_000;
    const MOST: u32 = 20_000;
    // Four of each member, for four stages in one process: members that start later leave theirs free until then.
    const EACH: u32 = 4 * 12;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Held together, so that they differ.
    let mut held = Vec::new();
    let mut port = || -> Result<u16> {
        for _ in 0..MOST {
            let offset = std::process::id() * EACH + NEXT.fetch_add(1, Ordering::Relaxed);
            let port = u16::try_from(FIRST + offset % MOST)?;
            if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                held.push(listener);
                return Ok(port);
            }
        }
        anyhow::bail!("no free port")
    };
    let mut all = || -> Result<Ports> {
        Ok(Ports {
            client: port()?,
            http: port()?,
            peer: port()?,
            metrics: port()?,
        })
    };
    Ok([all()?, all()?, all()?])
}
