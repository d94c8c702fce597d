//! The loop: looks, plans, carries out (`plan.rs` decides).
//!
//! Invariant: what is in memory only saves a look at the store. It is bounded: events that wait, one
//! delta and one part of a snapshot; while the store does not take them, the watch is not read.

mod answers;
mod events;
mod full;
mod identity;
mod steps;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backup_format::keys::Keys;
use backup_format::records::Recorder;
use backup_format::{Digest, FullName, IdentityName, Scope, SealedIdentity};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tonic::Streaming;

use self::events::Collector;
use self::full::{FullError, Taken};
use crate::clock::now_ms;
use crate::etcd::{Etcd, MemberStatus};
use crate::plan::listing::Listing;
use crate::plan::{self, Observed, Pending, Settings, Step, Taking, Tip, Watch};
use crate::questions::Question;
use crate::reader::ReadError;
use crate::store::{Call, Cause, Store};
use crate::writer::{NotWritten, Writer, Written};

/// Most bytes of events that wait; then the watch is not read, and etcd keeps the rest.
const MOST_PENDING: usize = 4 * 1024 * 1024;
/// How long the last delta may take when the process is told to end.
const LAST_DELTA: Duration = Duration::from_secs(20);
/// The longest wait: what is not told by anybody is looked at then.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What a backup is of, and how it is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// UID of the TenantCluster.
    pub tenant: String,
    /// Identifier of its etcd cluster, if it is known; another one is refused.
    pub cluster: Option<u64>,
    /// In front of all keys; empty, or with a slash at its end.
    pub prefix: String,
    /// What objects are sealed with.
    pub keys: Keys,
    /// How it is kept.
    pub settings: Settings,
    /// Who writes: the pod's name.
    pub writer: String,
    /// Version of the tenant cluster's Kubernetes; may be empty.
    pub kubernetes: String,
    /// The tenant cluster's identity, sealed, as long as somebody tells it; none where there is none.
    pub identity: watch::Receiver<Option<Arc<SealedIdentity>>>,
}

/// How far a backup is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Progress {
    /// The etcd cluster that is backed up; 0 until it was asked.
    pub cluster: u64,
    /// Whether the store was looked at, so that `full` and `verified` are known.
    pub looked: bool,
    /// Whether a full snapshot is being written.
    pub taking: bool,
    /// The last revision of the deltas that were read back; 0 where there is none.
    pub durable: u64,
    /// When its event came, in milliseconds since 1970.
    pub durable_ms: u64,
    /// Deltas that this process wrote.
    pub deltas: u64,
    /// The newest full snapshot.
    pub full: Option<FullName>,
    /// The newest that was found whole.
    pub verified: Option<FullName>,
    /// The identity that was last read back.
    pub identity: Option<IdentityName>,
    /// Since when the oldest event waits that is not in the store, in milliseconds since 1970.
    pub waiting_since_ms: Option<u64>,
    /// Why it does not go on, and since when, in milliseconds since 1970.
    pub trouble: Option<(Trouble, u64)>,
}

impl Progress {
    /// The last revision that is in the store for certain; 0 where that is not known. No delta ever follows a full snapshot of
    /// what does not change, so that one counts, too, once it was found whole.
    #[must_use]
    pub fn last_revision(&self) -> u64 {
        let full = self.verified.map_or(0, |full| full.revision);
        self.durable.max(full)
    }
}

/// Why a backup does not go on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trouble {
    /// The store did not do it.
    Store(Call, Cause),
    /// etcd does not answer, or breaks the watch off.
    Etcd,
    /// etcd is behind its own backup.
    Behind,
    /// An object of the store is not what was written, or another backup writes.
    Objects,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(call, cause) => write!(f, "{call}: {cause}"),
            Self::Etcd => f.write_str("etcd does not answer, or breaks its watch off"),
            Self::Behind => f.write_str(
                "etcd is behind its own backup: a member that lags, or data that is older",
            ),
            Self::Objects => f.write_str(
                "an object of the store is not what was written, or somebody else writes there",
            ),
        }
    }
}

/// Why a backup ended.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// Somebody else writes. Whoever starts again goes on where that one is.
    #[error("another backup of this tenant cluster writes; this one ends")]
    Another,
    /// The etcd is of another cluster than it should be.
    #[error("the etcd is cluster {found:016x}, and {wanted:016x} is backed up")]
    OtherCluster {
        /// The etcd's.
        found: u64,
        /// The one that was asked for.
        wanted: u64,
    },
    /// A tenant's name that is none.
    #[error("{0:?} is no UID of a TenantCluster")]
    Tenant(String),
}

/// The watch and what it is read by.
enum Source {
    Closed,
    Open(Box<Streaming<proto::etcd::WatchResponse>>),
    Compacted(u64),
}

/// A full snapshot that is being written.
struct TakingFull {
    task: JoinHandle<Result<Taken, FullError>>,
    revision: Option<oneshot::Receiver<u64>>,
    from: Option<u64>,
}

/// A delta that is being written.
struct WritingDelta {
    task: JoinHandle<Result<Written, NotWritten>>,
    number: u64,
    last: u64,
    since: u64,
    time_ms: u64,
    waiting_since_ms: u64,
}

/// A backup that runs.
pub struct Engine<S: Store> {
    writer: Writer<S>,
    etcd: Etcd,
    options: Options,
    status: MemberStatus,
    progress: watch::Sender<Progress>,
    listing: Option<Listing>,
    tip: Option<Tip>,
    head: Option<(FullName, Digest)>,
    source: Source,
    collector: Collector,
    writing: Option<WritingDelta>,
    taking: Option<TakingFull>,
    verifying: Option<(FullName, JoinHandle<Result<u64, ReadError>>)>,
    spoilt: Option<FullName>,
    /// The identity that was read back since the store was last looked at.
    identity: Option<IdentityName>,
    /// There is to be a full snapshot after this one.
    wanted_after: Option<Option<FullName>>,
    questions: mpsc::Receiver<Question>,
    met_another: bool,
    not_before_ms: u64,
    full_not_before_ms: u64,
}

/// Backs an etcd up until `stop` changes or its sender is gone. `questions` are answered between two steps.
///
/// # Errors
/// [`Ended`].
pub async fn run<S: Store>(
    store: Arc<S>,
    etcd: Etcd,
    options: Options,
    (progress, questions): (watch::Sender<Progress>, mpsc::Receiver<Question>),
    mut stop: watch::Receiver<bool>,
) -> Result<(), Ended> {
    let pause = Duration::from_millis(options.settings.pause_ms);
    let status = loop {
        match etcd.status().await {
            Ok(status) => break status,
            Err(error) => {
                tracing::warn!("{error}; asked again in {pause:?}");
                troubled(&progress, Trouble::Etcd);
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stop.changed() => return Ok(()),
        }
    };
    let found = status.cluster;
    if let Some(wanted) = options.cluster.filter(|wanted| *wanted != found) {
        return Err(Ended::OtherCluster { found, wanted });
    }
    let scope = Scope::new(&options.tenant, found);
    let scope = scope.ok_or_else(|| Ended::Tenant(options.tenant.clone()))?;
    progress.send_modify(|progress| progress.cluster = found);
    let engine = Engine {
        writer: Writer {
            store,
            keys: options.keys.clone(),
            scope,
            prefix: options.prefix.clone(),
            longest_pause: pause,
        },
        etcd,
        options,
        status,
        progress,
        listing: None,
        tip: None,
        head: None,
        source: Source::Closed,
        collector: Collector::new(Recorder::new(0, 0)),
        writing: None,
        taking: None,
        verifying: None,
        spoilt: None,
        identity: None,
        wanted_after: None,
        questions,
        met_another: false,
        not_before_ms: 0,
        full_not_before_ms: 0,
    };
    engine.run(stop).await
}

impl<S: Store> Engine<S> {
    async fn run(mut self, mut stop: watch::Receiver<bool>) -> Result<(), Ended> {
        loop {
            self.tell_waiting();
            match plan::plan(&self.options.settings, &self.world()) {
                Step::Stop => return Err(Ended::Another),
                Step::Wait(until) => {
                    let wait = Duration::from_millis(until.saturating_sub(now_ms()));
                    if !self.wait(wait.min(LONGEST_WAIT), &mut stop).await {
                        return self.finish().await;
                    }
                }
                step => {
                    tracing::debug!(?step, "next");
                    tokio::select! {
                        () = self.carry_out(step) => {}
                        _ = stop.changed() => return self.finish().await,
                    }
                }
            }
        }
    }

    fn world(&self) -> Observed<'_> {
        Observed {
            listing: self.listing.as_ref(),
            tip: self.tip,
            watch: match self.source {
                Source::Closed => Watch::Closed,
                Source::Open(_) => Watch::Open,
                Source::Compacted(at) => Watch::Compacted(at),
            },
            pending: self.pending(),
            writing: self.writing.is_some(),
            verifying: self.verifying.is_some(),
            taking: match &self.taking {
                None => Taking::Nothing,
                Some(taking) => taking.from.map_or(Taking::Asked, Taking::From),
            },
            wanted: self.is_wanted(),
            spoilt: self.spoilt,
            identity: self.missing_identity(),
            met_another: self.met_another,
            not_before_ms: self.not_before_ms,
            full_not_before_ms: self.full_not_before_ms,
            now_ms: now_ms(),
        }
    }

    /// Since when something waits, told where it is another time than before.
    fn tell_waiting(&self) {
        let writing = self
            .writing
            .as_ref()
            .map(|writing| writing.waiting_since_ms);
        let pending = self.pending();
        let waits = (pending.revisions > 0).then_some(pending.since_ms);
        let since = writing.into_iter().chain(waits).min();
        self.progress.send_if_modified(|progress| {
            std::mem::replace(&mut progress.waiting_since_ms, since) != since
        });
    }

    fn trouble(&self, trouble: Trouble) {
        troubled(&self.progress, trouble);
    }

    /// What was said of it is over.
    fn is_over(&self, is_it: impl Fn(&Trouble) -> bool) {
        self.progress.send_if_modified(|progress| {
            let over = progress.trouble.is_some_and(|(trouble, _)| is_it(&trouble));
            if over {
                progress.trouble = None;
            }
            over
        });
    }

    fn pending(&self) -> Pending {
        let recorder = &self.collector.recorder;
        let first = recorder.range().map_or(recorder.next(), |(first, _)| first);
        Pending {
            first: match self.source {
                Source::Open(_) => first,
                Source::Closed | Source::Compacted(_) => 0,
            },
            revisions: recorder.range().map_or(0, |(first, last)| last + 1 - first),
            bytes: recorder.bytes(),
            since_ms: self.collector.since_ms,
        }
    }

    /// Until then, or until something happened; false when the process is to end.
    async fn wait(&mut self, wait: Duration, stop: &mut watch::Receiver<bool>) -> bool {
        let room = self.collector.recorder.bytes() < MOST_PENDING;
        let message = async {
            match &mut self.source {
                Source::Open(stream) if room => stream.message().await,
                _ => std::future::pending().await,
            }
        };
        let written = async {
            match &mut self.writing {
                Some(writing) => (&mut writing.task).await,
                None => std::future::pending().await,
            }
        };
        let revision = self
            .taking
            .as_mut()
            .and_then(|taking| taking.revision.take());
        let mut revision = revision;
        let told = async {
            match &mut revision {
                Some(revision) => revision.await,
                None => std::future::pending().await,
            }
        };
        let taken = async {
            match &mut self.taking {
                Some(taking) => (&mut taking.task).await,
                None => std::future::pending().await,
            }
        };
        let verified = async {
            match &mut self.verifying {
                Some((_, task)) => task.await,
                None => std::future::pending().await,
            }
        };
        let asked = async {
            match self.questions.recv().await {
                Some(question) => question,
                // Nobody can ask any more.
                None => std::future::pending().await,
            }
        };
        let identity = async {
            // Nobody tells it any more: it stays as it is.
            if self.options.identity.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        enum Happened {
            Asked(Question),
            Message(Result<Option<proto::etcd::WatchResponse>, tonic::Status>),
            Written(Result<Result<Written, NotWritten>, tokio::task::JoinError>),
            Told(Result<u64, oneshot::error::RecvError>),
            Taken(Box<Result<Result<Taken, FullError>, tokio::task::JoinError>>),
            Verified(Result<Result<u64, ReadError>, tokio::task::JoinError>),
            Time,
            Stop,
        }
        let happened = tokio::select! {
            question = asked => Happened::Asked(question),
            message = message => Happened::Message(message),
            written = written => Happened::Written(written),
            told = told => Happened::Told(told),
            taken = taken => Happened::Taken(Box::new(taken)),
            verified = verified => Happened::Verified(verified),
            () = identity => Happened::Time,
            () = tokio::time::sleep(wait) => Happened::Time,
            _ = stop.changed() => Happened::Stop,
        };
        if let (false, Some(taking)) = (matches!(happened, Happened::Told(_)), &mut self.taking) {
            taking.revision = revision;
        }
        match happened {
            Happened::Asked(question) => self.answer(question).await,
            Happened::Message(message) => self.received(message).await,
            Happened::Written(written) => self.written(written),
            Happened::Told(Ok(from)) => {
                if let Some(taking) = &mut self.taking {
                    taking.from = Some(from);
                }
            }
            // The task ended before it knew; it says why.
            Happened::Told(Err(_)) | Happened::Time => {}
            Happened::Taken(taken) => self.taken(*taken),
            Happened::Verified(verified) => self.verified(verified).await,
            Happened::Stop => return false,
        }
        true
    }

    /// Writes what waits, if it can be done soon.
    async fn finish(mut self) -> Result<(), Ended> {
        if let Some(taking) = self.taking.take() {
            taking.task.abort();
        }
        let last = async {
            if let Some(writing) = &mut self.writing {
                let written = (&mut writing.task).await;
                self.written(written);
            }
            if self.pending().revisions > 0 && !self.met_another {
                self.begin_delta();
                if let Some(writing) = &mut self.writing {
                    let written = (&mut writing.task).await;
                    self.written(written);
                }
            }
        };
        if tokio::time::timeout(LAST_DELTA, last).await.is_err() {
            tracing::warn!("the last delta could not be written in time");
        }
        match self.met_another {
            true => Err(Ended::Another),
            false => Ok(()),
        }
    }

    fn rest(&mut self) {
        self.not_before_ms = now_ms() + self.options.settings.pause_ms;
    }
}

/// Tells of trouble. One that goes on keeps its time, whatever it is called meanwhile.
fn troubled(progress: &watch::Sender<Progress>, trouble: Trouble) {
    progress.send_if_modified(|progress| {
        let since = progress.trouble.map_or_else(now_ms, |(_, since)| since);
        progress.trouble.replace((trouble, since)) != progress.trouble
    });
}

impl<S: Store> Drop for Engine<S> {
    /// What was begun ends with it: two of one process must not write side by side.
    fn drop(&mut self) {
        if let Some(writing) = &self.writing {
            writing.task.abort();
        }
        if let Some(taking) = &self.taking {
            taking.task.abort();
        }
        if let Some((_, verifying)) = &self.verifying {
            verifying.abort();
        }
    }
}
