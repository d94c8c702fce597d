//! Ports for programs that have to be told one before they start.
//!
//! Invariant: none is of the range that the kernel chooses from for whoever connects or binds 0 (Linux,
//! `net.ipv4.ip_local_port_range`: 32768 and more): a port of those that was free a moment ago may be anybody's by the
//! time the program binds it. Nor is one given twice, by this process or by another one that still runs: a program that
//! is started again finds its port as it left it.

use std::fs::{self, File, TryLockError};
use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

const FIRST: u16 = 12_000;
const BLOCKS: u16 = 400;
/// Ports of a block, which one process has: as many as most tests ask for.
const EACH: u16 = 50;

static TAKEN: Mutex<Taken> = Mutex::new(Taken {
    blocks: Vec::new(),
    left: 0..0,
});

/// What this process has.
struct Taken {
    /// Each is locked until the process ends, however it does.
    blocks: Vec<File>,
    left: Range<u16>,
}

impl Taken {
    fn next(&mut self, folder: &Path) -> Result<u16> {
        loop {
            let Some(port) = self.left.next() else {
                self.take_block(folder)?;
                continue;
            };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Ok(port);
            }
        }
    }

    fn take_block(&mut self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        // Most of those at once have numbers near one another, and find theirs at the first attempt.
        let begin = std::process::id() % u32::from(BLOCKS);
        let begin = u16::try_from(begin).map_err(Error::other)?;
        for block in (begin..BLOCKS).chain(0..begin) {
            let file = File::create(folder.join(block.to_string()))?;
            match file.try_lock() {
                Ok(()) => {
                    self.blocks.push(file);
                    let first = FIRST + block * EACH;
                    self.left = first..first + EACH;
                    return Ok(());
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(
            ErrorKind::AddrInUse,
            "all ports from 12000 to 31999 are in use",
        ))
    }
}

/// A port of loopback that nobody listens on.
///
/// # Errors
/// [`ErrorKind::AddrInUse`] when there is none; what keeps from noting whose it is.
pub fn unused() -> Result<u16> {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    taken.next(&std::env::temp_dir().join("covey-test-ports"))
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

    #[test]
    fn blocks_of_others_are_left_to_them_until_they_end() {
        let folder = tempfile::tempdir().unwrap();
        let nothing = || Taken {
            blocks: Vec::new(),
            left: 0..0,
        };
        let (mut one, mut other) = (nothing(), nothing());
        let first = one.next(folder.path()).unwrap();
        // More than a block has.
        let of_other: Vec<_> = (0..2 * EACH)
            .map(|_| other.next(folder.path()).unwrap())
            .collect();
        let block = (first - FIRST) / EACH;
        assert!(of_other.iter().all(|port| (port - FIRST) / EACH != block));
        drop(one);
        let again = nothing().next(folder.path()).unwrap();
        assert_eq!((again - FIRST) / EACH, block);
    }
}
