//! A tenant namespace in a management API with KubeVirt's kinds.
//!
//! Invariant: nobody else has the user of a site.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::foreign::kubevirt::{
    VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, VirtualMachine, VirtualMachineInstance,
};
use csi_proxy::model::{Instance, Machine};
use csi_proxy::settings::{Class, Hotplug, MOST_VOLUMES, Offer, Settings};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::DynamicObject;
use kube::{Api, Client};
use serde_json::{Value, json};
use testkit::fixtures::{wait_allowed, wait_for};
use testkit::programs::Programs;
use testkit::{ManagementApi, Options};
use tokio::sync::OnceCell;

use super::PATIENCE;

/// One tenant namespace.
pub(crate) struct Site {
    pub(crate) management: Arc<ManagementApi>,
    /// Has every right.
    pub(crate) admin: Client,
    pub(crate) ns: String,
    pub(crate) uid: String,
}

async fn management() -> Result<Option<ManagementApi>> {
    let Some(api) = ManagementApi::start_with(Options::default()).await? else {
        return Ok(None);
    };
    for foreign in [VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES] {
        let crd: Value = serde_saphyr::from_str(foreign)?;
        api.install_crd(&serde_json::from_value(crd)?).await?;
    }
    let snapshots = json!({
        "metadata": { "name": "volumesnapshots.snapshot.storage.k8s.io", "annotations": {
            "api-approved.kubernetes.io": "unapproved, for tests alone",
        } },
        "spec": {
            "group": "snapshot.storage.k8s.io", "scope": "Namespaced",
            "names": { "kind": "VolumeSnapshot", "plural": "volumesnapshots" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    });
    api.install_crd(&serde_json::from_value(snapshots)?).await?;
    // Without it the API server lets no claim grow.
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "ceph" },
        "provisioner": "t1", "allowVolumeExpansion": true,
    });
    let classes: Api<k8s_openapi::api::storage::v1::StorageClass> = Api::all(api.admin()?);
    classes
        .create(&Default::default(), &serde_json::from_value(class)?)
        .await?;
    Ok(Some(api))
}

impl Site {
    /// A new one in the management API that all tests share; `None`, loudly, when the programs are
    /// missing.
    pub(crate) async fn new(prefix: &str) -> Result<Option<Self>> {
        static SHARED: OnceCell<Option<Arc<ManagementApi>>> = OnceCell::const_new();
        // Here too, so that every test that is skipped says so itself.
        if Programs::find_or_skip()?.is_none() {
            return Ok(None);
        }
        kit::client::install_crypto();
        let shared =
            SHARED.get_or_try_init(|| async { anyhow::Ok(management().await?.map(Arc::new)) });
        let Some(management) = shared.await?.clone() else {
            return Ok(None);
        };
        let site = Self {
            admin: management.admin()?,
            ns: management.namespace(prefix).await?,
            uid: format!("0a1b2c3d-0000-4000-8000-{:012}", management.unique()),
            management,
        };
        let (user, ns) = (site.user(), &site.ns);
        let rules = csi_proxy::rights::management(&site.settings().offer);
        let group = "rbac.authorization.k8s.io";
        site.apply(&json!({
            "apiVersion": format!("{group}/v1"), "kind": "Role",
            "metadata": { "name": user, "namespace": ns }, "rules": kit::rbac::render(&rules),
        }))
        .await?;
        site.apply(&json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
            "metadata": { "name": user, "namespace": ns },
            "roleRef": { "apiGroup": group, "kind": "Role", "name": user },
            "subjects": [{ "apiGroup": group, "kind": "User", "name": user }],
        }))
        .await?;
        let claims = "persistentvolumeclaims";
        wait_allowed(&site.admin, &user, "list", claims, Some(ns)).await?;
        Ok(Some(site))
    }

    /// The user of the driver.
    pub(crate) fn user(&self) -> String {
        format!("csi-{}", self.uid)
    }

    pub(crate) fn settings(&self) -> Settings {
        let class = Class {
            name: "fast".to_owned(),
            storage_class: "ceph".to_owned(),
            default: true,
            expandable: true,
            cloneable: true,
            snapshot_class: Some("snaps".to_owned()),
            ..Class::default()
        };
        Settings {
            namespace: self.ns.clone(),
            cluster_uid: self.uid.clone(),
            offer: Offer {
                classes: vec![class],
                hotplug: Hotplug::Declarative,
            },
            patience: PATIENCE,
            most_volumes: MOST_VOLUMES,
        }
    }

    /// Applies any object in the name of the tests.
    pub(crate) async fn apply(&self, object: &Value) -> Result<()> {
        kit::apply::apply(&self.admin, object, "t1", true)
            .await
            .map(drop)?;
        Ok(())
    }

    pub(crate) fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.admin.clone(), &self.ns)
    }

    pub(crate) fn vms(&self) -> Api<VirtualMachine> {
        Api::namespaced(self.admin.clone(), &self.ns)
    }

    pub(crate) fn vmis(&self) -> Api<VirtualMachineInstance> {
        Api::namespaced(self.admin.clone(), &self.ns)
    }

    pub(crate) fn snapshots(&self) -> Api<DynamicObject> {
        let kind = csi_proxy::store::snapshot_kind();
        Api::namespaced_with(self.admin.clone(), &self.ns, &kind)
    }

    /// Makes a machine; the player starts it. Returns once it runs.
    pub(crate) async fn machine(&self, name: &str) -> Result<()> {
        self.apply(&json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": { "name": name, "namespace": self.ns },
            "spec": { "runStrategy": "Always", "template": { "spec": {
                "domain": { "devices": { "disks": [{ "name": "root", "disk": { "bus": "virtio" } }] } },
                "volumes": [{ "name": "root", "containerDisk": { "image": "root" } }],
            } } },
        }))
        .await?;
        self.instance(name, |instance| instance.running).await
    }

    /// Waits until an instance is as wanted.
    pub(crate) async fn instance(
        &self,
        name: &str,
        mut wanted: impl FnMut(&Instance) -> bool,
    ) -> Result<()> {
        let is = |vmi: Option<&VirtualMachineInstance>| {
            vmi.is_some_and(|vmi| wanted(&Instance::read(vmi)))
        };
        wait_for(&self.vmis(), name, is, PATIENCE).await.map(drop)
    }

    /// Waits until a virtual machine is as wanted.
    pub(crate) async fn vm(
        &self,
        name: &str,
        mut wanted: impl FnMut(&Machine) -> bool,
    ) -> Result<VirtualMachine> {
        let is = |vm: Option<&VirtualMachine>| vm.is_some_and(|vm| wanted(&Machine::read(vm)));
        let found = wait_for(&self.vms(), name, is, PATIENCE).await?;
        found.context("invariant: it was just seen")
    }
}
