//! What users choose of the endpoint's Service, of issuers of tokens and of DNS, in the objects that are made.
//!
//! Invariant: what nobody chose shows nowhere; the golden files have that.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

mod fixtures;

use api::tenant_cluster::{
    EndpointType, ExternalTrafficPolicy, ForwardedZone, Issuer, KubeProxyMode, PodMetadata,
    PodSecurityLevel,
};
use fixtures::{TRUST, addresses, minimal, objects};
use serde_json::{Value, json};
use tenant_cp::{Settings, Validated, tenant_objects};

fn service(v: &Validated) -> Value {
    let objects = objects(v, &addresses("demo.example.com"));
    let mut found = objects.into_iter();
    let found = found.find(|o| o.kind == "Service" && o.name == "control-plane");
    found.unwrap().value
}

#[test]
fn service_of_the_endpoint_has_the_users_labels_and_ways() {
    let mut v = minimal();
    v.endpoint.labels = [
        ("example.com/pool".to_owned(), "a".to_owned()),
        (
            "app.kubernetes.io/component".to_owned(),
            "stolen".to_owned(),
        ),
    ]
    .into();
    v.endpoint.external_traffic_policy = Some(ExternalTrafficPolicy::Local);
    v.endpoint.allocate_node_ports = Some(false);
    let inside = service(&v);
    assert_eq!(inside["metadata"]["labels"]["example.com/pool"], "a");
    let component = &inside["metadata"]["labels"]["app.kubernetes.io/component"];
    assert_eq!(component, "control-plane");
    assert_eq!(inside["spec"]["externalTrafficPolicy"], Value::Null);
    assert_eq!(inside["spec"]["allocateLoadBalancerNodePorts"], Value::Null);
    v.endpoint.type_ = EndpointType::LoadBalancer;
    let balanced = service(&v);
    assert_eq!(balanced["spec"]["externalTrafficPolicy"], "Local");
    assert_eq!(balanced["spec"]["allocateLoadBalancerNodePorts"], false);
}

fn issuer() -> Issuer {
    serde_json::from_value(json!({
        "url": "https://login.example.com", "audiences": ["kubernetes", "k8s"],
    }))
    .unwrap()
}

/// That file is read at the start alone.
#[test]
fn change_of_pod_security_is_a_rollout() {
    let pods = |v: &Validated| {
        let objects = objects(v, &addresses("demo.example.com"));
        let found = objects.into_iter().find(|o| o.kind == "Deployment");
        found.unwrap().value["spec"]["template"]["metadata"]["annotations"].clone()
    };
    let mut v = minimal();
    let before = pods(&v);
    v.pod_security.warn = Some(PodSecurityLevel::Restricted);
    assert_ne!(pods(&v), before);
}

fn api_server_flags(v: &Validated) -> Vec<String> {
    let objects = objects(v, &addresses("demo.example.com"));
    let found = objects.into_iter().find(|o| o.kind == "Deployment");
    let pod = found.unwrap().value["spec"]["template"]["spec"].clone();
    let containers = pod["containers"].as_array().unwrap();
    let container = containers
        .iter()
        .find(|c| c["name"] == "apiserver")
        .unwrap();
    serde_json::from_value(container["args"].clone()).unwrap()
}

/// Flags that there are now and were not, and that there were.
fn changed(v: &Validated) -> (Vec<String>, Vec<String>) {
    let (before, now) = (api_server_flags(&minimal()), api_server_flags(v));
    let more = |some: &[String], others: &[String]| -> Vec<String> {
        let more = some.iter().filter(|flag| !others.contains(flag));
        more.cloned().collect()
    };
    (more(&now, &before), more(&before, &now))
}

#[test]
fn audit_log_goes_where_it_was_told_to() {
    let audit = |audit: Value| {
        let mut v = minimal();
        v.audit = Some(serde_json::from_value(audit).unwrap());
        changed(&v)
    };
    let file = "--audit-log-path=/var/log/kubernetes/audit.log".to_owned();
    let stdout = ["--audit-log-path=-", "--audit-log-truncate-enabled=true"].map(str::to_owned);
    assert_eq!(audit(json!({})), (stdout.to_vec(), vec![file]));
    assert_eq!(audit(json!({ "log": "File" })), (vec![], vec![]));
    let sent = audit(json!({ "log": "File", "webhook": { "url": "https://audit.example.com" } }));
    let flags = [
        "--audit-webhook-batch-buffer-size=1000",
        "--audit-webhook-config-file=/etc/kubernetes/audit-webhook.yaml",
        "--audit-webhook-truncate-enabled=true",
    ];
    assert_eq!(sent, (flags.map(str::to_owned).to_vec(), vec![]));
}

#[test]
fn webhooks_are_asked_after_nodes_rights_and_rbac() {
    let mut v = minimal();
    v.authorization_webhooks = serde_json::from_value(json!([
        { "name": "policy", "url": "https://policy.example.com" },
    ]))
    .unwrap();
    let with = "--authorization-config=/etc/kubernetes/authorization.yaml".to_owned();
    let without = "--authorization-mode=Node,RBAC".to_owned();
    assert_eq!(changed(&v), (vec![with], vec![without]));
}

#[test]
fn tokens_of_the_clusters_own_issuer_are_believed_whoever_else_issues() {
    let mut v = minimal();
    v.service_accounts = serde_json::from_value(json!({
        "issuer": "https://oidc.example.com/demo/", "acceptedIssuers": ["https://old.example.com"],
        "audiences": ["https://api.example.com"],
    }))
    .unwrap();
    let flags = api_server_flags(&v);
    let issuers: Vec<_> = flags
        .iter()
        .filter(|flag| flag.starts_with("--service-account-issuer="))
        .collect();
    assert_eq!(
        issuers,
        [
            "--service-account-issuer=https://oidc.example.com/demo/",
            "--service-account-issuer=https://old.example.com",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        ]
    );
    for flag in [
        "--api-audiences=https://kubernetes.default.svc.cluster.local,https://oidc.example.com/demo/,https://api.example.com",
        "--service-account-jwks-uri=https://oidc.example.com/demo/openid/v1/jwks",
    ] {
        assert!(flags.iter().any(|found| found == flag), "{flags:#?}");
    }
}

/// The file is read again by the kube-apiserver itself.
#[test]
fn change_of_issuers_restarts_nobody() {
    let pods = |v: &Validated| {
        let objects = objects(v, &addresses("demo.example.com"));
        let found = objects.into_iter().find(|o| o.kind == "Deployment");
        found.unwrap().value["spec"]["template"].clone()
    };
    let mut v = minimal();
    let before = pods(&v);
    v.issuers = vec![issuer()];
    assert_eq!(pods(&v), before);
}

#[test]
fn coredns_and_kube_proxy_do_as_they_were_told() {
    let of = |v: &Validated, kind: &str, name: &str| {
        let addresses = addresses("demo.example.com");
        let objects = tenant_objects::wanted(v, &Settings::default(), &addresses, TRUST);
        let mut found = objects.into_iter();
        found
            .find(|o| o.kind == kind && o.name == name)
            .unwrap()
            .value
    };
    let mode = |v: &Validated| {
        let map = of(v, "ConfigMap", "kube-proxy");
        let file = map["data"]["config.conf"].as_str().unwrap();
        let file: Value = serde_saphyr::from_str(file).unwrap();
        file["mode"].clone()
    };
    let corefile = |v: &Validated| {
        let map = of(v, "ConfigMap", "coredns");
        map["data"]["Corefile"].as_str().unwrap().to_owned()
    };
    let mut v = minimal();
    let before = corefile(&v);
    assert_eq!(mode(&v), "nftables");
    v.kube_proxy_mode = KubeProxyMode::Iptables;
    assert_eq!(mode(&v), "iptables");
    v.dns.replicas = 5;
    v.dns.forward = vec![ForwardedZone {
        zone: "corp.example.com".to_owned(),
        servers: vec!["10.1.0.53".to_owned(), "2001:db8::53".to_owned()],
    }];
    assert_eq!(of(&v, "Deployment", "coredns")["spec"]["replicas"], 5);
    let block = "corp.example.com:53 {\n    errors\n    forward . 10.1.0.53:53 \
                 [2001:db8::53]:53\n    cache 30\n}\n";
    assert_eq!(corefile(&v), format!("{before}{block}"));
}

#[test]
fn gates_are_told_to_every_program_and_api_versions_to_the_api_server() {
    let told = |v: &Validated| -> Vec<Vec<String>> {
        let objects = objects(v, &addresses("demo.example.com"));
        let pods = objects
            .iter()
            .filter(|o| ["control-plane", "controllers"].contains(&o.name.as_str()))
            .filter_map(|o| o.value.pointer("/spec/template/spec"));
        let lists = pods.flat_map(|pod| [&pod["initContainers"], &pod["containers"]]);
        let containers = lists.flat_map(|list| list.as_array().into_iter().flatten());
        let args = containers.map(|container| {
            let args = container["args"].as_array().unwrap().iter();
            let args = args.map(|arg| arg.as_str().unwrap().to_owned());
            args.filter(|arg| {
                arg.starts_with("--feature-gates") || arg.starts_with("--runtime-config")
            })
            .collect()
        });
        args.collect()
    };
    let mut v = minimal();
    assert!(told(&v).iter().all(Vec::is_empty));
    v.feature_gates = [
        ("HPAScaleToZero".to_owned(), true),
        ("EnvFiles".to_owned(), false),
    ]
    .into();
    v.runtime_config = [("resource.k8s.io/v1beta2".to_owned(), true)].into();
    let gates = "--feature-gates=EnvFiles=false,HPAScaleToZero=true";
    let apis = "--runtime-config=resource.k8s.io/v1beta2=true";
    let mut all = told(&v);
    all.retain(|args| !args.is_empty());
    assert_eq!(all, [vec![gates, apis], vec![gates], vec![gates]]);
}

#[test]
fn members_have_the_most_bytes_that_the_user_says() {
    let told = |v: &Validated| {
        let objects = objects(v, &addresses("demo.example.com"));
        let found = objects.into_iter().find(|o| o.kind == "StatefulSet");
        let pod = found.unwrap().value["spec"]["template"]["spec"].clone();
        let args = pod["containers"][0]["args"].as_array().unwrap().clone();
        let quota = |arg: &Value| arg.as_str().unwrap().starts_with("--quota-backend-bytes");
        let mut found = args.into_iter().filter(quota);
        let one = found.next().unwrap();
        assert_eq!(found.next(), None);
        one
    };
    let mut v = minimal();
    assert_eq!(told(&v), "--quota-backend-bytes=1073741824");
    v.etcd.quota_backend_bytes = Some(1_610_612_736);
    assert_eq!(told(&v), "--quota-backend-bytes=1610612736");
}

#[test]
fn pods_have_the_users_labels_and_annotations_and_selectors_do_not() {
    let mut v = minimal();
    let asked: PodMetadata = serde_json::from_value(json!({
        "labels": {"example.com/a": "b", "app.kubernetes.io/component": "stolen"},
        "annotations": {"example.com/c": "d", "covey.dev/files-hash": "stolen"},
    }))
    .unwrap();
    v.pod_metadata = asked.clone();
    v.etcd.pod_metadata = asked;
    let objects = objects(&v, &addresses("demo.example.com"));
    for (kind, component) in [
        ("Deployment", "control-plane"),
        ("Deployment", "controllers"),
        ("StatefulSet", "etcd"),
    ] {
        let object = objects
            .iter()
            .find(|o| o.kind == kind && o.name == component);
        let spec = &object.unwrap().value["spec"];
        let metadata = &spec["template"]["metadata"];
        assert_eq!(metadata["labels"]["example.com/a"], "b");
        assert_eq!(metadata["labels"]["app.kubernetes.io/component"], component);
        assert_eq!(metadata["annotations"]["example.com/c"], "d");
        let selected = json!({"app.kubernetes.io/component": component});
        assert_eq!(spec["selector"]["matchLabels"], selected);
        let own = &object.unwrap().value["metadata"]["labels"];
        assert_eq!(own["example.com/a"], Value::Null);
        if component == "control-plane" {
            assert_ne!(metadata["annotations"]["covey.dev/files-hash"], "stolen");
        }
    }
}
