//! Replays deltas on an etcd of ours, and makes a data directory of what comes out.
//!
//! Invariant: no lease ends while deltas are replayed, for that would be a revision that never was.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use backup_format::records::{Lease, Operation, Revision};
use proto::etcd::request_op::Request;
use proto::etcd::{DeleteRangeRequest, PutRequest, RequestOp, TxnRequest};

use super::outcome::{Fetched, Found, RestoreError, Restored};
use super::programs::{Member, Programs, local};
use crate::etcd::{self, Etcd};
use crate::reader::{ReadError, Reader};
use crate::store::Store;

/// Leases are renewed so often; etcd grants none for less than 2 s.
const RENEW: Duration = Duration::from_millis(700);
/// For a lease that was gone before anybody could ask for how long it was granted: that of Events.
const DEFAULT_TTL_SECONDS: i64 = 3600;
/// How often it is looked whether more was written meanwhile; what comes after that is left.
const MOST_ROUNDS: usize = 20;

pub(super) async fn build<S: Store>(
    reader: &Reader<'_, S>,
    found: Found,
    programs: &Programs,
    folder: &Path,
    member: &Member,
) -> Result<Restored, RestoreError> {
    let database = folder.join("snapshot.db");
    let fetched = fetch(reader, found, &database).await?;
    let replayed_on = local(folder.join("replay"));
    programs.restore(&database, &replayed_on).await?;
    std::fs::remove_file(&database).map_err(|error| failed(&database, error))?;
    let running = programs.run(&replayed_on, &folder.join("etcd.log")).await?;
    let restored = replay(reader, found, fetched, &running.etcd, &database).await?;
    running.end().await;
    programs.restore(&database, member).await?;
    Ok(restored)
}

pub(super) async fn fetch<S: Store>(
    reader: &Reader<'_, S>,
    found: Found,
    database: &Path,
) -> Result<Fetched, RestoreError> {
    let mut file = File::create(database).map_err(|error| failed(database, error))?;
    let write = |piece: &[u8]| file.write_all(piece).map_err(|error| error.to_string());
    let read = reader.full(found.full, write).await?;
    Ok(Fetched {
        reach: read.reach,
        most: read.most,
    })
}

pub(super) async fn replay<S: Store>(
    reader: &Reader<'_, S>,
    found: Found,
    fetched: Fetched,
    etcd: &Etcd,
    database: &Path,
) -> Result<Restored, RestoreError> {
    let mut replay = Replay::begin(etcd, found, fetched).await?;
    let begun = replay.revision;
    let mut reach = fetched.reach;
    let listing = reader.list().await.map_err(ReadError::from)?;
    'deltas: while reach.revision < found.revision {
        let Some(recorded) = reader.next_delta(&mut reach, &listing).await? else {
            continue;
        };
        for revision in &recorded.revisions {
            if revision.number > found.revision {
                break 'deltas;
            }
            replay.revision(revision, &recorded.leases).await?;
        }
    }
    let revision = replay.revision;
    save(etcd, database).await?;
    Ok(Restored {
        revision,
        replayed: revision - begun,
    })
}

/// Replays what comes after the snapshot, and what is written meanwhile.
pub(super) async fn replay_all<S: Store>(
    reader: &Reader<'_, S>,
    found: Found,
    fetched: Fetched,
    etcd: &Etcd,
) -> Result<Restored, RestoreError> {
    let mut replay = Replay::begin(etcd, found, fetched).await?;
    let begun = replay.revision;
    let mut reach = fetched.reach;
    for _ in 0..MOST_ROUNDS {
        let listing = reader.list().await.map_err(ReadError::from)?;
        let newest = listing.newest_delta();
        if newest.is_none_or(|newest| reach.next > newest) {
            break;
        }
        while newest.is_some_and(|newest| reach.next <= newest) {
            let Some(recorded) = reader.next_delta(&mut reach, &listing).await? else {
                continue;
            };
            for revision in &recorded.revisions {
                replay.revision(revision, &recorded.leases).await?;
            }
        }
    }
    Ok(Restored {
        revision: replay.revision,
        replayed: replay.revision - begun,
    })
}

/// Writes a snapshot to a file.
pub(super) async fn save(etcd: &Etcd, database: &Path) -> Result<(), RestoreError> {
    let mut stream = etcd.snapshot().await?;
    let mut file = File::create(database).map_err(|error| failed(database, error))?;
    while let Some(piece) = etcd::soon("for a snapshot", &mut stream).await? {
        file.write_all(&piece.blob)
            .map_err(|error| failed(database, error))?;
    }
    Ok(())
}

fn failed(path: &Path, error: std::io::Error) -> RestoreError {
    RestoreError::File {
        path: path.display().to_string(),
        problem: error.to_string(),
    }
}

/// Revisions, one after another, on an etcd that nobody else writes to.
pub(super) struct Replay<'a> {
    etcd: &'a Etcd,
    pub(super) revision: u64,
    leases: BTreeSet<i64>,
    renewed: Instant,
}

impl<'a> Replay<'a> {
    /// On an etcd that serves the snapshot.
    async fn begin(etcd: &'a Etcd, found: Found, fetched: Fetched) -> Result<Self, RestoreError> {
        let begun = etcd.status().await?.revision;
        if begun < found.full.revision || begun > fetched.most {
            return Err(RestoreError::Snapshot {
                least: found.full.revision,
                most: fetched.most,
                found: begun,
            });
        }
        Self::on(etcd, begun).await
    }

    /// On one that is at this revision.
    pub(super) async fn on(etcd: &'a Etcd, revision: u64) -> Result<Self, RestoreError> {
        let leases = etcd.leases().await?;
        // It may have served for a while, and the list of objects may take another one.
        etcd.renew(leases.clone()).await?;
        Ok(Self {
            renewed: Instant::now(),
            leases: leases.into_iter().collect(),
            etcd,
            revision,
        })
    }

    pub(super) async fn revision(
        &mut self,
        revision: &Revision,
        leases: &[Lease],
    ) -> Result<(), RestoreError> {
        if self.renewed.elapsed() > RENEW {
            self.renewed = Instant::now();
            self.etcd
                .renew(self.leases.iter().copied().collect())
                .await?;
        }
        // The snapshot has it.
        if revision.number <= self.revision {
            return Ok(());
        }
        for operation in &revision.operations {
            if let Operation::Put { lease, .. } = operation {
                self.grant(*lease, leases).await?;
            }
        }
        let found = self.etcd.transact(transaction(revision)).await?;
        if found != revision.number || revision.number != self.revision + 1 {
            return Err(RestoreError::Revision {
                wanted: revision.number,
                found,
            });
        }
        self.revision = found;
        Ok(())
    }

    /// A lease is there before the first put that names it.
    async fn grant(&mut self, lease: i64, known: &[Lease]) -> Result<(), RestoreError> {
        if lease == 0 || self.leases.contains(&lease) {
            return Ok(());
        }
        let ttl = known
            .iter()
            .find(|known| known.id == lease)
            .map(|known| known.ttl_seconds);
        let ttl = ttl.filter(|ttl| *ttl > 0).unwrap_or(DEFAULT_TTL_SECONDS);
        self.etcd.grant(lease, ttl).await?;
        self.leases.insert(lease);
        Ok(())
    }
}

/// What a revision did, as one transaction.
fn transaction(revision: &Revision) -> TxnRequest {
    let request = |operation: &Operation| match operation {
        Operation::Put { key, value, lease } => Request::RequestPut(PutRequest {
            key: key.clone(),
            value: value.clone(),
            lease: *lease,
        }),
        Operation::Delete { key } => Request::RequestDeleteRange(DeleteRangeRequest {
            key: key.clone(),
            range_end: Vec::new(),
        }),
    };
    let operations = revision.operations.iter().map(|operation| RequestOp {
        request: Some(request(operation)),
    });
    TxnRequest {
        success: operations.collect(),
    }
}
