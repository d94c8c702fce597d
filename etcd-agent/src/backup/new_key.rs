//! `etcd-agent backup new-key`: the one moment at which the recovery key is seen.
//!
//! Invariant: the recovery key goes to the standard output and nowhere else, and no file is written over.

use backup_format::keys::RecoveryKey;

use super::failure::{Failure, read, say, write_new};
use crate::args::backup::NewKeyArgs;

/// Makes both keys, or the one that follows from the recovery key that there is.
pub(super) fn make(args: &NewKeyArgs) -> Result<(), Failure> {
    if let Some(path) = &args.recovery_key {
        let text = String::from_utf8_lossy(&read(path)?).into_owned();
        let key = RecoveryKey::read(&text)?;
        return write_new(&args.wrapping_key, &key.wrapping_key().reveal());
    }
    let key = RecoveryKey::generate()?;
    write_new(&args.wrapping_key, &key.wrapping_key().reveal())?;
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
            recovery_key: None,
        };
        assert!(make(&args).is_ok());
        let made = std::fs::read(&path).unwrap();
        assert!(WrappingKey::read(&made).is_ok());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(make(&args).is_err(), "written over");
        assert_eq!(std::fs::read(&path).unwrap(), made);
    }

    #[test]
    fn wrapping_key_of_a_recovery_key_that_there_is_is_the_same_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("recovery");
        let key = RecoveryKey::generate().unwrap();
        std::fs::write(&kept, key.reveal() + "\n").unwrap();
        let of = |recovery: &std::path::Path, to: &str| NewKeyArgs {
            wrapping_key: folder.path().join(to),
            recovery_key: Some(recovery.to_owned()),
        };
        assert!(make(&of(&kept, "again")).is_ok());
        let again = std::fs::read(folder.path().join("again")).unwrap();
        assert_eq!(again, key.wrapping_key().reveal());
        assert!(make(&of(&folder.path().join("again"), "of none")).is_err());
        assert!(!folder.path().join("of none").exists());
    }
}
