//! Takes a management API back to an earlier state, in milliseconds and without a restart.
//!
//! What changed since the snapshot is written back to etcd key by key, as any other writer would:
//! the server's watch caches see ordinary events, objects get their old UIDs back, and only
//! resource versions go on. (Restarting both servers on a copied data folder takes seconds.)
//! Invariant: Leases are left alone, because live processes renew them; Events are only removed.

use std::collections::BTreeMap;

use anyhow::Result;
use tokio::sync::Mutex;

use super::ManagementApi;
use crate::etcd::{KeyValue, decode};

const ROOT: &str = "/registry/";
const LEFT_ALONE: &[&str] = &["/registry/leases/", "/registry/masterleases/"];
const EVENTS: &str = "/registry/events/";

/// What the management API held at one moment; can be restored any number of times.
pub struct Snapshot {
    keys: Mutex<BTreeMap<String, KeyValue>>,
}

/// What [`ManagementApi::restore`] did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Restored {
    /// Keys that were not there at the time of the snapshot.
    pub removed: usize,
    /// Keys that were changed or removed since.
    pub written: usize,
}

impl ManagementApi {
    /// Remembers everything that is stored now.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        let keys = self.etcd.session().range(ROOT, false).await?;
        Ok(Snapshot {
            keys: Mutex::new(keys),
        })
    }

    /// Goes back to a snapshot. Nobody may be writing meanwhile: end the operator under test
    /// first. The server stays up; watches see what changes.
    pub async fn restore(&self, snapshot: &Snapshot) -> Result<Restored> {
        let session = self.etcd.session();
        let mut wanted = snapshot.keys.lock().await;
        let found = session.range(ROOT, true).await?;
        let mut done = Restored {
            removed: 0,
            written: 0,
        };
        for key in found.keys().filter(|key| !wanted.contains_key(*key)) {
            if !left_alone(key)? {
                session.delete(key).await?;
                done.removed += 1;
            }
        }
        for (key, value) in wanted.iter_mut() {
            let same = found
                .get(key)
                .is_some_and(|now| now.mod_revision == value.mod_revision);
            if !same && !left_alone(key)? && !decode(key)?.starts_with(EVENTS) {
                // The next restore compares with what is written now.
                value.mod_revision = session.put(key, &value.value).await?;
                done.written += 1;
            }
        }
        Ok(done)
    }
}

fn left_alone(key: &str) -> Result<bool> {
    let key = decode(key)?;
    Ok(LEFT_ALONE.iter().any(|prefix| key.starts_with(prefix)))
}
