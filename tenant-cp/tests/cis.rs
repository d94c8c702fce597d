//! The control-plane checks of the CIS Kubernetes benchmark 1.12 (kube-bench `cis-1.12`), as far as
//! flags decide them, hold by default.
//!
//! Not here: 1.2.1 (anonymous access is limited by `authentication.yaml`, checked below), 1.2.11
//! (AlwaysPullImages only has to be considered; it would make every pod wait for a registry).

mod fixtures;

use std::collections::BTreeMap;

use fixtures::{addresses, minimal, objects};
use k8s_openapi::ByteString;
use kit_objects::object::Object;
use tenant_cp::{Settings, certificates};

/// Check, container, flag, and what the value must hold; `!` before it: must not hold; `-`: the flag
/// must not be there.
const CHECKS: &[(&str, &str, &str, &str)] = &[
    ("1.2.2", "apiserver", "token-auth-file", "-"),
    (
        "1.2.3",
        "apiserver",
        "enable-admission-plugins",
        "DenyServiceExternalIPs",
    ),
    ("1.2.4", "apiserver", "kubelet-client-certificate", ".crt"),
    ("1.2.4", "apiserver", "kubelet-client-key", ".key"),
    (
        "1.2.5",
        "apiserver",
        "kubelet-certificate-authority",
        "kubelet-serving-ca.crt",
    ),
    ("1.2.6", "apiserver", "authorization-mode", "!AlwaysAllow"),
    ("1.2.7", "apiserver", "authorization-mode", "Node"),
    ("1.2.8", "apiserver", "authorization-mode", "RBAC"),
    (
        "1.2.9",
        "apiserver",
        "enable-admission-plugins",
        "EventRateLimit",
    ),
    (
        "1.2.10",
        "apiserver",
        "enable-admission-plugins",
        "!AlwaysAdmit",
    ),
    ("1.2.12", "apiserver", "disable-admission-plugins", "-"),
    ("1.2.13", "apiserver", "disable-admission-plugins", "-"),
    (
        "1.2.14",
        "apiserver",
        "enable-admission-plugins",
        "NodeRestriction",
    ),
    ("1.2.15", "apiserver", "profiling", "false"),
    ("1.2.16", "apiserver", "audit-log-path", "/"),
    ("1.2.17", "apiserver", "audit-log-maxage", "30"),
    ("1.2.18", "apiserver", "audit-log-maxbackup", "10"),
    ("1.2.19", "apiserver", "audit-log-maxsize", "100"),
    ("1.2.20", "apiserver", "request-timeout", "1m0s"),
    ("1.2.21", "apiserver", "service-account-lookup", "true"),
    ("1.2.22", "apiserver", "service-account-key-file", ".pub"),
    ("1.2.23", "apiserver", "etcd-certfile", ".crt"),
    ("1.2.23", "apiserver", "etcd-keyfile", ".key"),
    ("1.2.24", "apiserver", "tls-cert-file", ".crt"),
    ("1.2.24", "apiserver", "tls-private-key-file", ".key"),
    ("1.2.25", "apiserver", "client-ca-file", "clients.crt"),
    ("1.2.26", "apiserver", "etcd-cafile", "etcd-ca.crt"),
    (
        "1.2.27",
        "apiserver",
        "encryption-provider-config",
        "encryption.yaml",
    ),
    (
        "1.2.29",
        "apiserver",
        "tls-cipher-suites",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    ),
    ("1.2.29", "apiserver", "tls-cipher-suites", "!CBC"),
    (
        "1.2.30",
        "apiserver",
        "service-account-extend-token-expiration",
        "false",
    ),
    (
        "1.3.1",
        "controller-manager",
        "terminated-pod-gc-threshold",
        "1000",
    ),
    ("1.3.2", "controller-manager", "profiling", "false"),
    (
        "1.3.3",
        "controller-manager",
        "use-service-account-credentials",
        "true",
    ),
    (
        "1.3.4",
        "controller-manager",
        "service-account-private-key-file",
        ".key",
    ),
    ("1.3.5", "controller-manager", "root-ca-file", "ca.crt"),
    ("1.3.6", "controller-manager", "feature-gates", "-"),
    ("1.3.7", "controller-manager", "bind-address", "127.0.0.1"),
    ("1.4.1", "scheduler", "profiling", "false"),
    ("1.4.2", "scheduler", "bind-address", "127.0.0.1"),
    ("2.1", "etcd", "cert-file", ".crt"),
    ("2.1", "etcd", "key-file", ".key"),
    ("2.2", "etcd", "client-cert-auth", "true"),
    ("2.3", "etcd", "auto-tls", "-"),
    ("2.4", "etcd", "peer-cert-file", ".crt"),
    ("2.4", "etcd", "peer-key-file", ".key"),
    ("2.5", "etcd", "peer-client-cert-auth", "true"),
    ("2.6", "etcd", "peer-auto-tls", "-"),
    ("2.7", "etcd", "trusted-ca-file", "etcd-ca.crt"),
    (
        "3.2.1",
        "apiserver",
        "audit-policy-file",
        "audit-policy.yaml",
    ),
];

fn flags(objects: &[Object]) -> BTreeMap<(String, String), String> {
    let mut flags = BTreeMap::new();
    for object in objects {
        let pod = &object.value["spec"]["template"]["spec"];
        for list in ["initContainers", "containers"] {
            for container in pod[list].as_array().into_iter().flatten() {
                let name = container["name"].as_str().unwrap_or_default();
                for arg in container["args"].as_array().into_iter().flatten() {
                    let text = arg.as_str().unwrap_or_default().trim_start_matches("--");
                    let (flag, value) = text.split_once('=').unwrap_or((text, ""));
                    flags.insert((name.to_owned(), flag.to_owned()), value.to_owned());
                }
            }
        }
    }
    flags
}

#[test]
fn checks_of_the_benchmark_hold_by_default() {
    let flags = flags(&objects(&minimal(), &addresses("x")));
    let failed: Vec<_> = CHECKS
        .iter()
        .filter(|(_, container, flag, rule)| {
            let value = flags.get(&((*container).to_owned(), (*flag).to_owned()));
            let holds = match (*rule, value) {
                ("-", value) => value.is_none(),
                (_, None) => false,
                (rule, Some(value)) => match rule.strip_prefix('!') {
                    Some(forbidden) => !value.contains(forbidden),
                    None => value.contains(rule),
                },
            };
            !holds
        })
        .collect();
    assert_eq!(failed, Vec::<&(&str, &str, &str, &str)>::new());
}

/// The server lets in whoever connects unless all of this is set (CVE-2026-16242 was just that).
#[test]
fn nobody_without_a_token_becomes_an_agent_of_konnectivity() {
    let flags = flags(&objects(&minimal(), &addresses("x")));
    let flag = |name: &str| {
        flags
            .get(&("konnectivity-server".to_owned(), name.to_owned()))
            .map(String::as_str)
    };
    assert_eq!(flag("agent-namespace"), Some("kube-system"));
    assert_eq!(flag("agent-service-account"), Some("konnectivity-agent"));
    assert_eq!(
        flag("authentication-audience"),
        Some("system:konnectivity-server")
    );
    assert!(flag("kubeconfig").is_some() && flag("cluster-cert").is_some());
    // The API server comes through a socket that only this pod has; nobody else may.
    assert_eq!(
        (flag("mode"), flag("server-port")),
        (Some("grpc"), Some("0"))
    );
    assert!(flag("uds-name").is_some_and(|path| path.starts_with("/run/konnectivity/")));
    assert_eq!(flag("admin-bind-address"), Some("127.0.0.1"));
    assert_eq!(flag("enable-profiling"), None);
}

#[test]
fn anonymous_requests_reach_health_and_cluster_info_only() {
    let v = minimal();
    let wants = certificates::wants(&v, &Settings::default(), Some(&addresses("x")));
    let names = wants.iter().map(|want| want.name.as_str());
    let material = fixtures::material(names, "C");
    let secrets = certificates::leaf_secrets(&v, &material, Some(&fixtures::etcd_identity()));
    let secret = secrets
        .iter()
        .find(|secret| secret.name == "apiserver")
        .unwrap();
    let file = |name: &str| -> serde_json::Value {
        let bytes: ByteString = serde_json::from_value(secret.value["data"][name].clone()).unwrap();
        serde_saphyr::from_str(std::str::from_utf8(&bytes.0).unwrap()).unwrap()
    };
    let paths: Vec<_> = file("authentication.yaml")["anonymous"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| condition["path"].as_str().unwrap().to_owned())
        .collect();
    let cluster_info = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
    assert_eq!(paths, ["/livez", "/readyz", "/healthz", cluster_info]);

    // 1.2.28 and 3.2.1: the first provider encrypts, and what is not named otherwise is recorded.
    let encryption = file("encryption.yaml");
    let first = encryption["resources"][0]["providers"][0]
        .as_object()
        .unwrap();
    assert_eq!(first.keys().collect::<Vec<_>>(), ["secretbox"]);
    let policy = file("audit-policy.yaml");
    assert_eq!(
        policy["rules"].as_array().unwrap().last().unwrap()["level"],
        "Metadata"
    );
}
