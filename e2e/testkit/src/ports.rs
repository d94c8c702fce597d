//! Ports for programs that have to be told one before they start.
//!
//! Invariant: none is of the range that the kernel chooses from for whoever connects or binds 0 (Linux,
//! `net.ipv4.ip_local_port_range`: 32768 and more): a port of those that was free a moment ago may be anybody's by the
//! time the program binds it. Nor is one given twice by one process.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Below node ports of clusters, too.
const FIRST: u16 = 15_000;
const COUNT: u16 = 14_000;

/// Tests are processes of their own, so each begins somewhere else.
static NEXT: LazyLock<AtomicU64> =
    LazyLock::new(|| AtomicU64::new(RandomState::new().build_hasher().finish() >> 1));

/// A port of loopback that nobody listens on.
///
/// # Errors
/// [`ErrorKind::AddrInUse`] when there is none.
pub fn unused() -> Result<u16> {
    for _ in 0..COUNT {
        let place = NEXT.fetch_add(1, Ordering::Relaxed) % u64::from(COUNT);
        let port = FIRST + u16::try_from(place).map_err(Error::other)?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::new(
        ErrorKind::AddrInUse,
        "all ports below 29000 are in use",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_unused_below_those_of_the_kernel_and_given_once() {
        let first = unused().unwrap();
        assert!(first < 29_000);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).unwrap();
        let others: Vec<_> = (0..100).map(|_| unused().unwrap()).collect();
        assert!(!others.contains(&first));
        drop(listener);
    }
}
