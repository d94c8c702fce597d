//! Objects in a directory: a claim in the management cluster.
//!
//! Invariant: an object appears whole or not at all, also after a power loss: it is written and synced
//! under another name, then linked to its own, which fails if there is one, then its folder is synced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::{Call, Cause, Created, Entry, Page, Store, StoreError};

/// Where objects are before they have their names.
const UNNAMED: &str = ".unnamed";
/// After so long whoever began to write it is gone.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);

/// A directory.
#[derive(Clone, Debug)]
pub struct Directory {
    root: PathBuf,
}

impl Directory {
    /// One that is there. Nothing is made or deleted in it yet.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    async fn run<T: Send + 'static>(
        &self,
        call: Call,
        key: &str,
        act: impl FnOnce(&Path, &str) -> io::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (root, owned) = (self.root.clone(), key.to_owned());
        let done = tokio::task::spawn_blocking(move || {
            // What is no claim must not become one.
            if !root.is_dir() {
                return Err(None);
            }
            act(&root, &owned).map_err(Some)
        });
        let error = match done.await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error,
            Err(ended) => return Err(StoreError::new(call, key, Cause::Other, &ended.to_string())),
        };
        let Some(error) = error else {
            let path = self.root.display().to_string();
            return Err(StoreError::new(call, key, Cause::NoBucket, &path));
        };
        Err(StoreError::new(
            call,
            key,
            cause(&error),
            &error.to_string(),
        ))
    }
}

impl Store for Directory {
    async fn create(&self, key: &str, bytes: Bytes) -> Result<Created, StoreError> {
        self.run(Call::Create, key, move |root, key| {
            create(root, key, &bytes)
        })
        .await
    }

    async fn get(&self, key: &str, most: usize) -> Result<Bytes, StoreError> {
        self.run(Call::Get, key, move |root, key| {
            let file = File::open(path(root, key)?)?;
            let mut bytes = Vec::new();
            file.take(most as u64 + 1).read_to_end(&mut bytes)?;
            if bytes.len() > most {
                return Err(ErrorKind::FileTooLarge.into());
            }
            Ok(bytes.into())
        })
        .await
    }

    async fn list(&self, folder: &str, after: Option<&str>) -> Result<Page, StoreError> {
        let after = after.map(str::to_owned);
        self.run(Call::List, folder, move |root, folder| {
            let mut objects = Vec::new();
            walk(root, folder, &mut objects)?;
            objects.retain(|entry| after.as_ref().is_none_or(|after| entry.key > *after));
            objects.sort_by(|one, other| one.key.cmp(&other.key));
            Ok(Page {
                objects,
                more: false,
            })
        })
        .await
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.run(Call::Delete, key, |root, key| {
            let path = path(root, key)?;
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            // Folders that it leaves empty go too; one that is not empty stays by itself.
            for folder in path.ancestors().skip(1).take_while(|f| *f != root) {
                if fs::remove_dir(folder).is_err() {
                    return match folder.is_dir() {
                        true => sync(folder),
                        false => Ok(()),
                    };
                }
            }
            sync(root)
        })
        .await
    }
}

fn create(root: &Path, key: &str, bytes: &[u8]) -> io::Result<Created> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let target = path(root, key)?;
    if target.symlink_metadata().is_ok() {
        return Ok(Created::Exists);
    }
    let unnamed = root.join(UNNAMED);
    make_folder(root, &unnamed)?;
    sweep(&unnamed);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let clock = clock.unwrap_or_default().as_nanos();
    // Two pods may have the same process identifier.
    let source = unnamed.join(format!("{}-{clock}-{number}", std::process::id()));
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&source)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        let folder = target.parent().unwrap_or(root);
        make_folder(root, folder)?;
        match fs::hard_link(&source, &target) {
            Ok(()) => sync(folder).map(|()| Created::New),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Created::Exists),
            Err(error) => Err(error),
        }
    })();
    let _ = fs::remove_file(&source);
    written
}

/// Makes a folder below `root`, and syncs what now names it.
fn make_folder(root: &Path, folder: &Path) -> io::Result<()> {
    if folder == root || folder.is_dir() {
        return Ok(());
    }
    let parent = folder.parent().unwrap_or(root);
    make_folder(root, parent)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => sync(parent),
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Removes what processes that died left behind.
fn sweep(unnamed: &Path) {
    let Ok(entries) = fs::read_dir(unnamed) else {
        return;
    };
    for entry in entries.flatten() {
        let changed = entry.metadata().and_then(|facts| facts.modified());
        let age = changed.ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age > LEFT_BEHIND) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Objects below `folder`, which ends with a slash or is empty.
fn walk(root: &Path, folder: &str, found: &mut Vec<Entry>) -> io::Result<()> {
    let entries = match fs::read_dir(path(root, folder.trim_end_matches('/'))?) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        // Names of ours are plain; `lost+found` and the like are not.
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if name.starts_with('.') || name.contains('+') {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(root, &format!("{folder}{name}/"), found)?;
        } else if kind.is_file() {
            let bytes = match entry.metadata() {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                facts => facts?.len(),
            };
            let key = format!("{folder}{name}");
            found.push(Entry { key, bytes });
        }
    }
    Ok(())
}

/// Below `root`, whatever the key.
fn path(root: &Path, key: &str) -> io::Result<PathBuf> {
    let plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains('\0');
    match key.is_empty() || key.split('/').all(plain) {
        true => Ok(root.join(key)),
        false => Err(ErrorKind::InvalidInput.into()),
    }
}

fn cause(error: &io::Error) -> Cause {
    match error.kind() {
        ErrorKind::NotFound => Cause::NotFound,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Cause::Rights,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Cause::Full,
        ErrorKind::FileTooLarge => Cause::TooLong,
        // Of a link: the file system has none.
        ErrorKind::Unsupported => Cause::NotConditional,
        _ => Cause::Other,
    }
}

#[cfg(test)]
mod tests;
