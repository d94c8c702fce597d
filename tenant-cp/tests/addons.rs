//! What every addon must be, and what flannel's script makes of flannel's answer.
//!
//! Invariant: the script is run, by the shell of this machine, not read.
#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

mod fixtures;

use std::process::Command;

use api::tenant_cluster::EndpointType;
use fixtures::{TRUST, addresses, minimal, validated};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::{ConfigMap, Namespace, Service, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kit_objects::object::Object;
use proptest::prelude::*;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tenant_cp::{
    Settings, Validated,
    addons::{
        addon::Addon, coredns::CoreDns, flannel::Flannel, konnectivity::Konnectivity,
        kube_proxy::KubeProxy, registry,
    },
    management_objects, tenant_objects,
};

fn bootstrap(v: &Validated) -> Vec<Object> {
    tenant_objects::wanted(v, &Settings::default(), &addresses("10.96.0.17"), TRUST)
}

fn addon(object: &Object) -> Option<&str> {
    object.value["metadata"]["labels"][api::names::LABEL_ADDON].as_str()
}

fn of_addons(v: &Validated) -> Vec<Object> {
    bootstrap(v)
        .into_iter()
        .filter(|object| addon(object).is_some())
        .collect()
}

fn workload(which: &dyn Addon) -> Value {
    let objects = bootstrap(&minimal());
    let found = objects
        .into_iter()
        .find(|object| Some(object.key()) == which.workload());
    found.unwrap().value
}

fn pod(which: &dyn Addon) -> Value {
    workload(which)["spec"]["template"]["spec"].clone()
}

/// A manifest that is read as its type and written again is the same: nothing in it is misspelt.
fn survives<T: DeserializeOwned + Serialize>(value: &Value) -> bool {
    let typed: T = serde_json::from_value(value.clone()).unwrap();
    let mut written = serde_json::to_value(typed).unwrap();
    written["apiVersion"] = value["apiVersion"].clone();
    written["kind"] = value["kind"].clone();
    written == *value
}

#[test]
fn every_manifest_is_what_its_type_says() {
    let objects = of_addons(&minimal());
    assert!(objects.len() > 20);
    for object in objects {
        let value = &object.value;
        let same = match object.kind.as_str() {
            "ClusterRole" => survives::<ClusterRole>(value),
            "ClusterRoleBinding" => survives::<ClusterRoleBinding>(value),
            "ConfigMap" => survives::<ConfigMap>(value),
            "DaemonSet" => survives::<DaemonSet>(value),
            "Deployment" => survives::<Deployment>(value),
            "Namespace" => survives::<Namespace>(value),
            "Role" => survives::<Role>(value),
            "RoleBinding" => survives::<RoleBinding>(value),
            "Service" => survives::<Service>(value),
            "ServiceAccount" => survives::<ServiceAccount>(value),
            _ => false,
        };
        assert!(same, "{}: {value:#}", object.key());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn exactly_the_wanted_addons_are_there_and_each_has_its_workload(v in validated()) {
        let objects = bootstrap(&v);
        for which in registry::ALL {
            let its: Vec<_> =
                objects.iter().filter(|object| addon(object) == Some(which.name())).collect();
            prop_assert_eq!(!its.is_empty(), which.is_wanted(&v), "{:?}", which);
            if let Some(workload) = which.workload() {
                let there = its.iter().any(|object| object.key() == workload);
                prop_assert_eq!(there, which.is_wanted(&v), "{:?}", which);
            }
        }
    }

    #[test]
    fn selectors_find_the_pods(v in validated()) {
        for object in of_addons(&v) {
            let spec = &object.value["spec"];
            if let Some(selector) = spec["selector"]["matchLabels"].as_object() {
                for (key, value) in selector {
                    prop_assert_eq!(&spec["template"]["metadata"]["labels"][key], value);
                }
            }
        }
    }
}

#[test]
fn what_nodes_need_to_get_ready_reaches_the_api_without_kube_proxy() {
    for which in [&Flannel as &dyn Addon, &Konnectivity] {
        let pod = pod(which);
        assert_eq!(
            (&pod["hostNetwork"], &pod["dnsPolicy"]),
            (&json!(true), &json!("Default"))
        );
        let variables = pod["containers"][0]["env"].as_array().unwrap();
        let host = json!({ "name": "KUBERNETES_SERVICE_HOST", "value": "10.96.0.17" });
        assert!(variables.contains(&host), "{which:?}");
        assert_eq!(pod["tolerations"], json!([{ "operator": "Exists" }]));
    }
    let objects = bootstrap(&minimal());
    let files = objects
        .iter()
        .find(|o| o.kind == "ConfigMap" && o.name == "kube-proxy")
        .unwrap();
    let kubeconfig = files.value["data"]["kubeconfig.conf"].as_str().unwrap();
    let kubeconfig: Value = serde_saphyr::from_str(kubeconfig).unwrap();
    assert_eq!(
        kubeconfig["clusters"][0]["cluster"]["server"],
        "https://10.96.0.17:6443"
    );
}

#[test]
fn dns_is_where_kubelets_look_for_it() {
    let objects = bootstrap(&minimal());
    let find = |name: &str| objects.iter().find(|object| object.name == name).unwrap();
    let kubelet = find("kubelet-config").value["data"]["kubelet"]
        .as_str()
        .unwrap();
    let kubelet: Value = serde_saphyr::from_str(kubelet).unwrap();
    assert_eq!(
        kubelet["clusterDNS"][0],
        find("kube-dns").value["spec"]["clusterIP"]
    );
    assert_eq!(kubelet["clusterDNS"][0], "100.64.0.10");
}

#[test]
fn agents_token_is_for_the_servers_alone_and_their_authority_is_konnectivitys() {
    let v = minimal();
    let pod = pod(&Konnectivity);
    let token = &pod["volumes"][1]["projected"]["sources"][0]["serviceAccountToken"];
    let server = management_objects::workloads(
        &v,
        &Settings::default(),
        &addresses("x"),
        &Default::default(),
    );
    let server = server
        .iter()
        .find(|object| object.name == "control-plane")
        .unwrap();
    let args = &server.value["spec"]["template"]["spec"]["initContainers"][0]["args"];
    let audience = format!(
        "--authentication-audience={}",
        token["audience"].as_str().unwrap()
    );
    assert!(args.as_array().unwrap().contains(&json!(audience)));
    let objects = bootstrap(&v);
    let authority = objects
        .iter()
        .find(|object| object.name == "konnectivity-ca")
        .unwrap();
    assert_eq!(authority.value["data"]["ca.crt"], "KONNECTIVITY-CA");
    let args = &pod["containers"][0]["args"];
    for flag in [
        "--proxy-server-host=10.96.0.18",
        "--ca-cert=/etc/konnectivity/ca.crt",
    ] {
        assert!(args.as_array().unwrap().contains(&json!(flag)), "{flag}");
    }
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
}

/// A tenant cluster with nodes elsewhere, and what is inside it.
fn published(type_: EndpointType, host: &str) -> (Validated, Vec<Object>) {
    let mut v = minimal();
    v.endpoint.type_ = type_;
    v.endpoint.konnectivity_port = Some(31132);
    let inside = tenant_objects::wanted(&v, &Settings::default(), &addresses(host), TRUST);
    (v, inside)
}

fn arguments(daemon_set: &Value) -> Vec<&str> {
    let arguments = &daemon_set["spec"]["template"]["spec"]["containers"][0]["args"];
    arguments
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

#[test]
fn agents_elsewhere_dial_the_endpoint_and_those_inside_do_not_depend_on_it() {
    let (v, inside) = published(EndpointType::LoadBalancer, "203.0.113.7");
    let find = |name: &str| {
        let mut all = inside.iter();
        all.find(|object| object.name == name && object.kind == "DaemonSet")
            .unwrap()
    };
    let far = &find("konnectivity-agent-elsewhere").value;
    let said = arguments(far);
    assert!(
        said.contains(&"--proxy-server-host=203.0.113.7"),
        "{said:?}"
    );
    assert!(said.contains(&"--proxy-server-port=31132"), "{said:?}");
    let pod = &far["spec"]["template"]["spec"];
    assert_eq!(
        pod["nodeSelector"],
        json!({ "kubernetes.io/os": "linux", "covey.dev/elsewhere": "true" })
    );
    let near = &find("konnectivity-agent").value;
    let said = arguments(near);
    assert!(said.contains(&"--proxy-server-host=10.96.0.18"), "{said:?}");
    assert!(said.contains(&"--proxy-server-port=8132"), "{said:?}");
    let terms = &near["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(
        terms["nodeSelectorTerms"][0]["matchExpressions"],
        json!([{ "key": "covey.dev/elsewhere", "operator": "DoesNotExist" }])
    );
    // What they see is in the servers' certificate.
    let wants =
        tenant_cp::certificates::wants(&v, &Settings::default(), Some(&addresses("203.0.113.7")));
    let server = wants
        .iter()
        .find(|want| want.name == "konnectivity-server")
        .unwrap();
    let outside: std::net::IpAddr = "203.0.113.7".parse().unwrap();
    assert!(server.addresses.contains(&outside), "{server:?}");
    let named = tenant_cp::certificates::wants(
        &v,
        &Settings::default(),
        Some(&addresses("demo.example.com")),
    );
    let server = named
        .iter()
        .find(|want| want.name == "konnectivity-server")
        .unwrap();
    assert!(
        server.dns_names.contains(&"demo.example.com".to_owned()),
        "{server:?}"
    );
    // Nobody else has a second one.
    let plain = bootstrap(&minimal());
    assert!(
        !plain
            .iter()
            .any(|object| object.name == "konnectivity-agent-elsewhere")
    );
}

#[test]
fn konnectivity_is_published_by_the_service_of_the_api() {
    let port = |type_: EndpointType| {
        let (v, _) = published(type_, "203.0.113.7");
        let services = management_objects::base(&v, &Settings::default());
        let service = services
            .into_iter()
            .find(|object| object.name == "control-plane");
        service.unwrap().value["spec"]["ports"][1].clone()
    };
    let wanted = |port: i32| json!({ "name": "konnectivity", "protocol": "TCP", "port": port, "targetPort": 8132 });
    assert_eq!(port(EndpointType::LoadBalancer), wanted(31132));
    let mut of_nodes = wanted(8132);
    of_nodes["nodePort"] = json!(31132);
    assert_eq!(port(EndpointType::NodePort), of_nodes);
    assert_eq!(port(EndpointType::ClusterIP), Value::Null);
}

#[test]
fn service_kubernetes_leads_where_nodes_elsewhere_reach_it_if_that_is_an_address() {
    let leads = |host: &str, is_published: bool| {
        let mut v = minimal();
        v.endpoint.type_ = EndpointType::LoadBalancer;
        v.endpoint.konnectivity_port = Some(8132).filter(|_| is_published);
        let mut given = addresses(host);
        given.endpoint.as_mut().unwrap().port = 443;
        let inside = tenant_objects::wanted(&v, &Settings::default(), &given, TRUST);
        let find = |kind: &str| {
            let mut all = inside.iter();
            all.find(|o| o.name == "kubernetes" && o.value["kind"] == kind)
                .unwrap()
                .value
                .clone()
        };
        let (slice, old) = (find("EndpointSlice"), find("Endpoints"));
        let address = &slice["endpoints"][0]["addresses"][0];
        assert_eq!(*address, old["subsets"][0]["addresses"][0]["ip"]);
        assert_eq!(
            slice["ports"][0]["port"],
            old["subsets"][0]["ports"][0]["port"]
        );
        format!(
            "{} {}",
            address.as_str().unwrap(),
            slice["ports"][0]["port"]
        )
    };
    assert_eq!(leads("203.0.113.7", true), "203.0.113.7 443");
    assert_eq!(leads("203.0.113.7", false), "10.96.0.17 6443");
    // A name is no address; the type of the slice is IPv4 for good; and these are refused there.
    for host in [
        "demo.example.com",
        "2001:db8::7",
        "127.0.0.1",
        "169.254.1.1",
    ] {
        assert_eq!(leads(host, true), "10.96.0.17 6443", "{host}");
    }
}

#[test]
fn file_that_a_program_reads_only_at_the_start_replaces_its_pods() {
    let annotations = |v: &Validated, which: &dyn Addon| {
        let objects = bootstrap(v);
        let found = objects
            .into_iter()
            .find(|object| Some(object.key()) == which.workload())
            .unwrap();
        found.value["spec"]["template"]["metadata"]["annotations"].clone()
    };
    let plain = minimal();
    let mut other = minimal();
    other.network.pod_cidr = "10.129.0.0/18".parse().unwrap();
    other.network.dns_domain = "other".to_owned();
    for which in [&CoreDns as &dyn Addon, &KubeProxy, &Flannel] {
        assert_ne!(
            annotations(&plain, which),
            annotations(&other, which),
            "{which:?}"
        );
    }
}

#[test]
fn image_of_flannel_comes_from_its_own_registry_or_from_the_mirror() {
    let image = |registry: &str| {
        let mut v = minimal();
        registry.clone_into(&mut v.registry);
        let objects = bootstrap(&v);
        let found = objects
            .iter()
            .find(|object| Some(object.key()) == Flannel.workload())
            .unwrap();
        let container = &found.value["spec"]["template"]["spec"]["containers"][0];
        container["image"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        image("registry.k8s.io"),
        "ghcr.io/flannel-io/flannel:v0.28.4"
    );
    assert_eq!(
        image("m.example.com/k8s"),
        "m.example.com/k8s/flannel-io/flannel:v0.28.4"
    );
}

/// Runs flannel's script with a flanneld that answers with these lines; gives the configuration.
fn run_script(answer: &str) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    for folder in ["run", "net.d"] {
        std::fs::create_dir(dir.path().join(folder)).unwrap();
    }
    // What an earlier run left must not be taken for the answer.
    std::fs::write(
        path("run/subnet.env"),
        "FLANNEL_SUBNET=10.9.9.1/24\nFLANNEL_MTU=1\n",
    )
    .unwrap();
    let daemon = format!("printf '{answer}' > {}", path("run/subnet.env"));
    std::fs::write(path("flanneld"), format!("#!/bin/sh\n{daemon}\n")).unwrap();
    let script = pod(&Flannel)["containers"][0]["command"][2]
        .as_str()
        .unwrap()
        .to_owned();
    let script = script
        .replace("/run/flannel", &path("run"))
        .replace("/etc/cni/net.d", &path("net.d"))
        .replace(
            "exec /opt/bin/flanneld",
            &format!("exec sh {}", path("flanneld")),
        );
    // It ends when the last of its processes has closed the pipe.
    let output = Command::new("sh").args(["-ec", &script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let files: Vec<_> = std::fs::read_dir(path("net.d"))
        .unwrap()
        .map(|f| f.unwrap().file_name())
        .collect();
    assert_eq!(files, ["10-flannel.conflist"]);
    let text = std::fs::read_to_string(path("net.d/10-flannel.conflist")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn network_of_a_node_is_what_flannel_answered() {
    for (subnet, range) in [
        ("10.128.3.1/24", "10.128.3.0/24"),
        ("10.128.3.65/26", "10.128.3.64/26"),
        ("10.128.3.129/25", "10.128.3.128/25"),
    ] {
        let answer = format!(
            "FLANNEL_NETWORK=10.128.0.0/18\\nFLANNEL_SUBNET={subnet}\\nFLANNEL_MTU=1450\\nFLANNEL_IPMASQ=true\\n"
        );
        let configuration = run_script(&answer);
        let bridge = &configuration["plugins"][0];
        assert_eq!(bridge["ipam"]["ranges"], json!([[{ "subnet": range }]]));
        assert_eq!(
            (&bridge["mtu"], &bridge["hairpinMode"]),
            (&json!(1450), &json!(true))
        );
        let plugins: Vec<_> = configuration["plugins"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| &p["type"])
            .collect();
        assert_eq!(plugins, ["bridge", "portmap"]);
    }
}
