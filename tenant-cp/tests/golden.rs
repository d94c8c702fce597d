//! What is wanted for three typical tenant clusters, object by object and flag by flag.
//!
//! A change in `golden/` is a change for every tenant cluster: read it before you accept it
//! (`INSTA_UPDATE=always cargo test -p tenant-cp --test golden`).

mod fixtures;

use std::collections::BTreeMap;

use api::tenant_cluster::EndpointType;
use fixtures::{TRUST, addresses, limits, minimal, objects, offer, with_events};
use kit_objects::object::Object;
use serde_json::{Value, json};
use tenant_cp::{
    Addresses, Settings, Validated, certificates,
    flags::{Program, managed_flags},
    tenant_objects,
};

fn check(name: &str, value: &impl serde::Serialize) {
    insta::with_settings!({
        snapshot_path => "golden",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_json_snapshot!(name, value);
    });
}

fn values(objects: &[Object]) -> Vec<&Value> {
    objects.iter().map(|object| &object.value).collect()
}

fn node_port() -> Validated {
    let mut v = minimal();
    v.endpoint.type_ = EndpointType::NodePort;
    v.endpoint.host = Some("nodes.example.com".to_owned());
    v.endpoint.port = Some(30443);
    v.endpoint.cert_sans = vec!["api.example.com".to_owned(), "2001:db8::1".to_owned()];
    v.replicas = 3;
    (v.etcd.replicas, v.etcd.wanted, v.etcd.servers) = (3, 3, 3);
    v.etcd.storage_size = "20Gi".to_owned();
    v.etcd.storage_class_name = Some("fast".to_owned());
    v.version = semver::Version::new(1, 34, 4);
    v.registry = "mirror.example.com/k8s".to_owned();
    v.network.dns_domain = "tenant.example".to_owned();
    v.addons.konnectivity.enabled = false;
    v.addons.cni.type_ = api::tenant_cluster::CniType::None;
    let args = |list: &[(&str, &str)]| -> BTreeMap<String, String> {
        list.iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    };
    v.api_server.extra_args = args(&[("event-ttl", "2h"), ("request-timeout", "2m")]);
    v.controller_manager.extra_args = args(&[("node-cidr-mask-size", "25")]);
    v.scheduler.extra_args = args(&[("v", "4")]);
    v.api_server.limits = args(&[("memory", "2Gi")]);
    v
}

fn load_balancer() -> Validated {
    let mut v = minimal();
    v.endpoint.type_ = EndpointType::LoadBalancer;
    v.endpoint.port = Some(443);
    v.endpoint.load_balancer_class = Some("example.com/nlb".to_owned());
    v.endpoint.source_ranges = vec!["10.0.0.0/8".to_owned()];
    v.endpoint.annotations = [("example.com/scheme".to_owned(), "internal".to_owned())].into();
    v.addons.cloud_controller.enabled = true;
    v.storage = Some(offer());
    v.autoscaler = Some(limits());
    v.etcd.events = Some(with_events(true));
    v
}

fn cases() -> [(&'static str, Validated, Addresses); 3] {
    [
        ("minimal", minimal(), addresses("10.96.0.17")),
        ("node-port", node_port(), addresses("nodes.example.com")),
        (
            "load-balancer",
            load_balancer(),
            addresses("lb-1234.eu.example.com"),
        ),
    ]
}

#[test]
fn objects_of_the_management_cluster_are_the_known_ones() {
    for (name, v, addresses) in cases() {
        check(name, &values(&objects(&v, &addresses)));
    }
}

#[test]
fn objects_inside_the_tenant_cluster_are_the_known_ones() {
    let settings = Settings::default();
    for (name, v, addresses) in cases() {
        let objects = tenant_objects::wanted(&v, &settings, &addresses, TRUST);
        check(&format!("bootstrap-{name}"), &values(&objects));
    }
}

#[test]
fn certificates_are_the_known_ones() {
    for (name, v, addresses) in cases() {
        let wants = certificates::wants(&v, &Settings::default(), Some(&addresses));
        let lines: Vec<_> = wants
            .iter()
            .map(|want| {
                json!({
                    "name": want.name,
                    "signer": format!("{:?}", want.signer),
                    "subject": format!("O={:?} CN={}", want.organizations, want.common_name),
                    "usages": [want.server.then_some("server"), want.client.then_some("client")],
                    "dns": want.dns_names,
                    "addresses": want.addresses,
                    "hours": want.lifetime_hours,
                })
            })
            .collect();
        check(&format!("certificates-{name}"), &lines);
    }
}

#[test]
fn flags_that_a_user_may_not_set_are_the_known_ones() {
    let lists: BTreeMap<_, _> = Program::ALL
        .map(|program| (format!("{program:?}"), managed_flags(program)))
        .into();
    check("managed-flags", &lists);
}

#[test]
fn every_certificate_stands_in_the_documentation() {
    let text = include_str!("../../docs/certificates.md");
    let mut v = node_port();
    v.addons.konnectivity.enabled = true;
    v.addons.cloud_controller.enabled = true;
    v.storage = Some(offer());
    v.autoscaler = Some(limits());
    v.etcd.events = Some(with_events(true));
    let wants = certificates::wants(&v, &Settings::default(), Some(&addresses("x")));
    assert!(wants.len() > 15);
    for want in wants {
        let name = want
            .name
            .replace("etcd-0", "etcd-N")
            .replace("etcd-1", "etcd-N");
        let name = name.replace("etcd-2", "etcd-N");
        assert!(
            text.contains(&format!("| `{name}` |")),
            "{name} is not in docs/certificates.md"
        );
    }
}
