//! `etcd-agent backup new-key`: the one moment at which the recovery key is seen.
//!
//! Invariant: the recovery key goes to the standard output and nowhere else, and no file is written over.

use backup_format::keys::RecoveryKey;

use super::failure::{Failure, say, write_new};
use crate::args::backup::NewKeyArgs;

/// Makes both keys.
pub(super) fn make(args: &NewKeyArgs) -> Result<(), Failure> {
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
