//! Ports for programs that have to be told one before they start.
//!
//! Invariant: none is of the range that the kernel chooses from for whoever connects or binds 0 (Linux,
//! `net.ipv4.ip_local_port_range`: 32768 and more): a port of those that was free a moment ago may be anybody's by the
//! time the program binds it. Nor is one given twice by one process.

use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 12_000;
const COUNT: u32 = 20_000;

/// Tests are processes of their own, and most of those at once have numbers near one another: as many ports as one
/// test asks for stand between where each begins.
const EACH: u32 = 48;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port of loopback that nobody listens on.
///
/// # Errors
/// [`ErrorKind::AddrInUse`] when there is none.
pub fn unused() -> Result<u16> {
    for _ in 0..COUNT {
        let begin = std::process::id().wrapping_mul(EACH);
        let place = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = u16::try_from(FIRST + place).map_err(Error::other)?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::new(
        ErrorKind::AddrInUse,
        "all ports from 12000 to 31999 are in use",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_unused_below_those_of_the_kernel_and_given_once() {
        let first = unused().unwrap();
        assert!(first < 32_000);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).unwrap();
        let others: Vec<_> = (0..100).map(|_| unused().unwrap()).collect();
        assert!(!others.contains(&first));
        drop(listener);
    }
}
