//! `etcd-agent backup new-key`: the one moment at which the recovery key is seen.
//!
//! Invariant: the recovery key goes to the standard output and nowhere else, and no file is written over.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;

use backup_format::keys::RecoveryKey;

use super::failure::{FAILED, Failure, say};
use crate::args::backup::NewKeyArgs;

/// Makes both keys.
pub(super) fn make(args: &NewKeyArgs) -> Result<(), Failure> {
    let key = RecoveryKey::generate()?;
    let path = &args.wrapping_key;
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    let written = file.and_then(|mut file| {
        file.write_all(&key.wrapping_key().reveal())?;
        file.sync_all()
    });
    written.map_err(|error| Failure(FAILED, format!("{}: {error}", path.display())))?;
    say(&key.reveal())
}

#[cfg(test)]
mod tests {
    use backup_format::keys::WrappingKey;

    use super::*;

    #[test]
    fn a_key_is_made_once_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wrapping-key");
        let args = NewKeyArgs {
            wrapping_key: path.clone(),
        };
        assert!(make(&args).is_ok());
        let made = std::fs::read(&path).unwrap();
        assert!(WrappingKey::read(&made).is_ok());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(make(&args).is_err(), "written over");
        assert_eq!(std::fs::read(&path).unwrap(), made);
    }
}
