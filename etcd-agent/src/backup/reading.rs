//! From flags to a reader of a backup, and to what can be had of it.
//!
//! Invariant: a moment that cannot be had has an exit code of its own.

use ::backup::reader::{Opener, Reader};
use ::backup::restore;
use ::backup::restore::choose::At;
use ::backup::restore::outcome::{Found, NotFound};
use backup_format::Scope;
use backup_format::keys::{DataKey, RecoveryKey};

use super::failure::{FAILED, Failure, NOT_TO_BE_HAD, read};
use super::store::{AnyStore, prefix};
use crate::args::reading::{AtArgs, ReadArgs};

/// What can be had of the moment that was asked for.
pub(super) async fn find(reader: &Reader<'_, AnyStore>, at: &AtArgs) -> Result<Found, Failure> {
    let at = match (at.at_ms, at.at_revision) {
        (Some(ms), _) => At::Time(ms),
        (_, Some(revision)) => At::Revision(revision),
        (None, None) => At::Latest,
    };
    let found = restore::find(reader, at).await;
    found.map_err(|error| match error {
        NotFound::TooOld | NotFound::Holes { .. } => Failure(NOT_TO_BE_HAD, error.to_string()),
        NotFound::Store(error) => error.into(),
    })
}

/// Reads the backup that flags name.
pub(super) fn reader<'a>(
    store: &'a AnyStore,
    args: &ReadArgs,
) -> Result<Reader<'a, AnyStore>, Failure> {
    let scope = Scope::new(&args.tenant, args.cluster.number());
    let scope = scope.ok_or_else(|| Failure(FAILED, "the tenant is no UID".to_owned()))?;
    let opener = match (&args.key.data_key, &args.key.recovery_key) {
        (Some(path), _) => {
            let key = DataKey::read(&read(path)?);
            Opener::Data(key.ok_or_else(|| Failure(FAILED, "a data key has 32 bytes".to_owned()))?)
        }
        (_, Some(path)) => {
            let text = String::from_utf8_lossy(&read(path)?).into_owned();
            Opener::Recovery(RecoveryKey::read(&text)?)
        }
        (None, None) => return Err(Failure(FAILED, "no key was given".to_owned())),
    };
    Ok(Reader {
        store,
        scope,
        prefix: prefix(&args.store.prefix),
        opener,
    })
}
