//! The calls of the provider, and the rights that they need.
//!
//! Invariant: each write is one request with a precondition on the UID that was read just before;
//! a machine is gone only when neither the VirtualMachine nor the instance is there.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::foreign::kubevirt::{VirtualMachine, VirtualMachineInstance};
use api::machine::MachineRequest;
use api::machine_addresses::PublishedAddresses;
use api::node_pool::Provider as Wanted;
use api::{Machine, names};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kit_objects::rbac::Rule;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
};
use kube::{Api, Client, Resource, ResourceExt};
use providers::{
    Answer, Capabilities, Checked, Error, Inventory, Offering, Presence, Proof, Provider, Scope,
    Topology,
};
use serde::de::DeserializeOwned;
use serde_json::json;
use tenant_cp::settings::KubeVirtSettings;

use crate::identity::{is_of, place};
use crate::{describe, launcher, resolve, virtual_machine};

/// The rights that this needs in a tenant namespace.
pub const RULES: &[Rule] = &[
    Rule::new(
        &["kubevirt.io"],
        &["virtualmachines"],
        &["create", "delete", "get", "list", "patch"],
    ),
    Rule::new(
        &["kubevirt.io"],
        &["virtualmachineinstances"],
        &["delete", "get", "list"],
    ),
    Rule::new(&[""], &["pods"], &["list"]),
];
/// Labels of the pods around an instance: what they are, and its UID (KubeVirt
/// `staging/src/kubevirt.io/api/core/v1/types.go`, `AppLabel` and `CreatedByLabel`).
const LAUNCHER: &str = "kubevirt.io=virt-launcher,kubevirt.io/created-by";
/// More pods than there are of an instance: one, two while it migrates, and those that failed.
const MOST_PODS: u32 = 20;

/// The right to see in which zone and region the management cluster's nodes are.
pub const NODE_RULE: Rule = Rule::new(&[""], &["nodes"], &["get"]);

/// What KubeVirt can do. It reads the Secret with the user data at each start, so these can be blanked; root disks are
/// images that each instance begins anew with, so a restart would be a replacement by the same name, and is not
/// offered; it says when a node below is drained. That an instance is gone is
/// the word of its API alone, and the node may be cut off: it fences nothing.
pub const CAPABILITIES: Capabilities = Capabilities {
    keeps_disk: false,
    blanks_user_data: true,
    user_data_limit: None,
    goes_with_namespace: true,
    id_before_create: true,
    evacuation_notice: true,
    proves_fenced: false,
    attests: false,
    restarts: false,
    watched: true,
    read_by_cloud_controller: true,
    max_name: None,
};

/// The provider.
pub struct KubeVirt {
    client: Client,
    /// Where nodes are, by name. It never changes: a node that is elsewhere is another one.
    nodes: Mutex<HashMap<String, Topology>>,
    settings: KubeVirtSettings,
    field_manager: &'static str,
}

impl KubeVirt {
    /// Writes in the name of `field_manager`.
    #[must_use]
    pub fn new(client: Client, settings: KubeVirtSettings, field_manager: &'static str) -> Self {
        Self {
            client,
            nodes: Mutex::default(),
            settings,
            field_manager,
        }
    }

    fn api<K: Kind>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    async fn find<K: Kind>(&self, machine: &Machine) -> Result<Option<K>, Error> {
        let (namespace, name) = place(machine);
        let found = self.api::<K>(&namespace).get_opt(&name).await;
        found.map_err(|source| failed::<K>("read", &namespace, &name, source))
    }

    /// All that there is of a machine.
    async fn look(
        &self,
        machine: &Machine,
    ) -> Result<(Option<VirtualMachine>, Option<VirtualMachineInstance>), Error> {
        // In this order: once there is no VirtualMachine, nobody makes an instance any more.
        let vm = self.find::<VirtualMachine>(machine).await?;
        let instance = self.find::<VirtualMachineInstance>(machine).await?;
        Ok((vm, instance))
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<String, Topology>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a node of the management cluster is; none where there is no such node any more.
    async fn whereabouts(&self, node: &str) -> Result<Option<Topology>, Error> {
        if let Some(known) = self.nodes().get(node) {
            return Ok(Some(known.clone()));
        }
        let nodes = Api::<Node>::all(self.client.clone());
        let found = nodes.get_metadata_opt(node).await;
        let found = found.map_err(|source| Error::Request {
            verb: "read",
            object: format!("Node {node}"),
            source: Box::new(source),
        })?;
        let Some(found) = found else { return Ok(None) };
        let at = describe::topology(&found.metadata);
        self.nodes().insert(node.to_owned(), at.clone());
        Ok(Some(at))
    }

    /// The addresses of an instance that runs on a node: those of the pod around it, which the network of
    /// the management cluster gave. None while there is no such pod, or it has none.
    async fn locate(
        &self,
        namespace: &str,
        instance: &VirtualMachineInstance,
        node: &str,
    ) -> Result<Option<PublishedAddresses>, Error> {
        let uid = instance.uid().unwrap_or_default();
        let pods = Api::<Pod>::namespaced(self.client.clone(), namespace);
        let params = ListParams::default()
            .labels(&format!("{LAUNCHER}={uid}"))
            .limit(MOST_PODS);
        let found = pods.list(&params).await.map_err(|source| Error::Request {
            verb: "list",
            object: format!(
                "pods of {}",
                object::<VirtualMachineInstance>(namespace, &instance.name_any())
            ),
            source: Box::new(source),
        })?;
        let located = launcher::addresses(&found.items, &uid, node);
        Ok((!located.is_empty()).then(|| PublishedAddresses {
            instance: uid,
            node: node.to_owned(),
            addresses: located,
        }))
    }

    async fn remove<K: Kind>(&self, machine: &Machine, found: Option<K>) -> Result<(), Error> {
        let (namespace, name) = place(machine);
        let Some(found) = found else { return Ok(()) };
        if found.meta().deletion_timestamp.is_some() || !is_of(found.meta(), machine) {
            return Ok(());
        }
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions {
                uid: found.uid(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match self.api::<K>(&namespace).delete(&name, &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(source) => Err(failed::<K>("delete", &namespace, &name, source)),
        }
    }
}

/// What the two kinds have in common.
trait Kind:
    Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
    + Clone
    + DeserializeOwned
    + std::fmt::Debug
    + Send
{
}
impl Kind for VirtualMachine {}
impl Kind for VirtualMachineInstance {}

fn failed<K: Kind>(verb: &'static str, namespace: &str, name: &str, source: kube::Error) -> Error {
    // A path that no resource is served at is answered in plain text; a name that is not there is
    // answered with a Status whose reason says so.
    if let kube::Error::Api(status) = &source
        && status.code == 404
        && status.reason != "NotFound"
    {
        return Error::NotInstalled("KubeVirt");
    }
    Error::Request {
        verb,
        object: object::<K>(namespace, name),
        source: Box::new(source),
    }
}

fn object<K: Kind>(namespace: &str, name: &str) -> String {
    format!("{} {namespace}/{name}", K::kind(&()))
}

impl Provider for KubeVirt {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn provider_id(&self, machine: &Machine) -> Option<String> {
        Some(names::kubevirt_provider_id(&machine.name_any()))
    }

    fn check<'a>(&'a self, _namespace: &'a str, provider: &'a Wanted) -> Answer<'a, Checked> {
        Box::pin(async move {
            if provider.kubevirt.is_none() {
                return Err(Error::NoneNamed);
            }
            if !self.settings.enabled {
                return Err(Error::NotConfigured("kubevirt"));
            }
            // The rights are those of each tenant namespace, and are bound there; what everybody may ask is whether
            // the kind is served.
            let version = VirtualMachine::api_version(&());
            let served = self.client.list_api_group_resources(&version).await;
            let served = served.map_err(|source| match source {
                kube::Error::Api(status) if status.code == 404 => Error::NotInstalled("KubeVirt"),
                source => Error::Request {
                    verb: "read",
                    object: format!("kinds of {version}"),
                    source: Box::new(source),
                },
            })?;
            let kind = VirtualMachine::kind(&());
            match served.resources.iter().any(|served| served.kind == kind) {
                // The management cluster itself: there is no account to be taken for another.
                true => Ok(Checked { account: None }),
                false => Err(Error::NotInstalled("KubeVirt")),
            }
        })
    }

    fn offerings(&self, _namespace: &str, provider: &Wanted) -> Result<Vec<Offering>, Error> {
        let wanted = provider.kubevirt.as_ref().ok_or(Error::NoneNamed)?;
        Ok(vec![resolve::offering(wanted, &self.settings)])
    }

    fn request(&self, machine: &Machine) -> Result<MachineRequest, Error> {
        virtual_machine::request(machine, &self.settings)
    }

    fn create<'a>(&'a self, machine: &'a Machine) -> Answer<'a, Presence> {
        Box::pin(async move {
            let vm = virtual_machine::virtual_machine(machine, &self.settings)?;
            let (namespace, name) = place(machine);
            let api = self.api::<VirtualMachine>(&namespace);
            let params = PostParams {
                field_manager: Some(self.field_manager.to_owned()),
                ..PostParams::default()
            };
            match api.create(&params, &vm).await {
                Ok(_) => Ok(Presence::Present(Box::default())),
                Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                    match self.find::<VirtualMachine>(machine).await? {
                        Some(vm) if is_of(&vm.metadata, machine) => {
                            Ok(Presence::Present(Box::default()))
                        }
                        Some(_) => Err(Error::Taken {
                            object: object::<VirtualMachine>(&namespace, &name),
                        }),
                        // It went in between: this call made nothing, and the next one may.
                        None => Err(failed::<VirtualMachine>(
                            "create",
                            &namespace,
                            &name,
                            kube::Error::Api(status),
                        )),
                    }
                }
                Err(source) => Err(failed::<VirtualMachine>(
                    "create", &namespace, &name, source,
                )),
            }
        })
    }

    fn describe<'a>(
        &'a self,
        machine: &'a Machine,
        published: Option<&'a PublishedAddresses>,
    ) -> Answer<'a, Presence> {
        Box::pin(async move {
            let (vm, instance) = self.look(machine).await?;
            let found = describe::describe(vm.as_ref(), instance.as_ref(), machine);
            let Some(mut description) = found else {
                // Both were asked for by name at the one store of what there is, which answers with its newest
                // state, and a name is used for one Machine only.
                return Ok(Presence::Absent(Proof::Authoritative));
            };
            if let Some(instance) = &instance
                && let Some(node) = describe::node(instance)
            {
                description.topology = self.whereabouts(node).await?;
                // A pod keeps its addresses, so what was published of it holds.
                let uid = instance.metadata.uid.as_deref().unwrap_or_default();
                let located = match published.filter(|published| published.are_of(uid, node)) {
                    Some(published) => Some(published.clone()),
                    None => self.locate(&place(machine).0, instance, node).await?,
                };
                description.locate(located, published);
            }
            Ok(Presence::Present(Box::new(description)))
        })
    }

    fn label<'a>(&'a self, machine: &'a Machine, topology: &'a Topology) -> Answer<'a, ()> {
        Box::pin(async move {
            let found = self.find::<VirtualMachine>(machine).await?;
            let ours = |vm: &VirtualMachine| is_of(&vm.metadata, machine);
            let Some(vm) = found.filter(ours) else {
                return Ok(());
            };
            let (namespace, name) = place(machine);
            // The UID: only this one.
            let patch = Patch::Merge(json!({ "metadata": { "uid": vm.uid(), "labels": {
                names::LABEL_ZONE: topology.zone, names::LABEL_REGION: topology.region,
            } } }));
            let params = PatchParams {
                field_manager: Some(self.field_manager.to_owned()),
                ..PatchParams::default()
            };
            let api = self.api::<VirtualMachine>(&namespace);
            let done = api.patch_metadata(&name, &params, &patch).await;
            let failed = |source| failed::<VirtualMachine>("change", &namespace, &name, source);
            done.map(drop).map_err(failed)
        })
    }

    fn delete<'a>(&'a self, machine: &'a Machine) -> Answer<'a, ()> {
        Box::pin(async move {
            let (vm, instance) = self.look(machine).await?;
            // KubeVirt deletes the instance of a VirtualMachine that goes; one without is ours to
            // delete.
            match vm {
                Some(vm) => self.remove(machine, Some(vm)).await,
                None => self.remove(machine, instance).await,
            }
        })
    }

    fn list<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Inventory> {
        Box::pin(async move {
            let Scope::TenantNamespace(namespace) = scope;
            let of_machines = ListParams::default().labels(names::LABEL_MACHINE);
            let fail = |source| failed::<VirtualMachine>("list", namespace, "*", source);
            let instances = self.api::<VirtualMachineInstance>(namespace);
            let instances = instances.list(&of_machines).await.map_err(fail)?;
            let vms = self.api::<VirtualMachine>(namespace);
            let vms = vms.list(&of_machines).await.map_err(fail)?;
            let whole =
                |metadata: &ListMeta| metadata.continue_.as_deref().is_none_or(str::is_empty);
            Ok(Inventory {
                machines: describe::list(&vms.items, &instances.items),
                complete: whole(&vms.metadata) && whole(&instances.metadata),
            })
        })
    }
}
