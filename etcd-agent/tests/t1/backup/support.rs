//! An etcd with a client that writes, and a backup of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use backup::engine::{self, Ended, Options, Progress};
use backup::etcd::Etcd;
use backup::plan::Settings;
use backup::questions::Question;
use backup::reader::{Opener, Reader};
use backup::restore;
use backup::restore::choose::At;
use backup::restore::programs::{self, Programs};
use backup::store::Store;
use backup_format::keys::{Keys, RecoveryKey};
use backup_format::{Scope, SealedIdentity};
use proto::etcd::request_op::Request;
use proto::etcd::{DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest};
use testkit::waiting::PATIENCE;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::support::{Cluster, Member, Site};

pub(super) const TENANT: &str = "5a1c0f6e-tenant";
/// Beyond every revision of these tests.
pub(super) const BUMP: u64 = 1_000_000;

/// What a store has: keys with values and leases.
pub(super) type Content = BTreeMap<Vec<u8>, (Vec<u8>, i64)>;

pub(super) struct World {
    pub(super) site: Site,
    pub(super) member: Member,
    pub(super) etcd: Etcd,
    pub(super) keys: Keys,
    pub(super) recovery: RecoveryKey,
    pub(super) scope: Scope,
    /// The claim.
    pub(super) folder: PathBuf,
    /// What the store had at each revision that this client made.
    pub(super) history: BTreeMap<u64, Content>,
}

impl World {
    /// None, loudly, when etcd is not built.
    pub(super) async fn new() -> Result<Option<Self>> {
        let Some(site) = Site::new()? else {
            return Ok(None);
        };
        let volume = site.volume("etcd-0");
        let cluster = Cluster::new("backed-up", 1)?;
        let member = site.start(&[&volume], &cluster, &[]).await?.remove(0);
        let etcd = Etcd::new(member.url(), None)?;
        let status = etcd.status().await?;
        let scope = Scope::new(TENANT, status.cluster).context("a scope")?;
        let recovery = RecoveryKey::generate()?;
        let keys = Keys::generate(&recovery.wrapping_key(), &scope)?;
        let folder = site.volume("claim");
        Ok(Some(Self {
            site,
            member,
            etcd,
            keys,
            recovery,
            scope,
            folder,
            history: BTreeMap::from([(status.revision, Content::new())]),
        }))
    }

    pub(super) fn options(&self, settings: Settings, writer: &str) -> Options {
        Options {
            tenant: TENANT.to_owned(),
            cluster: None,
            prefix: "p/".to_owned(),
            keys: self.keys.clone(),
            settings,
            writer: writer.to_owned(),
            kubernetes: "1.36.3".to_owned(),
            identity: watch::channel(None).1,
        }
    }

    /// An identity of the tenant cluster, sealed then.
    pub(super) fn sealed(&self, sealed_ms: u64, document: &[u8]) -> Result<Arc<SealedIdentity>> {
        let wrapping = self.recovery.wrapping_key();
        let sealed = SealedIdentity::seal(&wrapping, TENANT, sealed_ms, document)?;
        Ok(Arc::new(sealed))
    }

    /// Opens with the recovery key alone.
    pub(super) fn reader<'a, S: Store>(&self, store: &'a S) -> Reader<'a, S> {
        Reader {
            store,
            scope: self.scope.clone(),
            prefix: "p/".to_owned(),
            opener: Opener::Recovery(self.recovery.clone()),
        }
    }

    /// Runs `etcdutl snapshot restore`.
    pub(super) fn etcdutl(&self, args: &[String]) -> Result<()> {
        let mut command = Command::new(self.site.folder().join("etcdutl"));
        let output = command.args(["snapshot", "restore"]).args(args).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "etcdutl: {said}");
        Ok(())
    }

    /// The last revision that was acknowledged.
    pub(super) fn last(&self) -> u64 {
        self.history
            .last_key_value()
            .map_or(0, |(revision, _)| *revision)
    }

    /// Carries one transaction out.
    pub(super) async fn write(&mut self, operations: Vec<Request>) -> Result<u64> {
        let mut content = self.history.last_key_value().unwrap().1.clone();
        for operation in &operations {
            match operation {
                Request::RequestPut(put) => {
                    content.insert(put.key.clone(), (put.value.clone(), put.lease));
                }
                Request::RequestDeleteRange(delete) => drop(content.remove(&delete.key)),
            }
        }
        let success = operations.into_iter().map(|request| RequestOp {
            request: Some(request),
        });
        let request = TxnRequest {
            success: success.collect(),
        };
        let revision = self.etcd.transact(request).await?;
        self.history.insert(revision, content);
        Ok(revision)
    }

    /// Puts, deletes and transactions of both, some of them on leases: so many revisions.
    pub(super) async fn write_many(&mut self, many: u64) -> Result<()> {
        for number in 0..many {
            let key = format!("/registry/things/{}", number % 17);
            let value = vec![b'a' + (number % 26) as u8; 100 + (number % 900) as usize];
            let operations = match number % 5 {
                0 => vec![
                    put(&key, &value, 0),
                    put("/registry/last", &number.to_be_bytes(), 0),
                ],
                1 if self
                    .history
                    .last_key_value()
                    .unwrap()
                    .1
                    .contains_key(key.as_bytes()) =>
                {
                    vec![
                        delete(&key),
                        put("/registry/last", &number.to_be_bytes(), 0),
                    ]
                }
                _ => vec![put(&key, &value, 0)],
            };
            self.write(operations).await?;
        }
        Ok(())
    }

    /// Restores into a new directory; what the store has there, and its revision.
    pub(super) async fn restore<S: Store>(
        &self,
        store: &S,
        at: At,
        name: &str,
    ) -> Result<(u64, Content, Member)> {
        let reader = self.reader(store);
        let found = restore::find(&reader, at).await?;
        let volume = self.site.volume(name);
        let cluster = Cluster::new("restored-r1", 1)?;
        let programs = Programs {
            etcd: self.site.folder().join("etcd"),
            etcdutl: self.site.folder().join("etcdutl"),
        };
        let target = programs::Member {
            data_dir: volume.join("data"),
            name: "etcd-0".to_owned(),
            peer_url: cluster.peer_url(0),
            initial_cluster: format!("etcd-0={}", cluster.peer_url(0)),
            token: "restored-r1".to_owned(),
            bump: BUMP,
        };
        let scratch = self.site.volume(&format!("{name}-scratch"));
        let built = restore::build(&reader, found, &programs, &scratch, &target).await?;
        ensure!(
            std::fs::read_dir(&scratch)?.count() == 0,
            "something was left behind"
        );
        let member = self.site.start(&[&volume], &cluster, &[]).await?.remove(0);
        let etcd = Etcd::new(member.url(), None)?;
        Ok((built.revision, content(&etcd).await?, member))
    }
}

/// Reads every key.
pub(super) async fn content(etcd: &Etcd) -> Result<Content> {
    let everything = RangeRequest {
        key: vec![0],
        range_end: vec![0],
        ..RangeRequest::default()
    };
    let answer = etcd.range(everything).await?;
    let one = |kv: proto::etcd::KeyValue| (kv.key, (kv.value, kv.lease));
    Ok(answer.kvs.into_iter().map(one).collect())
}

pub(super) fn put(key: &str, value: &[u8], lease: i64) -> Request {
    Request::RequestPut(PutRequest {
        key: key.into(),
        value: value.to_vec(),
        lease,
    })
}

pub(super) fn delete(key: &str) -> Request {
    Request::RequestDeleteRange(DeleteRangeRequest {
        key: key.into(),
        range_end: Vec::new(),
    })
}

/// Quick deltas, and no snapshot but the first.
pub(super) fn quick() -> Settings {
    Settings {
        delta_every_ms: 100,
        pause_ms: 100,
        ..Settings::default()
    }
}

/// A backup that runs in this process.
pub(super) struct Running {
    stop: watch::Sender<bool>,
    pub(super) progress: watch::Receiver<Progress>,
    pub(super) questions: mpsc::Sender<Question>,
    task: JoinHandle<Result<(), Ended>>,
}

impl Running {
    pub(super) fn start<S: Store>(store: Arc<S>, etcd: &Etcd, options: Options) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (sender, progress) = watch::channel(Progress::default());
        let (questions, asked) = mpsc::channel(4);
        let told = (sender, asked);
        let task = tokio::spawn(engine::run(store, etcd.clone(), options, told, stopped));
        Self {
            stop,
            progress,
            questions,
            task,
        }
    }

    /// Until something is so.
    pub(super) async fn until(&mut self, what: impl FnMut(&Progress) -> bool) -> Result<Progress> {
        let reached = async { self.progress.wait_for(what).await.map(|progress| *progress) };
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        if let Ok(Ok(progress)) = reached {
            return Ok(progress);
        }
        let seen = *self.progress.borrow();
        anyhow::bail!(
            "it never came to that; last seen: {seen:?}, ended: {}",
            self.task.is_finished()
        )
    }

    /// Until all of that is durable.
    pub(super) async fn durable(&mut self, revision: u64) -> Result<()> {
        self.until(|progress| progress.durable >= revision && progress.full.is_some())
            .await?;
        Ok(())
    }

    /// Whether it ended.
    pub(super) fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// Why it ended by itself.
    pub(super) async fn ended(self) -> Result<(), Ended> {
        self.task.await.unwrap()
    }

    pub(super) async fn stop(self) -> Result<(), Ended> {
        let _ = self.stop.send(true);
        self.task.await.unwrap()
    }
}

/// Every object of a claim.
pub(super) fn objects(folder: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).unwrap().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => open.push(path),
                false => {
                    let name = path.strip_prefix(folder).unwrap().display().to_string();
                    found.insert(name, path);
                }
            }
        }
    }
    found
}

/// What it said, and the exit code.
pub(super) fn agent(args: &[String]) -> Result<(i32, String)> {
    let output = Command::new(env!("CARGO_BIN_EXE_etcd-agent"))
        .arg("backup")
        .args(args)
        .output()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Ok((output.status.code().context("it was killed")?, said))
}

pub(super) fn succeeds((code, said): (i32, String)) -> Result<()> {
    ensure!(code == 0, "{code}: {said}");
    Ok(())
}
