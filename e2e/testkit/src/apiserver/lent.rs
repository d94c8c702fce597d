//! Servers that `test-servers` keeps and lends to the processes of tests: one that many share, and some
//! that one borrower at a time has for itself.
//!
//! Below the folder that [`VARIABLE`] names, each server has a folder with what a process needs to use
//! it. A borrower holds a lock on a file there, so one that dies gives back what it had; and it rewinds
//! the server to its first state before it uses it, so it does not matter how the last one ended.
//! Invariant: whoever waits for a server holds none, but for one process at a time that collects
//! several; so nobody waits forever.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::{AUTHORITY, FRONT_PROXY, ManagementApi, Snapshot, flags};
use crate::audit::AuditLog;
use crate::certs::Authority;
use crate::etcd::Etcd;
use crate::waiting::{PATIENCE, ask_until};

/// The folder of `test-servers`. Without it, tests start servers of their own.
pub const VARIABLE: &str = "COVEY_TEST_SERVERS";
/// Folders of servers that are lent to one at a time begin with this.
pub(super) const ALONE: &str = "alone-";
/// How long to wait for a server that others have: less than a test may take.
const TURN: Duration = Duration::from_secs(240);

/// In a server's folder: what is not in the names of its files.
const CARD: &str = "server.json";
/// In the folder of a server that is lent to one at a time: its first state.
const FIRST: &str = "first.json";
/// Whoever has locked it has the server.
const LENT: &str = "lent";
/// Beginning of the names of notes of what was done once.
const ONCE: &str = "once-";
/// Whoever has locked it collects several servers.
const SEVERAL: &str = "several";

#[derive(Deserialize, Serialize)]
struct Card {
    port: u16,
    etcd: String,
    started_in: Duration,
    pids: Vec<u32>,
}

/// The right to use a server: as long as this lives, or, where each test has a process of its own, until
/// that ends. (What a test leaves running ends after the test's values are dropped.)
pub(super) struct Turn(Option<File>);

impl Drop for Turn {
    fn drop(&mut self) {
        if std::env::var_os("NEXTEST").is_some() {
            std::mem::forget(self.0.take());
        }
    }
}

pub(super) fn folder() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(PathBuf::from)
}

/// Uses a server that somebody else started.
pub(super) fn connect(folder: &Path) -> Result<ManagementApi> {
    let read = |name: &str| {
        let path = folder.join(name);
        let text = std::fs::read_to_string(&path);
        text.with_context(|| format!("cannot read {}; does test-servers run?", path.display()))
    };
    let card: Card = serde_json::from_str(&read(CARD)?).context("not the card of a server")?;
    let known = |name, (pem, key): (&str, &str)| Authority::known(name, &read(pem)?, &read(key)?);
    Ok(ManagementApi {
        own: None,
        _turn: None,
        authority: known(AUTHORITY, flags::CA)?,
        front_proxy: known(FRONT_PROXY, flags::FRONT_PROXY)?,
        port: card.port,
        etcd: Etcd::new(&card.etcd),
        audit: AuditLog::new(folder.join(flags::AUDIT_LOG)),
        kubeconfig: folder.join(flags::KUBECONFIG),
        folder: folder.to_owned(),
        started_in: card.started_in,
    })
}

/// So many servers that nobody else uses, each in its first state.
pub(super) async fn borrow(folder: &Path, count: usize) -> Result<Vec<ManagementApi>> {
    let all = alone_below(folder)?;
    ensure!(
        all.len() >= count,
        "test-servers keeps {} servers to lend, and {count} are needed; give it --alone {count}",
        all.len()
    );
    let _collecting = match count {
        0 | 1 => None,
        _ => Some(lock(&folder.join(SEVERAL)).await?),
    };
    let mut borrowed = Vec::new();
    for _ in 0..count {
        let (folder, file) = take(&all).await?;
        borrowed.push((folder, Turn(Some(file))));
    }
    let mut ready = Vec::new();
    for (folder, turn) in borrowed {
        let mut api = connect(&folder)?;
        api._turn = Some(turn);
        let rewound = rewind(&api).await;
        rewound.with_context(|| format!("cannot rewind {}", folder.display()))?;
        ready.push(api);
    }
    Ok(ready)
}

fn alone_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder);
    let entries = entries.with_context(|| {
        format!(
            "cannot look into {}; does test-servers run?",
            folder.display()
        )
    })?;
    let mut all = Vec::new();
    for entry in entries {
        let path = entry.context("cannot read a folder")?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with(ALONE)) && path.join(CARD).exists() {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}

/// The first that is free, in turn over all of them.
async fn take(all: &[PathBuf]) -> Result<(PathBuf, File)> {
    let first = std::process::id() as usize % all.len();
    ask_until("a server of test-servers is free", TURN, || async {
        for folder in all[first..].iter().chain(&all[..first]) {
            if let Some(file) = try_lock(&folder.join(LENT))? {
                return Ok(Ok((folder.clone(), file)));
            }
        }
        Ok(Err(format!("others have all {}", all.len())))
    })
    .await
}

async fn lock(path: &Path) -> Result<File> {
    let wanted = format!("{} is not locked", path.display());
    ask_until(&wanted, TURN, || async {
        Ok(try_lock(path)?.ok_or_else(|| "somebody has it".to_owned()))
    })
    .await
}

fn try_lock(path: &Path) -> Result<Option<File>> {
    let mut options = File::options();
    let file = options.create(true).truncate(false).read(true).write(true);
    let file = file.open(path);
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error).context("cannot lock a file"),
    }
}

/// Takes a server back to its first state. What the last borrower left running may write for a moment
/// longer, so it is asked whether all is as it was.
async fn rewind(api: &ManagementApi) -> Result<()> {
    let path = api.folder.join(FIRST);
    let first = Snapshot::read(&path)?;
    // What was done once for the last borrower is about to be undone.
    forget(&api.folder)?;
    let wanted = first.settled().await?;
    ask_until(
        "the server holds what it held at first",
        PATIENCE,
        || async {
            let done = api.restore(&first).await?;
            let found = api.settled_keys().await?;
            if found != wanted {
                let more: Vec<_> = found.symmetric_difference(&wanted).take(5).collect();
                return Ok(Err(format!("after {done:?} these differ: {more:?}")));
            }
            Ok(Ok(()))
        },
    )
    .await?;
    // With the revisions of what was written just now.
    first.write(&path).await
}

/// Takes away all notes of [`ManagementApi::once`].
fn forget(folder: &Path) -> Result<()> {
    let entries = std::fs::read_dir(folder);
    for entry in entries.with_context(|| format!("cannot look into {}", folder.display()))? {
        let entry = entry.context("cannot read a folder")?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(ONCE)) {
            let gone = std::fs::remove_file(entry.path());
            gone.with_context(|| format!("cannot remove {}", entry.path().display()))?;
        }
    }
    Ok(())
}

impl ManagementApi {
    /// Writes down what another process needs to use this server.
    pub(super) async fn publish(&self) -> Result<()> {
        let card = Card {
            port: self.port,
            etcd: self.etcd.url().to_owned(),
            started_in: self.started_in,
            pids: self.pids().await,
        };
        let card = serde_json::to_string(&card).context("cannot write a card")?;
        self.own()?.dir().write(CARD, &card).map(drop)
    }

    /// Writes down the state to which borrowers rewind.
    pub(super) async fn publish_first(&self) -> Result<()> {
        self.snapshot().await?.write(&self.folder.join(FIRST)).await
    }

    /// Does something that has to be done once per server, however many processes use it, and is given
    /// by `content`: whoever comes first does it, and the others wait until it is done. Where the content
    /// is another one it is done again, and so it is for each borrower of a server that is rewound.
    pub async fn once(
        &self,
        name: &str,
        content: &str,
        work: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        use std::io::{Read as _, Seek as _, Write as _};
        if name.contains('/') {
            bail!("{name} is no name of a file");
        }
        let mut file = lock(&self.folder.join(format!("{ONCE}{name}"))).await?;
        let mut done = String::new();
        file.read_to_string(&mut done).context("cannot read")?;
        if done != content {
            work.await?;
            file.set_len(0).context("cannot write")?;
            file.rewind().context("cannot write")?;
            file.write_all(content.as_bytes()).context("cannot write")?;
        }
        Ok(())
    }
}
