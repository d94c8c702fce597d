//! Flags of the kube-scheduler: which Covey sets, which a user may set, and which nobody may.
//!
//! Invariant: every flag is one that kube-scheduler 1.34, 1.35 and 1.36 know.

use crate::flags::table::{CIPHER_SUITES, Table};

pub(super) const FLAGS: Table = Table {
    fixed: &[
        ("authentication-kubeconfig", "/etc/kubernetes/kubeconfig"),
        ("authorization-kubeconfig", "/etc/kubernetes/kubeconfig"),
        ("bind-address", "127.0.0.1"),
        ("kubeconfig", "/etc/kubernetes/kubeconfig"),
        ("leader-elect", "true"),
        ("profiling", "false"),
        ("tls-cipher-suites", CIPHER_SUITES),
        ("tls-min-version", "VersionTLS12"),
    ],
    computed: &[],
    defaults: &[],
    refused: &[
        "authentication-skip-lookup",
        "authorization-always-allow-paths",
        "client-ca-file",
        "leader-elect-resource-lock",
        "leader-elect-resource-name",
        "leader-elect-resource-namespace",
        "requestheader-allowed-names",
        "requestheader-client-ca-file",
        "requestheader-extra-headers-prefix",
        "requestheader-group-headers",
        "requestheader-uid-headers",
        "requestheader-username-headers",
        "secure-port",
        "tls-cert-file",
        "tls-private-key-file",
    ],
    allowed: &[(
        34,
        &[
            "allow-metric-labels",
            "disabled-metrics",
            "http2-max-streams-per-connection",
            "kube-api-burst",
            "kube-api-qps",
            "leader-elect-lease-duration",
            "leader-elect-renew-deadline",
            "leader-elect-retry-period",
            "log-flush-frequency",
            "logging-format",
            "pod-max-in-unschedulable-pods-duration",
            "show-hidden-metrics-for-version",
            "v",
        ],
    )],
};
