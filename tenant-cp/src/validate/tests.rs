//! What users see when something is wrong: every sentence in full. Long because it is one table,
//! which is read against the documentation.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::TenantCluster;
use api::tenant_cluster::{NetworkStatus, TenantClusterStatus};
use semver::Version;
use serde_json::{Value, json};

use super::check::check_with;
use super::*;
use crate::flags::Program;

mod api_server;
mod autoscaler;
mod backup;
mod changes;
mod choices;
mod encryption;
mod etcd;
mod features;
mod limits;
mod locations;
mod nodes;
mod pod_metadata;
mod policy;
mod scheduling;
mod storage;
mod upgrade;

/// A valid TenantCluster as the API stores it, with `patch` merged into it (RFC 7386).
fn tc(patch: &Value) -> TenantCluster {
    let mut object = json!({
        "apiVersion": "covey.dev/v1alpha1",
        "kind": "TenantCluster",
        "metadata": {"name": "demo", "namespace": "team-a", "uid": "0a1b2c3d-0000-4000-8000-000000000000", "generation": 3},
        "spec": {
            "version": "1.35.4",
            "network": {"podCIDR": "10.0.0.0/16", "serviceCIDR": "10.96.0.0/12"},
        },
    });
    merge(&mut object, patch);
    serde_json::from_value(object).unwrap()
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    for (key, value) in patch {
        match target.get_mut(key) {
            _ if value.is_null() => drop(target.as_object_mut().unwrap().remove(key)),
            Some(inner) => merge(inner, value),
            None => target[key] = value.clone(),
        }
    }
}

/// Stands in for the real list, so that these sentences do not depend on it.
fn managed(program: Program) -> BTreeSet<&'static str> {
    match program {
        Program::ApiServer => BTreeSet::from(["etcd-servers"]),
        Program::ControllerManager => BTreeSet::from(["cluster-cidr"]),
        Program::Scheduler => BTreeSet::from(["kubeconfig"]),
    }
}

fn seen(patch: &Value) -> Vec<String> {
    let problems = check_with(&tc(patch), &Settings::default(), &managed);
    for problem in &problems {
        assert!(!problem.message.ends_with('.'), "{problem:?}");
    }
    problems.iter().map(ToString::to_string).collect()
}

fn endpoint(value: &Value) -> Value {
    json!({"spec": {"controlPlane": {"endpoint": value}}})
}

fn network(value: &Value) -> Value {
    json!({"spec": {"network": value}})
}

fn args(value: &Value) -> Value {
    json!({"spec": {"controlPlane": {"apiServer": {"extraArgs": value}}}})
}

fn registry(value: &str) -> Value {
    json!({"spec": {"images": {"registry": value}}})
}

fn etcd(value: &Value) -> Value {
    json!({"spec": {"etcd": value}})
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

const ENDPOINT: &str = "spec.controlPlane.endpoint.";
const ARGS: &str = "spec.controlPlane.apiServer.extraArgs";

#[test]
fn every_bad_input_is_answered_with_a_sentence() {
    let long = "n".repeat(47);
    let big = "x".repeat(262_144);
    let table: Vec<(Value, String)> = [
        // Name
        (
            named(&long),
            "metadata.name: 47 characters are too many: at most 46, because the tenant namespace \
             is called covey-<name>-<10 characters>",
        ),
        (
            named("a.b"),
            "metadata.name: \"a.b\" cannot become part of a namespace's name: use lower-case \
             letters, digits and -, beginning with a letter",
        ),
        (
            named("1a"),
            "metadata.name: \"1a\" cannot become part of a namespace's name: use lower-case \
             letters, digits and -, beginning with a letter",
        ),
        // Version
        (
            json!({"spec": {"version": "1.35"}}),
            "spec.version: \"1.35\" is not a version: write major.minor.patch in full, such as \
             1.35.4",
        ),
        (
            json!({"spec": {"version": "1.33.1"}}),
            "spec.version: Kubernetes 1.33.1 is not supported: choose a patch release of 1.34, \
             1.35 or 1.36",
        ),
        (
            json!({"status": {"version": "1.34.4"}, "spec": {"version": "1.36.3"}}),
            "spec.version: the version cannot go from 1.34.4 to 1.36.3 at once: Kubernetes goes \
             up one minor at a time; go to 1.35 first and wait until status.version says so",
        ),
        // Replicas
        (
            json!({"spec": {"controlPlane": {"replicas": 0}}}),
            "spec.controlPlane.replicas: 0 pods cannot be had: choose 1 to 9",
        ),
        (
            etcd(&json!({"replicas": 2})),
            "spec.etcd.replicas: 2 members cannot be had: choose 1 or 3",
        ),
        // Ranges
        (
            network(&json!({"podCIDR": "10.0.0.0"})),
            "spec.network.podCIDR: \"10.0.0.0\" is not an address range: write address/prefix, \
             such as 10.128.0.0/18",
        ),
        (
            network(&json!({"serviceCIDR": "10.96.0.0/33"})),
            "spec.network.serviceCIDR: \"10.96.0.0/33\" is not an address range: write \
             address/prefix, such as 100.64.0.0/20",
        ),
        (
            network(&json!({"podCIDR": "10.0.1.0/16"})),
            "spec.network.podCIDR: 10.0.1.0/16 starts in the middle of a range: write 10.0.0.0/16",
        ),
        (
            network(&json!({"podCIDR": "10.0.0.0/16,fd00::/56"})),
            "spec.network.podCIDR: \"10.0.0.0/16,fd00::/56\" names more than one range: Covey \
             does not build dual-stack tenant clusters yet; keep one range",
        ),
        (
            network(&json!({"podCIDR": "fd00::/56"})),
            "spec.network.podCIDR: fd00::/56 is IPv6, but tenant clusters of this management \
             cluster speak IPv4 (the operator's pool is 10.128.0.0/9): use an IPv4 range",
        ),
        (
            network(&json!({"podCIDR": "127.0.0.0/16"})),
            "spec.network.podCIDR: 127.0.0.0/16 overlaps 127.0.0.0/8, which is loopback: use a \
             private range, such as one of 10.0.0.0/8",
        ),
        (
            network(&json!({"podCIDR": "169.254.0.0/17"})),
            "spec.network.podCIDR: 169.254.0.0/17 overlaps 169.254.0.0/16, which is link-local: \
             use a private range, such as one of 10.0.0.0/8",
        ),
        (
            network(&json!({"serviceCIDR": "224.0.0.0/16"})),
            "spec.network.serviceCIDR: 224.0.0.0/16 overlaps 224.0.0.0/4, which is multicast: \
             use a private range, such as one of 10.0.0.0/8",
        ),
        (
            network(&json!({"serviceCIDR": "10.96.0.0/11"})),
            "spec.network.serviceCIDR: 10.96.0.0/11 is too large: use a prefix from /12 \
             (largest) to /28 (smallest)",
        ),
        (
            network(&json!({"serviceCIDR": "10.96.0.0/29"})),
            "spec.network.serviceCIDR: 10.96.0.0/29 is too small: use a prefix from /12 \
             (largest) to /28 (smallest)",
        ),
        (
            network(&json!({"podCIDR": "10.0.0.0/25"})),
            "spec.network.podCIDR: 10.0.0.0/25 is too small: use a prefix from /8 (largest) to \
             /24 (smallest)",
        ),
        (
            network(&json!({"serviceCIDR": "10.0.16.0/20"})),
            "spec.network.serviceCIDR: 10.0.16.0/20 overlaps podCIDR 10.0.0.0/16 of the same \
             tenant cluster: choose ranges that do not meet",
        ),
        (
            network(&json!({"dnsDomain": "Cluster.Local"})),
            "spec.network.dnsDomain: \"Cluster.Local\" is not a DNS name: use lower case",
        ),
        (
            network(&json!({"dnsDomain": "cluster.local."})),
            "spec.network.dnsDomain: \"cluster.local.\" is not a DNS name: leave out the dot at \
             the end",
        ),
        (
            network(&json!({"dnsDomain": "my_domain"})),
            "spec.network.dnsDomain: \"my_domain\" is not a DNS name: use lower-case letters, \
             digits and -, in parts of at most 63 characters separated by dots",
        ),
        (
            json!({
                "spec": {"network": {"podCIDR": "10.1.0.0/16"}},
                "status": {"network": {
                    "podCIDR": "10.128.0.0/18", "serviceCIDR": "10.96.0.0/12",
                    "dnsDomain": "cluster.local",
                }},
            }),
            "spec.network.podCIDR: 10.1.0.0/16 differs from 10.128.0.0/18, which is in force and \
             cannot change: set the field to 10.128.0.0/18 or create a new tenant cluster",
        ),
        // Resources
        (
            etcd(&json!({"resources": {"requests": {"cpu": "half"}}})),
            "spec.etcd.resources.requests[cpu]: \"half\" is not a quantity: write a number with \
             an optional suffix, such as 500m, 2 or 1Gi",
        ),
        (
            etcd(&json!({"resources": {"limits": {"memory": "512m"}}})),
            "spec.etcd.resources.limits[memory]: 512m is less than 16Mi, with which nothing \
             starts: mebibytes are written Mi, as in 512Mi (m means thousandths)",
        ),
        (
            etcd(&json!({"resources": {"requests": {"nvidia.com/gpu": 1}}})),
            "spec.etcd.resources.requests[nvidia.com/gpu]: \"nvidia.com/gpu\" cannot be set \
             here: use cpu, memory or ephemeral-storage",
        ),
        (
            etcd(&json!({"resources": {"limits": {"cpu": 0}}})),
            "spec.etcd.resources.limits[cpu]: a limit of 0 lets nothing run: raise it or remove it",
        ),
        (
            json!({"spec": {"controlPlane": {"scheduler": {"resources": {
                "requests": {"cpu": "2"}, "limits": {"cpu": "1500m"},
            }}}}}),
            "spec.controlPlane.scheduler.resources.requests[cpu]: the request 2 is above the \
             limit 1500m: lower the request or raise the limit",
        ),
        (
            etcd(&json!({"storage": {"size": "big"}})),
            "spec.etcd.storage.size: \"big\" is not a quantity: write a number with an optional \
             suffix, such as 500m, 2 or 1Gi",
        ),
        (
            etcd(&json!({"storage": {"size": "100Mi"}})),
            "spec.etcd.storage.size: 100Mi is too small for etcd's data and log: use 1Gi or more",
        ),
        (
            etcd(&json!({"storage": {"storageClassName": "Fast"}})),
            "spec.etcd.storage.storageClassName: \"Fast\" is not the name of a StorageClass: name \
             one of the management cluster's, or remove the field for its default",
        ),
        // Registry
        (
            registry("https://mirror.example.com"),
            "spec.images.registry: \"https://mirror.example.com\" is not a registry: leave out \
             the scheme, as in mirror.example.com/k8s",
        ),
        (
            registry("mirror"),
            "spec.images.registry: \"mirror\" is not a registry: begin with the registry's host, \
             as in docker.io/mirror",
        ),
        (
            registry("mirror.example.com/k8s:1.35"),
            "spec.images.registry: \"mirror.example.com/k8s:1.35\" is not a registry: leave out \
             the tag; Covey adds image names and tags",
        ),
        (
            registry("mirror.example.com:99999/k8s"),
            "spec.images.registry: \"mirror.example.com:99999/k8s\" is not a registry: what \
             follows the first colon is not a port",
        ),
        (
            registry("mirror.example.com/K8s"),
            "spec.images.registry: \"mirror.example.com/K8s\" is not a registry: parts of the \
             path are of a-z, 0-9, and single . _ - in between",
        ),
        (
            registry(""),
            "spec.images.registry: \"\" is not a registry: it is empty; name one or remove the \
             field",
        ),
        (
            registry("me:secret@mirror.example.com"),
            "spec.images.registry: \"me:secret@mirror.example.com\" is not a registry: leave out \
             user and digest, as in mirror.example.com/k8s",
        ),
    ]
    .into_iter()
    .map(|(patch, sentence)| (patch, sentence.to_owned()))
    .chain(
        [
            (
                json!({"type": "NodePort"}),
                "host: a NodePort needs the address or DNS name under which clients reach the \
                 management cluster's nodes",
            ),
            (
                json!({"host": "https://demo.example.com"}),
                "host: \"https://demo.example.com\" is neither an IP address nor a DNS name: \
                 leave out the scheme",
            ),
            (
                json!({"host": "demo.example.com:6443"}),
                "host: \"demo.example.com:6443\" is neither an IP address nor a DNS name: put the \
                 port into endpoint.port",
            ),
            (
                json!({"host": "[fd00::1]"}),
                "host: \"[fd00::1]\" is neither an IP address nor a DNS name: write an IPv6 \
                 address without brackets",
            ),
            (
                json!({"host": "10.0.0.256"}),
                "host: \"10.0.0.256\" is neither an IP address nor a DNS name: the part after the \
                 last dot is a number",
            ),
            (
                json!({"host": "demo.example.com/api"}),
                "host: \"demo.example.com/api\" is neither an IP address nor a DNS name: leave out \
                 everything from the / on",
            ),
            (
                json!({"host": "0.0.0.0"}),
                "host: 0.0.0.0 is not the address of one host: name an address that clients reach",
            ),
            (
                json!({"host": ""}),
                "host: \"\" is neither an IP address nor a DNS name: it is empty; give a name or \
                 remove the field",
            ),
            (
                json!({"port": 70000}),
                "port: 70000 is not a port: choose one from 1 to 65535",
            ),
            (
                json!({"certSANs": ["ok.example.com", "api.*.example.com"]}),
                "certSANs[1]: \"api.*.example.com\" has a * that is not the whole first part: \
                 write *.example.com",
            ),
            (
                json!({"certSANs": ["api example"]}),
                "certSANs[0]: \"api example\" is neither an IP address nor a DNS name: use \
                 lower-case letters, digits and -, in parts of at most 63 characters separated by \
                 dots",
            ),
            (
                json!({"type": "LoadBalancer", "sourceRanges": ["10.0.0.1"]}),
                "sourceRanges[0]: 10.0.0.1 lacks its prefix: write 10.0.0.1/32",
            ),
            (
                json!({"type": "LoadBalancer", "sourceRanges": ["10.0.0.1/8"]}),
                "sourceRanges[0]: 10.0.0.1/8 starts in the middle of a range: write 10.0.0.0/8",
            ),
            (
                json!({"type": "LoadBalancer", "sourceRanges": ["everyone"]}),
                "sourceRanges[0]: \"everyone\" is not an address range: write address/prefix, such \
                 as 10.0.0.0/8",
            ),
            (
                json!({"type": "LoadBalancer", "loadBalancerClass": "a b"}),
                "loadBalancerClass: \"a b\" is not a class: write a name such as \
                 example.com/internal",
            ),
            (
                json!({"annotations": {"a b": ""}}),
                "annotations[a b]: \"a b\" is not a key of an annotation: write prefix/name, with \
                 a DNS name as prefix and at most 63 letters, digits and - _ . as name",
            ),
            (
                json!({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}),
                "annotations[kubectl.kubernetes.io/last-applied-configuration]: \
                 \"kubectl.kubernetes.io/last-applied-configuration\" is written by Covey or \
                 kubectl themselves: remove it",
            ),
            (
                json!({"annotations": {"covey.dev/hash": "x"}}),
                "annotations[covey.dev/hash]: \"covey.dev/hash\" is written by Covey or kubectl \
                 themselves: remove it",
            ),
            (
                json!({"annotations": {"example.com/a": big}}),
                "annotations: 262157 bytes of annotations are too many: keep within 261120",
            ),
        ]
        .map(|(patch, sentence)| (endpoint(&patch), format!("{ENDPOINT}{sentence}"))),
    )
    .chain(
        [
            (
                json!({"--event-ttl": "2h"}),
                "[--event-ttl]: \"--event-ttl\" is not the name of a flag: leave out the dashes in \
                 front",
            ),
            (
                json!({"event-ttl=2h": ""}),
                "[event-ttl=2h]: \"event-ttl=2h\" is not the name of a flag: put what follows the \
                 = into the value",
            ),
            (
                json!({"etcd_servers": "x"}),
                "[etcd_servers]: \"etcd_servers\" is not the name of a flag: write - instead of _",
            ),
            (
                json!({"a\nb": "x"}),
                "[a\\nb]: \"a\\nb\" is not the name of a flag: use lower-case letters, digits and \
                 single - in between, such as event-ttl",
            ),
            (
                json!({"": "x"}),
                "[]: \"\" is not the name of a flag: it is empty; remove it",
            ),
            (
                json!({"etcd-servers": "https://evil.example.com"}),
                "[etcd-servers]: --etcd-servers is set by Covey and would break the tenant \
                 cluster: remove it",
            ),
            (
                json!({"event-ttl": "2h\n--x"}),
                "[event-ttl]: the value holds a line break or another control character: remove it",
            ),
        ]
        .map(|(patch, sentence)| (args(&patch), format!("{ARGS}{sentence}"))),
    )
    .collect();
    assert!(table.len() >= 40, "{}", table.len());
    for (patch, sentence) in &table {
        assert_eq!(seen(patch), [sentence.as_str()], "{patch}");
    }
}

#[test]
fn good_input_is_let_through() {
    for patch in [
        json!({}),
        json!({"spec": {"version": "v1.34.0"}}),
        json!({"status": {"version": "1.34.4"}}),
        named(&"n".repeat(46)),
        json!({"spec": {"addons": {"cni": {"type": "none"}, "csi": {"enabled": true}}}}),
        network(&json!({"podCIDR": "10.244.0.0/16", "serviceCIDR": "10.96.0.0/12"})),
        network(&json!({"podCIDR": "172.16.0.0/24", "serviceCIDR": "192.168.1.0/28"})),
        network(&json!({"podCIDR": null, "serviceCIDR": null, "dnsDomain": "demo.internal"})),
        registry("mirror.example.com/"),
        registry("localhost:5000/a__b/c-d.e"),
        registry("[fd00::1]:5000/k8s"),
        registry("docker.io/library"),
        endpoint(&json!({"type": "NodePort", "host": "192.0.2.7", "port": 80})),
        endpoint(&json!({"host": "fd00::7", "certSANs": ["*.example.com", "10.0.0.1", "::1"]})),
        endpoint(&json!({"type": "LoadBalancer", "sourceRanges": ["10.0.0.0/8", "fd00::/8"]})),
        endpoint(&json!({"annotations": {"metallb.io/pool": "a", "Simple_1": "b"}})),
        args(&json!({"event-ttl": "2h", "v": "4", "feature-gates": "A=true,B=false"})),
        etcd(&json!({"storage": {"size": 8_589_934_592_u64}})),
        etcd(&json!({"resources": {"requests": {"cpu": "1.5"}, "limits": {"cpu": "1500m"}}})),
    ] {
        assert_eq!(seen(&patch), [""; 0], "{patch}");
    }
}

#[test]
fn the_real_list_of_managed_flags_is_used() {
    for (field, flag) in [
        ("apiServer", "etcd-servers"),
        ("controllerManager", "root-ca-file"),
        ("scheduler", "kubeconfig"),
    ] {
        let patch = json!({"spec": {"controlPlane": {field: {"extraArgs": {flag: "x"}}}}});
        let problems = check(&tc(&patch), &Settings::default());
        assert_eq!(problems.len(), 1, "{flag}");
        assert_eq!(problems[0].reason, "FlagManaged");
    }
}

#[test]
fn all_problems_are_said_at_once() {
    let mut bad = json!({"spec": {"version": "1", "etcd": {"replicas": 2}}});
    merge(
        &mut bad,
        &network(&json!({"podCIDR": "x", "serviceCIDR": "y"})),
    );
    assert_eq!(seen(&bad).len(), 4);
    assert_eq!(
        validate(&tc(&bad), &Settings::default()).unwrap_err().len(),
        4
    );
}

#[test]
fn memory_has_a_limit_unless_the_settings_say_none() {
    let limit = |requested: &str, limits: &[(&str, &str)], default: &str| {
        let texts = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            pairs
                .map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned()))
                .collect()
        };
        let requests = texts(&[("memory", requested)]);
        let limits = quantity::with_memory_limit(texts(limits), &requests, default);
        limits.get("memory").cloned()
    };
    assert_eq!(limit("300Mi", &[], "4Gi").as_deref(), Some("4Gi"));
    let twice = limit("8Gi", &[], "4Gi");
    assert_eq!(twice, Some((16_u64 << 30).to_string()));
    let own = limit("1Gi", &[("memory", "1Gi")], "4Gi");
    assert_eq!(own.as_deref(), Some("1Gi"));
    let other = limit("1Gi", &[("cpu", "1")], "4Gi");
    assert_eq!(other.as_deref(), Some("4Gi"));
    assert_eq!(limit("8Gi", &[], "0"), None);
}

#[test]
fn a_valid_one_is_built_with_defaults_filled_in() {
    let patch = json!({"spec": {
        "controlPlane": {"apiServer": {"resources": {
            "requests": {"cpu": "200m"}, "limits": {"memory": "200Mi"},
        }}},
        "images": {"registry": "mirror.example.com/k8s/"},
    }});
    let settings = policy::mirrors();
    let valid = validate(&tc(&patch), &settings).unwrap();
    assert_eq!(valid.tenant_namespace, "covey-demo-0a1b2c3d00");
    assert_eq!((valid.namespace.as_str(), valid.generation), ("team-a", 3));
    assert_eq!(valid.version, Version::new(1, 35, 4));
    assert_eq!(valid.registry, "mirror.example.com/k8s");
    assert_eq!(valid.network.dns_domain, "cluster.local");
    // The user's, the default lowered to the user's limit, and the default as it is.
    assert_eq!(valid.api_server.requests["cpu"], "200m");
    assert_eq!(valid.api_server.requests["memory"], "200Mi");
    assert_eq!(valid.etcd.requests, Settings::default().resources.etcd);
    assert_eq!(valid.api_server.limits["memory"], "200Mi", "the user's own");
    assert_eq!(valid.etcd.limits["memory"], "4Gi");
    assert_eq!(valid.etcd.storage_size, "2Gi");
    assert_eq!((valid.etcd.replicas, valid.replicas), (1, 1));
}

#[test]
fn ranges_in_force_win_over_the_spec_and_are_needed() {
    let open = network(&json!({"podCIDR": null, "serviceCIDR": null}));
    let problems = validate(&tc(&open), &Settings::default()).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].reason, "NetworkUndecided");

    let mut decided = tc(&open);
    decided.status = Some(TenantClusterStatus {
        network: Some(NetworkStatus {
            pod_cidr: "10.200.0.0/18".to_owned(),
            service_cidr: "100.64.16.0/20".to_owned(),
            dns_domain: "x.example".to_owned(),
        }),
        ..TenantClusterStatus::default()
    });
    let valid = validate(&decided, &Settings::default()).unwrap();
    assert_eq!(valid.network.pod_cidr.to_string(), "10.200.0.0/18");
    assert_eq!(valid.network.service_cidr.to_string(), "100.64.16.0/20");
    assert_eq!(valid.network.dns_domain, "x.example");
}

#[test]
fn what_was_never_stored_is_not_built() {
    let problems = validate(
        &tc(&json!({"metadata": {"uid": null}})),
        &Settings::default(),
    );
    assert_eq!(problems.unwrap_err()[0].reason, "NotStored");
}

#[test]
fn amounts_of_memory_are_whole_bytes() {
    for (text, amount) in [
        ("1Gi", Some(1 << 30)),
        ("4G", Some(4_000_000_000)),
        ("1.5Gi", Some(3 << 29)),
        ("0", Some(0)),
        ("512m", None),
        ("lots", None),
        ("99Ei", None),
    ] {
        assert_eq!(bytes(text), amount, "{text}");
    }
}

#[test]
fn quantities_are_compared_by_value() {
    for (one, other) in [
        ("1000m", "1"),
        ("1Gi", "1073741824"),
        ("1.5", "1500m"),
        ("1e3", "1k"),
        ("2E", "2000P"),
        (".5", "500m"),
        ("1.", "1"),
    ] {
        assert_eq!(
            quantity::nanos(one),
            quantity::nanos(other),
            "{one} {other}"
        );
        assert!(quantity::nanos(one).is_some());
    }
    for bad in [
        "",
        ".",
        "1.2.3",
        "Mi",
        "1Xi",
        "-1",
        "+1",
        "1 Gi",
        "1e",
        "1e99",
        "999999999999Ei",
    ] {
        assert_eq!(quantity::nanos(bad), None, "{bad}");
    }
}

#[test]
fn the_default_configuration_is_valid_and_a_bad_one_is_explained() {
    let mut settings = Settings::default();
    assert_eq!(check_settings(&settings), []);
    settings.etcd_image = "etcd:3.5.9-0".to_owned();
    settings.registry = "http://registry".to_owned();
    settings.orphans.remove_after = Some("a day".into());
    settings
        .resources
        .etcd
        .insert("cpu".to_owned(), "lots".to_owned());
    let problems: Vec<String> = check_settings(&settings)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        problems,
        [
            "etcdImage: etcd 3.5.9-0 has known ways around authorisation: use 3.6.14 or later",
            "registry: \"http://registry\" is not a registry: leave out the scheme, as in \
             mirror.example.com/k8s",
            "orphans.removeAfter: \"a day\" is not a length of time: write hours, minutes and seconds, \
             such as 24h, or null to remove nothing",
            "resources.etcd: \"lots\" is not a quantity: write a number with an optional suffix, \
             such as 500m, 2 or 1Gi",
        ]
    );
}

#[test]
fn orphans_are_kept_for_a_day_or_for_ever() {
    let kept = |settings: &str| {
        let settings: Settings = serde_json::from_str(settings).unwrap();
        settings.orphans.remove_after().map(|time| time.as_secs())
    };
    assert_eq!(kept("{}"), Some(24 * 60 * 60));
    assert_eq!(kept(r#"{"orphans": {}}"#), Some(24 * 60 * 60));
    assert_eq!(
        kept(r#"{"orphans": {"removeAfter": "90m"}}"#),
        Some(90 * 60)
    );
    assert_eq!(kept(r#"{"orphans": {"removeAfter": "0s"}}"#), None);
    assert_eq!(kept(r#"{"orphans": {"removeAfter": null}}"#), None);
}
