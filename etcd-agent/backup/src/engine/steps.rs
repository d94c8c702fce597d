//! Carries single steps out, and takes in what came of them.
//!
//! Invariant: a step that failed changes nothing that is known; it is planned again after a pause.

use backup_format::object::{self, MOST_OBJECT};
use backup_format::records::Lease;
use backup_format::{Digest, FullName, Header, Kind, Name};
use bytes::Bytes;
use proto::etcd::WatchResponse;
use tokio::sync::oneshot;
use tokio::task::JoinError;

use super::full::{self, Describes, FullError, Taken};
use super::{Engine, Source, TakingFull, Trouble, WritingDelta};
use crate::clock::now_ms;
use crate::plan::{Step, Tip};
use crate::reader::{self, Opener, ReadError, Reader};
use crate::store::{Cause, Store, StoreError};
use crate::writer::{NotWritten, Written};

impl<S: Store> Engine<S> {
    pub(super) async fn carry_out(&mut self, step: Step) {
        let done = match step {
            Step::Stop | Step::Wait(_) => Ok(()),
            Step::List => self.list().await,
            Step::ReadTip(number) => self.read_tip(number).await,
            Step::OpenWatch(from) => {
                self.open_watch(from).await;
                Ok(())
            }
            Step::TakeFull(why) => {
                tracing::info!(?why, "takes a full snapshot");
                self.begin_full();
                Ok(())
            }
            Step::WriteDelta => {
                self.begin_delta();
                Ok(())
            }
            Step::WriteIdentity(_) => self.write_identity().await,
            Step::DeleteIdentity(identity) => self.delete_identity(identity).await,
            Step::Verify(full) => {
                self.begin_verify(full);
                Ok(())
            }
            Step::Bury(full) => self.mark(Name::Tombstone(full, now_ms())).await,
            Step::DeleteFull(full) => self.delete_full(full).await,
            Step::DeleteDelta(number) => self.delete_delta(number).await,
            Step::DeleteMarks(full) => self.delete_marks(full).await,
        };
        if let Err(error) = done {
            tracing::warn!("{error}");
            self.trouble(Trouble::Store(error.call, error.cause));
            self.rest();
        }
    }

    async fn list(&mut self) -> Result<(), StoreError> {
        let listing = reader::list(&*self.writer.store, &self.writer.folder()).await?;
        let newest = listing.newest_full();
        if let (Some(full), true) = (newest, self.head.map(|(full, _)| full) != newest) {
            let name = Name::Head(full);
            let bytes = self
                .writer
                .store
                .get(&self.writer.key(name), MOST_OBJECT)
                .await?;
            let opened = object::open(name, &self.writer.scope, &bytes);
            self.head = opened.ok().map(|opened| (full, opened.digest));
        }
        let mut fulls = listing.fulls.iter().rev();
        let verified = fulls.find(|full| listing.is_verified(full)).copied();
        self.progress.send_modify(|progress| {
            (progress.full, progress.verified) = (newest, verified);
            progress.looked = true;
        });
        self.is_over(|trouble| matches!(trouble, Trouble::Store(..) | Trouble::Objects));
        self.listing = Some(listing);
        self.identity = None;
        Ok(())
    }

    async fn read_tip(&mut self, number: u64) -> Result<(), StoreError> {
        let name = Name::Delta(number);
        let bytes = self
            .writer
            .store
            .get(&self.writer.key(name), MOST_OBJECT)
            .await;
        let bytes = match bytes {
            Err(error) if error.cause == Cause::NotFound => {
                self.listing = None;
                return Err(error);
            }
            Err(error) if error.cause == Cause::TooLong => Bytes::new(),
            bytes => bytes?,
        };
        let tip = match object::open(name, &self.writer.scope, &bytes) {
            Ok(opened) => {
                use backup_format::damage::Flaw;
                let whole = match opened.content(&self.writer.keys.data) {
                    Ok(_) => true,
                    // Of before the key was changed.
                    Err(damage) => matches!(damage.what, Flaw::OtherKey { .. }),
                };
                let (last, since) = match opened.header.kind {
                    Kind::Delta { last, since, .. } if whole => (Some(last), since),
                    _ => (None, 0),
                };
                self.collector.recorder =
                    backup_format::records::Recorder::new(0, opened.header.written_ms);
                Tip {
                    number,
                    digest: opened.digest,
                    last,
                    since,
                }
            }
            Err(damage) => {
                tracing::error!("{damage}; a full snapshot begins anew after it");
                Tip {
                    number,
                    digest: Digest::of(&bytes),
                    last: None,
                    since: 0,
                }
            }
        };
        if let Some(last) = tip.last {
            self.progress
                .send_modify(|progress| progress.durable = last);
        }
        self.tip = Some(tip);
        Ok(())
    }

    async fn open_watch(&mut self, from: u64) {
        let opened = async {
            let status = self.etcd.status().await?;
            // A watch on what has not happened yet would bring another history's events as if they followed.
            let behind = status.revision + 1 < from;
            Ok::<_, crate::etcd::Error>((status.revision, behind, self.etcd.watch(from).await?))
        };
        match opened.await {
            Ok((revision, true, _)) => {
                let backed_up = from - 1;
                tracing::error!(
                    "etcd is at revision {revision}, and its backup at {backed_up}: a member that \
                     lags, or data that is older than the backup; nothing is written"
                );
                self.trouble(Trouble::Behind);
                self.rest();
            }
            Ok((_, false, stream)) => {
                self.collector.restart(from);
                self.source = Source::Open(Box::new(stream));
                self.is_over(|trouble| matches!(trouble, Trouble::Etcd | Trouble::Behind));
            }
            Err(error) => {
                tracing::warn!("{error}");
                self.trouble(Trouble::Etcd);
                self.rest();
            }
        }
    }

    /// Takes a message of the watch in.
    pub(super) async fn received(&mut self, message: Result<Option<WatchResponse>, tonic::Status>) {
        let message = match message {
            Ok(Some(message)) if message.compact_revision > 0 => {
                let at = self.collector.recorder.next();
                tracing::warn!("revision {at} was compacted before it was backed up");
                self.source = Source::Compacted(at);
                return;
            }
            Ok(Some(message)) if !message.canceled => message,
            ended => {
                let why = match ended {
                    Ok(Some(message)) => message.cancel_reason,
                    Ok(None) => "it ended".to_owned(),
                    Err(status) => status.to_string(),
                };
                tracing::warn!("the watch of etcd broke off: {why}");
                self.trouble(Trouble::Etcd);
                self.source = Source::Closed;
                self.rest();
                return;
            }
        };
        let now = now_ms();
        let taken = self.collector.take(message, now);
        let recorded = match taken {
            Ok(revisions) => {
                for lease in self.collector.new_leases(&revisions) {
                    self.record_lease(lease).await;
                }
                if self.collector.recorder.range().is_none() && !revisions.is_empty() {
                    self.collector.since_ms = now;
                }
                let recorder = &mut self.collector.recorder;
                revisions
                    .iter()
                    .try_for_each(|revision| recorder.revision(revision))
            }
            Err(error) => Err(error),
        };
        if let Err(error) = recorded {
            // A deletion at the very revision of a compaction is gone with it.
            let at = self.collector.recorder.next();
            tracing::error!("the watch of etcd has a hole at revision {at}: {error}");
            self.source = Source::Compacted(at);
        }
    }

    async fn record_lease(&mut self, id: i64) {
        let ttl_seconds = match self.collector.known.get(&id) {
            Some(ttl) => *ttl,
            None => match self.etcd.granted(id).await {
                Ok(ttl) => {
                    let ttl = ttl.unwrap_or_default();
                    self.collector.remember(id, ttl);
                    ttl
                }
                Err(error) => {
                    tracing::warn!("{error}");
                    0
                }
            },
        };
        self.collector.recorder.lease(Lease { id, ttl_seconds });
        self.collector.recorded.push(id);
    }

    pub(super) fn begin_delta(&mut self) {
        let Some((first, last)) = self.collector.recorder.range() else {
            return;
        };
        let waiting_since_ms = self.collector.since_ms;
        let recorder = self.collector.cut();
        let number = self.tip.map_or(0, |tip| tip.number + 1);
        let follows = self
            .tip
            .filter(|tip| tip.last.is_some_and(|last| last + 1 == first));
        let since = follows.map_or(first, |tip| tip.since);
        let header = Header {
            scope: self.writer.scope.clone(),
            kind: Kind::Delta {
                number,
                first,
                last,
                since,
                full: self.head,
            },
            previous: self.tip.map(|tip| tip.digest),
            written_ms: recorder.time_ms(),
            writer: self.options.writer.clone(),
            etcd: self.status.version.clone(),
            kubernetes: self.options.kubernetes.clone(),
        };
        let (writer, time_ms) = (self.writer.clone(), recorder.time_ms());
        let task = tokio::spawn(async move { writer.write(&header, recorder.content()).await });
        self.writing = Some(WritingDelta {
            task,
            number,
            last,
            since,
            time_ms,
            waiting_since_ms,
        });
    }

    pub(super) fn written(&mut self, written: Result<Result<Written, NotWritten>, JoinError>) {
        let Some(WritingDelta {
            number,
            last,
            since,
            time_ms,
            ..
        }) = self.writing.take()
        else {
            return;
        };
        match written {
            Ok(Ok(written)) => {
                self.tip = Some(Tip {
                    number,
                    digest: written.digest,
                    last: Some(last),
                    since,
                });
                if let Some(listing) = &mut self.listing {
                    listing.insert(Name::Delta(number), written.bytes);
                }
                self.progress.send_modify(|progress| {
                    (progress.durable, progress.durable_ms) = (last, time_ms);
                    progress.deltas += 1;
                });
                self.is_over(|trouble| matches!(trouble, Trouble::Store(..) | Trouble::Objects));
            }
            Ok(Err(error)) => self.not_written(&error),
            Err(error) => {
                tracing::error!("the task that writes deltas failed: {error}");
                self.forget();
            }
        }
    }

    fn not_written(&mut self, error: &NotWritten) {
        tracing::error!("{error}");
        self.trouble(Trouble::Objects);
        self.met_another |= matches!(error, NotWritten::Another(_));
        self.forget();
    }

    /// Looks at everything again.
    fn forget(&mut self) {
        (self.listing, self.tip) = (None, None);
        self.source = Source::Closed;
        self.collector.restart(0);
        self.rest();
    }

    fn begin_full(&mut self) {
        self.progress.send_modify(|progress| progress.taking = true);
        let (sender, receiver) = oneshot::channel();
        let describes = Describes {
            writer: self.options.writer.clone(),
            kubernetes: self.options.kubernetes.clone(),
            tip: self.tip,
        };
        let (writer, etcd) = (self.writer.clone(), self.etcd.clone());
        self.taking = Some(TakingFull {
            task: tokio::spawn(full::take(writer, etcd, describes, sender)),
            revision: Some(receiver),
            from: None,
        });
    }

    pub(super) fn taken(&mut self, taken: Result<Result<Taken, FullError>, JoinError>) {
        self.taking = None;
        self.progress
            .send_modify(|progress| progress.taking = false);
        match taken {
            Ok(Ok(Taken { full, head })) => {
                tracing::info!(full = %full, "a full snapshot is in the store");
                self.head = Some((full, head));
                if let Some(listing) = &mut self.listing {
                    listing.insert(Name::Head(full), 0);
                }
                self.progress
                    .send_modify(|progress| progress.full = Some(full));
            }
            Ok(Err(FullError::Write(error))) => self.not_written(&error),
            Ok(Err(error)) => {
                tracing::warn!("no full snapshot: {error}");
                self.full_not_before_ms = now_ms() + self.options.settings.pause_ms;
            }
            Err(error) => {
                tracing::error!("the task that takes snapshots failed: {error}");
                self.full_not_before_ms = now_ms() + self.options.settings.pause_ms;
            }
        }
    }

    fn begin_verify(&mut self, full: FullName) {
        let Some(listing) = self.listing.clone() else {
            return;
        };
        let writer = self.writer.clone();
        let task = tokio::spawn(async move {
            let reader = Reader {
                store: &*writer.store,
                scope: writer.scope.clone(),
                prefix: writer.prefix.clone(),
                opener: Opener::Data(writer.keys.data.clone()),
            };
            reader
                .verify(full, &listing)
                .await
                .map(|reach| reach.revision)
        });
        self.verifying = Some((full, task));
    }

    pub(super) async fn verified(&mut self, verified: Result<Result<u64, ReadError>, JoinError>) {
        let Some((full, _)) = self.verifying.take() else {
            return;
        };
        match verified {
            Ok(Ok(revision)) => {
                tracing::info!(full = %full, revision, "a full snapshot and its deltas are whole");
                // So is it seen whether the identity still is.
                self.identity = None;
                if let Err(error) = self.mark(Name::Verified(full, now_ms())).await {
                    tracing::warn!("{error}");
                    self.rest();
                }
                self.progress
                    .send_modify(|progress| progress.verified = Some(full));
            }
            Ok(Err(ReadError::Store(error))) => {
                tracing::warn!("{error}");
                self.rest();
            }
            Ok(Err(error)) => {
                tracing::error!(full = %full, "{error}; another snapshot is taken");
                self.spoilt = Some(full);
            }
            Err(error) => {
                tracing::error!("the task that verifies failed: {error}");
                self.rest();
            }
        }
    }

    /// Marks hold nothing: their names say it.
    pub(super) async fn mark(&mut self, name: Name) -> Result<(), StoreError> {
        self.writer
            .store
            .create(&self.writer.key(name), Bytes::new())
            .await?;
        if let Some(listing) = &mut self.listing {
            listing.insert(name, 0);
        }
        Ok(())
    }

    async fn delete_full(&mut self, full: FullName) -> Result<(), StoreError> {
        tracing::info!(full = %full, "deletes a full snapshot");
        let store = &self.writer.store;
        // Without its head nobody begins to restore it.
        store.delete(&self.writer.key(Name::Head(full))).await?;
        let folder = format!("{}full/{full}/", self.writer.folder());
        loop {
            let page = store.list(&folder, None).await?;
            for entry in &page.objects {
                store.delete(&entry.key).await?;
            }
            if !page.more {
                break;
            }
        }
        if let Some(listing) = &mut self.listing {
            listing.remove_full(&full);
        }
        Ok(())
    }

    async fn delete_delta(&mut self, number: u64) -> Result<(), StoreError> {
        self.writer
            .store
            .delete(&self.writer.key(Name::Delta(number)))
            .await?;
        if let Some(listing) = &mut self.listing {
            listing.deltas.remove(&number);
        }
        Ok(())
    }

    async fn delete_marks(&mut self, full: FullName) -> Result<(), StoreError> {
        let listing = self.listing.as_ref();
        let marks: Vec<_> = listing.map_or_else(Vec::new, |l| l.marks_of(full).collect());
        for mark in marks {
            self.writer.store.delete(&self.writer.key(mark)).await?;
            if let Some(listing) = &mut self.listing {
                listing.marks.remove(&mark);
            }
        }
        Ok(())
    }
}
