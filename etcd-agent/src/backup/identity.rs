//! The tenant cluster's identity: the file that it is copied from, and the way back with the recovery key.
//!
//! Invariant: what is opened goes into a file that was made for its owner alone, and nowhere else.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::backup::plan::listing::Listing;
use ::backup::reader::{Opener, ReadError, Reader};
use ::backup::store::Store;
use backup_format::identity::MOST_SEALED;
use backup_format::keys::RecoveryKey;
use backup_format::{IdentityName, Scope, SealedIdentity};
use tokio::sync::watch;

use super::failure::{FAILED, Failure, read, read_up_to, say, write_new};
use super::store::{AnyStore, prefix};
use crate::args::backup::IdentityArgs;

/// The kubelet brings a changed Secret into the pod within a minute or two, and nobody is told.
const EVERY: Duration = Duration::from_secs(30);

/// An identity that is told, or none yet.
type Told = Option<Arc<SealedIdentity>>;

/// The identity in a file, and each that comes after it. None while there is no file, or what is in it is none: then
/// the one before stays.
pub(super) fn follow(file: Option<PathBuf>) -> watch::Receiver<Told> {
    let (sender, receiver) = watch::channel(None);
    let Some(file) = file else {
        return receiver;
    };
    look(&file, &sender);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(EVERY);
        // The first one is at once.
        ticks.tick().await;
        loop {
            tokio::select! {
                _ = ticks.tick() => look(&file, &sender),
                // Nobody wants to know any more.
                () = sender.closed() => return,
            }
        }
    });
    receiver
}

fn look(file: &Path, sender: &watch::Sender<Told>) {
    let found = read_up_to(file, MOST_SEALED as u64 + 1);
    let found = match found.map(|bytes| SealedIdentity::read(&bytes)) {
        Ok(Some(found)) => Some(Arc::new(found)),
        Ok(None) => {
            tracing::warn!("{} is no identity", file.display());
            return;
        }
        Err(Failure(_, why)) => {
            tracing::warn!("no identity: {why}");
            return;
        }
    };
    sender.send_if_modified(|told| {
        let is_news = *told != found;
        if is_news {
            *told = found;
        }
        is_news
    });
}

/// Reads the newest identity, and says whether it is whole; 1 where it is not, else 0. There is none in a backup of
/// before there were any.
pub(super) async fn verify(
    reader: &Reader<'_, impl Store>,
    listing: &Listing,
) -> Result<usize, Failure> {
    let Some(newest) = listing.identities.last() else {
        say("there is no identity")?;
        return Ok(0);
    };
    let found = match &reader.opener {
        Opener::Recovery(recovery) => reader.open_identity(*newest, recovery).await.map(drop),
        Opener::Data(_) => reader.identity(*newest).await.map(drop),
    };
    match found {
        Ok(()) => say(&format!("identity {newest}: whole"))?,
        Err(ReadError::Store(error)) => return Err(error.into()),
        Err(error) => {
            say(&format!("identity {newest}: {error}"))?;
            return Ok(1);
        }
    }
    Ok(0)
}

/// Opens the one that was asked for. One that is not whole is passed over, and said: the one before may do.
pub(super) async fn open(args: &IdentityArgs) -> Result<(), Failure> {
    let store = AnyStore::open(&args.store)?;
    let scope = Scope::new(&args.tenant, args.cluster.number());
    let scope = scope.ok_or_else(|| Failure(FAILED, "the tenant is no UID".to_owned()))?;
    let text = String::from_utf8_lossy(&read(&args.recovery_key)?).into_owned();
    let recovery = RecoveryKey::read(&text)?;
    let reader = Reader {
        store: &store,
        scope,
        prefix: prefix(&args.store.prefix),
        opener: Opener::Recovery(recovery.clone()),
    };
    let listing = reader.list().await?;
    let (name, document) = newest(&reader, &listing, &recovery, args.at_ms).await?;
    write_new(&args.to, &document)?;
    say(&format!("identity {name} is in {}", args.to.display()))
}

async fn newest(
    reader: &Reader<'_, impl Store>,
    listing: &Listing,
    recovery: &RecoveryKey,
    at_ms: Option<u64>,
) -> Result<(IdentityName, Vec<u8>), Failure> {
    let until = at_ms.unwrap_or(u64::MAX);
    let in_time = listing.identities.iter().rev();
    for name in in_time.filter(|name| name.sealed_ms <= until) {
        match reader.open_identity(*name, recovery).await {
            Ok(document) => return Ok((*name, document)),
            Err(ReadError::Store(error)) => return Err(error.into()),
            Err(error) => say(&format!("passed over: {error}"))?,
        }
    }
    Err(Failure(FAILED, "there is no identity".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn file_is_followed_and_what_is_none_takes_nothing_away() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("identity");
        let wrapping = RecoveryKey::generate().unwrap().wrapping_key();
        let sealed = |ms| SealedIdentity::seal(&wrapping, "t1", ms, b"keys").unwrap();
        let mut told = follow(Some(file.clone()));
        assert!(told.borrow().is_none());
        for identity in [sealed(1), sealed(2)] {
            std::fs::write(&file, identity.bytes()).unwrap();
            told.changed().await.unwrap();
            assert_eq!(told.borrow().as_deref(), Some(&identity));
        }
        let (sender, told) = watch::channel(told.borrow().clone());
        std::fs::write(&file, b"COVEYID").unwrap();
        look(&file, &sender);
        std::fs::remove_file(&file).unwrap();
        look(&file, &sender);
        assert!(!told.has_changed().unwrap());
        let last = told.borrow().as_ref().map(|identity| identity.name());
        assert_eq!(last.map(|name| name.sealed_ms), Some(2));
    }
}
