//! Where images come from.
//!
//! Invariant: the registry that a tenant cluster names serves the control plane and etcd alone, never
//! what holds a token of the management cluster.

mod fixtures;

use std::collections::BTreeSet;

use fixtures::{TRUST, addresses, limits, minimal, offer};
use kit_objects::object::Object;
use tenant_cp::{Settings, Validated, management_objects, tenant_objects};

/// Everything on, from a registry of the user's choice.
fn foreign() -> Validated {
    let mut v = minimal();
    v.addons.cloud_controller.enabled = true;
    v.storage = Some(offer());
    v.autoscaler = Some(limits());
    v.registry = "evil.example".to_owned();
    v
}

/// Name of the workload and image, of each container.
fn images(objects: &[Object]) -> BTreeSet<(String, String)> {
    let mut images = BTreeSet::new();
    for object in objects {
        let name = object.value["metadata"]["name"]
            .as_str()
            .unwrap_or_default();
        let pod = &object.value["spec"]["template"]["spec"];
        for list in ["initContainers", "containers"] {
            for container in pod[list].as_array().into_iter().flatten() {
                let image = container["image"].as_str().expect("an image");
                images.insert((name.to_owned(), image.to_owned()));
            }
        }
    }
    images
}

fn outside(settings: &Settings) -> BTreeSet<(String, String)> {
    let (v, material) = (foreign(), fixtures::keys());
    images(&management_objects::workloads(
        &v,
        settings,
        &addresses("x"),
        &material,
    ))
}

#[test]
fn what_holds_a_token_never_comes_from_the_registry_that_the_tenant_cluster_names() {
    let images = outside(&Settings::default());
    let foreign: BTreeSet<_> = images
        .iter()
        .filter(|(_, image)| image.starts_with("evil.example/"))
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(
        foreign,
        BTreeSet::from(["control-plane", "controllers", "etcd"])
    );
    let names: BTreeSet<_> = images.iter().map(|(name, _)| name.as_str()).collect();
    for addon in ["ccm", "csi", "autoscaler", "cluster-autoscaler"] {
        assert!(names.contains(addon), "{addon} is not in {names:?}");
    }
}

#[test]
fn driver_on_the_nodes_comes_from_the_operators_registry_too() {
    let objects = tenant_objects::wanted(&foreign(), &Settings::default(), &addresses("x"), TRUST);
    let node = images(&objects)
        .into_iter()
        .find(|(name, _)| name == "csi-node");
    let (_, image) = node.expect("it is there");
    assert!(image.starts_with("ghcr.io/covey-dev/csi:"), "{image}");
}

#[test]
fn mirror_of_the_operators_has_all_images_that_hold_a_token() {
    let settings = Settings {
        registry: "mirror.example.com/k8s".to_owned(),
        ..Settings::default()
    };
    for (name, image) in outside(&settings) {
        let wanted = match name.as_str() {
            "control-plane" | "controllers" | "etcd" => "evil.example/",
            _ => "mirror.example.com/k8s/",
        };
        // The gate before etcd is of Covey's own.
        assert!(
            image.starts_with(wanted) || image.contains("etcd-agent"),
            "{name}: {image}"
        );
    }
}
