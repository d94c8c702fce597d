//! A BackupTarget of one site.
//!
//! Invariant: it carries the label of its site, and no other operator sees it.

use anyhow::{Context as _, Result};
use api::{BackupTarget, Reason, names};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use testkit::fixtures::{wait_for, wait_gone};

use super::pools::said;
use super::site::apply;
use super::{PATIENCE, Site};

/// A target of a site.
pub(crate) struct Target {
    pub(crate) api: Api<BackupTarget>,
    pub(crate) name: String,
}

impl Target {
    pub(crate) async fn make(site: &Site, place: &Value) -> Result<Self> {
        let name = format!("target-of-{}", site.users);
        let mut spec = place.clone();
        spec["encryption"] = json!({ "keySecret": "backup-key" });
        let target = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "BackupTarget", "spec": spec,
            "metadata": { "name": name, "labels": { names::LABEL_TENANT_NAMESPACE: site.users } },
        });
        apply(&site.admin, &target).await?;
        let api = Api::all(site.admin.clone());
        Ok(Self { api, name })
    }

    /// Waits until the status says so; gives the message.
    pub(crate) async fn wait(&self, status: &str, reason: Reason) -> Result<String> {
        let wanted = (status.to_owned(), reason.as_str().to_owned());
        let is = |target: Option<&BackupTarget>| {
            let object = serde_json::to_value(target).unwrap_or_default();
            let spoken_of = &object["status"]["observedGeneration"];
            *spoken_of == object["metadata"]["generation"] && said(&object, "Usable") == wanted
        };
        let found = wait_for(&self.api, &self.name, is, PATIENCE).await;
        let found = match found {
            Ok(found) => found.context("invariant: it was just seen")?,
            Err(error) => {
                let now = self.api.get(&self.name).await?;
                return Err(error.context(format!("{status} {reason}, is {:?}", now.status)));
            }
        };
        let status = found.status.unwrap_or_default();
        Ok(status.conditions.first().context("none")?.message.clone())
    }

    pub(crate) async fn change(&self, spec: &Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let params = PatchParams::default();
        self.api.patch(&self.name, &params, &patch).await?;
        Ok(())
    }

    pub(crate) async fn remove(self) -> Result<()> {
        self.api
            .delete(&self.name, &DeleteParams::background())
            .await?;
        wait_gone(&self.api, &self.name, PATIENCE).await
    }
}
