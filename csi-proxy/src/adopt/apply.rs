//! Does one step.
//!
//! Invariant: a request says which version of the object it is for, so what changed since it was looked at
//! is refused and planned again.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kit_client::untyped;
use kit_objects::kinds;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::{Api, Client, ResourceExt as _};

use super::plan::{Cluster, Kind, Write};
use crate::names::FIELD_MANAGER;

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The object is another one, or of another version; nothing was done.
    Stale,
}

/// Clients of both clusters.
pub struct Clients {
    /// The tenant cluster's.
    pub tenant: Client,
    /// The management cluster's.
    pub management: Client,
}

impl Clients {
    fn of(&self, cluster: Cluster) -> Client {
        match cluster {
            Cluster::Tenant => self.tenant.clone(),
            Cluster::Management => self.management.clone(),
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// What the API refuses.
    pub async fn apply(&self, write: &Write) -> kube::Result<Outcome> {
        match self.send(write).await {
            // 404: it went; 409: it changed, or is there already.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Outcome::Stale),
            sent => sent.map(|()| Outcome::Done),
        }
    }

    async fn send(&self, write: &Write) -> kube::Result<()> {
        let post = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        match write {
            Write::Volume {
                cluster,
                name,
                patch,
            } => {
                let params = PatchParams {
                    field_manager: Some(FIELD_MANAGER.to_owned()),
                    ..PatchParams::default()
                };
                let volumes: Api<PersistentVolume> = Api::all(self.of(*cluster));
                volumes
                    .patch(name, &params, &Patch::Merge(patch))
                    .await
                    .map(drop)
            }
            Write::MakeVolume(volume) => {
                let volumes: Api<PersistentVolume> = Api::all(self.tenant.clone());
                volumes.create(&post, volume).await.map(drop)
            }
            Write::MakeClaim(cluster, claim) => {
                let namespace = claim.namespace().unwrap_or_default();
                let claims: Api<PersistentVolumeClaim> =
                    Api::namespaced(self.of(*cluster), &namespace);
                claims.create(&post, claim).await.map(drop)
            }
            Write::Delete {
                cluster,
                kind,
                meta,
            } => {
                let params = DeleteParams {
                    preconditions: Some(Preconditions {
                        uid: meta.uid.clone(),
                        resource_version: meta.resource_version.clone(),
                    }),
                    propagation_policy: Some(PropagationPolicy::Background),
                    ..DeleteParams::default()
                };
                let kind = match kind {
                    Kind::Volume => kinds::PERSISTENT_VOLUME,
                    Kind::Claim => kinds::PERSISTENT_VOLUME_CLAIM,
                    Kind::DataVolume => kinds::DATA_VOLUME,
                };
                let (client, namespace) = (self.of(*cluster), meta.namespace.as_deref());
                let all = untyped::of(kind, &client, namespace);
                let name = meta.name.as_deref().unwrap_or_default();
                all.delete(name, &params).await.map(drop)
            }
        }
    }
}
