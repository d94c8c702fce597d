//! What the overlay among nodes is inside a tenant cluster.
//!
//! Invariant: what is said of an order is read off the order in which objects are written.
#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

mod fixtures;

use std::collections::BTreeMap;

use fixtures::{TRUST, addresses, minimal, with_overlay};
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    apps::v1::DaemonSet,
};
use kit_objects::object::Object;
use serde_json::{Value, json};
use tenant_cp::addons::addon::Addon as _;
use tenant_cp::addons::flannel::Flannel;
use tenant_cp::addons::overlay::{self, Overlay};
use tenant_cp::addons::registry;
use tenant_cp::desired::bootstrap::rbac::is_privileged;
use tenant_cp::{Settings, Validated, tenant_objects};

fn on() -> Validated {
    let mut v = minimal();
    v.addons.overlay = with_overlay();
    v
}

fn objects(v: &Validated) -> Vec<Object> {
    tenant_objects::wanted(v, &Settings::default(), &addresses("10.96.0.17"), TRUST)
}

fn find(objects: &[Object], kind: &str, name: &str) -> Value {
    let found = objects.iter().find(|o| o.kind == kind && o.name == name);
    found.map(|object| object.value.clone()).unwrap()
}

fn container(v: &Validated) -> Value {
    let daemon_set = find(&objects(v), "DaemonSet", overlay::WORKLOAD);
    daemon_set["spec"]["template"]["spec"]["containers"][0].clone()
}

fn arguments(v: &Validated) -> Vec<String> {
    let arguments = container(v)["args"].as_array().unwrap().clone();
    let texts = arguments.iter().map(|one| one.as_str().unwrap().to_owned());
    texts.collect()
}

#[test]
fn program_is_told_the_ranges_and_what_a_node_has_of_the_pods() {
    let told = arguments(&on());
    for argument in [
        "--range=198.18.0.0/16",
        "--pods=10.128.0.0/18",
        "--pods-prefix=24",
        "--device=covey0",
    ] {
        assert!(
            told.iter().any(|one| one == argument),
            "{argument} in {told:?}"
        );
    }
    let mut other = on();
    let flags = &mut other.controller_manager.extra_args;
    flags.insert("node-cidr-mask-size".to_owned(), "25".to_owned());
    assert!(arguments(&other).contains(&"--pods-prefix=25".to_owned()));
}

#[test]
fn program_has_the_network_and_nothing_else_of_the_machine() {
    let pod = find(&objects(&on()), "DaemonSet", overlay::WORKLOAD);
    let pod = &pod["spec"]["template"]["spec"];
    assert_eq!(pod["hostNetwork"], json!(true));
    assert_eq!(pod["tolerations"], json!([{ "operator": "Exists" }]));
    let security = &container(&on())["securityContext"];
    let capabilities = json!({ "drop": ["ALL"], "add": ["NET_ADMIN"] });
    assert_eq!(security["capabilities"], capabilities);
    assert_eq!(security["privileged"], Value::Null);
    assert_eq!(security["readOnlyRootFilesystem"], json!(true));
    let paths: Vec<_> = pod["volumes"].as_array().unwrap().iter().collect();
    let paths: Vec<_> = paths.iter().map(|one| &one["hostPath"]["path"]).collect();
    assert_eq!(
        paths,
        [&json!("/var/lib/covey/overlay"), &json!("/dev/net")]
    );
    // Nobody else on the node's network finds its metrics.
    let admin = arguments(&on())
        .into_iter()
        .find(|one| one.starts_with("--admin-address="));
    assert_eq!(admin.as_deref(), Some("--admin-address=127.0.0.1:9810"));
    let image = container(&on())["image"].as_str().unwrap().to_owned();
    assert!(image.starts_with("ghcr.io/covey-dev/link-node:"), "{image}");
}

#[test]
fn policies_are_written_before_rights_and_by_nobody_whom_they_bound() {
    let objects = objects(&on());
    let place = |kind: &str, name: &str| {
        let found = objects
            .iter()
            .position(|o| o.kind == kind && o.name == name);
        found.unwrap_or_else(|| panic!("{kind} {name}"))
    };
    let given = place("ClusterRoleBinding", "covey:overlay");
    for name in ["covey-overlay", "covey-overlay-pods"] {
        for kind in [
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        ] {
            let at = place(kind, name);
            assert!(at < given, "{kind} {name}");
            assert!(is_privileged(&objects[at]), "{kind} {name}");
        }
    }
}

#[test]
fn manifests_are_what_their_types_say() {
    let objects = objects(&on());
    for object in objects
        .iter()
        .filter(|o| o.name.starts_with("covey-overlay"))
    {
        let value = object.value.clone();
        let written = match object.kind.as_str() {
            "DaemonSet" => json!(serde_json::from_value::<DaemonSet>(value).unwrap()),
            "ValidatingAdmissionPolicy" => {
                json!(serde_json::from_value::<ValidatingAdmissionPolicy>(value).unwrap())
            }
            "ValidatingAdmissionPolicyBinding" => {
                json!(serde_json::from_value::<ValidatingAdmissionPolicyBinding>(value).unwrap())
            }
            _ => continue,
        };
        assert_eq!(written["spec"], object.value["spec"], "{}", object.key());
    }
}

#[test]
fn flannel_waits_for_the_device_and_goes_by_it_only_where_there_is_an_overlay() {
    let script = |v: &Validated| {
        let key = Flannel.workload().unwrap();
        let flannel = find(&objects(v), &key.kind, &key.name);
        let container = &flannel["spec"]["template"]["spec"]["containers"][0];
        container["command"][2].as_str().unwrap().to_owned()
    };
    let (with, without) = (script(&on()), script(&minimal()));
    assert!(with.contains("show dev covey0"), "{with}");
    assert!(with.trim_end().ends_with("--iface=covey0"), "{with}");
    assert!(!without.contains("covey0"), "{without}");
    let rest = with.replacen(" --iface=covey0", "", 1);
    assert!(rest.ends_with(&without), "{rest}");
}

#[test]
fn without_flannel_or_a_range_there_is_none() {
    let mut other = on();
    other.addons.cni.type_ = api::tenant_cluster::CniType::None;
    let mut without = on();
    without.addons.overlay.cidr = None;
    let mut off = on();
    off.addons.overlay.enabled = false;
    for v in [other, without, off] {
        assert!(!Overlay.is_wanted(&v));
        assert!(objects(&v).iter().all(|o| o.name != overlay::WORKLOAD));
    }
}

#[test]
fn members_are_found_again_by_their_addon() {
    let all = BTreeMap::from([("a".to_owned(), "{}".to_owned())]);
    let [map] = &registry::members(&on(), &all)[..] else {
        panic!("one object")
    };
    assert_eq!(map.value["data"], json!({ "a": "{}" }));
    assert_eq!(
        map.value["metadata"]["labels"]["covey.dev/addon"],
        "overlay"
    );
    assert_eq!(map.name, api::names::OVERLAY_MEMBERS);
    assert!(registry::members(&minimal(), &all).is_empty());
}
