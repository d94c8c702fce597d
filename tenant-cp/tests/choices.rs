//! What users choose of the endpoint's Service, of issuers of tokens and of DNS, in the objects that are made.
//!
//! Invariant: what nobody chose shows nowhere; the golden files have that.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

mod fixtures;

use api::tenant_cluster::{
    EndpointType, ExternalTrafficPolicy, ForwardedZone, Issuer, KubeProxyMode, PodSecurityLevel,
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
