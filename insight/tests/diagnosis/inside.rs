//! What is seen from here, before an installation, and inside of a tenant cluster.
//!
//! Invariant: each row begins with a whole installation. Long because it is one table.

use insight::before::Before;
use insight::check::Check;
use insight::diagnosis::diagnose;
use insight::facts::Facts;
use insight::finding::Level;
use insight::here::{Endpoint, Here, Kubeconfig, Lead};
use insight::inside::{Inside, RemovedApi};
use kit_objects::known::Known;
use serde_json::{Value, json};

use crate::installation::{UID, cluster, machine, pool, read, said, whole, with_cluster};
use crate::table::Row;

const OLD: &str = "2026-11-27T11:00:00Z";

/// What was seen from here, and nothing is wrong with it.
pub(crate) fn here() -> Here {
    Here {
        kubeconfig: Kubeconfig::Usable,
        leads: Known::Known(vec![lead()]),
        endpoints: [(demo(), Endpoint::Answered)].into(),
    }
}

fn demo() -> (String, String) {
    ("team-a".to_owned(), "demo".to_owned())
}

fn lead() -> Lead {
    Lead {
        context: "team-a/demo".to_owned(),
        namespace: "team-a".to_owned(),
        name: "demo".to_owned(),
        uid: UID.to_owned(),
        server: "https://10.96.3.7:6443".to_owned(),
    }
}

fn node(name: &str) -> Value {
    json!({"metadata": {"name": name, "creationTimestamp": OLD, "labels": {"covey.dev/machine": name}},
        "spec": {"podCIDRs": ["10.128.0.0/24"]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.35.4", "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "",
                "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "linux", "osImage": "",
                "systemUUID": ""}}})
}

fn slice(namespace: &str, service: &str, ready: bool) -> Value {
    json!({"metadata": {"name": format!("{service}-x"), "namespace": namespace, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.128.0.2"], "conditions": {"ready": ready}}]})
}

fn balancer(ingress: &Value) -> Value {
    json!({"metadata": {"name": "web", "namespace": "shop", "creationTimestamp": OLD},
        "spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": ingress}}})
}

fn claim(phase: &str) -> Value {
    json!({"metadata": {"name": "data", "namespace": "shop", "creationTimestamp": OLD},
        "spec": {"storageClassName": "covey"}, "status": {"phase": phase}})
}

fn webhook(policy: &str, resources: &[&str]) -> Value {
    json!({"metadata": {"name": "guard"}, "webhooks": [{"name": "guard.example.com", "admissionReviewVersions": ["v1"],
        "sideEffects": "None", "failurePolicy": policy, "clientConfig": {"service": {"namespace": "guard", "name": "guard"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": resources}]}]})
}

/// What was read inside, and nothing is wrong with it.
pub(crate) fn inside() -> Inside {
    Inside {
        nodes: Known::Known(vec![
            read(node("demo-workers-aaaaa")),
            read(node("demo-workers-bbbbb")),
        ]),
        services: Known::Known(vec![read(balancer(&json!([{"ip": "192.0.2.1"}])))]),
        slices: Known::Known(vec![
            read(slice("kube-system", "kube-dns", true)),
            read(slice("guard", "guard", true)),
        ]),
        claims: Known::Known(vec![read(claim("Bound"))]),
        classes: Known::Known(vec![read(
            json!({"metadata": {"name": "covey"}, "provisioner": "csi.covey.dev"}),
        )]),
        attachments: Known::Known(vec![read(json!({"metadata": {"name": "a"},
            "spec": {"attacher": "csi.covey.dev", "nodeName": "demo-workers-aaaaa", "source": {"persistentVolumeName": "pv"}},
            "status": {"attached": true}}))]),
        validating: Known::Known(vec![read(webhook("Fail", &["pods"]))]),
        mutating: Known::Known(vec![]),
        warnings: Known::Known(vec![]),
        not_ready: Known::Known(vec![]),
        removed: Known::Known(vec![]),
    }
}

/// What was read inside, to be broken.
pub(crate) fn within(facts: &mut Facts) -> &mut Inside {
    match &mut facts.inside {
        Known::Known(inside) => inside,
        other => panic!("{other:?}"),
    }
}

/// A management cluster that has what an installation needs.
fn before() -> Before {
    let mut node = node("one");
    node["metadata"]["labels"]["kubevirt.io/schedulable"] = json!("true");
    Before {
        kubevirt: Known::Known("v1.7.0".to_owned()),
        nodes: Known::Known(vec![read(node)]),
        has_service_ranges: Known::Known(true),
        may_all: Known::Known(true),
    }
}

fn with_node(facts: &mut Facts, change: fn(&mut Value)) {
    let mut changed = node("demo-workers-bbbbb");
    change(&mut changed);
    within(facts).nodes = Known::Known(vec![read(node("demo-workers-aaaaa")), read(changed)]);
}

fn removed_in(minor: u32) -> RemovedApi {
    RemovedApi {
        name: "flowschemas.v1beta3.flowcontrol.apiserver.k8s.io".to_owned(),
        removed_in: (1, minor),
    }
}

pub(crate) const TABLE: &[Row] = &[
    (
        "a kubeconfig without the context",
        |f| {
            f.here.kubeconfig = Kubeconfig::Unusable {
                what: "no context nowhere".to_owned(),
                mend: "name one of `kubectl config get-contexts`".to_owned(),
            };
        },
        "kubeconfig",
        Level::Error,
        "get-contexts",
    ),
    (
        "an endpoint that nobody reaches from here",
        |f| {
            let mut of = cluster();
            of["spec"]["controlPlane"] = json!({"endpoint": {"type": "LoadBalancer"}});
            f.clusters = Known::Known(vec![read(of)]);
            let what = "connection refused".to_owned();
            f.here.endpoints.insert(demo(), Endpoint::Silent { what });
        },
        "endpoint-reach",
        Level::Warning,
        "sourceRanges",
    ),
    (
        "a ClusterIP from outside",
        |f| {
            let mut of = cluster();
            of["spec"]["controlPlane"] = json!({"endpoint": {"type": "ClusterIP"}});
            f.clusters = Known::Known(vec![read(of)]);
            let what = "no answer within 3 s".to_owned();
            f.here.endpoints.insert(demo(), Endpoint::Silent { what });
        },
        "endpoint-reach",
        Level::Info,
        "covey connect demo",
    ),
    (
        "another cluster at the endpoint",
        |f| {
            let what = "invalid peer certificate: UnknownIssuer".to_owned();
            f.here
                .endpoints
                .insert(demo(), Endpoint::NotBelieved { what });
        },
        "endpoint-tls",
        Level::Warning,
        "covey kubeconfig demo --merge",
    ),
    (
        "a host that is not in the certificate",
        |f| {
            let what = "invalid peer certificate: NotValidForName".to_owned();
            f.here
                .endpoints
                .insert(demo(), Endpoint::NotBelieved { what });
        },
        "endpoint-tls",
        Level::Warning,
        "certSANs",
    ),
    (
        "a kubeconfig of a deleted namesake",
        |f| {
            let uid = "another".to_owned();
            f.here.leads = Known::Known(vec![Lead { uid, ..lead() }]);
        },
        "api-auth",
        Level::Warning,
        "covey kubeconfig demo --merge",
    ),
    (
        "a kubeconfig that leads elsewhere",
        |f| {
            let server = "https://192.0.2.9:6443".to_owned();
            f.here.leads = Known::Known(vec![Lead { server, ..lead() }]);
        },
        "api-auth",
        Level::Warning,
        "--context-name team-a/demo",
    ),
    (
        "ranges that are not known",
        |f| {
            let ill = [(
                "Ready",
                "False",
                "ReservedRangesUnknown",
                "no nodes have podCIDRs",
            )];
            f.pools = Known::Known(vec![read(said(pool(), &ill))]);
        },
        "reserved-ranges",
        Level::Error,
        "config.network.reserved",
    ),
    (
        "an API server whose etcd fails",
        |f| within(f).not_ready = Known::Known(vec!["etcd".to_owned()]),
        "api-ready",
        Level::Error,
        "covey logs demo etcd",
    ),
    (
        "a webhook that nobody answers and that pods need",
        |f| {
            let slices = vec![
                read(slice("kube-system", "kube-dns", true)),
                read(slice("guard", "guard", false)),
            ];
            within(f).slices = Known::Known(slices);
            let ill = [("Ready", "False", "NodesNotReady", "1 of 2")];
            f.pools = Known::Known(vec![read(said(pool(), &ill))]);
        },
        "tenant-webhooks",
        Level::Error,
        "namespaceSelector",
    ),
    (
        "a webhook that nobody answers and that only Secrets need",
        |f| {
            within(f).slices = Known::Known(vec![read(slice("kube-system", "kube-dns", true))]);
            within(f).validating = Known::Known(vec![read(webhook("Fail", &["secrets"]))]);
        },
        "tenant-webhooks",
        Level::Warning,
        "failurePolicy",
    ),
    (
        "no network for pods",
        |f| {
            with_node(f, |node| {
                node["status"]["conditions"] = json!([{"type": "Ready", "status": "False",
                    "message": "container runtime network not ready: cni plugin not initialized"}]);
            });
            let ill = [("Ready", "False", "NodesNotReady", "1 of 2")];
            f.pools = Known::Known(vec![read(said(pool(), &ill))]);
        },
        "node-network",
        Level::Error,
        "kube-system get pods",
    ),
    (
        "no network for pods, and the tenant was to bring one",
        |f| {
            with_node(f, |node| {
                node["status"]["conditions"] =
                    json!([{"type": "NetworkUnavailable", "status": "True"}]);
            });
            let mut of = cluster();
            of["spec"]["addons"] = json!({"cni": {"type": "none"}});
            f.clusters = Known::Known(vec![read(of)]);
        },
        "node-network",
        Level::Error,
        "spec.addons.cni.type",
    ),
    (
        "CoreDNS that is not ready",
        |f| {
            let slices = vec![
                read(slice("kube-system", "kube-dns", false)),
                read(slice("guard", "guard", true)),
            ];
            within(f).slices = Known::Known(slices);
        },
        "dns",
        Level::Error,
        "k8s-app=kube-dns",
    ),
    (
        "a node that waits for the cloud controller manager",
        |f| {
            with_node(f, |node| {
                node["spec"]["taints"] = json!([{"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"}]);
            });
        },
        "nodes",
        Level::Error,
        "cloudController",
    ),
    (
        "a node that somebody deleted",
        |f| {
            let mut of = machine("demo-workers-aaaaa");
            of["status"]["nodeName"] = json!("demo-workers-aaaaa");
            f.machines = Known::Known(vec![read(of), read(machine("demo-workers-bbbbb"))]);
            within(f).nodes = Known::Known(vec![read(node("demo-workers-bbbbb"))]);
        },
        "nodes",
        Level::Warning,
        "kubectl delete machine",
    ),
    (
        "a node of no machine",
        |f| f.machines = Known::Known(vec![read(machine("demo-workers-aaaaa"))]),
        "nodes",
        Level::Warning,
        "operator",
    ),
    (
        "a kubelet that is newer",
        |f| {
            with_node(f, |node| {
                node["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.36.1");
            });
        },
        "skew",
        Level::Error,
        "upgrade the control plane first",
    ),
    (
        "a kubelet that is too old",
        |f| {
            with_node(f, |node| {
                node["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.31.9");
            });
        },
        "skew",
        Level::Error,
        "raise `spec.version`",
    ),
    (
        "a Service without an address",
        |f| within(f).services = Known::Known(vec![read(balancer(&json!([])))]),
        "load-balancers",
        Level::Warning,
        "cloudController",
    ),
    (
        "a claim without a volume",
        |f| within(f).claims = Known::Known(vec![read(claim("Pending"))]),
        "volumes",
        Level::Warning,
        "csi",
    ),
    (
        "a claim of a class that is not there",
        |f| {
            let mut claim = claim("Pending");
            claim["spec"]["storageClassName"] = json!("fast");
            within(f).claims = Known::Known(vec![read(claim)]);
        },
        "volumes",
        Level::Warning,
        "no StorageClass fast",
    ),
    (
        "a volume that does not leave its node",
        |f| {
            within(f).attachments = Known::Known(vec![read(
                json!({"metadata": {"name": "a", "deletionTimestamp": OLD},
                "spec": {"attacher": "csi.covey.dev", "nodeName": "n", "source": {"persistentVolumeName": "pv"}},
                "status": {"attached": true}}),
            )]);
        },
        "volumes",
        Level::Warning,
        "out-of-service",
    ),
    (
        "a volume that cannot be attached",
        |f| {
            within(f).attachments = Known::Known(vec![read(json!({"metadata": {"name": "a"},
                "spec": {"attacher": "csi.covey.dev", "nodeName": "n", "source": {"persistentVolumeName": "pv"}},
                "status": {"attached": false, "attachError": {"message": "no such volume"}}}))]);
        },
        "volumes",
        Level::Warning,
        "covey logs demo csi",
    ),
    (
        "an API that the next minor does not serve",
        |f| within(f).removed = Known::Known(vec![removed_in(36)]),
        "removed-apis",
        Level::Warning,
        "audit log",
    ),
    (
        "an API that a later minor does not serve",
        |f| within(f).removed = Known::Known(vec![removed_in(38), removed_in(32)]),
        "removed-apis",
        Level::Info,
        "audit log",
    ),
    (
        "KubeVirt that is too old",
        |f| {
            let kubevirt = Known::Known("v1.5.2".to_owned());
            f.before = Some(Before {
                kubevirt,
                ..before()
            });
        },
        "virtualization",
        Level::Warning,
        "upgrade KubeVirt",
    ),
    (
        "no node that runs virtual machines",
        |f| {
            let nodes = Known::Known(vec![read(node("one"))]);
            f.before = Some(Before { nodes, ..before() });
        },
        "virtualization",
        Level::Warning,
        "virt-host-validate",
    ),
    (
        "no KubeVirt",
        |f| {
            let kubevirt = Known::Absent;
            f.before = Some(Before {
                kubevirt,
                ..before()
            });
        },
        "virtualization",
        Level::Info,
        "kubevirt.io",
    ),
    (
        "ranges that will not be found",
        |f| {
            let has_service_ranges = Known::Known(false);
            f.before = Some(Before {
                has_service_ranges,
                ..before()
            });
        },
        "reserved-ranges",
        Level::Warning,
        "config.network.reserved",
    ),
    (
        "no StorageClass before an installation",
        |f| {
            f.management.storage_classes = Known::Known(vec![]);
            f.before = Some(before());
        },
        "storage-class",
        Level::Error,
        "CSI driver",
    ),
    (
        "too few rights for an installation",
        |f| {
            let may_all = Known::Known(false);
            f.before = Some(Before {
                may_all,
                ..before()
            });
        },
        "rights",
        Level::Warning,
        "cluster-admin",
    ),
];

#[test]
fn a_management_cluster_that_has_all_of_it_is_well() {
    let mut facts = whole();
    facts.before = Some(before());
    assert_eq!(diagnose(&facts, |_| true), []);
}

#[test]
fn what_is_on_its_way_for_a_moment_is_told_of_no_one() {
    let mut facts = whole();
    let mut young = balancer(&json!([]));
    young["metadata"]["creationTimestamp"] = json!("2026-11-27T11:59:30Z");
    within(&mut facts).services = Known::Known(vec![read(young)]);
    // It gets its volume with its pod.
    within(&mut facts).claims = Known::Known(vec![read(claim("Pending"))]);
    within(&mut facts).classes = Known::Known(vec![read(json!({"metadata": {"name": "covey"},
        "provisioner": "csi.covey.dev", "volumeBindingMode": "WaitForFirstConsumer"}))]);
    // It fails open.
    within(&mut facts).validating = Known::Known(vec![read(webhook("Ignore", &["pods"]))]);
    within(&mut facts).slices = Known::Known(vec![read(slice("kube-system", "kube-dns", true))]);
    assert_eq!(diagnose(&facts, |_| true), []);
}

#[test]
fn a_webhook_that_leaves_kube_system_out_keeps_no_node_from_joining() {
    let mut facts = whole();
    within(&mut facts).slices = Known::Known(vec![read(slice("kube-system", "kube-dns", true))]);
    let level = |facts: &Facts| diagnose(facts, |_| true)[0].level;
    assert_eq!(level(&facts), Level::Error);
    let mut hook = webhook("Fail", &["pods"]);
    hook["webhooks"][0]["namespaceSelector"] = json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]});
    within(&mut facts).validating = Known::Known(vec![read(hook.clone())]);
    assert_eq!(level(&facts), Level::Warning);
    // Nodes are in no namespace.
    hook["webhooks"][0]["rules"][0]["resources"] = json!(["*"]);
    within(&mut facts).validating = Known::Known(vec![read(hook)]);
    assert_eq!(level(&facts), Level::Error);
}

#[test]
fn the_event_of_a_service_says_why_it_has_no_address() {
    let mut facts = whole();
    within(&mut facts).services = Known::Known(vec![read(balancer(&json!([])))]);
    within(&mut facts).warnings = Known::Known(vec![read(
        json!({"metadata": {"name": "e", "namespace": "shop"},
        "type": "Warning", "reason": "NoNodePort", "message": "allocateLoadBalancerNodePorts is false",
        "involvedObject": {"kind": "Service", "namespace": "shop", "name": "web"}}),
    )]);
    let found = diagnose(&facts, |_| true);
    let told = "NoNodePort: allocateLoadBalancerNodePorts is false";
    assert_eq!(found[0].evidence, [told]);
}

#[test]
fn of_one_that_sleeps_no_endpoint_is_missed() {
    let mut facts = whole();
    let what = "connection refused".to_owned();
    facts
        .here
        .endpoints
        .insert(demo(), Endpoint::Silent { what });
    let mut of = cluster();
    of["status"]["hibernation"] =
        json!({"phase": "Asleep", "since": OLD, "drained": true, "quiet": true});
    facts.clusters = Known::Known(vec![read(of)]);
    let found = diagnose(&facts, |_| true);
    assert!(
        found
            .iter()
            .all(|finding| finding.check != Check::EndpointReach),
        "{found:?}"
    );
}

#[test]
fn an_endpoint_is_silent_because_of_its_api() {
    let mut facts = whole();
    with_cluster(
        &mut facts,
        &[("Ready", "False", "ApiUnreachable", "silent")],
    );
    let what = "connection refused".to_owned();
    facts
        .here
        .endpoints
        .insert(demo(), Endpoint::Silent { what });
    let found = diagnose(&facts, |_| true);
    assert_eq!(found[0].check, Check::ApiReady);
    let silent = found
        .iter()
        .find(|finding| finding.check == Check::EndpointReach);
    assert_eq!(silent.unwrap().because, Some("api-ready"));
}
