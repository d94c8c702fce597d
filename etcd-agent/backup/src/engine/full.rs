//! Takes a full snapshot: a stream of etcd's, cut into parts that are written one by one, and a head.
//!
//! Invariant: there is a head only if all parts were read back and etcd's own checksum was right.

use backup_format::object::{BadStream, Cutter};
use backup_format::{Digest, FullName, Header, Kind};
use tokio::sync::oneshot;

use crate::clock::now_ms;
use crate::etcd::{self, Etcd};
use crate::plan::Tip;
use crate::store::Store;
use crate::writer::{NotWritten, Writer};

/// Bytes of a database in one part: what bounds memory here, twice over.
const PART: usize = 2 * 1024 * 1024;

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub(super) enum FullError {
    #[error(transparent)]
    Etcd(#[from] etcd::Error),
    #[error(transparent)]
    Stream(#[from] BadStream),
    #[error(transparent)]
    Write(#[from] NotWritten),
    #[error(
        "the member is at revision {found}, and the backup at {wanted}: it lags, or its data is older"
    )]
    Behind { wanted: u64, found: u64 },
    #[error("the snapshot has more parts than fit")]
    TooLong,
}

/// A snapshot that is in the store.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) full: FullName,
    pub(super) head: Digest,
}

/// What a snapshot's headers say besides.
#[derive(Clone, Debug)]
pub(super) struct Describes {
    pub(super) writer: String,
    pub(super) kubernetes: String,
    /// The newest delta.
    pub(super) tip: Option<Tip>,
}

pub(super) async fn take<S: Store>(
    writer: Writer<S>,
    etcd: Etcd,
    describes: Describes,
    revision: oneshot::Sender<u64>,
) -> Result<Taken, FullError> {
    let status = etcd.status().await?;
    let wanted = describes.tip.and_then(|tip| tip.last).unwrap_or_default();
    if status.revision < wanted {
        return Err(FullError::Behind {
            wanted,
            found: status.revision,
        });
    }
    let full = FullName {
        revision: status.revision,
        next: describes.tip.map_or(0, |tip| tip.number + 1),
        taken_ms: now_ms(),
    };
    // Nobody listens any more when the process ends.
    let _ = revision.send(full.revision);
    let mut writing = Writing {
        header: Header {
            scope: writer.scope.clone(),
            kind: Kind::Part { full, part: 0 },
            previous: describes.tip.map(|tip| tip.digest),
            written_ms: full.taken_ms,
            writer: describes.writer,
            etcd: status.version,
            kubernetes: describes.kubernetes,
        },
        writer,
        full,
        parts: 0,
    };
    let mut stream = etcd.snapshot().await?;
    let (mut cutter, mut most) = (Cutter::new(PART), None);
    while let Some(piece) = etcd::soon("for a snapshot", &mut stream).await? {
        if most.is_none() {
            // The database is held since before the first piece, so it has no later revision.
            most = Some(etcd.status().await?.revision);
        }
        let mut part = cutter.push(&piece.blob);
        while let Some(content) = part {
            writing.part(&content).await?;
            part = cutter.push(&[]);
        }
    }
    let cut = cutter.finish()?;
    writing.part(&cut.rest).await?;
    writing.header.kind = Kind::Head {
        full,
        parts: writing.parts,
        most: most.unwrap_or(full.revision),
        bytes: cut.bytes,
        database: cut.database,
    };
    writing.header.written_ms = now_ms();
    let head = writing.writer.write(&writing.header, &[]).await?;
    Ok(Taken {
        full,
        head: head.digest,
    })
}

struct Writing<S> {
    writer: Writer<S>,
    header: Header,
    full: FullName,
    parts: u32,
}

impl<S: Store> Writing<S> {
    async fn part(&mut self, content: &[u8]) -> Result<(), FullError> {
        self.header.kind = Kind::Part {
            full: self.full,
            part: self.parts,
        };
        let written = self.writer.write(&self.header, content).await?;
        self.header.previous = Some(written.digest);
        self.parts = self
            .parts
            .checked_add(1)
            .filter(|n| *n < 1_000_000)
            .ok_or(FullError::TooLong)?;
        Ok(())
    }
}
