//! KubeVirt by hand: what it would write, when a test says so.
//!
//! Invariant: the same objects as those of a [`super::FakeKubeVirt`]; do not run both in a
//! namespace.

use anyhow::Result;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::objects::{MANAGER, instances, running, virtual_machines};

/// The virtual machines of one namespace.
#[derive(Clone)]
pub struct ByHand {
    client: Client,
    namespace: String,
}

impl ByHand {
    /// `client` needs the rights of an administrator.
    #[must_use]
    pub fn new(client: &Client, namespace: &str) -> Self {
        Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
        }
    }

    fn api(&self, kind: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, kind)
    }

    async fn apply(&self, kind: &ApiResource, name: &str, object: &Value) -> Result<()> {
        let params = PatchParams::apply(MANAGER).force();
        self.api(kind)
            .patch(name, &params, &Patch::Apply(object))
            .await?;
        Ok(())
    }

    /// Makes a virtual machine without an instance, or changes its labels.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn virtual_machine(&self, name: &str, labels: &Value) -> Result<()> {
        let vm = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": { "name": name, "namespace": self.namespace, "labels": labels },
            "spec": { "runStrategy": "Always",
                "template": { "spec": { "domain": { "devices": {} } } } },
        });
        self.apply(&virtual_machines(), name, &vm).await
    }

    /// Merges into the status of a virtual machine.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn status(&self, name: &str, status: &Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        self.api(&virtual_machines())
            .patch_status(name, &params, &patch)
            .await?;
        Ok(())
    }

    /// Makes an instance that runs on a node and has these addresses, or gives it others.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn run(&self, name: &str, node: &str, addresses: &[&str]) -> Result<()> {
        let instance = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
            "metadata": { "name": name, "namespace": self.namespace },
            "spec": { "hostname": name },
        });
        self.apply(&instances(), name, &instance).await?;
        let status = Patch::Merge(json!({ "status": running(node, addresses) }));
        // KubeVirt's definition of instances has no status subresource.
        let params = PatchParams::default();
        self.api(&instances()).patch(name, &params, &status).await?;
        Ok(())
    }
}
