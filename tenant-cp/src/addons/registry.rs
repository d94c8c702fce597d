//! The addons that there are: the one list to which a new one is added. And what all of them lay inside the
//! tenant cluster.
//!
//! Invariant: every object has the label `covey.dev/addon`, by which those of an addon that was switched
//! off are found again.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::tenant_cluster::EndpointStatus;
use kit_objects::object::Object;
use serde_json::{Value, json};

use crate::addons::addon::Addon;
use crate::addons::autoscaler::Autoscaler;
use crate::addons::cloud_controller::CloudController;
use crate::addons::coredns::CoreDns;
use crate::addons::csi::Csi;
use crate::addons::flannel::Flannel;
use crate::addons::konnectivity::Konnectivity;
use crate::addons::kube_proxy::KubeProxy;
use crate::addons::manifest::Inputs;
use crate::addons::overlay::Overlay;
use crate::network::addresses::Addresses;
use crate::settings::Settings;
use crate::validate::validated::Validated;

/// All addons, in the order in which their objects are laid and their conditions told.
pub static ALL: [&dyn Addon; 8] = [
    &CoreDns,
    &KubeProxy,
    &Flannel,
    &Overlay,
    &Konnectivity,
    &CloudController,
    &Csi,
    &Autoscaler,
];

/// Those that the tenant cluster wants.
pub fn wanted(v: &Validated) -> impl Iterator<Item = &'static dyn Addon> {
    ALL.iter().copied().filter(|addon| addon.is_wanted(v))
}

/// Whether a Deployment of the tenant namespace is an addon's that is made only once the API has answered.
#[must_use]
pub fn needs_the_api(deployment: &str) -> bool {
    let mut all = ALL.iter();
    all.any(|addon| addon.deployments_that_need_the_api().contains(&deployment))
}

/// Whether a Deployment of the tenant namespace is an addon's that has machines made or deleted.
#[must_use]
pub fn sizes_pools(deployment: &str) -> bool {
    let mut all = ALL.iter();
    all.any(|addon| addon.deployments_that_size_pools().contains(&deployment))
}

/// The objects of the addons that are wanted; none while there is no endpoint.
pub(crate) fn objects(
    v: &Validated,
    settings: &Settings,
    addresses: &Addresses,
    konnectivity_ca: Option<&str>,
) -> Vec<Object> {
    let Some(endpoint) = &addresses.endpoint else {
        return Vec::new();
    };
    let inputs = Inputs {
        v,
        settings,
        endpoint,
        konnectivity: addresses.konnectivity_ip.zip(konnectivity_ca),
    };
    wanted(v)
        .flat_map(|addon| labelled(addon, addon.manifests(&inputs)))
        .collect()
}

/// The objects of every addon, wanted or not, whatever is known: what may ever have to be written.
pub(crate) fn every(v: &Validated, settings: &Settings) -> Vec<Object> {
    let endpoint = EndpointStatus::default();
    let nowhere = IpAddr::from([0, 0, 0, 0]);
    let inputs = Inputs {
        v,
        settings,
        endpoint: &endpoint,
        konnectivity: Some((nowhere, "")),
    };
    ALL.iter()
        .flat_map(|addon| labelled(*addon, addon.every_manifest(&inputs)))
        .collect()
}

/// The objects that say who is in addons that are wanted, by the name of the node.
#[must_use]
pub fn members(v: &Validated, members: &BTreeMap<String, String>) -> Vec<Object> {
    wanted(v)
        .flat_map(|addon| labelled(addon, addon.members(members).into_iter().collect()))
        .collect()
}

fn labelled(addon: &dyn Addon, manifests: Vec<Value>) -> Vec<Object> {
    let one = |mut manifest: Value| {
        let labels = &mut manifest["metadata"]["labels"];
        labels[api::names::LABEL_MANAGED_BY] = json!(api::names::MANAGED_BY);
        labels[api::names::LABEL_ADDON] = json!(addon.name());
        Object::from_value(manifest)
    };
    manifests.into_iter().map(one).collect()
}
