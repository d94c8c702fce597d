//! `etcd-agent backup serve`: what a backup has to which nobody writes any more, for the operator that makes another
//! tenant cluster of it (docs/backup-format.md, "How far it is").
//!
//! Invariant: nothing is written, and nothing is opened but with the key that was given. What only the recovery key opens
//! is handed out as it is in the store.

use std::sync::Arc;

use ::backup::scopes;
use ::backup::store::Store;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use backup_format::keys::DataKey;
use backup_format::{Name, Scope, object};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::choose::Choices;
use super::failure::{FAILED, Failure, read};
use super::store::{AnyStore, prefix};
use crate::args::backup::ServeArgs;

/// Most bytes of an object with an identity: one has some 30 KiB.
const MOST: usize = 1024 * 1024;
/// Most identities that are looked at, the newest first.
const TRIES: usize = 16;

/// The newest identity, as it is in the store.
#[derive(Debug, Serialize)]
struct Sealed {
    /// Name of the object in its folder.
    name: String,
    /// The object, base64.
    object: String,
}

/// Whose identity is handed out.
struct Identities<S> {
    store: Arc<S>,
    tenant: String,
    prefix: String,
}

impl<S: Store> Identities<S> {
    async fn newest(&self, cluster: &str) -> Response {
        let scope = u64::from_str_radix(cluster, 16).ok();
        let scope = scope.and_then(|cluster| Scope::new(&self.tenant, cluster));
        let Some(scope) = scope else {
            let said = "say /identity/<etcd cluster>";
            return (StatusCode::BAD_REQUEST, said).into_response();
        };
        let unavailable = |why: String| (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
        let all = match scopes::identities(&*self.store, &self.prefix, &scope).await {
            Ok(all) => all,
            Err(error) => return unavailable(error.to_string()),
        };
        for name in all.into_iter().rev().take(TRIES) {
            let name = Name::Identity(name);
            let key = format!("{}{}{name}", self.prefix, scope.folder());
            let bytes = match self.store.get(&key, MOST).await {
                Ok(bytes) => bytes,
                Err(error) => return unavailable(error.to_string()),
            };
            // One that is not whole is passed over: the one before may do.
            if let Err(damage) = object::open(name, &scope, &bytes) {
                tracing::warn!("passed over: {damage}");
                continue;
            }
            let (name, object) = (name.to_string(), STANDARD.encode(&bytes));
            return Json(Sealed { name, object }).into_response();
        }
        let none = "there is no identity in the backup";
        (StatusCode::NOT_FOUND, none).into_response()
    }
}

/// Serves until it is told to end.
pub(super) async fn run(args: ServeArgs) -> Result<(), Failure> {
    let store = Arc::new(AnyStore::open(&args.store)?);
    let prefix = prefix(&args.store.prefix);
    let choices = match &args.data_key {
        None => None,
        Some(path) => {
            let key = DataKey::read(&read(path)?);
            let key = key.ok_or_else(|| Failure(FAILED, "a data key has 32 bytes".to_owned()))?;
            Some(Choices::new(Arc::clone(&store), &args.tenant, &prefix, key))
        }
    };
    let identities = Identities {
        store,
        tenant: args.tenant,
        prefix,
    };
    let listener = TcpListener::bind(args.listen).await?;
    let (mut end, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let told = async move {
        tokio::select! {
            _ = end.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let app = router(Arc::new(identities), choices.map(Arc::new));
    let served = axum::serve(listener, app).with_graceful_shutdown(told);
    Ok(served.await?)
}

fn router(
    identities: Arc<Identities<impl Store>>,
    choices: Option<Arc<Choices<impl Store>>>,
) -> Router {
    let identity =
        move |Path(cluster): Path<String>| async move { identities.newest(&cluster).await };
    let choose = move |Path((cluster, moment)): Path<(String, String)>| async move {
        match choices {
            Some(choices) => choices.ask(&cluster, &moment).await,
            None => {
                let why = "it has no key to read with yet";
                (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
            }
        }
    };
    Router::new()
        .route("/livez", get(async || "ok"))
        .route("/identity/{cluster}", get(identity))
        .route("/restorable/{cluster}/{moment}", get(choose))
}

#[cfg(test)]
mod tests {
    use ::backup::store::directory::Directory;
    use axum::body::to_bytes;
    use backup_format::keys::{Keys, RecoveryKey};
    use backup_format::{Header, Kind, SealedIdentity};
    use serde_json::Value;

    use super::*;

    fn object_of(sealed: &SealedIdentity, keys: &Keys, scope: &Scope) -> Vec<u8> {
        let content = sealed.bytes();
        let header = Header {
            scope: scope.clone(),
            kind: Kind::Identity(sealed.name()),
            previous: None,
            written_ms: 1,
            writer: "w".to_owned(),
            etcd: String::new(),
            kubernetes: String::new(),
        };
        object::seal(&header, keys, [7; 32], content).unwrap()
    }

    #[tokio::test]
    async fn newest_identity_that_is_whole_is_handed_out_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let scope = Scope::new("5a1c-7", 0xcdf8).unwrap();
        let recovery = RecoveryKey::generate().unwrap();
        let keys = Keys::generate(&recovery.wrapping_key(), &scope).unwrap();
        let store = Arc::new(Directory::new(folder.path()));
        let identities = Identities {
            store: Arc::clone(&store),
            tenant: "5a1c-7".to_owned(),
            prefix: String::new(),
        };
        let none = identities.newest("cdf8").await;
        assert_eq!(none.status(), StatusCode::NOT_FOUND);
        assert_eq!(
            identities.newest("..").await.status(),
            StatusCode::BAD_REQUEST
        );
        for (ms, spoilt) in [(1_u64, false), (2, false), (3, true)] {
            let wrapping = recovery.wrapping_key();
            let sealed = SealedIdentity::seal(&wrapping, "5a1c-7", ms, b"who it is").unwrap();
            let mut bytes = object_of(&sealed, &keys, &scope);
            if spoilt {
                bytes[100] ^= 1;
            }
            let key = format!("{}{}", scope.folder(), Name::Identity(sealed.name()));
            store.create(&key, bytes.into()).await.unwrap();
        }
        let said = identities.newest("cdf8").await.into_body();
        let said = to_bytes(said, 2 * MOST).await.unwrap();
        let said: Value = serde_json::from_slice(&said).unwrap();
        let name: Name = said["name"].as_str().unwrap().parse().unwrap();
        let bytes = STANDARD.decode(said["object"].as_str().unwrap()).unwrap();
        let opened = object::open(name, &scope, &bytes).unwrap();
        let key = opened.data_key(&recovery).unwrap();
        let sealed = SealedIdentity::read(&opened.content(&key).unwrap()).unwrap();
        assert_eq!(sealed.name().sealed_ms, 2);
        assert_eq!(sealed.open(&recovery, "5a1c-7").unwrap(), b"who it is");
    }
}
