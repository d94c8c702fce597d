//! The objects of the addon `csi`: who may do what, what each container sees, and what is laid inside.

mod fixtures;

use kit_objects::object::Object;
use std::collections::BTreeSet;
use tenant_cp::addons::addon::Addon as _;

use api::storage::{Hotplug, Offer};
use fixtures::{TRUST, addresses, minimal, offer};
use serde_json::{Value, json};
use tenant_cp::addons::csi::{
    Csi, NAME, certificates, rules_outside, sidecars, tenant_objects as inside,
};
use tenant_cp::{
    Settings, Validated,
    certificates::{self, Material},
    management_objects, tenant_objects,
};

fn with(offer: Offer) -> Validated {
    let mut v = minimal();
    v.storage = Some(offer);
    v
}

/// Its objects in the tenant namespace, but the Secret.
fn outside(v: &Validated) -> Vec<Object> {
    let settings = Settings::default();
    let mut objects = management_objects::base(v, &settings);
    objects.extend(management_objects::workloads(
        v,
        &settings,
        &addresses("x"),
        &Material::default(),
    ));
    let parts = Csi.parts(&v.tenant_namespace, "", "");
    objects.retain(|object| parts.contains(&object.key()));
    objects
}

fn pod(v: &Validated) -> Value {
    let objects = outside(v);
    let deployment = objects.iter().find(|o| o.kind == "Deployment");
    let deployment = deployment.expect("it is there");
    deployment.value["spec"]["template"]["spec"].clone()
}

/// The objects of the addon inside.
fn laid(v: &Validated) -> Vec<Object> {
    let all = tenant_objects::wanted(v, &Settings::default(), &addresses("x"), TRUST);
    let its = |o: &Object| o.value["metadata"]["labels"]["covey.dev/addon"] == "csi";
    all.into_iter().filter(its).collect()
}

fn names(objects: &[Object], kind: &str) -> Vec<String> {
    let of_kind = objects.iter().filter(|o| o.kind == kind);
    of_kind.map(|o| o.name.clone()).collect()
}

#[test]
fn nothing_gets_a_right_on_secrets_or_machines() {
    let objects = outside(&with(offer()));
    assert_eq!(objects.len(), 4, "all but the Secret");
    for object in &objects {
        let namespace = object.namespace.as_deref();
        assert_eq!(namespace, Some("covey-demo-0a1b2c3d00"), "{}", object.key());
    }
    let forbidden = ["*", "secrets", "pods", "machines", "serviceaccounts"];
    let mut rules = vec![json!(rules_outside(Hotplug::Subresources))];
    rules.push(json!(rules_outside(Hotplug::Declarative)));
    rules.extend(
        inside(&offer())
            .into_iter()
            .map(|o| o.value["rules"].clone()),
    );
    for rule in rules {
        let text = rule.to_string();
        let found = forbidden
            .iter()
            .find(|word| text.contains(&format!("\"{word}\"")));
        assert_eq!(found, None, "{text}");
    }
}

#[test]
fn each_sidecar_sees_its_own_certificate_and_the_driver_alone_the_account() {
    let pod = pod(&with(offer()));
    assert_eq!(pod["automountServiceAccountToken"], false);
    let volumes = pod["volumes"].as_array().unwrap();
    let containers = pod["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 6);
    for container in containers {
        let name = container["name"].as_str().unwrap();
        let mounts = container["volumeMounts"].as_array().unwrap();
        let mounted: BTreeSet<_> = mounts.iter().map(|m| m["name"].as_str().unwrap()).collect();
        let expected: BTreeSet<_> = match name {
            "csi" => ["socket", "account"].into(),
            "snapshot-controller" => [name].into(),
            _ => ["socket", name].into(),
        };
        assert_eq!(mounted, expected);
        let Some(volume) = volumes.iter().find(|volume| volume["name"] == name) else {
            assert_eq!(name, "csi");
            continue;
        };
        let items = volume["secret"]["items"].as_array().unwrap();
        let keys: Vec<_> = items
            .iter()
            .map(|item| item["key"].as_str().unwrap())
            .collect();
        let own = ["crt", "key", "kubeconfig"].map(|end| format!("{name}.{end}"));
        assert_eq!(keys, ["ca.crt", &own[0], &own[1], &own[2]]);
    }
}

#[test]
fn secret_has_what_the_pod_mounts() {
    let v = with(offer());
    let settings = Settings::default();
    let mut material = Material::default();
    let wants = certificates::wants(&v, &settings, None);
    for want in wants {
        let pair = pki::KeyPair {
            certificate: format!("certificate of {}", want.name),
            key: pki::Key::new("key".to_owned()),
        };
        material.store.insert(want.name, pair);
    }
    let secrets = certificates::leaf_secrets(&v, &material, Some(&fixtures::etcd_identity()));
    let secret = secrets.iter().find(|o| o.name == NAME).unwrap();
    let data = secret.value["data"].as_object().unwrap();
    for sidecar in sidecars(&offer()) {
        for end in ["crt", "key", "kubeconfig"] {
            assert!(data.contains_key(&format!("{}.{end}", sidecar.name)));
        }
    }
    assert_eq!(data.len(), 16);
    assert_eq!(certificates(&settings, &offer()).len(), 5);
    // One that is missing keeps the Secret as it is.
    material.store.remove("csi-attacher");
    let secrets = certificates::leaf_secrets(&v, &material, Some(&fixtures::etcd_identity()));
    assert!(!secrets.iter().any(|o| o.name == NAME));
}

#[test]
fn tenant_cluster_gets_a_storage_class_for_each_class_and_snapshots_where_there_are_some() {
    let all = laid(&with(offer()));
    assert_eq!(names(&all, "StorageClass"), ["fast", "slow"]);
    assert_eq!(names(&all, "CSIDriver"), ["csi.covey.dev"]);
    assert_eq!(names(&all, "DaemonSet"), ["csi-node"]);
    assert_eq!(names(&all, "VolumeSnapshotClass"), ["covey"]);
    assert_eq!(names(&all, "CustomResourceDefinition").len(), 3);
    assert_eq!(names(&all, "ClusterRole").len(), 6);
    let default = "storageclass.kubernetes.io/is-default-class";
    let class = |name: &str| {
        let found = all
            .iter()
            .find(|o| o.kind == "StorageClass" && o.name == name);
        found.unwrap().value.clone()
    };
    assert_eq!(class("fast")["metadata"]["annotations"][default], "true");
    assert_eq!(class("fast")["allowVolumeExpansion"], true);
    assert_eq!(class("slow")["metadata"]["annotations"][default], "false");
    assert_eq!(class("slow")["parameters"], json!({ "class": "slow" }));
    assert_eq!(class("slow")["allowedTopologies"], json!([]));
    let zones = json!([{ "key": "topology.kubernetes.io/zone", "values": ["east", "west"] }]);
    let told = &class("fast")["allowedTopologies"];
    assert_eq!(told, &json!([{ "matchLabelExpressions": zones }]));

    let only = offer().only(Some(&["slow".to_owned()]));
    let v = with(only);
    let some = laid(&v);
    assert_eq!(names(&some, "StorageClass"), ["slow"]);
    assert_eq!(names(&some, "CustomResourceDefinition").len(), 0);
    assert_eq!(names(&some, "ClusterRole").len(), 3);
    assert_eq!(pod(&v)["containers"].as_array().unwrap().len(), 4);
}

fn node_half(objects: &[Object]) -> Value {
    let node = objects.iter().find(|o| o.kind == "DaemonSet");
    let node = node.expect("it is there");
    node.value["spec"]["template"]["spec"].clone()
}

#[test]
fn where_volumes_have_zones_nodes_and_the_provisioner_may_read_them() {
    let nodes = |objects: &[Object]| {
        let roles = objects.iter().filter(|o| o.kind == "ClusterRole");
        let of = |o: &Object| {
            let rules = o.value["rules"].as_array()?;
            let rule = rules.iter().find(|r| r["resources"] == json!(["nodes"]))?;
            Some((o.name.clone(), rule["verbs"].clone()))
        };
        roles.filter_map(of).collect::<Vec<_>>()
    };
    let all = laid(&with(offer()));
    let provisioner = || {
        let verbs = json!(["get", "list", "watch"]);
        ("covey:csi-provisioner".to_owned(), verbs)
    };
    let expected = [("covey:csi-node".to_owned(), json!(["get"])), provisioner()];
    let mut found = nodes(&all);
    found.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(found, expected);
    let spec = node_half(&all);
    assert_eq!(spec["automountServiceAccountToken"], true);
    let container = &spec["containers"][0];
    assert_eq!(container["args"][2], "--topology");
    assert_eq!(container["env"][1]["name"], "KUBERNETES_SERVICE_HOST");
    let bindings = all.iter().filter(|o| o.kind == "ClusterRoleBinding");
    let subjects = bindings.map(|o| &o.value["subjects"][0]);
    let accounts: Vec<_> = subjects.filter(|s| s["kind"] == "ServiceAccount").collect();
    let account =
        json!({ "kind": "ServiceAccount", "namespace": "kube-system", "name": "csi-node" });
    assert_eq!(accounts, [&account]);

    let without = laid(&with(offer().only(Some(&["slow".to_owned()]))));
    assert_eq!(nodes(&without), [provisioner()]);
}

#[test]
fn capacity_is_published_where_the_scheduler_looks_for_it_by_a_right_in_one_namespace() {
    let v = with(offer().only(Some(&["slow".to_owned()])));
    let all = laid(&v);
    let find = |kind: &str, name: &str| {
        let mut found = all.iter().filter(|o| o.kind == kind);
        let object = found.find(|o| o.name == name);
        object.expect("it is there").value.clone()
    };
    let driver = find("CSIDriver", "csi.covey.dev");
    assert_eq!(driver["spec"]["storageCapacity"], true);
    // The autoscaler would make no first node of a zone, of which nothing is published.
    let scaled = Validated {
        autoscaler: Some(Default::default()),
        ..v.clone()
    };
    let driver = laid(&scaled).into_iter().find(|o| o.kind == "CSIDriver");
    assert_eq!(driver.unwrap().value["spec"]["storageCapacity"], false);
    let pod = pod(&v);
    let mut containers = pod["containers"].as_array().unwrap().iter();
    let provisioner = containers.find(|c| c["name"] == "csi-provisioner").unwrap();
    let args = provisioner["args"].as_array().unwrap();
    // Nothing of the cluster that its pod is in can own what is in another one.
    for arg in ["--enable-capacity=true", "--capacity-ownerref-level=-1"] {
        assert!(args.contains(&json!(arg)), "{args:?}");
    }
    let variables = provisioner["env"].as_array().unwrap();
    let namespace = json!({ "name": "NAMESPACE", "value": "kube-system" });
    assert!(variables.contains(&namespace), "{variables:?}");
    let role = find("Role", "covey:csi-provisioner");
    assert_eq!(role["metadata"]["namespace"], "kube-system");
    let resources = json!(["csistoragecapacities"]);
    assert_eq!(role["rules"][0]["resources"], resources);
    assert_eq!(role["rules"].as_array().unwrap().len(), 1);
    let roles = all.iter().filter(|o| o.kind == "ClusterRole");
    let text: Vec<_> = roles.map(|o| o.value.to_string()).collect();
    assert!(!text.iter().any(|t| t.contains("csistoragecapacities")));
    let binding = find("RoleBinding", "covey:csi-provisioner");
    assert_eq!(binding["subjects"][0]["name"], "covey-csi-provisioner");
}

#[test]
fn node_half_has_no_account_to_speak_of_and_the_kubelets_folder_in_both_directions() {
    let all = laid(&with(offer().only(Some(&["slow".to_owned()]))));
    let spec = node_half(&all);
    assert_eq!(spec["automountServiceAccountToken"], false);
    let container = &spec["containers"][0];
    assert_eq!(container["args"][0], "node");
    assert_eq!(container["args"].as_array().unwrap().len(), 2);
    let mounts = container["volumeMounts"].as_array().unwrap();
    let kubelet = mounts.iter().find(|m| m["name"] == "kubelet").unwrap();
    assert_eq!(kubelet["mountPath"], "/var/lib/kubelet");
    assert_eq!(kubelet["mountPropagation"], "Bidirectional");
    let bound = all.iter().filter(|o| o.kind == "ClusterRoleBinding");
    for binding in bound {
        assert_eq!(binding.value["subjects"][0]["kind"], "User");
    }
}

#[test]
fn nodes_are_told_how_many_volumes_they_may_have_where_the_offer_says() {
    let told = |most: Option<u16>| {
        let mut offer = offer().only(Some(&["slow".to_owned()]));
        offer.volumes_per_machine = most;
        let spec = node_half(&laid(&with(offer)));
        let args = spec["containers"][0]["args"].as_array().unwrap().clone();
        args.into_iter().skip(2).collect::<Vec<_>>()
    };
    assert!(told(None).is_empty());
    assert_eq!(told(Some(200)), ["--most-volumes=200"]);
}

#[test]
fn offer_reaches_the_driver_as_it_is() {
    let pod = pod(&with(offer()));
    let args = pod["containers"][0]["args"].as_array().unwrap();
    let text = args
        .iter()
        .find_map(|arg| arg.as_str()?.strip_prefix("--offer="))
        .unwrap();
    assert_eq!(serde_json::from_str::<Offer>(text).unwrap(), offer());
}
