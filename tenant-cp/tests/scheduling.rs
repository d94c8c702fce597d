//! Where the pods of a tenant cluster run.
//!
//! Invariant: what nobody chose shows in no pod; the golden files have those.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

mod fixtures;

use std::collections::BTreeMap;

use api::tenant_cluster::Spread;
use fixtures::{addresses, minimal, objects};
use k8s_openapi::api::core::v1::Toleration;
use serde_json::{Value, json};
use tenant_cp::Validated;
use tenant_cp::validate::Scheduling;

const FIELDS: [&str; 5] = [
    "nodeSelector",
    "priorityClassName",
    "runtimeClassName",
    "tolerations",
    "topologySpreadConstraints",
];

/// What each workload's pods say of these fields.
fn pods(v: &Validated) -> BTreeMap<String, Value> {
    let objects = objects(v, &addresses("demo.example.com"));
    let pods = objects.iter().filter_map(|object| {
        let spec = object.value.pointer("/spec/template/spec")?;
        let said = FIELDS.iter().filter(|field| !spec[**field].is_null());
        let said: serde_json::Map<_, _> = said
            .map(|field| ((*field).to_owned(), spec[*field].clone()))
            .collect();
        Some((object.name.clone(), json!(said)))
    });
    pods.collect()
}

fn chosen(spread: Spread) -> Scheduling {
    Scheduling {
        node_selector: [("example.com/pool".to_owned(), "tenants".to_owned())].into(),
        tolerations: vec![Toleration {
            key: Some("example.com/tenants".to_owned()),
            operator: Some("Exists".to_owned()),
            ..Toleration::default()
        }],
        spread,
        priority_class_name: Some("tenants".to_owned()),
        runtime_class_name: Some("gvisor".to_owned()),
    }
}

#[test]
fn pods_run_where_it_was_said_and_etcds_where_it_was_said_for_etcd() {
    let mut v = minimal();
    v.addons.cloud_controller.enabled = true;
    for (name, said) in pods(&v) {
        assert_eq!(said, json!({}), "{name}");
    }
    v.scheduling = chosen(Spread::Preferred);
    let said = pods(&v);
    let expected = json!({
        "nodeSelector": {"example.com/pool": "tenants"},
        "priorityClassName": "tenants",
        "runtimeClassName": "gvisor",
        "tolerations": [{"key": "example.com/tenants", "operator": "Exists"}],
    });
    for name in ["control-plane", "controllers", "ccm"] {
        assert_eq!(
            said.get(name),
            Some(&expected),
            "{name} of {:?}",
            said.keys()
        );
    }
    assert_eq!(said["etcd"], json!({}));
    v.etcd.scheduling = std::mem::take(&mut v.scheduling);
    assert_eq!(pods(&v)["etcd"], expected);
    assert_eq!(pods(&v)["control-plane"], json!({}));
}

/// One on a node, whatever number of nodes there is; but a rollout's new pod beside the old one, or a
/// Deployment of as many replicas as nodes would never get on.
#[test]
fn pods_that_must_not_share_a_node_do_not_but_during_a_rollout() {
    let mut v = minimal();
    (v.replicas, v.etcd.replicas) = (3, 3);
    v.scheduling.spread = Spread::Required;
    v.etcd.scheduling.spread = Spread::Required;
    let said = pods(&v);
    for name in ["control-plane", "controllers", "etcd"] {
        let constraints = said[name]["topologySpreadConstraints"].as_array().unwrap();
        let [constraint] = constraints.as_slice() else {
            unreachable!("{constraints:?}")
        };
        assert_eq!(constraint["maxSkew"], 1);
        assert_eq!(constraint["minDomains"], 9);
        assert_eq!(constraint["topologyKey"], "kubernetes.io/hostname");
        assert_eq!(constraint["whenUnsatisfiable"], "DoNotSchedule");
        assert_eq!(constraint["matchLabelKeys"], json!(["pod-template-hash"]));
        let labels = &constraint["labelSelector"]["matchLabels"];
        assert_eq!(labels["app.kubernetes.io/component"], name);
    }
    v.replicas = 5;
    assert_eq!(pods(&v), said, "the number of replicas restarts nobody");
}

/// Finding D13: with a lost node nothing was attached for six minutes.
#[test]
fn pods_that_are_alone_leave_a_lost_node_soon_unless_the_user_says_otherwise() {
    let mut v = minimal();
    v.addons.csi.enabled = true;
    v.storage = Some(Default::default());
    let taints = [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ];
    let soon = |taint: &str, seconds: i64| json!({ "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds });
    let expected = taints.map(|taint| soon(taint, 15));
    assert_eq!(pods(&v)["csi"]["tolerations"], json!(expected));
    assert_eq!(pods(&v)["control-plane"], json!({}));
    let own = soon(taints[1], 60);
    v.scheduling.tolerations = vec![serde_json::from_value(own.clone()).unwrap()];
    let expected = [own, soon(taints[0], 15)];
    assert_eq!(pods(&v)["csi"]["tolerations"], json!(expected));
}
