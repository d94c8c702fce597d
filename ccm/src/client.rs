//! Requests to the tenant's and the management cluster's API.
//!
//! Invariant: every write is fenced by the Lease, and deletes carry UIDs; an answer other than "not
//! found" never counts as one.

use api::foreign::kubevirt::{VirtualMachine, VirtualMachineInstance};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kit::lease::Leadership;
use kit_client::connect::Clients;
use kit_client::write::{Deleted, Deletion};
use kit_objects::kinds::{self, Kind};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PropagationPolicy};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Error;
use crate::names;

/// Both APIs, and the right to write.
pub struct Client {
    /// The tenant cluster's API.
    pub tenant: kube::Client,
    /// The management cluster's API.
    pub management: Clients,
    /// The tenant namespace.
    pub namespace: String,
    /// The fence.
    pub leadership: Leadership,
}

// In the tenant cluster.
impl Client {
    /// Merges into a node.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn patch_node(&self, name: &str, patch: &Value) -> Result<Node, Error> {
        self.leadership.ensure()?;
        let params = PatchParams::default();
        let patch = Patch::Merge(patch);
        let patched = self.nodes().patch(name, &params, &patch).await;
        patched.map_err(|e| Error::request("change", "Node", name, e))
    }

    /// Merges into a node's status, which sets its addresses.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn set_addresses(&self, name: &str, patch: &Value) -> Result<Node, Error> {
        self.patch_node_status(name, &Patch::Merge(patch), "set the addresses of")
            .await
    }

    /// Patches a node's status, which sets one condition; the others stay.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn set_readiness(&self, name: &str, patch: &Value) -> Result<Node, Error> {
        self.patch_node_status(name, &Patch::Strategic(patch), "set the readiness of")
            .await
    }

    async fn patch_node_status(
        &self,
        name: &str,
        patch: &Patch<&Value>,
        verb: &'static str,
    ) -> Result<Node, Error> {
        self.leadership.ensure()?;
        let params = PatchParams::default();
        let patched = self.nodes().patch_status(name, &params, patch).await;
        patched.map_err(|e| Error::request(verb, "Node", name, e))
    }

    /// Deletes the node with this UID, if it is still at this resource version.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn delete_node(&self, name: &str, uid: &str, version: &str) -> Result<(), Error> {
        self.leadership.ensure()?;
        let deletion = Deletion {
            kind: kinds::NODE,
            namespace: None,
            name,
            uid,
            resource_version: Some(version),
            propagation: PropagationPolicy::Background,
        };
        let deleted = kit_client::write::delete(&self.tenant, &deletion).await;
        deleted.map(drop).map_err(|source| Error::Write {
            doing: "delete the Node",
            source,
        })
    }

    /// The Lease that the kubelet of a node renews.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn kubelet_lease(&self, node: &str) -> Result<Option<Lease>, Error> {
        let leases = Api::<Lease>::namespaced(self.tenant.clone(), names::NAMESPACE_LEASES);
        let found = leases.get_opt(node).await;
        found.map_err(|e| Error::request("look for", "Lease", node, e))
    }

    /// Merges into a Service. None when it is gone.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn patch_service(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Option<Service>, Error> {
        self.leadership.ensure()?;
        let services = Api::<Service>::namespaced(self.tenant.clone(), namespace);
        let params = PatchParams::default();
        let patched = services.patch(name, &params, &Patch::Merge(patch)).await;
        unless_gone(patched, namespace, name)
    }

    /// Merges into the status of a Service. None when it is gone.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn patch_service_status(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Option<Service>, Error> {
        self.leadership.ensure()?;
        let services = Api::<Service>::namespaced(self.tenant.clone(), namespace);
        let params = PatchParams::default();
        let patch = Patch::Merge(patch);
        let patched = services.patch_status(name, &params, &patch).await;
        unless_gone(patched, namespace, name)
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.tenant.clone())
    }
}

// In the tenant namespace of the management cluster.
impl Client {
    /// A virtual machine, by name.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn virtual_machine(&self, name: &str) -> Result<Option<VirtualMachine>, Error> {
        let vms = Api::<VirtualMachine>::namespaced(self.way(false).clone(), &self.namespace);
        let found = vms.get_opt(name).await;
        found.map_err(|e| Error::request("look for", "VirtualMachine", name, e))
    }

    /// The instance of a virtual machine, by name.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn instance(
        &self,
        name: &str,
        urgent: bool,
    ) -> Result<Option<VirtualMachineInstance>, Error> {
        let (client, kind) = (self.way(urgent).clone(), "VirtualMachineInstance");
        let instances = Api::<VirtualMachineInstance>::namespaced(client, &self.namespace);
        let found = instances.get_opt(name).await;
        found.map_err(|e| Error::request("look for", kind, name, e))
    }

    /// A mirror, by name.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn mirror(&self, name: &str) -> Result<Option<Service>, Error> {
        let found = self.mirrors().get_opt(name).await;
        found.map_err(|e| Error::request("look for", "Service", name, e))
    }

    /// Applies a mirror.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn apply_mirror(&self, object: &Value) -> Result<Service, Error> {
        decode(self.apply(object, false).await?)
    }

    /// Merges into a mirror.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn patch_mirror(&self, name: &str, patch: &Value) -> Result<Service, Error> {
        self.leadership.ensure()?;
        let params = PatchParams::default();
        let patch = Patch::Merge(patch);
        let patched = self.mirrors().patch(name, &params, &patch).await;
        patched.map_err(|e| Error::request("change", "Service", name, e))
    }

    /// Deletes the mirror with this UID.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn delete_mirror(&self, name: &str, uid: &str) -> Result<Deleted, Error> {
        self.delete(kinds::SERVICE, name, uid, false).await
    }

    /// Applies an EndpointSlice.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn apply_slice(&self, object: &Value, urgent: bool) -> Result<EndpointSlice, Error> {
        decode(self.apply(object, urgent).await?)
    }

    /// Deletes the EndpointSlice with this UID.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn delete_slice(
        &self,
        name: &str,
        uid: &str,
        urgent: bool,
    ) -> Result<Deleted, Error> {
        self.delete(kinds::ENDPOINT_SLICE, name, uid, urgent).await
    }

    fn mirrors(&self) -> Api<Service> {
        Api::namespaced(self.way(false).clone(), &self.namespace)
    }

    const fn way(&self, urgent: bool) -> &kube::Client {
        match urgent {
            true => &self.management.urgent,
            false => &self.management.usual,
        }
    }

    async fn apply(&self, object: &Value, urgent: bool) -> Result<DynamicObject, Error> {
        self.leadership.ensure()?;
        let client = self.way(urgent);
        let applied = kit_client::write::apply(client, object, names::FIELD_MANAGER, true).await;
        applied.map_err(unwritten)
    }

    async fn delete(
        &self,
        kind: Kind,
        name: &str,
        uid: &str,
        urgent: bool,
    ) -> Result<Deleted, Error> {
        self.leadership.ensure()?;
        let deletion = Deletion {
            kind,
            namespace: Some(&self.namespace),
            name,
            uid,
            resource_version: None,
            propagation: PropagationPolicy::Background,
        };
        let deleted = kit_client::write::delete(self.way(urgent), &deletion).await;
        deleted.map_err(unwritten)
    }
}

fn unwritten(source: kit_client::write::Error) -> Error {
    Error::Write {
        doing: "write to the management cluster",
        source,
    }
}

fn unless_gone(
    patched: kube::Result<Service>,
    namespace: &str,
    name: &str,
) -> Result<Option<Service>, Error> {
    match patched {
        Ok(patched) => Ok(Some(patched)),
        Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(None),
        Err(source) => Err(Error::request(
            "change",
            "Service",
            &format!("{namespace}/{name}"),
            source,
        )),
    }
}

fn decode<K: DeserializeOwned>(object: DynamicObject) -> Result<K, Error> {
    let what = object.metadata.name.clone().unwrap_or_default();
    let value = serde_json::to_value(object);
    let decoded = value.and_then(serde_json::from_value);
    decoded.map_err(|source| Error::Answer { what, source })
}
