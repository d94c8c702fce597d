//! Flags of the kube-controller-manager: which Covey sets, which a user may set, and which nobody may.
//!
//! Invariant: every flag is one that kube-controller-manager 1.34, 1.35 and 1.36 know.

use crate::flags::table::{CIPHER_SUITES, Table};

pub(super) const FLAGS: Table = Table {
    fixed: &[
        ("allocate-node-cidrs", "true"),
        ("authentication-kubeconfig", "/etc/kubernetes/kubeconfig"),
        ("authorization-kubeconfig", "/etc/kubernetes/kubeconfig"),
        ("bind-address", "127.0.0.1"),
        ("client-ca-file", "/etc/kubernetes/ca.crt"),
        ("cluster-signing-cert-file", "/etc/kubernetes/ca.crt"),
        ("cluster-signing-key-file", "/etc/kubernetes/ca.key"),
        ("controllers", "*,bootstrapsigner,tokencleaner"),
        ("kubeconfig", "/etc/kubernetes/kubeconfig"),
        ("leader-elect", "true"),
        ("profiling", "false"),
        (
            "requestheader-client-ca-file",
            "/etc/kubernetes/front-proxy-ca.crt",
        ),
        ("root-ca-file", "/etc/kubernetes/ca.crt"),
        ("service-account-private-key-file", "/etc/kubernetes/sa.key"),
        ("tls-cipher-suites", CIPHER_SUITES),
        ("tls-min-version", "VersionTLS12"),
        ("use-service-account-credentials", "true"),
    ],
    computed: &["cluster-cidr", "cluster-name", "service-cluster-ip-range"],
    defaults: &[
        // CIS 1.3.1; the default of 12500 finished pods is a tenth of a gigabyte of etcd.
        ("terminated-pod-gc-threshold", "1000"),
    ],
    refused: &[
        "authentication-skip-lookup",
        "authorization-always-allow-paths",
        "cloud-config",
        "cloud-provider",
        "cluster-signing-kube-apiserver-client-cert-file",
        "cluster-signing-kube-apiserver-client-key-file",
        "cluster-signing-kubelet-client-cert-file",
        "cluster-signing-kubelet-client-key-file",
        "cluster-signing-kubelet-serving-cert-file",
        "cluster-signing-kubelet-serving-key-file",
        "cluster-signing-legacy-unknown-cert-file",
        "cluster-signing-legacy-unknown-key-file",
        "external-cloud-volume-plugin",
        "leader-elect-resource-lock",
        "leader-elect-resource-name",
        "leader-elect-resource-namespace",
        "leader-migration-config",
        // One family for now; `node-cidr-mask-size` is the user's to change.
        "node-cidr-mask-size-ipv4",
        "node-cidr-mask-size-ipv6",
        "requestheader-allowed-names",
        "requestheader-extra-headers-prefix",
        "requestheader-group-headers",
        "requestheader-uid-headers",
        "requestheader-username-headers",
        "secure-port",
        "tls-cert-file",
        "tls-private-key-file",
    ],
};
