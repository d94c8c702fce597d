//! Lock per volume: one call at a time, and a second one is told to come again (CSI, "Error scheme",
//! ABORTED).
//!
//! Invariant: a call that ends in any way, cancelled ones included, lets go.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::status::Status;

/// Volumes that are in hand; clones share them.
#[derive(Clone, Debug, Default)]
pub struct InFlight {
    volumes: Arc<Mutex<BTreeSet<String>>>,
}

/// Has a volume in hand until it is dropped.
#[derive(Debug)]
pub struct Held {
    volume: String,
    all: InFlight,
}

impl InFlight {
    /// Takes a volume in hand.
    ///
    /// # Errors
    /// ABORTED when another call has it.
    pub fn take(&self, volume: &str) -> Result<Held, Status> {
        let mut volumes = self.volumes.lock().unwrap_or_else(PoisonError::into_inner);
        if !volumes.insert(volume.to_owned()) {
            return Err(Status::aborted(format!(
                "another call for volume {volume} is not finished; try again"
            )));
        }
        Ok(Held {
            volume: volume.to_owned(),
            all: self.clone(),
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let volumes = self.all.volumes.lock();
        let mut volumes = volumes.unwrap_or_else(PoisonError::into_inner);
        volumes.remove(&self.volume);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_call_is_told_to_come_again_until_the_first_ends() {
        let all = InFlight::default();
        let first = all.take("a").unwrap();
        assert_eq!(all.take("a").unwrap_err().code, tonic::Code::Aborted);
        assert!(all.take("b").is_ok());
        drop(first);
        assert!(all.take("a").is_ok());
    }
}
