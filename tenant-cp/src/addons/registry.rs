//! Registry of addons: the objects of each inside the tenant cluster, and whose pods say whether it
//! works.
//!
//! Invariant: every object has the label `covey.dev/addon`, by which those of an addon that was switched
//! off are found again.

use std::net::IpAddr;

use api::tenant_cluster::EndpointStatus;
use serde_json::{Value, json};

use crate::addons::addon::Addon;
use crate::addons::manifest::Inputs;
use crate::addons::{
    autoscaler, cloud_controller, coredns, csi, flannel, konnectivity, kube_proxy,
};
use crate::network::addresses::Addresses;
use crate::settings::Settings;
use crate::validate::validated::Validated;
use kit_objects::object::{Key, Object};

impl Addon {
    /// The one object inside the tenant cluster whose pods say whether it works: a Deployment or a
    /// DaemonSet. None where its pods are not inside.
    #[must_use]
    pub fn workload(self) -> Option<Key> {
        let key = match self {
            Self::CoreDns => Key::new("Deployment", "kube-system", "coredns"),
            Self::KubeProxy => Key::new("DaemonSet", "kube-system", "kube-proxy"),
            Self::Flannel => Key::new("DaemonSet", flannel::NAMESPACE, "kube-flannel-ds"),
            Self::Konnectivity => Key::new("DaemonSet", "kube-system", "konnectivity-agent"),
            Self::Csi => Key::new("DaemonSet", csi::node::NAMESPACE, csi::node::NAME),
            Self::Autoscaler | Self::CloudController => return None,
        };
        Some(key)
    }
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
    let konnectivity = addresses.konnectivity_ip.zip(konnectivity_ca);
    let inputs = Inputs {
        v,
        settings,
        endpoint,
        konnectivity,
    };
    let wanted = Addon::ALL.into_iter().filter(|addon| addon.is_wanted(v));
    wanted.flat_map(|addon| built(addon, &inputs)).collect()
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
    let objects = |addon| match addon {
        Addon::Csi => all_labelled(addon, csi::node::names(&inputs)),
        _ => built(addon, &inputs),
    };
    Addon::ALL.into_iter().flat_map(objects).collect()
}

fn built(addon: Addon, inputs: &Inputs<'_>) -> Vec<Object> {
    let manifests = match addon {
        Addon::CoreDns => coredns::manifests(inputs),
        Addon::KubeProxy => kube_proxy::manifests(inputs),
        Addon::Flannel => flannel::manifests(inputs),
        Addon::Konnectivity => konnectivity::manifests(inputs),
        Addon::CloudController => {
            let objects = cloud_controller::tenant_objects().into_iter();
            objects.map(|object| object.value).collect()
        }
        Addon::Csi => csi::node::manifests(inputs),
        Addon::Autoscaler => {
            let objects = autoscaler::tenant_objects::tenant_objects().into_iter();
            objects.map(|object| object.value).collect()
        }
    };
    all_labelled(addon, manifests)
}

fn all_labelled(addon: Addon, manifests: Vec<Value>) -> Vec<Object> {
    manifests
        .into_iter()
        .map(|manifest| labelled(addon, manifest))
        .collect()
}

fn labelled(addon: Addon, mut manifest: Value) -> Object {
    let labels = &mut manifest["metadata"]["labels"];
    labels[api::names::LABEL_MANAGED_BY] = json!(api::names::MANAGED_BY);
    labels[api::names::LABEL_ADDON] = json!(addon.name());
    Object::from_value(manifest)
}
