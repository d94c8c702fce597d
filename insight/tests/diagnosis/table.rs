//! The table: what is broken, and what is to be found first.
//!
//! Invariant: each row begins with a whole installation. Long because it is one table.

use insight::facts::{ApiAnswer, Facts};
use insight::finding::Level;
use jiff::SignedDuration;
use kit_objects::known::Known;
use serde_json::json;

use crate::installation::{
    TENANT, broken, cluster, condition, machine, pool, read, said, tenant, with_cluster, with_grant,
};

/// What is broken, which check comes first, how bad it is, and a part of what mends it.
pub(crate) type Row = (
    &'static str,
    fn(&mut Facts),
    &'static str,
    Level,
    &'static str,
);

pub(crate) const TABLE: &[Row] = &[
    (
        "no kubeconfig that works",
        |f| {
            f.management.api = ApiAnswer::Failed {
                what: "connection refused".into(),
                mend: "`--context`".into(),
            };
            with_cluster(f, &[("Ready", "False", "ApiUnreachable", "silent")]);
        },
        "management-reach",
        Level::Error,
        "--context",
    ),
    (
        "old management cluster",
        |f| f.management.api = ApiAnswer::Version("v1.28.1".into()),
        "management-version",
        Level::Error,
        "upgrade",
    ),
    (
        "clock behind",
        |f| f.management.clock_ahead = Known::Known(SignedDuration::from_secs(90)),
        "clock",
        Level::Warning,
        "timedatectl",
    ),
    (
        "Covey is not installed",
        |f| f.management.definitions = Known::Known(vec![]),
        "definitions",
        Level::Error,
        "helm",
    ),
    (
        "operator scaled to 0",
        |f| {
            f.management.operator = Known::Known(read(
                json!({"metadata": {"name": "covey-operator", "namespace": "covey-system"},
            "spec": {"replicas": 0, "selector": {}, "template": {}}, "status": {}}),
            ));
            f.management.lease = Known::Known(read(
                json!({"metadata": {"name": "covey-operator", "namespace": "covey-system"},
            "spec": {"holderIdentity": "", "renewTime": "2026-11-27T10:00:00.000000Z"}}),
            ));
            let mut changed = cluster();
            changed["metadata"]["generation"] = json!(2);
            f.clusters = Known::Known(vec![read(changed)]);
        },
        "operator-pods",
        Level::Error,
        "scale deployment",
    ),
    (
        "operator out of memory",
        |f| {
            f.management.operator = Known::Known(read(
                json!({"metadata": {"name": "covey-operator", "namespace": "covey-system"},
            "spec": {"replicas": 2, "selector": {}, "template": {}}, "status": {}}),
            ));
            f.management.operator_pods = Known::Known(vec![read(broken(
                "covey-operator-1",
                "",
                json!({"containerStatuses": [
            {"name": "operator", "image": "x", "imageID": "", "ready": false, "restartCount": 7,
             "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}),
            ))]);
        },
        "operator-pods",
        Level::Error,
        "resources",
    ),
    (
        "nobody leads",
        |f| {
            f.management.lease = Known::Known(read(
                json!({"metadata": {"name": "covey-operator", "namespace": "covey-system"},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-11-27T11:50:00.000000Z"}}),
            ));
        },
        "operator-leads",
        Level::Error,
        "logs",
    ),
    (
        "webhook without authority",
        |f| {
            f.management.webhook = Known::Known(read(
                json!({"metadata": {"name": "covey"}, "webhooks": [{"name": "covey.dev",
            "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {}}]}),
            ));
        },
        "webhook",
        Level::Error,
        "logs",
    ),
    (
        "policies are off",
        |f| f.management.policy_bindings = Known::Known(vec![]),
        "policies",
        Level::Warning,
        "admissionPolicies.enabled",
    ),
    (
        "no default class, and a claim waits",
        |f| {
            f.management.storage_classes = Known::Known(vec![]);
            tenant(f).claims = Known::Known(vec![read(json!({"metadata": {"name": "data-etcd-0",
            "creationTimestamp": "2026-11-27T11:00:00Z"}, "status": {"phase": "Pending"}}))]);
            with_cluster(
                f,
                &[
                    (
                        "EtcdReady",
                        "False",
                        "MembersNotReady",
                        "0 of 1 members are ready",
                    ),
                    (
                        "Ready",
                        "False",
                        "ApiUnreachable",
                        "the API does not answer",
                    ),
                ],
            );
        },
        "storage-class",
        Level::Error,
        "is-default-class",
    ),
    (
        "a claim waits",
        |f| {
            tenant(f).claims = Known::Known(vec![read(json!({"metadata": {"name": "data-etcd-0",
            "creationTimestamp": "2026-11-27T11:00:00Z"}, "status": {"phase": "Pending"}}))]);
            with_cluster(
                f,
                &[
                    (
                        "EtcdReady",
                        "False",
                        "MembersNotReady",
                        "0 of 1 members are ready",
                    ),
                    ("ControlPlaneReady", "False", "PodsNotReady", ""),
                    ("Ready", "False", "Starting", ""),
                ],
            );
        },
        "etcd",
        Level::Error,
        "describe pvc data-etcd-0",
    ),
    (
        "paused",
        |f| {
            with_cluster(
                f,
                &[(
                    "Progressing",
                    "False",
                    "Paused",
                    "spec.paused is true; set it to false to go on",
                )],
            );
        },
        "paused",
        Level::Warning,
        "spec.paused",
    ),
    (
        "spec refused",
        |f| {
            with_cluster(
                f,
                &[
                    (
                        "Degraded",
                        "True",
                        "VersionUnsupported",
                        "spec.version: 1.33.0 is not supported",
                    ),
                    (
                        "Progressing",
                        "False",
                        "VersionUnsupported",
                        "spec.version: 1.33.0 is not supported",
                    ),
                    (
                        "Ready",
                        "False",
                        "VersionUnsupported",
                        "spec.version: 1.33.0 is not supported",
                    ),
                ],
            );
        },
        "spec",
        Level::Error,
        "spec.version",
    ),
    (
        "namespace gone",
        |f| {
            tenant(f).object = Known::Absent;
            with_cluster(
                f,
                &[
                    ("Degraded", "True", "DataLost", ""),
                    ("Ready", "False", "ApiUnreachable", ""),
                ],
            );
        },
        "tenant-namespace",
        Level::Error,
        "backup",
    ),
    (
        "namespace of another",
        |f| {
            tenant(f).object = Known::Known(read(
                json!({"metadata": {"name": TENANT, "labels": {"covey.dev/tenant-cluster-uid": "x"}}}),
            ));
        },
        "tenant-namespace",
        Level::Error,
        "--show-labels",
    ),
    (
        "authority lost",
        |f| {
            with_cluster(
                f,
                &[
                    (
                        "Degraded",
                        "True",
                        "CertificateAuthorityLost",
                        "Secret ca is gone",
                    ),
                    ("Ready", "False", "ApiUnreachable", ""),
                ],
            );
        },
        "authorities",
        Level::Error,
        "backup",
    ),
    (
        "waits for its turn to start",
        |f| {
            with_cluster(
                f,
                &[
                    ("Ready", "False", "WaitingForStart", "3 before it"),
                    ("Progressing", "True", "WaitingForStart", "3 before it"),
                ],
            );
        },
        "starts",
        Level::Warning,
        "maxConcurrentStarts",
    ),
    (
        "load balancer without controller",
        |f| {
            with_cluster(
                f,
                &[
                    ("EndpointReady", "False", "WaitingForAddress", "no address"),
                    ("Ready", "False", "WaitingForAddress", "no address"),
                    ("Progressing", "True", "WaitingForAddress", "no address"),
                ],
            );
        },
        "endpoint-address",
        Level::Warning,
        "load balancer",
    ),
    (
        "operator behind a firewall",
        |f| {
            with_cluster(
                f,
                &[(
                    "EndpointReachable",
                    "Unknown",
                    "NotReachedByOperator",
                    "timed out",
                )],
            );
        },
        "endpoint-reach",
        Level::Warning,
        "spec.controlPlane.endpoint.host",
    ),
    (
        "API dropped",
        |f| {
            with_cluster(
                f,
                &[
                    ("Ready", "False", "ApiUnreachable", "connection timed out"),
                    ("KonnectivityReady", "False", "PodsNotReady", ""),
                ],
            );
        },
        "api-ready",
        Level::Error,
        "kubectl describe pods",
    ),
    (
        "certificate ends",
        |f| {
            let mut changed = cluster();
            changed["status"]["certificates"][0]["notAfter"] = json!("2026-11-30T00:00:00Z");
            f.clusters = Known::Known(vec![read(changed)]);
        },
        "certificates",
        Level::Error,
        "CertificatesReady",
    ),
    (
        "authority ends",
        |f| {
            let mut changed = cluster();
            changed["status"]["certificates"][1]["notAfter"] = json!("2027-03-01T00:00:00Z");
            f.clusters = Known::Known(vec![read(changed)]);
        },
        "certificates",
        Level::Warning,
        "docs/certificates.md",
    ),
    (
        "etcd full",
        |f| {
            with_cluster(
                f,
                &[
                    ("Degraded", "True", "NoSpace", "512Mi of 512Mi"),
                    ("Ready", "False", "NoSpace", "512Mi of 512Mi"),
                ],
            );
        },
        "etcd-space",
        Level::Error,
        "spec.etcd.storage.size",
    ),
    (
        "one member of three lost",
        |f| {
            with_cluster(
                f,
                &[
                    ("EtcdReady", "False", "MemberLost", "etcd-1"),
                    ("Degraded", "True", "MemberLost", "etcd-1"),
                ],
            );
        },
        "lost-member",
        Level::Warning,
        "autoReplace",
    ),
    (
        "apiserver killed for its memory",
        |f| {
            tenant(f).pods = Known::Known(vec![read(broken(
                "control-plane-1",
                "control-plane",
                json!({"containerStatuses": [
            {"name": "kube-apiserver", "image": "x", "imageID": "", "ready": false, "restartCount": 9,
             "state": {"waiting": {"reason": "CrashLoopBackOff"}},
             "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}),
            ))]);
            with_cluster(
                f,
                &[
                    (
                        "ControlPlaneReady",
                        "False",
                        "CrashLooping",
                        "kube-apiserver",
                    ),
                    ("Degraded", "True", "CrashLooping", "kube-apiserver"),
                    ("Ready", "False", "ApiUnreachable", "refused"),
                ],
            );
        },
        "control-plane-pods",
        Level::Error,
        "spec.controlPlane.apiServer.resources",
    ),
    (
        "image missing",
        |f| {
            tenant(f).pods = Known::Known(vec![read(broken(
                "control-plane-1",
                "control-plane",
                json!({"containerStatuses": [
            {"name": "kube-apiserver", "image": "registry.k8s.io/kube-apiserver:v1.35.99", "imageID": "", "ready": false, "restartCount": 0,
             "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}]}),
            ))]);
        },
        "control-plane-pods",
        Level::Error,
        "spec.version",
    ),
    (
        "no place for etcd",
        |f| {
            tenant(f).pods = Known::Known(vec![read(broken(
                "etcd-0",
                "etcd",
                json!({"phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes: insufficient cpu"}]}),
            ))]);
            with_cluster(
                f,
                &[
                    ("EtcdReady", "False", "MembersNotReady", "0 of 1"),
                    ("Ready", "False", "Starting", ""),
                ],
            );
        },
        "capacity",
        Level::Error,
        "nodes",
    ),
    (
        "agents cut off",
        |f| {
            with_cluster(
                f,
                &[(
                    "KonnectivityReady",
                    "False",
                    "PodsNotReady",
                    "0 of 2 agents",
                )],
            );
        },
        "konnectivity",
        Level::Warning,
        "kubectl describe pods",
    ),
    (
        "CoreDNS scaled to 0",
        |f| {
            with_cluster(
                f,
                &[
                    (
                        "CoreDNSReady",
                        "False",
                        "PodsNotReady",
                        "0 of 2 pods are ready",
                    ),
                    (
                        "Ready",
                        "False",
                        "AddonsNotReady",
                        "coreDNS: 0 of 2 pods are ready",
                    ),
                ],
            );
        },
        "addons",
        Level::Error,
        "kubectl describe tenantcluster",
    ),
    (
        "no room for a machine",
        |f| {
            f.pools = Known::Known(vec![read(said(
                pool(),
                &[
                    ("Capacity", "False", "NoRoom", "insufficient memory"),
                    ("Ready", "False", "NodesNotReady", "1 of 2"),
                ],
            ))]);
            f.machines = Known::Known(vec![read(said(
                machine("demo-workers-aaaaa"),
                &[("Ready", "False", "VirtualMachineNotCreated", "")],
            ))]);
        },
        "capacity",
        Level::Warning,
        "nodes",
    ),
    (
        "wrong disk image",
        |f| {
            f.machines = Known::Known(vec![read(said(
                machine("demo-workers-aaaaa"),
                &[("Ready", "False", "VirtualMachineFailing", "ErrImagePull")],
            ))]);
            f.pools = Known::Known(vec![read(said(
                pool(),
                &[("Ready", "False", "NodesNotReady", "1 of 2")],
            ))]);
        },
        "machines",
        Level::Error,
        "kubectl describe vmi",
    ),
    (
        "KubeVirt is not installed",
        |f| {
            let reason = "ProviderNotInstalled";
            f.pools = Known::Known(vec![read(said(
                pool(),
                &[
                    ("Degraded", "True", reason, ""),
                    ("Ready", "False", reason, ""),
                ],
            ))]);
            f.machines = Known::Known(vec![read(said(
                machine("demo-workers-aaaaa"),
                &[("Ready", "False", "VirtualMachineFailing", "")],
            ))]);
        },
        "virtualization",
        Level::Error,
        "kubectl get crds",
    ),
    (
        "pool without cluster",
        |f| {
            f.pools = Known::Known(vec![read(said(
                pool(),
                &[(
                    "Degraded",
                    "True",
                    "ClusterNotFound",
                    "no TenantCluster dmeo",
                )],
            ))]);
        },
        "spec",
        Level::Error,
        "spec.clusterName",
    ),
    (
        "nodes too old",
        |f| {
            let mut old = pool();
            old["status"]["version"] = json!("1.31.0");
            f.pools = Known::Known(vec![read(old)]);
        },
        "skew",
        Level::Error,
        "spec.version",
    ),
    (
        "autoscaling without the addon",
        |f| {
            f.pools = Known::Known(vec![read(said(
                pool(),
                &[("Autoscaling", "False", "AddonOff", "")],
            ))]);
        },
        "autoscaler",
        Level::Warning,
        "spec.addons.autoscaler.enabled",
    ),
    (
        "does not go",
        |f| {
            let mut going = machine("demo-workers-aaaaa");
            going["metadata"]["deletionTimestamp"] = json!("2026-11-27T11:00:00Z");
            going["metadata"]["finalizers"] = json!(["covey.dev/machine"]);
            let other = machine("demo-workers-bbbbb");
            f.machines = Known::Known(vec![read(going), read(other)]);
        },
        "deleting",
        Level::Warning,
        "describe machine demo-workers-aaaaa",
    ),
    (
        "operator does not get on",
        |f| {
            with_cluster(
                f,
                &[
                    ("Degraded", "True", "InternalError", "it cannot be"),
                    ("Progressing", "True", "InternalError", "it cannot be"),
                ],
            );
        },
        "operator-moves",
        Level::Error,
        "kubectl logs",
    ),
    (
        "change is not followed",
        |f| {
            let mut changed = cluster();
            changed["metadata"]["generation"] = json!(2);
            f.clusters = Known::Known(vec![read(changed)]);
        },
        "operator-moves",
        Level::Error,
        "covey doctor",
    ),
    (
        "quota exceeded",
        |f| {
            f.management.quotas = Known::Known(vec![read(
                json!({"apiVersion": "covey.dev/v1alpha1", "kind": "TenantQuota",
            "metadata": {"name": "team-a"}, "spec": {"namespaces": ["team-a"], "clusters": 1},
            "status": {"conditions": [condition("Exceeded", "True", "AboveLimits", "2 of 1 clusters")]}}),
            )]);
        },
        "capacity",
        Level::Warning,
        "spec",
    ),
    (
        "bucket refuses",
        |f| {
            f.management.backup_targets = Known::Known(vec![read(
                json!({"apiVersion": "covey.dev/v1alpha1", "kind": "BackupTarget",
            "metadata": {"name": "main"}, "spec": {"claim": {}, "encryption": {"keySecret": "k"}},
            "status": {"conditions": [condition("Usable", "False", "TargetUnusable", "create: 403")]}}),
            )]);
        },
        "backup-targets",
        Level::Error,
        "spec",
    ),
    (
        "host shows another key",
        |f| {
            f.hosts = Known::Known(vec![read(
                json!({"apiVersion": "covey.dev/v1alpha1", "kind": "Host",
            "metadata": {"name": "rack-a-1", "namespace": "team-a"},
            "spec": {"address": "192.0.2.10", "user": "root", "sshKeySecretName": "k", "hostKeys": ["ssh-ed25519 AAAA"]},
            "status": {"phase": "Quarantined", "conditions": [condition("Reachable", "False", "HostKeyUnknown", "SHA256:abc")]}}),
            )]);
        },
        "hosts",
        Level::Warning,
        "spec.hostKeys",
    ),
    (
        "backup is late",
        |f| {
            with_cluster(
                f,
                &[(
                    "BackupReady",
                    "False",
                    "BackupLate",
                    "the target does not answer",
                )],
            );
        },
        "backup",
        Level::Error,
        "logs deployment/backup",
    ),
    (
        "full snapshots have stopped",
        |f| {
            let mut old = cluster();
            old["spec"]["backup"] = json!({"target": "main", "full": "6h"});
            old["status"]["backup"] = json!({"lastFull": "2026-11-26T20:00:00Z"});
            f.clusters = Known::Known(vec![read(old)]);
        },
        "backup",
        Level::Warning,
        "deployment/backup",
    ),
    (
        "database is nearly full",
        |f| with_cluster(f, &[("Degraded", "True", "SpaceLow", "91 % of 2Gi")]),
        "etcd-space",
        Level::Warning,
        "spec.etcd.storage.size",
    ),
    (
        "snapshot is gone",
        |f| {
            f.snapshots = Known::Known(vec![read(
                json!({"apiVersion": "covey.dev/v1alpha1", "kind": "Snapshot",
            "metadata": {"name": "before", "namespace": "team-a"}, "spec": {"clusterName": "demo"},
            "status": {"conditions": [condition("Ready", "False", "SnapshotGone", ""),
                condition("Verified", "False", "NotReadAgain", "")]}}),
            )]);
        },
        "snapshots",
        Level::Warning,
        "spec.keepUntil",
    ),
    (
        "restore is impossible",
        |f| {
            f.restores = Known::Known(vec![read(
                json!({"apiVersion": "covey.dev/v1alpha1", "kind": "Restore",
            "metadata": {"name": "tuesday", "namespace": "team-a"}, "spec": {"clusterName": "demo", "dryRun": true},
            "status": {"conditions": [condition("Possible", "False", "RestoreImpossible", "a delta is missing")]}}),
            )]);
        },
        "restores",
        Level::Warning,
        "spec.at",
    ),
    (
        "somebody has the Secret of a grant",
        |f| {
            with_grant(
                f,
                &json!({}),
                ("False", "GrantSecretTaken"),
                "2026-11-28T20:00:00Z",
            );
        },
        "grants",
        Level::Warning,
        "spec.secretName",
    ),
    (
        "certificate of a grant is not renewed",
        |f| {
            with_grant(
                f,
                &json!({}),
                ("True", "GrantIssued"),
                "2026-11-27T12:30:00Z",
            );
        },
        "grants",
        Level::Warning,
        "immutable",
    ),
    (
        "rights that were taken away are still there",
        |f| {
            let going = json!({ "deletionTimestamp": "2026-11-27T11:00:00Z" });
            with_grant(f, &going, ("False", "Deleting"), "2026-11-28T20:00:00Z");
        },
        "grants",
        Level::Warning,
        "",
    ),
];
