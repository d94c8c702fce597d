//! The objects of the addon `cloudController`: who may do what, and how its pod is made.

mod fixtures;

use fixtures::{TRUST, addresses, minimal};
use kit_objects::object::Object;
use pki::{Key, KeyPair, Store};
use serde_json::{Value, json};
use tenant_cp::addons::addon::Addon as _;
use tenant_cp::addons::cloud_controller::{
    CloudController, NAME, certificate, rules_outside, tenant_objects as inside,
};
use tenant_cp::validate::validated::LoadBalancers;
use tenant_cp::{
    Settings, Validated,
    certificates::{self, Material},
    management_objects, tenant_objects,
};

const IMAGE: &str = concat!("ghcr.io/covey-dev/ccm:", env!("CARGO_PKG_VERSION"));

fn with_addon() -> Validated {
    let mut v = minimal();
    v.addons.cloud_controller.enabled = true;
    v
}

/// Its objects in the tenant namespace, but the Secret.
fn outside(v: &Validated, pair: Option<&KeyPair>) -> Vec<Object> {
    let settings = Settings::default();
    let store: Store = pair
        .map(|pair| (NAME.to_owned(), pair.clone()))
        .into_iter()
        .collect();
    let mut objects = management_objects::base(v, &settings);
    objects.extend(management_objects::workloads(
        v,
        &settings,
        &addresses("x"),
        &Material {
            store,
            ..Material::default()
        },
    ));
    let parts = CloudController.parts(&v.tenant_namespace, "", "");
    objects.retain(|object| parts.contains(&object.key()));
    objects
}

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
    let v = with_addon();
    let objects = outside(&v, None);
    for object in &objects {
        assert_eq!(
            object.namespace.as_deref(),
            Some("covey-demo-0a1b2c3d00"),
            "{}",
            object.key()
        );
        assert!(!object.kind.starts_with("Cluster"), "{}", object.key());
    }
    let forbidden = ["*", "secrets", "pods", "machines", "serviceaccounts"];
    let mut rules = json!(rules_outside())
        .as_array()
        .cloned()
        .unwrap_or_default();
    for object in inside() {
        rules.extend(
            object.value["rules"]
                .as_array()
                .cloned()
                .unwrap_or_default(),
        );
    }
    assert!(rules.len() > 8);
    for rule in rules {
        let text = rule.to_string();
        let found = forbidden
            .iter()
            .find(|word| text.contains(&format!("\"{word}\"")));
        assert_eq!(found, None, "{text}");
    }
    let binding = find(&objects, "RoleBinding");
    assert_eq!(binding["roleRef"]["name"], "covey-ccm");
    assert_eq!(
        binding["subjects"],
        json!([{ "kind": "ServiceAccount", "name": "ccm", "namespace": "covey-demo-0a1b2c3d00" }])
    );
    assert_eq!(
        find(&inside(), "ClusterRoleBinding")["subjects"][0]["name"],
        "covey-ccm"
    );
}

#[test]
fn pod_is_restricted_and_has_the_only_token_of_a_tenant_cluster() {
    let objects = outside(&with_addon(), None);
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
    assert!(args.contains("--namespace=covey-demo-0a1b2c3d00"), "{args}");
}

#[test]
fn renewed_certificate_makes_one_rollout_and_the_same_one_none() {
    let v = with_addon();
    let template = |text: &str| {
        let objects = outside(&v, Some(&pair(text)));
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
    let objects = outside(&with_addon(), None);
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

#[test]
fn switched_off_nothing_of_it_is_wanted_and_switched_on_all_that_goes_with_it() {
    let v = minimal();
    assert_eq!(outside(&v, None), []);
    let its = |v: &Validated| {
        let objects = tenant_objects::wanted(v, &Settings::default(), &addresses("x"), TRUST);
        objects.iter().filter(|o| o.name == "covey:ccm").count()
    };
    assert_eq!((its(&v), its(&with_addon())), (0, 2));
    let wanted: Vec<_> = outside(&with_addon(), None)
        .iter()
        .map(Object::key)
        .collect();
    let missing: Vec<_> = CloudController
        .parts(&v.tenant_namespace, "", "")
        .into_iter()
        .filter(|key| !wanted.contains(key))
        .collect();
    assert_eq!(
        missing.iter().map(ToString::to_string).collect::<Vec<_>>(),
        // The one it makes itself, the other belongs to the certificates.
        [
            "Lease covey-demo-0a1b2c3d00/covey-ccm",
            "Secret covey-demo-0a1b2c3d00/ccm"
        ]
    );
}

#[test]
fn secret_holds_what_the_pod_is_told_to_read() {
    let store: Store = ["ca", NAME]
        .map(|name| (name.to_owned(), pair(name)))
        .into();
    let material = Material {
        store,
        ..Material::default()
    };
    let secrets =
        certificates::leaf_secrets(&with_addon(), &material, Some(&fixtures::etcd_identity()));
    let data = &find(&secrets, "Secret")["data"];
    let keys: Vec<_> = data.as_object().expect("data").keys().collect();
    assert_eq!(keys, ["ca.crt", "ccm.crt", "ccm.key", "kubeconfig"]);
    assert_eq!(
        certificates::leaf_secrets(&minimal(), &material, Some(&fixtures::etcd_identity())),
        []
    );
}

#[test]
fn image_never_comes_from_the_registry_that_the_tenant_cluster_names() {
    let image = |registry: &str| {
        let mut v = with_addon();
        registry.clone_into(&mut v.registry);
        let objects = outside(&v, None);
        find(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"].clone()
    };
    assert_eq!(image("registry.k8s.io"), IMAGE);
    assert_eq!(image("evil.example/k8s"), IMAGE);
}

fn args(v: &Validated, settings: &Settings) -> Vec<String> {
    let deployments = CloudController.deployments(v, settings, &Store::new());
    assert_eq!(deployments.len(), 1);
    let args = &deployments[0].value["spec"]["template"]["spec"]["containers"][0]["args"];
    serde_json::from_value(args.clone()).unwrap_or_default()
}

/// Finding D4: nothing capped what a tenant makes in the management cluster.
#[test]
fn limits_of_load_balancers_are_those_of_the_configuration_and_there_are_some_by_default() {
    let limits = |settings: &Settings| {
        let args = args(&with_addon(), settings).into_iter();
        args.filter(|arg| arg.starts_with("--max-"))
            .collect::<Vec<_>>()
    };
    let mut settings = Settings::default();
    assert_eq!(
        limits(&settings),
        [
            "--max-services=500",
            "--max-ports=1000",
            "--max-endpoints=250"
        ]
    );
    settings.load_balancers = serde_json::from_value(serde_json::json!({
        "maxServices": 3, "maxPorts": 0, "maxEndpoints": 7,
    }))
    .unwrap();
    assert_eq!(
        limits(&settings),
        ["--max-services=3", "--max-ports=0", "--max-endpoints=7"]
    );
}

/// Finding D8: documented features of load balancers could not be switched on.
#[test]
fn what_load_balancers_may_be_given_is_told_by_flags_and_nothing_is_by_default() {
    let args = |v: &Validated, settings: &Settings| {
        args(v, settings).into_iter().skip(8).collect::<Vec<_>>()
    };
    let (mut v, mut settings) = (with_addon(), Settings::default());
    assert_eq!(args(&v, &settings), [""; 0]);
    settings.load_balancers.node_ports = false;
    settings.load_balancers.proxy_ip_mode = true;
    v.load_balancers = LoadBalancers {
        classes: vec!["a".to_owned(), "b".to_owned()],
        management_class: Some("example.com/internal".to_owned()),
        annotations: vec!["metallb.io/".to_owned(), "example.com/a".to_owned()],
        addresses: vec!["203.0.113.0/28".parse().unwrap()],
        labels: [("example.com/zone".to_owned(), "x".to_owned())].into(),
    };
    assert_eq!(
        args(&v, &settings),
        [
            "--load-balancer-classes=a,b",
            "--mirror-class=example.com/internal",
            "--allow-annotations=metallb.io/*,example.com/a",
            "--allow-addresses=203.0.113.0/28",
            "--mirror-labels=example.com/zone=x",
            "--no-node-ports",
            "--proxy-ip-mode",
        ]
    );
}
