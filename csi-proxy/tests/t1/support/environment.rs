//! A tenant namespace in a management API with KubeVirt's kinds.
//!
//! Invariant: nobody else has the user of an environment.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::foreign::kubevirt::{VirtualMachine, VirtualMachineInstance};
use csi_proxy::cache::objects::{Instance, Machine, Snapshot};
use csi_proxy::settings::{Class, Hotplug, MOST_VOLUMES, Offer, Settings};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::DynamicObject;
use kube::{Api, Client};
use serde_json::{Value, json};
use testkit::ManagementApi;
use testkit::fixtures::{wait_allowed, wait_for};

use super::PATIENCE;

/// One tenant namespace.
pub(crate) struct Environment {
    pub(crate) management: Arc<ManagementApi>,
    /// Has every right.
    pub(crate) admin: Client,
    pub(crate) ns: String,
    pub(crate) uid: String,
}

/// The management API that all tests share, with the class of the volumes that are offered.
async fn management() -> Result<Option<&'static Arc<ManagementApi>>> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(None);
    };
    // Without it the API server lets no claim grow.
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "ceph" },
        "provisioner": "t1", "allowVolumeExpansion": true,
    });
    let admin = api.admin()?;
    let install = async {
        kit_client::write::apply(&admin, &class, "t1", true).await?;
        Ok(())
    };
    api.once("csi-class", &class.to_string(), install).await?;
    Ok(Some(api))
}

impl Environment {
    /// A new one in the management API that all tests share; `None`, loudly, when the programs are
    /// missing.
    pub(crate) async fn new(prefix: &str) -> Result<Option<Self>> {
        kit_client::crypto::install_crypto();
        let Some(management) = management().await?.cloned() else {
            return Ok(None);
        };
        let environment = Self {
            admin: management.admin()?,
            ns: management.namespace(prefix).await?,
            uid: testkit::names::uid(),
            management,
        };
        let (user, ns) = (environment.user(), &environment.ns);
        let rules = csi_proxy::rbac::management(&environment.settings().offer);
        let group = "rbac.authorization.k8s.io";
        environment
            .apply(&json!({
                "apiVersion": format!("{group}/v1"), "kind": "Role",
                "metadata": { "name": user, "namespace": ns }, "rules": kit_objects::rbac::render(&rules),
            }))
            .await?;
        environment
            .apply(&json!({
                "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
                "metadata": { "name": user, "namespace": ns },
                "roleRef": { "apiGroup": group, "kind": "Role", "name": user },
                "subjects": [{ "apiGroup": group, "kind": "User", "name": user }],
            }))
            .await?;
        let claims = "persistentvolumeclaims";
        wait_allowed(&environment.admin, &user, "list", claims, Some(ns)).await?;
        Ok(Some(environment))
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
                ..Offer::default()
            },
            patience: PATIENCE,
            most_volumes: MOST_VOLUMES,
        }
    }

    /// Applies any object in the name of the tests.
    pub(crate) async fn apply(&self, object: &Value) -> Result<()> {
        kit_client::write::apply(&self.admin, object, "t1", true)
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
        let kind = Snapshot::resource();
        Api::namespaced_with(self.admin.clone(), &self.ns, &kind)
    }

    /// Makes a machine; the fakes start it. Returns once it runs.
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
