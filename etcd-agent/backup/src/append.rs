//! What is left of a member has what no backup has: that is put into the backup, as ordinary deltas, and a restore goes from
//! there as any other.
//!
//! It is read from an etcd that serves a copy of it alone, so the very loop that backs a tenant cluster up does it, with its
//! conditional puts and its reading back; it ends once all that the copy has is in the store.
//! Invariant: a copy of another etcd cluster, or one that has something else than the backup where both have something, is
//! left aside, in words, and nothing of it is written. What is in the backup stays.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::engine::{self, Ended, Options, Progress};
use crate::etcd::{self, Etcd};
use crate::plan::Settings;
use crate::plan::retention::Retention;
use crate::reader::{Opener, Reader};
use crate::restore::outcome::RestoreError;
use crate::restore::survivors;
use crate::store::Store;

/// What came of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Appended {
    /// All of it is in the backup now.
    Until {
        /// What the copy has.
        revision: u64,
        /// Deltas that were written for it; 0 where the backup had all of it.
        deltas: u64,
    },
    /// It is not used; why, for people.
    Aside(String),
}

/// Why it came to nothing. It may be tried again.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The backup could not be read, or the etcd on the copy did not answer.
    #[error(transparent)]
    Read(#[from] RestoreError),
    /// The etcd on the copy did not answer.
    #[error(transparent)]
    Etcd(#[from] etcd::Error),
    /// It ended before all was written.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// It ended without a word.
    #[error("it ended before everything was in the backup")]
    Early,
}

/// Quick deltas; no full snapshot but where nothing else goes on, and nothing is deleted.
fn settings() -> Settings {
    Settings {
        delta_every_ms: 200,
        full_every_ms: u64::MAX,
        full_after_bytes: u64::MAX,
        full_after_revisions: u64::MAX,
        retention: Retention {
            hours: u32::MAX,
            days: u32::MAX,
            weeks: u32::MAX,
            months: u32::MAX,
        },
        grace_ms: u64::MAX,
        pause_ms: 1_000,
        ..Settings::default()
    }
}

/// Puts what an etcd on a copy has into the backup of the etcd cluster `wanted`. Nobody else may write to either meanwhile.
///
/// # Errors
/// [`AppendError`].
pub async fn append<S: Store>(
    store: Arc<S>,
    etcd: Etcd,
    options: Options,
    wanted: u64,
) -> Result<Appended, AppendError> {
    let status = etcd.status().await?;
    let (own, cluster) = (status.revision, status.cluster);
    if cluster != wanted {
        let why = format!("it is of etcd cluster {cluster:016x}, and {wanted:016x} is wanted");
        return Ok(Appended::Aside(why));
    }
    let scope = backup_format::Scope::new(&options.tenant, wanted);
    let scope = scope.ok_or_else(|| Ended::Tenant(options.tenant.clone()))?;
    let reader = Reader {
        store: &*store,
        scope,
        prefix: options.prefix.clone(),
        opener: Opener::Data(options.keys.data.clone()),
    };
    if let Some(why) = survivors::contradiction(&reader, &etcd, own).await? {
        return Ok(Appended::Aside(why));
    }
    let options = Options {
        cluster: Some(wanted),
        settings: settings(),
        ..options
    };
    let deltas = write(store, etcd, options, own).await?;
    Ok(Appended::Until {
        revision: own,
        deltas,
    })
}

/// Backs it up until that revision is there; how many deltas it took.
async fn write<S: Store>(
    store: Arc<S>,
    etcd: Etcd,
    options: Options,
    until: u64,
) -> Result<u64, AppendError> {
    let has = |progress: &Progress| {
        let full = progress.full.is_some_and(|full| full.revision >= until);
        full || progress.durable >= until
    };
    let (progress, mut told) = watch::channel(Progress::default());
    // Nobody asks; and who could is there until the end.
    let (_questions, asked) = mpsc::channel(1);
    let (stop, stopped) = watch::channel(false);
    let runs = engine::run(store, etcd, options, (progress, asked), stopped);
    tokio::pin!(runs);
    tokio::select! {
        ended = &mut runs => {
            ended?;
            return Err(AppendError::Early);
        }
        reached = told.wait_for(has) => {
            reached.map_err(|_| AppendError::Early)?;
        }
    }
    let _ = stop.send(true);
    runs.await?;
    let deltas = told.borrow().deltas;
    Ok(deltas)
}
