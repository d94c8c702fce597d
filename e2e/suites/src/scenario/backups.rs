//! A place for backups of a test's tenant clusters: a BackupTarget whose claims are in their tenant namespaces.
//!
//! Invariant: it has the name of the test's namespace, and goes with that.

use anyhow::Result;
use api::BackupTarget;
use backup_format::keys::RecoveryKey;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use serde_json::json;

use super::Scenario;
use crate::cluster::OPERATOR_NAMESPACE;

impl Scenario {
    /// Makes it, with a key of its own, and gives its name for `spec.backup.target`.
    ///
    /// # Errors
    /// When the management API refuses it.
    pub async fn backup_target(&self) -> Result<String> {
        let name = self.namespace.clone();
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                ..ObjectMeta::default()
            },
            data: Some(
                [(
                    "wrapping-key".to_owned(),
                    ByteString(RecoveryKey::generate()?.wrapping_key().reveal()),
                )]
                .into(),
            ),
            ..Secret::default()
        };
        let params = PostParams::default();
        self.backup_keys().create(&params, &secret).await?;
        let target = serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "BackupTarget",
            "metadata": { "name": name },
            "spec": { "claim": { "size": "1Gi" }, "encryption": { "keySecret": name } },
        }))?;
        self.backup_targets().create(&params, &target).await?;
        Ok(name)
    }

    /// Where it was not made, or is of a lab without the operator, there is nothing to remove.
    pub(super) async fn remove_backup_target(&self) -> kube::Result<()> {
        let params = DeleteParams::background();
        let target = self.backup_targets().delete(&self.namespace, &params).await;
        let key = self.backup_keys().delete(&self.namespace, &params).await;
        for gone in [target.map(drop), key.map(drop)] {
            match gone {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                gone => gone?,
            }
        }
        Ok(())
    }

    fn backup_targets(&self) -> Api<BackupTarget> {
        Api::all(self.client().clone())
    }

    fn backup_keys(&self) -> Api<Secret> {
        Api::namespaced(self.client().clone(), OPERATOR_NAMESPACE)
    }
}
