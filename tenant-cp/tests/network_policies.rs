//! What workers reach: nothing of the management cluster but what they need.
//!
//! Invariant: a policy is judged by what it says as a whole, or by its last rule.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

mod fixtures;

use api::Reason;
use api::tenant_cluster::EndpointType;
use fixtures::minimal;
use serde_json::{Value, json};
use tenant_cp::problem::Problem;
use tenant_cp::{Settings, Validated, management_objects};

/// The NetworkPolicy of this name, if it is wanted.
fn policy(v: &Validated, settings: &Settings, name: &str) -> Option<Value> {
    let objects = management_objects::base(v, settings);
    let mut found = objects.into_iter();
    let found = found.find(|o| o.kind == "NetworkPolicy" && o.name == name);
    found.map(|object| object.value["spec"].clone())
}

fn reserved(ranges: &[&str]) -> Settings {
    let mut settings = Settings::default();
    settings.network.reserved = ranges.iter().map(|range| range.parse().unwrap()).collect();
    settings
}

#[test]
fn workers_reach_everything_but_what_is_reserved() {
    let settings = reserved(&["10.96.0.0/12", "192.0.2.7/32", "fd00:9::/64"]);
    let spec = policy(&minimal(), &settings, "workers").unwrap();
    let outside = &spec["egress"].as_array().unwrap().last().unwrap()["to"];
    assert_eq!(
        outside[0]["ipBlock"],
        json!({ "cidr": "0.0.0.0/0", "except": [
            "10.96.0.0/12", "100.100.100.200/32", "168.63.129.16/32", "169.254.0.0/16",
            "192.0.2.7/32",
        ] })
    );
    assert_eq!(
        outside[1]["ipBlock"],
        json!({ "cidr": "::/0", "except": [
            "fd00:9::/64", "fd00:ec2::23/128", "fd00:ec2::254/128", "fd20:ce::254/128",
        ] })
    );
}

#[test]
fn policy_of_workers_is_left_as_it_is_while_it_is_not_known_what_is_reserved() {
    let mut settings = reserved(&["10.96.0.0/12"]);
    let why = Problem::new(
        "network.reserved",
        Reason::ReservedRangesUnknown,
        "name them",
    );
    settings.network.reserved_unknown = Some(why);
    assert_eq!(policy(&minimal(), &settings, "workers"), None);
    for name in [
        "default-deny",
        "dns",
        "control-plane",
        "controllers",
        "etcd",
    ] {
        assert!(policy(&minimal(), &settings, name).is_some(), "{name}");
    }
}

/// Agents on machines outside of the management cluster dial from addresses that no selector of pods finds.
#[test]
fn konnectivity_is_reached_by_workers_and_from_the_configured_ranges_of_hosts_alone() {
    let mut settings = Settings::default();
    let agents = |settings: &Settings| -> Vec<Value> {
        let spec = policy(&minimal(), settings, "control-plane").unwrap();
        let rules = spec["ingress"].as_array().unwrap();
        let ports = json!([{ "protocol": "TCP", "port": 8132 }]);
        let rules = rules.iter().filter(|rule| rule["ports"] == ports);
        rules.map(|rule| rule["from"].clone()).collect()
    };
    let of = json!({ "app.kubernetes.io/component": "worker" });
    let workers = json!([{ "podSelector": { "matchLabels": of } }]);
    assert_eq!(agents(&settings), std::slice::from_ref(&workers));
    settings.providers.static_.ranges = ["192.0.2.0/24", "2001:db8::/64"]
        .map(|range| range.parse().unwrap())
        .into();
    let hosts = json!([
        { "ipBlock": { "cidr": "192.0.2.0/24" } }, { "ipBlock": { "cidr": "2001:db8::/64" } },
    ]);
    assert_eq!(agents(&settings), [workers, hosts]);
}

#[test]
fn konnectivity_that_is_published_is_reached_from_anywhere_as_the_api_is() {
    let mut v = minimal();
    v.endpoint.type_ = EndpointType::LoadBalancer;
    v.endpoint.konnectivity_port = Some(443);
    let spec = policy(&v, &Settings::default(), "control-plane").unwrap();
    let open = |port: i32| json!({ "ports": [{ "protocol": "TCP", "port": port }] });
    assert_eq!(spec["ingress"], json!([open(6443), open(8132)]));
}

/// They listen on loopback, and have keys that sign who is who.
#[test]
fn controllers_reach_their_api_and_nothing_else_and_are_reached_by_nobody() {
    let spec = policy(&minimal(), &Settings::default(), "controllers").unwrap();
    let of = |component: &str| json!({ "app.kubernetes.io/component": component });
    assert_eq!(spec["podSelector"]["matchLabels"], of("controllers"));
    assert_eq!(spec["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(spec["ingress"], json!([]));
    let to = json!([{ "podSelector": { "matchLabels": of("control-plane") } }]);
    let ports = json!([{ "protocol": "TCP", "port": 6443 }]);
    assert_eq!(spec["egress"], json!([{ "to": to, "ports": ports }]));
}

/// A worker asks the management cluster's DNS only where it knows no other resolver: with it a tenant
/// learns the names of everybody's Services.
#[test]
fn workers_with_resolvers_of_their_own_reach_these_and_not_the_management_clusters() {
    let before = reserved(&["192.0.2.0/24"]);
    let mut settings = before.clone();
    settings.providers.kubevirt.nameservers = ["192.0.2.53", "198.51.100.53"]
        .map(|address| address.parse().unwrap())
        .into();
    let ports = json!([{ "protocol": "UDP", "port": 53 }, { "protocol": "TCP", "port": 53 }]);
    let dns = |settings: &Settings| policy(&minimal(), settings, "dns").unwrap();
    assert_eq!(dns(&before)["podSelector"], json!({}));
    let own = json!([{ "key": "covey.dev/resolver", "operator": "DoesNotExist" }]);
    let selector = json!({ "matchExpressions": own });
    assert_eq!(dns(&settings)["podSelector"], selector);
    assert_eq!(dns(&settings)["egress"], dns(&before)["egress"]);

    let workers = |settings: &Settings| policy(&minimal(), settings, "workers").unwrap();
    let egress = workers(&settings)["egress"].as_array().unwrap().clone();
    let (last, others) = egress.split_last().unwrap();
    assert_eq!(json!(others), workers(&before)["egress"]);
    let to = json!([
        { "ipBlock": { "cidr": "192.0.2.53/32" } }, { "ipBlock": { "cidr": "198.51.100.53/32" } },
    ]);
    assert_eq!(*last, json!({ "to": to, "ports": ports }));
}

#[test]
fn workers_reach_an_endpoint_that_is_a_port_of_nodes_and_nothing_else_of_them() {
    let last = |host: &str, port: Option<i32>| {
        let mut v = minimal();
        v.endpoint.type_ = EndpointType::NodePort;
        v.endpoint.host = Some(host.to_owned());
        v.endpoint.port = port;
        let spec = policy(&v, &reserved(&["192.0.2.0/24"]), "workers").unwrap();
        spec["egress"].as_array().unwrap().last().unwrap().clone()
    };
    assert_eq!(
        last("192.0.2.7", Some(30443)),
        json!({
            "to": [{ "ipBlock": { "cidr": "192.0.2.7/32" } }],
            "ports": [{ "protocol": "TCP", "port": 30443 }],
        })
    );
    assert_eq!(
        last("2001:db8::7", None),
        json!({
            "to": [{ "ipBlock": { "cidr": "2001:db8::7/128" } }],
            "ports": [{ "protocol": "TCP", "port": 30000, "endPort": 32767 }],
        })
    );
    let named = last("nodes.example.com", Some(30443));
    assert_eq!(
        named["ports"],
        json!([{ "protocol": "TCP", "port": 30443 }])
    );
    assert_eq!(named["to"][0]["ipBlock"]["cidr"], "0.0.0.0/0");
    let metadata = &named["to"][0]["ipBlock"]["except"];
    assert!(
        metadata
            .as_array()
            .unwrap()
            .contains(&json!("169.254.0.0/16"))
    );
}

/// Finding S10: a program in a tenant namespace that was taken over reached whatever serves HTTPS.
#[test]
fn programs_beside_control_planes_reach_no_more_than_where_the_management_api_is() {
    let mut v = minimal();
    v.addons.cloud_controller.enabled = true;
    v.addons.autoscaler.enabled = true;
    v.autoscaler = Some(Default::default());
    v.addons.csi.enabled = true;
    v.storage = Some(Default::default());
    let mut settings = Settings::default();
    let outside = |settings: &Settings, name: &str| {
        let spec = policy(&v, settings, name).unwrap();
        spec["egress"].as_array().unwrap().last().unwrap().clone()
    };
    let anywhere = outside(&settings, "ccm");
    assert_eq!(anywhere["to"][0]["ipBlock"]["cidr"], "0.0.0.0/0");
    settings.management_api.cidrs = vec!["192.0.2.7/32".parse().unwrap()];
    settings.management_api.ports = vec![8443];
    let there = json!({
        "to": [{ "ipBlock": { "cidr": "192.0.2.7/32" } }],
        "ports": [{ "protocol": "TCP", "port": 8443 }],
    });
    for name in ["ccm", "csi", "autoscaler"] {
        assert_eq!(outside(&settings, name), there, "{name}");
    }
}

#[test]
fn metrics_of_programs_beside_control_planes_are_read_by_who_is_named_and_by_nobody_else() {
    let mut v = minimal();
    v.addons.cloud_controller.enabled = true;
    v.addons.autoscaler.enabled = true;
    v.autoscaler = Some(Default::default());
    v.addons.csi.enabled = true;
    v.storage = Some(Default::default());
    let mut settings = Settings::default();
    let admin = |settings: &Settings, name: &str| {
        let spec = policy(&v, settings, name).unwrap();
        let rules = spec["ingress"].as_array().unwrap().clone().into_iter();
        let rules = rules.filter(|rule| rule["ports"][0]["port"] == 8080);
        rules.collect::<Vec<_>>()
    };
    for name in ["ccm", "csi", "autoscaler"] {
        assert!(admin(&settings, name).is_empty(), "{name}");
    }
    settings.metrics = serde_json::from_value(json!({ "from": [
        { "namespace": "monitoring", "labels": { "app.kubernetes.io/name": "prometheus" } },
        { "namespace": "agents" },
    ] }))
    .unwrap();
    let namespace = |name: &str| json!({ "matchLabels": { "kubernetes.io/metadata.name": name } });
    let pods = json!({ "matchLabels": { "app.kubernetes.io/name": "prometheus" } });
    let rule = json!({
        "from": [
            { "namespaceSelector": namespace("monitoring"), "podSelector": pods },
            { "namespaceSelector": namespace("agents") },
        ],
        "ports": [{ "protocol": "TCP", "port": 8080 }],
    });
    for name in ["ccm", "csi", "autoscaler"] {
        assert_eq!(
            admin(&settings, name),
            std::slice::from_ref(&rule),
            "{name}"
        );
    }
}
