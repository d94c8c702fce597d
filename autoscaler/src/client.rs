//! Client of the management API: the writes to NodePools.
//!
//! Invariant: size and names of who goes are one request, which states the version that they were
//! decided on; of two who decide at once one decides again. What the API answers is believed at once,
//! so that the next answer of ours knows of it.

use std::sync::Arc;

use api::NodePool;
use api::names::{ANNOTATION_AUTOSCALING_REFUSED, ANNOTATION_DELETE_MACHINE};
use api::node_pool::Refused;
use kit_client::errors::{Class, Classify};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cache::Cache;
use crate::cache::objects::Pool;
use crate::cache::state::{State, WatchEvent};
use crate::error::Error;
use crate::names::FIELD_MANAGER;
use crate::node_group::decide::{Change, Decision};
use crate::node_group::{self, Group};
use crate::settings::Settings;

/// So often is decided anew when others write at the same time.
const TRIES: u32 = 5;

/// NodePools in the management cluster.
pub struct NodePools {
    pools: Api<NodePool>,
    cache: Arc<Cache>,
    /// One write at a time: the client deletes nodes of a pool in parallel, and each write that is
    /// decided on an old version costs two requests more.
    turn: tokio::sync::Mutex<()>,
}

impl NodePools {
    /// One for the user's namespace; what is answered goes into the cache.
    #[must_use]
    pub fn new(management: &Client, settings: &Settings, cache: Arc<Cache>) -> Self {
        Self {
            pools: Api::namespaced(management.clone(), &settings.user_namespace),
            cache,
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Decides, on what is known and again on what is newest, and writes what was decided. Gives
    /// what was written; none when nothing had to be.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn change(
        &self,
        id: &str,
        decide: impl Fn(Group<'_>, &State) -> Decision,
    ) -> Result<Option<Change>, Error> {
        let unknown = || Error::Unknown(id.to_owned());
        let _turn = self.turn.lock().await;
        for _ in 0..TRIES {
            let decided = self.cache.read(|state| {
                let group = node_group::find(state, id).ok_or_else(unknown)?;
                let decision = decide(group, state).map_err(Error::Refused)?;
                Ok::<_, Error>(decision.map(|change| (group.pool.clone(), change)))
            })?;
            let Some((pool, change)) = decided else {
                return Ok(None);
            };
            let failed = |verb, source| Error::Request {
                verb,
                pool: pool.name.clone(),
                source: Box::new(source),
            };
            match self.write(&pool.name, patch(&pool, &change)).await {
                Ok(()) => {
                    tracing::info!(
                        pool.name = pool.name, from = pool.replicas, to = change.replicas,
                        named = ?change.named,
                        "NodePool {} has {} replicas now", pool.name, change.replicas
                    );
                    return Ok(Some(change));
                }
                Err(error) if error.class() == Class::Conflict => {
                    let newest = self.pools.get(&pool.name).await;
                    let newest = newest.map_err(|source| failed("read", source))?;
                    self.cache.apply(&WatchEvent::Pool(Box::new(newest)));
                }
                Err(source) => return Err(failed("change", source)),
            }
        }
        Err(Error::Contended(id.to_owned()))
    }

    /// Writes what is refused of a pool, unless that stands there or the pool is another by now. No
    /// version is stated: what is said of another generation is void.
    ///
    /// # Errors
    /// [`Error::Unknown`] and [`Error::Request`].
    pub async fn refuse(&self, id: &str, refused: &Refused) -> Result<(), Error> {
        let _turn = self.turn.lock().await;
        let found = |state: &State| node_group::find(state, id).map(|group| group.pool.clone());
        let pool = self.cache.read(found);
        let pool = pool.ok_or_else(|| Error::Unknown(id.to_owned()))?;
        if pool.generation != refused.generation || pool.refused.as_ref() == Some(refused) {
            return Ok(());
        }
        let annotations = json!({ ANNOTATION_AUTOSCALING_REFUSED: refused.to_string() });
        let metadata = json!({ "uid": pool.version.uid, "annotations": annotations });
        let written = self
            .write(&pool.name, json!({ "metadata": metadata }))
            .await;
        written.map_err(|source| Error::Request {
            verb: "annotate",
            pool: pool.name,
            source: Box::new(source),
        })
    }

    async fn write(&self, pool: &str, patch: Value) -> Result<(), kube::Error> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let written = self
            .pools
            .patch(pool, &params, &Patch::Merge(patch))
            .await?;
        self.cache.apply(&WatchEvent::Pool(Box::new(written)));
        Ok(())
    }
}

/// The annotation is left out when it stays as it is.
fn patch(pool: &Pool, change: &Change) -> Value {
    let mut patch = json!({
        "metadata": {
            "resourceVersion": pool.version.text,
            "uid": pool.version.uid,
        },
        "spec": { "replicas": change.replicas },
    });
    if change.named != pool.named {
        let names: Vec<_> = change.named.iter().map(String::as_str).collect();
        let text = match names.is_empty() {
            true => Value::Null,
            false => names.join(",").into(),
        };
        patch["metadata"]["annotations"] = json!({ ANNOTATION_DELETE_MACHINE: text });
    }
    patch
}

#[cfg(test)]
mod tests;
