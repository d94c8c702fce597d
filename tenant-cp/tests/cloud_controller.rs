//! The objects of the addon `cloudController`: who may do what, and how its pod is made.

mod fixtures;

use fixtures::minimal;
use pki::{Key, KeyPair};
use serde_json::{Value, json};
use tenant_cp::desired::cloud_controller::{certificate, inside, outside};
use tenant_cp::{Object, Settings};

const IMAGE: &str = "ghcr.io/covey-dev/ccm:0.1.0";

fn find<'a>(objects: &'a [Object], kind: &str) -> &'a Value {
    &objects
        .iter()
        .find(|o| o.kind == kind)
        .expect("it is there")
        .value
}

fn pair(text: &str) -> KeyPair {
    KeyPair {
        certificate: text.to_owned(),
        key: Key::new("key".to_owned()),
    }
}

#[test]
fn everything_is_in_the_tenant_namespace_and_nothing_gets_a_right_elsewhere() {
    let v = minimal();
    let objects = outside(&v, IMAGE, None);
    for object in &objects {
        assert_eq!(
            object.namespace.as_deref(),
            Some("covey-demo-0a1b2"),
            "{}",
            object.key()
        );
        assert!(!object.kind.starts_with("Cluster"), "{}", object.key());
    }
    let forbidden = ["*", "secrets", "pods", "machines", "serviceaccounts"];
    for object in objects.iter().chain(&inside()) {
        for rule in object.value["rules"].as_array().into_iter().flatten() {
            let text = rule.to_string();
            let found = forbidden
                .iter()
                .find(|word| text.contains(&format!("\"{word}\"")));
            assert_eq!(found, None, "{}: {text}", object.key());
        }
    }
    assert_eq!(
        find(&inside(), "ClusterRoleBinding")["subjects"][0]["name"],
        "covey-ccm"
    );
}

#[test]
fn pod_is_restricted_and_has_the_only_token_of_a_tenant_cluster() {
    let objects = outside(&minimal(), IMAGE, None);
    let pod = &find(&objects, "Deployment")["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], true);
    assert_eq!(
        find(&objects, "ServiceAccount")["automountServiceAccountToken"],
        false
    );
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let container = &pod["containers"][0];
    assert_eq!(container["image"], IMAGE);
    let security = &container["securityContext"];
    assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!(security["readOnlyRootFilesystem"], true);
    assert_eq!(security["allowPrivilegeEscalation"], false);
    let args = container["args"].to_string();
    assert!(
        args.contains("--cluster-uid=0a1b2c3d-0000-4000-8000-000000000000"),
        "{args}"
    );
    assert!(args.contains("--namespace=covey-demo-0a1b2"), "{args}");
}

#[test]
fn renewed_certificate_makes_one_rollout_and_the_same_one_none() {
    let v = minimal();
    let template = |text: &str| {
        let objects = outside(&v, IMAGE, Some(&pair(text)));
        find(&objects, "Deployment")["spec"]["template"].clone()
    };
    assert_eq!(template("one"), template("one"));
    assert_ne!(template("one"), template("two"));
}

#[test]
fn certificate_is_a_clients_and_in_no_group() {
    let want = certificate(&Settings::default());
    assert!(want.client && !want.server && want.organizations.is_empty());
    assert_eq!(want.common_name, "covey-ccm");
}

#[test]
fn load_balancers_reach_node_ports_and_nothing_else() {
    let objects = outside(&minimal(), IMAGE, None);
    let policy = objects
        .iter()
        .find(|o| o.name == "load-balancers")
        .expect("a policy");
    let spec = &policy.value["spec"];
    assert_eq!(
        spec["podSelector"]["matchLabels"],
        json!({ "app.kubernetes.io/component": "worker" })
    );
    for port in spec["ingress"][0]["ports"].as_array().expect("ports") {
        assert_eq!(
            (&port["port"], &port["endPort"]),
            (&json!(30000), &json!(32767))
        );
    }
    assert_eq!(spec["egress"], Value::Null);
}
