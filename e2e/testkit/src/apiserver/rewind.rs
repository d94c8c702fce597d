//! Takes a management API back to an earlier state, in milliseconds and without a restart.
//!
//! What changed since the snapshot is written back to etcd key by key, as any other writer would:
//! the server's watch caches see ordinary events, objects get their old UIDs back, and only
//! resource versions go on. (Restarting both servers on a copied data folder takes seconds.)
//! Invariant: Leases are left alone, because live processes renew them; Events are only removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
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

impl Snapshot {
    /// One that [`Self::write`] wrote.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let keys = serde_json::from_slice(&text).context("not a snapshot")?;
        Ok(Self {
            keys: Mutex::new(keys),
        })
    }

    /// Writes it into a file, whole or not at all.
    pub(super) async fn write(&self, path: &Path) -> Result<()> {
        let keys = self.keys.lock().await;
        let text = serde_json::to_vec(&*keys).context("cannot write a snapshot")?;
        let half = path.with_extension("half");
        let mut options = File::options();
        let file = options.create(true).truncate(true).write(true).mode(0o600);
        let written = file.open(&half).and_then(|mut file| file.write_all(&text));
        written.with_context(|| format!("cannot write {}", half.display()))?;
        std::fs::rename(&half, path).context("cannot rename a snapshot")
    }

    /// Names of its keys but for those that come and go by themselves.
    pub(super) async fn settled(&self) -> Result<BTreeSet<String>> {
        let keys = self.keys.lock().await;
        settled(keys.keys())
    }
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
        let mut extra = Vec::new();
        for key in found.keys().filter(|key| !wanted.contains_key(*key)) {
            if !left_alone(key)? {
                extra.push(key.as_str());
            }
        }
        // Thousands where somebody played a flood.
        session.delete_all(&extra).await?;
        let mut done = Restored {
            removed: extra.len(),
            written: 0,
        };
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

impl ManagementApi {
    /// Names of all that is stored but for what comes and goes by itself.
    pub(super) async fn settled_keys(&self) -> Result<BTreeSet<String>> {
        settled(self.etcd.session().range(ROOT, true).await?.keys())
    }
}

fn settled<'a>(keys: impl Iterator<Item = &'a String>) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for key in keys {
        let name = decode(key)?;
        if !left_alone(key)? && !name.starts_with(EVENTS) {
            names.insert(name);
        }
    }
    Ok(names)
}

fn left_alone(key: &str) -> Result<bool> {
    let key = decode(key)?;
    Ok(LEFT_ALONE.iter().any(|prefix| key.starts_with(prefix)))
}
