//! The private key: made on this machine, and kept there.
//!
//! Invariants: nobody but its owner reads the file; one that is there is never replaced, whatever is in it;
//! the key is written nowhere else.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use boringtun::x25519::{PublicKey as DhPublic, StaticSecret};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::key::{LENGTH, PublicKey};

/// Name of the file.
pub const NAME: &str = "private.key";
/// Bytes that are read of it.
const LONGEST: u64 = 64;
const OWNER_ONLY: u32 = 0o600;

/// The key of this folder, made if there is none. The folder is made too.
///
/// # Errors
/// When it cannot be read or written, or is no key.
pub fn load(folder: &Path) -> Result<StaticSecret> {
    fs::create_dir_all(folder).with_context(|| format!("make folder {}", folder.display()))?;
    let path = folder.join(NAME);
    if !path.exists() {
        write(folder, &path)?;
    }
    read(&path)
}

/// The public half.
#[must_use]
pub fn public(private: &StaticSecret) -> PublicKey {
    PublicKey(DhPublic::from(private).to_bytes())
}

fn write(folder: &Path, path: &Path) -> Result<()> {
    let mut key = [0; LENGTH];
    let drawn = SystemRandom::new().fill(&mut key);
    if drawn.is_err() {
        bail!("the machine gives no random numbers");
    }
    let beside = folder.join(format!("{NAME}.new"));
    // What a start that was killed has left is no key yet.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove {}", beside.display()));
        }
        _ => {}
    }
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(OWNER_ONLY);
    let file = file.open(&beside);
    let mut file = file.with_context(|| format!("make {}", beside.display()))?;
    let text = STANDARD.encode(key);
    file.write_all(text.as_bytes()).context("write the key")?;
    file.sync_all().context("write the key")?;
    // A link and not a rename: of two that start at once one wins, and both read what it wrote.
    match fs::hard_link(&beside, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("make {}", path.display()));
        }
        _ => {}
    }
    fs::remove_file(&beside).with_context(|| format!("remove {}", beside.display()))?;
    let folder = File::open(folder).and_then(|folder| folder.sync_all());
    folder.context("write the key's folder")
}

fn read(path: &Path) -> Result<StaticSecret> {
    let named = || path.display().to_string();
    let file = File::open(path).with_context(|| format!("read {}", named()))?;
    let mode = file.metadata().with_context(named)?.permissions().mode();
    if mode & 0o077 != 0 {
        tracing::warn!(
            file = named(),
            "others could read the private key, and cannot any more"
        );
        let only = Permissions::from_mode(OWNER_ONLY);
        fs::set_permissions(path, only).with_context(|| format!("keep {} private", named()))?;
    }
    let mut text = String::new();
    let read = file.take(LONGEST).read_to_string(&mut text);
    read.with_context(|| format!("read {}", named()))?;
    let key = STANDARD.decode(text.trim()).ok();
    let key = key.and_then(|key| <[u8; LENGTH]>::try_from(key).ok());
    let Some(key) = key else {
        bail!(
            "{} is no key: remove it, and the node gets a new one",
            named()
        );
    };
    Ok(StaticSecret::from(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_stays_over_restarts_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("overlay");
        let first = public(&load(&inside).unwrap());
        let path = inside.join(NAME);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(public(&load(&inside).unwrap()), first);
        assert_eq!(mode(&path), 0o600);
        let names = fs::read_dir(&inside).unwrap().count();
        assert_eq!(names, 1);
    }

    #[test]
    fn two_machines_have_two_keys() {
        let key = || {
            let folder = tempfile::tempdir().unwrap();
            public(&load(folder.path()).unwrap())
        };
        assert_ne!(key(), key());
    }

    #[test]
    fn what_a_killed_start_left_is_no_key() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("private.key.new"), "half").unwrap();
        assert!(load(folder.path()).is_ok());
    }

    #[test]
    fn a_file_that_is_no_key_is_told_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        fs::write(&path, "no key").unwrap();
        let Err(error) = load(folder.path()) else {
            panic!("it was taken for a key");
        };
        assert!(error.to_string().contains("remove it"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "no key");
    }
}
