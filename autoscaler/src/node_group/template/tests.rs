//! The node of a template.

use proptest::prelude::*;
use proto::Message as _;
use proto::kubernetes::Node as Template;
use serde_json::{Value, json};

use super::*;
use crate::node_group::find;
use crate::testing::{cache, changed, machine, machine_event, node as node_with, pool, pool_event};

fn template(
    spec: Value,
    more: impl IntoIterator<Item = crate::cache::state::WatchEvent>,
) -> Option<Template> {
    let pool = changed(&pool("workers", 0, 0, 5), json!({ "spec": spec }));
    let seen = [pool_event(&pool)].into_iter().chain(more);
    let bytes = cache(seen).read(|state| bytes(find(state, "workers.x").unwrap(), state));
    bytes.map(|bytes| Template::decode(bytes.as_slice()).unwrap())
}

fn labels_of(template: &Template) -> BTreeMap<String, String> {
    template.metadata.clone().unwrap().labels
}

#[test]
fn it_is_a_whole_node() {
    let taint = json!({ "key": "gpu", "effect": "NoSchedule" });
    let spec = json!({ "labels": { "disk": "fast" }, "taints": [taint],
        "provider": { "kubevirt": { "cpu": 4, "memory": "8Gi" } } });
    let template = template(spec, []).unwrap();
    let labels = labels_of(&template);
    for (key, value) in [
        ("disk", "fast"),
        ("kubernetes.io/hostname", "workers-template"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
        ("node.kubernetes.io/instance-type", "kubevirt-4cpu-8192Mi"),
    ] {
        assert_eq!(labels.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert!(!labels.contains_key(LABEL_ZONE), "nobody knows it");
    let taints = template.spec.unwrap().taints;
    assert_eq!((taints.len(), taints[0].effect.as_str()), (1, "NoSchedule"));
    let status = template.status.unwrap();
    let amount =
        |of: &BTreeMap<String, core::Quantity>, name: &str| of[name].string.parse::<i64>().unwrap();
    assert_eq!(amount(&status.allocatable, "cpu"), 4);
    assert_eq!(amount(&status.allocatable, "pods"), 110);
    let memory = amount(&status.capacity, "memory");
    assert!(memory < 8 << 30 && memory > 7 << 30, "{memory}");
    assert_eq!(memory - amount(&status.allocatable, "memory"), 100 << 20);
    assert!(amount(&status.allocatable, "ephemeral-storage") > 6 << 30);
    let ready = status.conditions.iter().find(|c| c.r#type == "Ready");
    assert_eq!(ready.unwrap().status, "True");
}

/// A pod that fits here and not on the node would make the pool grow in vain.
#[test]
fn what_kubelets_keep_is_not_offered() {
    let kubelet = json!({
        "maxPods": 30,
        "systemReserved": { "cpu": "100m", "memory": "200Mi", "ephemeral-storage": "1Gi" },
        "kubeReserved": { "cpu": "0.25", "memory": "300Mi" },
        "evictionHard": { "memory.available": "5%", "nodefs.available": "512Mi" },
    });
    let size = json!({ "kubevirt": { "cpu": 4, "memory": "8Gi" } });
    let of = |spec: Value| template(spec, []).unwrap().status.unwrap();
    let kept = of(json!({ "provider": size, "kubelet": kubelet }));
    let plain = of(json!({ "provider": size }));
    assert_eq!(kept.capacity["memory"], plain.capacity["memory"]);
    let bytes = |of: &core::Quantity| of.string.parse::<i64>().unwrap();
    let free = |status: &core::NodeStatus, name: &str| {
        bytes(&status.capacity[name]) - bytes(&status.allocatable[name])
    };
    assert_eq!(kept.allocatable["cpu"].string, "3650m");
    assert_eq!(kept.allocatable["pods"].string, "30");
    let share = ((8_i64 << 30) + 19) / 20;
    assert_eq!(free(&kept, "memory"), (500 << 20) + share);
    assert_eq!(free(&kept, "ephemeral-storage"), (1536 << 20));

    let too_much = json!({ "systemReserved": { "memory": "7900Mi" } });
    assert!(template(json!({ "provider": size, "kubelet": too_much }), []).is_none());
    let all = json!({ "kubeReserved": { "cpu": 4 } });
    assert!(template(json!({ "provider": size, "kubelet": all }), []).is_none());
}

fn allocatable(spec: Value) -> BTreeMap<String, String> {
    let status = template(spec, []).unwrap().status.unwrap();
    let all = status.allocatable.into_iter();
    all.map(|(name, amount)| (name, amount.string)).collect()
}

#[test]
fn devices_disks_and_processors_are_offered_as_its_machines_will_have_them() {
    let machine = json!({ "kubevirt": {
        "gpus": [{ "deviceName": "nvidia.com/GP102GL_Tesla_P40", "count": 2 },
            { "deviceName": "nvidia.com/TU104GL_Tesla_T4" },
            { "deviceName": "example.com/card" }],
        "hostDevices": [{ "deviceName": "intel.com/qat" }],
        "disks": [{ "name": "data", "size": "800Gi", "mountPath": "/var/lib/kubelet/more" },
            { "name": "var", "size": "400Gi", "mountPath": "/var" },
            { "name": "kubelet", "size": "80Gi", "mountPath": "/var/lib/kubelet" },
            { "name": "other", "size": "100Gi", "mountPath": "/var/lib/kube" }],
        "nodeSelector": { "kubernetes.io/arch": "arm64" },
    } });
    let found = allocatable(json!({ "provider": machine }));
    assert_eq!(found["nvidia.com/gpu"], "3");
    let disk: i64 = found["ephemeral-storage"].parse().unwrap();
    assert!(
        (62 << 30..=63 << 30).contains(&disk),
        "70Gi without a tenth: {disk}"
    );
    let extended: Vec<_> = found.keys().filter(|name| name.contains('/')).collect();
    assert_eq!(
        extended,
        ["nvidia.com/gpu"],
        "nobody knows what else is called inside"
    );
    let template = template(json!({ "provider": machine }), []).unwrap();
    assert_eq!(labels_of(&template)["kubernetes.io/arch"], "arm64");
    let info = template.status.unwrap().node_info.unwrap();
    assert_eq!(info.architecture, "arm64");
}

#[test]
fn what_the_pool_says_of_a_node_is_believed_before_what_follows_from_its_machines() {
    let capacity =
        json!({ "nvidia.com/gpu": 0, "example.com/fpga": "2", "ephemeral-storage": "20Gi" });
    let said = json!({ "capacity": capacity, "architecture": "arm64" });
    let gpus = json!({ "kubevirt": { "gpus": [{ "deviceName": "nvidia.com/TU104GL_Tesla_T4" }] } });
    let spec = json!({ "provider": gpus, "autoscaling": said });
    let found = allocatable(spec.clone());
    assert_eq!(found.get("nvidia.com/gpu"), None);
    assert_eq!(found["example.com/fpga"], "2");
    assert_eq!(
        found["ephemeral-storage"],
        ((20_i64 << 30) / 100 * 90).to_string()
    );
    let template = template(spec, []).unwrap();
    assert_eq!(labels_of(&template)["kubernetes.io/arch"], "arm64");
}

/// The client remembers for ever what a group's nodes look like.
#[test]
fn a_pool_that_offers_something_else_is_another_group_and_the_others_keep_their_names() {
    let group = |spec: Value| {
        let pool = changed(&pool("workers", 0, 0, 5), json!({ "spec": spec }));
        crate::cache::objects::Pool::read(&pool).group
    };
    let autoscaling = |said: Value| group(json!({ "autoscaling": said }));
    let plain = group(json!({}));
    assert_eq!(autoscaling(json!({ "architecture": "amd64" })), plain);
    assert_eq!(
        autoscaling(json!({ "capacity": { "ephemeral-storage": "7Gi" } })),
        plain
    );
    let others = [
        autoscaling(json!({ "architecture": "arm64" })),
        autoscaling(json!({ "capacity": { "ephemeral-storage": "9Gi" } })),
        autoscaling(json!({ "capacity": { "example.com/fpga": 1 } })),
        autoscaling(json!({ "capacity": { "example.com/fpga": 2 } })),
    ];
    let different: std::collections::BTreeSet<_> = others.iter().chain([&plain]).collect();
    assert_eq!(different.len(), 5);
}

#[test]
fn its_instance_type_is_what_the_provider_labels_machines_with() {
    let settings = tenant_cp::settings::KubeVirtSettings {
        enabled: true,
        ..Default::default()
    };
    for (cpu, memory) in [(1, "1Gi"), (3, "2500M"), (2, "1.5Gi")] {
        let provider = json!({ "kubevirt": { "cpu": cpu, "memory": memory } });
        let mut made = changed(
            &machine("workers-a", "workers", "Running"),
            json!({ "spec": { "provider": provider } }),
        );
        let asked = provider_kubevirt::virtual_machine::request(&made, &settings).unwrap();
        made.status.get_or_insert_default().request = Some(asked);
        let made = provider_kubevirt::virtual_machine::virtual_machine(&made, &settings);
        let labelled = made.unwrap().metadata.labels.unwrap();
        let template = template(json!({ "provider": provider }), []).unwrap();
        let labels = labels_of(&template);
        assert_eq!(labels[LABEL_INSTANCE_TYPE], labelled[LABEL_INSTANCE_TYPE]);
    }
}

#[test]
fn it_is_in_a_zone_when_all_machines_of_the_pool_are() {
    let zone = |zones: [&str; 2]| {
        let names = ["workers-a", "workers-b"];
        let machines = names.map(|name| machine_event(&machine(name, "workers", "Running")));
        let nodes = [0, 1].map(|n| node_with(names[n], json!({ LABEL_ZONE: zones[n] }), json!({})));
        let other = node_with("others-a", json!({ LABEL_ZONE: "elsewhere" }), json!({}));
        let template = template(json!({}), machines.into_iter().chain(nodes).chain([other]));
        labels_of(&template.unwrap()).get(LABEL_ZONE).cloned()
    };
    assert_eq!(zone(["a", "a"]).as_deref(), Some("a"));
    assert_eq!(zone(["a", "b"]), None);
}

#[test]
fn an_empty_pool_is_in_the_zone_that_its_labels_name_and_else_in_none() {
    let zone = |spec: Value| {
        let template = template(spec, []).unwrap();
        labels_of(&template).get(LABEL_ZONE).cloned()
    };
    assert_eq!(zone(json!({})), None);
    let named = zone(json!({ "labels": { LABEL_ZONE: "a" } }));
    assert_eq!(named.as_deref(), Some("a"));
}

/// A pool is one group, and the next machine may be made in any of its locations.
#[test]
fn of_several_locations_it_offers_what_a_node_of_each_does() {
    let at = |name: &str, weight: i32, cpu: i32, memory: &str, arch: &str| {
        json!({ "name": name, "weight": weight, "provider": { "kubevirt": {
            "cpu": cpu, "memory": memory, "nodeSelector": { "kubernetes.io/arch": arch } } } })
    };
    let of = |all: Value| {
        let spec = json!({ "provider": null, "locations": all, "labels": { "disk": "fast" } });
        template(spec, []).unwrap()
    };
    let alone = of(json!([at("a", 1, 4, "8Gi", "amd64")]));
    assert_eq!(labels_of(&alone)["kubernetes.io/arch"], "amd64");
    let both = of(json!([
        at("a", 1, 4, "8Gi", "amd64"),
        at("b", 1, 8, "6Gi", "arm64")
    ]));
    let labels = labels_of(&both);
    assert_eq!(labels["disk"], "fast");
    assert!(!labels.contains_key("kubernetes.io/arch"), "it differs");
    assert!(!labels.contains_key(LABEL_INSTANCE_TYPE), "it differs");
    let smaller = of(json!([at("a", 1, 4, "6Gi", "amd64")]));
    let amounts = |template: &Template| template.status.clone().unwrap().allocatable;
    assert_eq!(amounts(&both), amounts(&smaller));
    // Nothing new is made where the weight is 0.
    let unused = of(json!([
        at("a", 1, 4, "8Gi", "amd64"),
        at("b", 0, 1, "1Gi", "arm64")
    ]));
    assert_eq!(unused, alone);
}

/// What there is to be had at a cloud nobody but the operator knows.
#[test]
fn pool_of_a_cloud_is_taken_for_what_the_operator_tells_of_it() {
    let cloud = json!({ "configName": "hetzner", "types": ["cax11"] });
    let spec = json!({ "provider": { "kubevirt": null, "hetzner": cloud } });
    assert_eq!(template(spec.clone(), []), None, "nothing is told yet");
    let told = |size: &str| {
        let mut pool = changed(&pool("workers", 0, 0, 5), json!({ "spec": spec }));
        let at = json!([{ "name": "default", "template": {
            "cpu": 2, "memory": "3788Mi", "ephemeralStorage": "35000000000", "architecture": "arm64",
            "instanceType": size, "labels": { LABEL_ZONE: "fsn1" },
        } }]);
        pool.status.as_mut().unwrap().locations = serde_json::from_value(at).unwrap();
        cache([pool_event(&pool)]).read(|state| {
            let group = find(state, "workers.x").unwrap();
            (group.told().id, node(group, state).unwrap())
        })
    };
    let (id, of_size) = told("cax11");
    let labels = labels_of(&of_size);
    for (key, value) in [
        (LABEL_ZONE, "fsn1"),
        (LABEL_INSTANCE_TYPE, "cax11"),
        ("kubernetes.io/arch", "arm64"),
    ] {
        assert_eq!(labels.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert_eq!(told("cax11").0, id);
    assert_ne!(told("cx22").0, id, "other processors, of the same amounts");
}

/// An upgrade of the operator takes no group away, nor gives it another name.
#[test]
fn pool_that_was_not_told_of_yet_is_the_group_that_it_will_be() {
    let told = pool("workers", 0, 0, 5);
    let mut untold = told.clone();
    untold.status = None;
    let [told, untold] = [told, untold].map(|pool| {
        cache([pool_event(&pool)]).read(|state| {
            let group = find(state, "workers.x").unwrap();
            (group.told().id, node(group, state))
        })
    });
    assert!(told.1.is_some());
    assert_eq!(untold, told);
}

#[test]
fn pool_with_locations_is_a_group_once_one_of_them_was_told_of() {
    let location = |name: &str| json!({ "name": name, "provider": { "kubevirt": {} } });
    let spec = json!({ "provider": null, "locations": [location("a"), location("b")] });
    let mut pool = changed(&pool("workers", 0, 0, 5), json!({ "spec": spec }));
    let status = pool.status.as_mut().unwrap();
    status.locations.remove(1);
    let seen = |pool: &api::NodePool| {
        cache([pool_event(pool)]).read(|state| {
            let group = find(state, "workers.x");
            group.map(|group| node(group, state).is_some())
        })
    };
    assert_eq!(seen(&pool), Some(true));
    // Of the form that it had before.
    "default".clone_into(&mut pool.status.as_mut().unwrap().locations[0].name);
    assert_eq!(seen(&pool), None);
}

#[test]
fn it_is_none_where_nobody_knows_how_large() {
    for provider in [
        json!({ "kubevirt": { "memory": "much" } }),
        json!({ "kubevirt": { "cpu": 0 } }),
        json!({ "kubevirt": { "memory": "100Mi" } }),
        json!({ "kubevirt": null }),
    ] {
        assert_eq!(template(json!({ "provider": provider }), []), None);
    }
}

proptest! {
    #[test]
    fn it_is_never_empty_and_always_the_same(cpu in 0..128, memory in 0..100_000_u32) {
        let kubevirt = || json!({ "cpu": cpu, "memory": format!("{memory}Mi") });
        let spec = || json!({ "provider": { "kubevirt": kubevirt() } });
        let one = template(spec(), []);
        prop_assert_eq!(&one, &template(spec(), []));
        if let Some(one) = one {
            let status = one.status.unwrap();
            for (name, quantity) in &status.allocatable {
                let least = quantity.string.parse::<i64>().unwrap();
                let most = status.capacity[name].string.parse::<i64>().unwrap();
                prop_assert!(0 < least && least <= most, "{name}");
            }
        } else {
            prop_assert!(cpu == 0 || memory < 1024);
        }
    }
}
