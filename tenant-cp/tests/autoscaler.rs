//! The objects of the addon `autoscaler`: who may do what, who reaches whom, and how the two programs
//! are told of each other and of limits.

mod fixtures;

use api::tenant_cluster::{Autoscaler as Configured, AutoscalerLimits};
use fixtures::{TRUST, addresses, limits, minimal};
use k8s_openapi::ByteString;
use kit_objects::object::Object;
use pki::{Key, KeyPair, Store};
use serde_json::{Value, json};
use tenant_cp::addons::addon::Addon as _;
use tenant_cp::addons::autoscaler::{
    AUTHORITY, Autoscaler, CLIENT, NAME, SERVER, STOCK, rules_inside, rules_kube_system,
    rules_outside, tenant_objects as inside,
};
use tenant_cp::{
    Settings, Validated,
    certificates::{self, Material},
    management_objects, tenant_objects,
};

const NS: &str = "covey-demo-0a1b2c3d00";
const IMAGE: &str = concat!("ghcr.io/covey-dev/autoscaler:", env!("CARGO_PKG_VERSION"));

fn with_addon() -> Validated {
    let mut v = minimal();
    v.autoscaler = Some(limits());
    v
}

fn pair(text: &str) -> KeyPair {
    KeyPair {
        certificate: text.to_owned(),
        key: Key::new("key".to_owned()),
    }
}

/// Its objects outside the tenant cluster, but the Secrets.
fn outside(v: &Validated, store: &Store) -> Vec<Object> {
    let settings = Settings::default();
    let mut objects = management_objects::base(v, &settings);
    objects.extend(management_objects::workloads(
        v,
        &settings,
        &addresses("x"),
        &Material {
            store: store.clone(),
            ..Material::default()
        },
    ));
    let parts = Autoscaler.parts(&v.tenant_namespace, &v.namespace, &v.name);
    objects.retain(|object| parts.contains(&object.key()));
    objects
}

fn find<'a>(objects: &'a [Object], kind: &str, name: &str) -> &'a Value {
    let mut found = objects.iter().filter(|o| o.kind == kind && o.name == name);
    &found.next().expect("it is there").value
}

fn container(v: &Validated, name: &str) -> Value {
    let objects = outside(v, &Store::new());
    find(&objects, "Deployment", name)["spec"]["template"]["spec"]["containers"][0].clone()
}

/// Everything that somebody may do there.
fn rules(objects: &[Object], role: &str) -> Vec<Value> {
    let its = objects.iter().filter(|o| o.name == role);
    let rules = its.filter_map(|o| o.value["rules"].as_array());
    rules.flatten().cloned().collect()
}

#[test]
fn everything_but_one_binding_is_in_the_tenant_namespace() {
    let v = with_addon();
    let elsewhere: Vec<_> = outside(&v, &Store::new())
        .into_iter()
        .filter(|object| object.namespace.as_deref() != Some(NS))
        .collect();
    let [binding] = &elsewhere[..] else {
        panic!("{elsewhere:?}")
    };
    assert_eq!(
        binding.key().to_string(),
        "RoleBinding team-a/covey-autoscaler-demo"
    );
    let value = &binding.value;
    assert_eq!(value["roleRef"]["name"], "covey-autoscaler");
    assert_eq!(
        value["subjects"],
        json!([{ "kind": "ServiceAccount", "name": NAME, "namespace": NS }])
    );
    let owner = &value["metadata"]["ownerReferences"][0];
    assert_eq!(
        owner,
        &json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster", "name": "demo", "uid": v.uid,
        })
    );
}

#[test]
fn nobody_gets_a_right_on_secrets_and_the_adapter_none_on_pods() {
    let inside = inside();
    let mut stock = rules(&inside, "covey:cluster-autoscaler");
    let mut adapter = rules(&inside, "covey:autoscaler");
    let declared = json!([rules_inside(), rules_kube_system()].concat());
    assert_eq!(json!(adapter), declared);
    let outside = json!(rules_outside());
    adapter.extend(outside.as_array().unwrap().iter().cloned());
    assert!(stock.len() > 20);
    let mut checked = 0;
    for (rules, forbidden) in [
        (&mut stock, &["*", "secrets", "serviceaccounts"][..]),
        (&mut adapter, &["*", "secrets", "serviceaccounts", "pods"]),
    ] {
        for rule in rules {
            let text = rule.to_string();
            let is_there = |word: &&&str| text.contains(&format!("\"{word}\""));
            assert_eq!(forbidden.iter().find(is_there), None, "{text}");
            checked += 1;
        }
    }
    assert!(checked > 25, "{checked}");
    // ConfigMaps and Leases: only where its own are.
    let everywhere = find(&inside, "ClusterRole", "covey:cluster-autoscaler");
    let text = everywhere.to_string();
    assert!(!text.contains("configmaps") && !text.contains("leases"));
}

#[test]
fn adapter_alone_has_a_token_and_is_told_whose_it_is() {
    let v = with_addon();
    let objects = outside(&v, &Store::new());
    for (name, has_token) in [(NAME, true), (STOCK, false)] {
        let pod = &find(&objects, "Deployment", name)["spec"]["template"]["spec"];
        assert_eq!(pod["automountServiceAccountToken"], has_token);
        assert_eq!(pod["serviceAccountName"], name);
    }
    let container = container(&v, NAME);
    assert_eq!(container["image"], IMAGE);
    let args = container["args"].to_string();
    for arg in [
        "--tenant-kubeconfig=/etc/kubernetes/kubeconfig",
        "--namespace=covey-demo-0a1b2c3d00",
        "--user-namespace=team-a",
        "--cluster-name=demo",
        "--cluster-uid=0a1b2c3d-0000-4000-8000-000000000000",
        "--listen=0.0.0.0:8086",
        "--grpc-client-ca=/etc/covey/grpc/ca.crt",
        "--patience=2m",
    ] {
        assert!(args.contains(&format!("\"{arg}\"")), "{arg} in {args}");
    }
}

#[test]
fn cluster_autoscaler_is_of_the_tenants_minor_and_knows_its_limits() {
    let mut v = with_addon();
    let flags = |v: &Validated| -> Vec<String> {
        let args = container(v, STOCK)["args"].clone();
        let args: Vec<String> = serde_json::from_value(args).unwrap();
        let totals = args.into_iter().filter(|arg| arg.contains("-total="));
        totals.collect()
    };
    assert_eq!(
        flags(&v),
        [
            "--max-nodes-total=20",
            "--cores-total=0:64",
            "--memory-total=0:256"
        ]
    );
    v.autoscaler = Some(Configured {
        limits: AutoscalerLimits {
            memory: Some("2500Mi".into()),
            ..AutoscalerLimits::default()
        },
        ..Configured::default()
    });
    assert_eq!(flags(&v), ["--memory-total=0:2"]);
    let image = |v: &Validated| container(v, STOCK)["image"].clone();
    for (minor, tag) in [(34, "v1.34.4"), (35, "v1.35.1"), (36, "v1.36.1")] {
        v.version.minor = minor;
        let wanted = format!("registry.k8s.io/autoscaling/cluster-autoscaler:{tag}");
        assert_eq!(image(&v), wanted);
    }
}

#[test]
fn what_the_cluster_autoscaler_is_told_is_what_was_written_and_else_its_own() {
    let flags = |wanted: Configured| -> Vec<String> {
        let mut v = with_addon();
        v.autoscaler = Some(wanted);
        let args = container(&v, STOCK)["args"].clone();
        serde_json::from_value(args).unwrap()
    };
    let plain = flags(Configured::default());
    let mut told = flags(Configured {
        balance_similar_node_groups: true,
        startup_taints: vec!["example.com/agent-not-ready".to_owned(), "b".to_owned()],
        max_node_provision_time: Some("25m".into()),
        scale_down_unready_time: Some("1h".into()),
        scale_down_delay_after_add: Some("0s".into()),
        ..Configured::default()
    });
    told.retain(|flag| !plain.contains(flag));
    assert_eq!(
        told,
        [
            "--balance-similar-node-groups=true",
            "--startup-taint=example.com/agent-not-ready",
            "--startup-taint=b",
            "--max-node-provision-time=25m",
            "--scale-down-unready-time=1h",
            "--scale-down-delay-after-add=0s",
        ]
    );
}

#[test]
fn only_the_cluster_autoscaler_reaches_the_adapter_and_it_no_management_api() {
    let objects = outside(&with_addon(), &Store::new());
    let ingress = &find(&objects, "NetworkPolicy", NAME)["spec"]["ingress"];
    let is = |component: &str| json!({ "app.kubernetes.io/component": component });
    assert_eq!(
        *ingress,
        json!([{
            "from": [{ "podSelector": { "matchLabels": is(STOCK) } }],
            "ports": [{ "port": 8086, "protocol": "TCP" }],
        }])
    );
    let egress = &find(&objects, "NetworkPolicy", STOCK)["spec"]["egress"];
    let reached: Vec<_> = egress
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| {
            let to = &rule["to"][0]["podSelector"]["matchLabels"];
            (to.clone(), rule["ports"][0]["port"].clone())
        })
        .collect();
    assert_eq!(
        reached,
        [(is(NAME), json!(8086)), (is("control-plane"), json!(6443))]
    );
    assert!(!egress.to_string().contains("ipBlock"));
}

#[test]
fn renewed_certificate_restarts_only_who_does_not_read_it_again() {
    let v = with_addon();
    let template = |name: &str, renewed: &str| {
        let mut store: Store = [AUTHORITY, CLIENT, NAME, SERVER, STOCK, "ca"]
            .map(|one| (one.to_owned(), pair("old")))
            .into();
        store.insert(renewed.to_owned(), pair("new"));
        let objects = outside(&v, &store);
        find(&objects, "Deployment", name)["spec"]["template"].clone()
    };
    let restarts = |name: &str| {
        let all = [AUTHORITY, CLIENT, NAME, SERVER, STOCK, "ca"];
        let changes = |renewed: &&str| template(name, renewed) != template(name, "nothing");
        all.into_iter().filter(changes).collect::<Vec<_>>()
    };
    assert_eq!(restarts(NAME), [NAME, "ca"]);
    assert_eq!(restarts(STOCK), [AUTHORITY, CLIENT, "ca"]);
}

#[test]
fn secrets_hold_what_the_pods_are_told_to_read() {
    let material = Material {
        store: ["ca", AUTHORITY, CLIENT, NAME, SERVER, STOCK]
            .map(|name| (name.to_owned(), pair(name)))
            .into(),
        ..Material::default()
    };
    let secrets =
        certificates::leaf_secrets(&with_addon(), &material, Some(&fixtures::etcd_identity()));
    let keys = |name: &str| -> Vec<String> {
        let data = &find(&secrets, "Secret", name)["data"];
        data.as_object().unwrap().keys().cloned().collect()
    };
    let for_tenant = |name: &str| {
        let (certificate, key) = (format!("{name}.crt"), format!("{name}.key"));
        let mut all = vec!["ca.crt".to_owned(), certificate, key, "kubeconfig".into()];
        all.sort();
        all
    };
    assert_eq!(keys(NAME), for_tenant(NAME));
    assert_eq!(keys(STOCK), for_tenant(STOCK));
    assert_eq!(keys(SERVER), ["ca.crt", "tls.crt", "tls.key"]);
    let client = ["ca.crt", "cloud-config.yaml", "tls.crt", "tls.key"];
    assert_eq!(keys(CLIENT), client);
    assert_eq!(keys(AUTHORITY), ["ca.crt", "ca.key"]);
    let text = |name: &str, key: &str| {
        let value = find(&secrets, "Secret", name)["data"][key].clone();
        let bytes: ByteString = serde_json::from_value(value).unwrap();
        String::from_utf8(bytes.0).unwrap()
    };
    for name in [SERVER, CLIENT] {
        assert_eq!(text(name, "ca.crt"), AUTHORITY, "not the tenant cluster's");
    }
    assert_eq!(
        text(CLIENT, "cloud-config.yaml"),
        "address: autoscaler.covey-demo-0a1b2c3d00.svc:8086\n\
         cert: /etc/covey/grpc/tls.crt\n\
         key: /etc/covey/grpc/tls.key\n\
         cacert: /etc/covey/grpc/ca.crt\n\
         grpc_timeout: 5s\n"
    );
    assert_eq!(
        certificates::leaf_secrets(&minimal(), &material, Some(&fixtures::etcd_identity())),
        []
    );
}

#[test]
fn certificates_fit_what_they_are_for() {
    let wants = certificates::wants(&with_addon(), &Settings::default(), None);
    let want = |name: &str| wants.iter().find(|want| want.name == name).unwrap();
    let server = want(SERVER);
    assert_eq!((server.server, server.client), (true, false));
    assert_eq!(
        server.dns_names,
        ["autoscaler.covey-demo-0a1b2c3d00.svc", "localhost"]
    );
    let client = want(CLIENT);
    assert_eq!((client.server, client.client), (false, true));
    for (name, user) in [
        (NAME, "covey-autoscaler"),
        (STOCK, "covey-cluster-autoscaler"),
    ] {
        let want = want(name);
        assert_eq!(want.common_name, user);
        assert!(want.client && !want.server && want.organizations.is_empty());
    }
}

#[test]
fn switched_off_nothing_of_it_is_wanted_and_switched_on_all_that_goes_with_it() {
    let v = minimal();
    assert_eq!(outside(&v, &Store::new()), []);
    let its = |v: &Validated| {
        let objects = tenant_objects::wanted(v, &Settings::default(), &addresses("x"), TRUST);
        let its = |o: &&Object| o.value["metadata"]["labels"]["covey.dev/addon"] == "autoscaler";
        objects.iter().filter(its).count()
    };
    assert_eq!((its(&v), its(&with_addon())), (0, 9));
    let wanted: Vec<_> = outside(&with_addon(), &Store::new())
        .iter()
        .map(Object::key)
        .collect();
    let missing: Vec<_> = Autoscaler
        .parts(NS, "team-a", "demo")
        .into_iter()
        .filter(|key| !wanted.contains(key))
        .map(|key| key.kind)
        .collect();
    // Those belong to the certificates.
    assert_eq!(missing, ["Secret"; 5]);
}
