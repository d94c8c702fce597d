//! Whether the operator has other templates than before: one hash over all that it makes pods from.
//!
//! It is made from samples, a TenantCluster of each minor and profile with every addon, and so does not depend on any
//! user's: what differs between two operators is what their code and their configuration make of the same.
//! Invariant: the same code and configuration give the same hash, in every process.

use std::net::{IpAddr, Ipv4Addr};

use api::TenantCluster;
use api::tenant_cluster::{Addons, EndpointStatus, Profile};
use kit_objects::object::{self, Object};
use serde_json::{Value, json};

use crate::material::Material;
use crate::network::addresses::Addresses;
use crate::rollout::template;
use crate::settings::Settings;
use crate::validate::build;
use crate::version::SUPPORTED_MINORS;
use crate::{management_objects, tenant_objects};

/// Hash of the templates of all pods that the operator asks for with these settings.
#[must_use]
pub fn templates(settings: &Settings) -> String {
    let samples: Vec<_> = SUPPORTED_MINORS
        .flat_map(|minor| Profile::ALL.map(|profile| of_sample(minor, profile, settings)))
        .collect();
    object::hash(&json!(samples))
}

fn of_sample(minor: u64, profile: Profile, settings: &Settings) -> Value {
    let sample = json!({
        "apiVersion": "covey.dev/v1alpha1",
        "kind": "TenantCluster",
        "metadata": {
            "name": "sample", "namespace": "sample", "generation": 1,
            "uid": "00000000-0000-4000-8000-000000000000",
        },
        "spec": {
            "version": format!("1.{minor}.0"),
            "etcd": { "replicas": 3, "events": {} },
            "controlPlane": { "replicas": 3, "profile": profile },
            "addons": every_addon(),
        },
        "status": { "network": {
            "podCIDR": "10.128.0.0/18", "serviceCIDR": "100.64.0.0/20", "dnsDomain": "cluster.local",
        } },
    });
    let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let addresses = Addresses {
        cluster_ip: address,
        konnectivity_ip: Some(address),
        endpoint: Some(EndpointStatus {
            host: address.to_string(),
            port: 6443,
        }),
    };
    let trust = tenant_objects::Trust {
        authority: "",
        kubelets: Some(""),
        konnectivity: Some(""),
    };
    let valid = serde_json::from_value::<TenantCluster>(sample)
        .map_err(|error| error.to_string())
        .and_then(|sample| build::build(&sample, settings).map_err(|problem| problem.message));
    match valid {
        Ok(valid) => {
            let mut objects =
                management_objects::workloads(&valid, settings, &addresses, &Material::default());
            objects.extend(tenant_objects::wanted(&valid, settings, &addresses, trust));
            json!(objects.iter().filter_map(of_object).collect::<Vec<_>>())
        }
        // The samples are ours, so this is the same for all operators that do not know them.
        Err(message) => json!(message),
    }
}

/// Every addon, as its defaults are.
fn every_addon() -> Value {
    let mut addons = json!(Addons::default());
    for addon in addons
        .as_object_mut()
        .into_iter()
        .flat_map(|all| all.values_mut())
    {
        if let Some(enabled) = addon.get_mut("enabled") {
            *enabled = true.into();
        }
    }
    addons
}

fn of_object(object: &Object) -> Option<Value> {
    let hash = template::of_workload(&object.value)?;
    Some(json!([object.key().to_string(), hash]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_every_minor_and_profile_are_built_and_differ() {
        let settings = Settings::default();
        for minor in SUPPORTED_MINORS {
            let samples = Profile::ALL.map(|profile| of_sample(minor, profile, &settings));
            for sample in &samples {
                let workloads = sample.as_array().expect("a list of workloads");
                // etcd, etcd-events, control-plane, controllers, ccm, csi, both of the autoscaler, and what runs inside.
                assert!(workloads.len() >= 12, "{sample}");
            }
            let [small, standard, large] = samples;
            assert!(small != standard && standard != large && small != large);
        }
    }

    #[test]
    fn only_what_pods_are_made_from_counts() {
        let settings = Settings::default();
        let before = templates(&settings);
        assert_eq!(before, templates(&settings));
        let starts = Settings {
            max_concurrent_starts: 7,
            ..settings.clone()
        };
        assert_eq!(before, templates(&starts));
        let image = Settings {
            etcd_image: "etcd:3.6.17-0".to_owned(),
            ..settings.clone()
        };
        assert_ne!(before, templates(&image));
        let mut dns = settings;
        dns.images.core_dns = "coredns/coredns:v9.9.9".to_owned();
        assert_ne!(before, templates(&dns), "of what runs inside, too");
    }
}
