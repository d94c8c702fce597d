//! `etcd-agent backup compare`: the end of a restore that is only tested. What was fetched and unpacked is served by an
//! etcd of ours beside this; the deltas are replayed on it, and it is compared with the etcd that is backed up.
//!
//! Invariant: nothing is written but the report, into neither the store nor the etcd that is backed up. That both are the
//! same is said only of what was read from both.

use ::backup::restore;
use ::backup::restore::compare::CompareError;
use serde_json::json;

use super::failure::{DIFFERS, FAILED, Failure, say};
use super::in_place::{handed, served};
use super::live::etcd_at;
use super::reading::reader;
use super::store::AnyStore;
use crate::args::in_place::CompareArgs;
use crate::termination_log;

pub(super) async fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let store = AnyStore::open(&args.read.store)?;
    let reader = reader(&store, &args.read)?;
    let (found, fetched) = handed(&args.scratch)?;
    let live = etcd_at(&args.live, args.live_tls.as_deref())?;
    let (serves, wanted) = (live.status().await?.cluster, args.read.cluster.number());
    if serves != wanted {
        let said =
            format!("the etcd that serves is cluster {serves:x}, and the backup is of {wanted:x}");
        return Err(Failure(FAILED, said));
    }
    let copy = served(&args.etcd).await?;
    // With what was written meanwhile, so that the revision is one that etcd still has.
    let restored = restore::replay_all(&reader, found, fetched, &copy).await?;
    let revision = restored.revision;
    let compared = restore::compare::compare(&live, &copy, revision).await;
    let compared = compared.map_err(failure)?;
    if let Some(report) = &args.report {
        let text = json!({ "revision": revision, "keys": compared.keys, "bytes": compared.bytes });
        termination_log::write(report, text.to_string().as_bytes())?;
    }
    say(&format!(
        "revision {revision}, {} of it replayed: {} keys with {} bytes are what etcd has",
        restored.replayed, compared.keys, compared.bytes
    ))
}

/// What is not the same has an exit code of its own: everything else may be otherwise the next time.
fn failure(error: CompareError) -> Failure {
    match error {
        CompareError::Differs { .. } => Failure(DIFFERS, error.to_string()),
        CompareError::Compacted(_) | CompareError::Etcd(_) => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_has_an_exit_code_of_its_own_and_what_is_not_known_has_not() {
        let differs = failure(CompareError::Differs {
            revision: 7,
            what: "the backup lacks /a".to_owned(),
        });
        assert_eq!(differs.code(), 5);
        assert_eq!(differs.said(), "at revision 7: the backup lacks /a");
        assert_eq!(failure(CompareError::Compacted(7)).code(), 1);
    }
}
