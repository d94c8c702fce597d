//! `etcd-agent backup clusters`: whose backups there are, where nothing but the store and the recovery key is left.
//!
//! Invariant: of what is opened nothing is said but namespace, name and version.

use ::backup::reader::{Opener, ReadError, Reader};
use ::backup::scopes::{identities, scopes};
use ::backup::store::Store;
use backup_format::Scope;
use backup_format::keys::RecoveryKey;
use serde_json::Value;

use super::failure::{Failure, read, say};
use super::store::{AnyStore, prefix};
use crate::args::backup::ClustersArgs;

/// Most characters of a name.
const MOST: usize = 253;

/// Lists them, one a line: UID, etcd cluster, when the newest identity was sealed, and whose it is.
pub(super) async fn list(args: &ClustersArgs) -> Result<(), Failure> {
    let store = AnyStore::open(&args.store)?;
    let prefix = prefix(&args.store.prefix);
    let recovery = match &args.recovery_key {
        None => None,
        Some(path) => {
            let text = String::from_utf8_lossy(&read(path)?).into_owned();
            Some(RecoveryKey::read(&text)?)
        }
    };
    for scope in scopes(&store, &prefix).await? {
        let is = describe(&store, &prefix, &scope, recovery.as_ref()).await?;
        say(&format!("{} {:016x} {is}", scope.tenant, scope.cluster))?;
    }
    Ok(())
}

async fn describe(
    store: &impl Store,
    prefix: &str,
    scope: &Scope,
    recovery: Option<&RecoveryKey>,
) -> Result<String, Failure> {
    let names = identities(store, prefix, scope).await?;
    let Some(newest) = names.last() else {
        return Ok("no identity".to_owned());
    };
    let Some(recovery) = recovery else {
        return Ok(format!("{}", newest.sealed_ms));
    };
    let reader = Reader {
        store,
        scope: scope.clone(),
        prefix: prefix.to_owned(),
        opener: Opener::Recovery(recovery.clone()),
    };
    for name in names.iter().rev() {
        match reader.open_identity(*name, recovery).await {
            Ok(document) => return Ok(format!("{} {}", name.sealed_ms, whose(&document))),
            Err(ReadError::Store(error)) => return Err(error.into()),
            // Damaged, or somebody else's; one before it may be whole.
            Err(error) => tracing::warn!("{error}"),
        }
    }
    Ok(format!("{} the recovery key opens none", newest.sealed_ms))
}

/// Namespace, name and version of a document.
fn whose(document: &[u8]) -> String {
    let document: Value = serde_json::from_slice(document).unwrap_or_default();
    let text = |pointer: &str| -> String {
        let text = document.pointer(pointer).and_then(Value::as_str);
        let line = text.unwrap_or("?").chars().filter(|c| !c.is_control());
        line.take(MOST).collect()
    };
    format!(
        "{}/{} {}",
        text("/tenantCluster/metadata/namespace"),
        text("/tenantCluster/metadata/name"),
        text("/tenantCluster/spec/version")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_says_whose_it_is_and_no_key() {
        let document = serde_json::json!({
            "format": 1,
            "tenantCluster": {
                "metadata": { "namespace": "team-a", "name": "de\nmo" }, "spec": { "version": "1.35.4" },
            },
            "secrets": { "ca": { "ca.key": "c2VjcmV0" } },
        });
        let said = whose(document.to_string().as_bytes());
        assert_eq!(said, "team-a/demo 1.35.4");
        assert_eq!(whose(b"none"), "?/? ?");
    }
}
