//! Which part each object of the tenant namespace belongs to, and when pods may be asked for.
//!
//! Invariant: pods are asked for once everything that they mount is there, and never before this tenant
//! cluster's turn.

use std::collections::BTreeMap;

use api::names::LABEL_COMPONENT;
use kit_objects::object::{Key, Object};
use tenant_cp::addons::registry;
use tenant_cp::management_objects;
use tenant_cp::names;
use tenant_cp::{Settings, Validated};

use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::part_name::PartName;

/// What is to be written into the tenant namespace, by part.
pub(super) struct Objects(BTreeMap<PartName, Vec<Object>>);

impl Objects {
    /// What needs no address.
    pub(super) fn base(valid: &Validated, settings: &Settings) -> Self {
        Self::sorted(management_objects::base(valid, settings))
    }

    /// Those of the workloads whose pods can start now.
    pub(super) fn workloads(workloads: Vec<Object>, observed: &Observed) -> Self {
        let can_start =
            |object: &Object| mounts(object).all(|secret| has_secret(observed, &secret));
        Self::sorted(workloads.into_iter().filter(can_start).collect())
    }

    fn sorted(objects: Vec<Object>) -> Self {
        let mut sorted: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for object in objects {
            sorted.entry(part_of(&object)).or_default().push(object);
        }
        Self(sorted)
    }

    pub(super) fn take(&mut self, part: PartName) -> Vec<Object> {
        self.0.remove(&part).unwrap_or_default()
    }
}

/// The part that an object of the tenant namespace belongs to.
pub(super) fn part_of(object: &Object) -> PartName {
    let component = object.value["metadata"]["labels"][LABEL_COMPONENT].as_str();
    let is_service = object.kind == "Service";
    match component {
        _ if object.kind == "NetworkPolicy" => PartName::NetworkPolicies,
        Some(names::CONTROL_PLANE) if is_service => PartName::Endpoint,
        Some(names::CONTROL_PLANE) => PartName::ControlPlane,
        Some(names::CONTROLLERS) => PartName::Controllers,
        Some(names::ETCD) => PartName::Etcd,
        Some(names::ETCD_EVENTS) => PartName::EtcdEvents,
        _ => PartName::Adapters,
    }
}

/// Whether it is made only once the API of the tenant cluster has answered.
pub(super) fn needs_the_api(object: &Object) -> bool {
    let is_addons = object.kind == "Deployment" && registry::needs_the_api(&object.name);
    part_of(object) == PartName::Controllers || is_addons
}

/// Names of the Secrets that its pods mount.
fn mounts(workload: &Object) -> impl Iterator<Item = String> {
    let volumes = workload
        .value
        .pointer("/spec/template/spec/volumes")
        .and_then(|volumes| volumes.as_array())
        .cloned()
        .unwrap_or_default();
    volumes.into_iter().filter_map(|volume| {
        let name = volume.pointer("/secret/secretName")?.as_str()?;
        Some(name.to_owned())
    })
}

fn has_secret(observed: &Observed, name: &str) -> bool {
    let key = Key::new("Secret", &observed.tenant_namespace(), name);
    observed.objects.contains_key(&key)
}
