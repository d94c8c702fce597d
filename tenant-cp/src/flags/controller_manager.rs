//! Flags of the kube-controller-manager: which Covey sets, which a user may set, and which nobody may.
//!
//! Invariant: every flag is one that kube-controller-manager 1.34, 1.35 and 1.36 know.

use crate::flags::table::{CIPHER_SUITES, Table};

/// The authority that signs requests of `kubernetes.io/kube-apiserver-client`.
pub const SIGNING_CERTIFICATE: &str = "cluster-signing-kube-apiserver-client-cert-file";
/// Its key.
pub(crate) const SIGNING_KEY: &str = "cluster-signing-kube-apiserver-client-key-file";
/// The authority that signs requests of `kubernetes.io/kube-apiserver-client-kubelet`.
pub const SIGNING_KUBELETS: &str = "cluster-signing-kubelet-client-cert-file";
/// Its key.
pub(crate) const SIGNING_KUBELETS_KEY: &str = "cluster-signing-kubelet-client-key-file";
/// How long certificates last that it signs at most, in hours: the default of `--cluster-signing-duration`, which nobody
/// may set.
pub const LONGEST_SIGNED_HOURS: i64 = 8760;
/// The key that signs tokens of service accounts which Secrets hold.
pub const TOKENS_SIGNED_BY: &str = "service-account-private-key-file";

pub(super) const FLAGS: Table = Table {
    fixed: &[
        ("allocate-node-cidrs", "true"),
        ("authentication-kubeconfig", "/etc/kubernetes/kubeconfig"),
        ("authorization-kubeconfig", "/etc/kubernetes/kubeconfig"),
        ("bind-address", "127.0.0.1"),
        ("client-ca-file", "/etc/kubernetes/clients.crt"),
        // `legacy-unknown` has no signer: no API that is served lets anybody ask for it.
        (
            "cluster-signing-kubelet-serving-cert-file",
            "/etc/kubernetes/kubelet-serving-ca.crt",
        ),
        (
            "cluster-signing-kubelet-serving-key-file",
            "/etc/kubernetes/kubelet-serving-ca.key",
        ),
        ("controllers", "*,bootstrapsigner,tokencleaner"),
        ("kubeconfig", "/etc/kubernetes/kubeconfig"),
        ("leader-elect", "true"),
        ("profiling", "false"),
        (
            "requestheader-client-ca-file",
            "/etc/kubernetes/front-proxy-ca.crt",
        ),
        ("root-ca-file", "/etc/kubernetes/ca.crt"),
        ("tls-cipher-suites", CIPHER_SUITES),
        ("tls-min-version", "VersionTLS12"),
        ("use-service-account-credentials", "true"),
    ],
    computed: &[
        "cluster-cidr",
        "cluster-name",
        // Whoever asks for himself is a person as far as anybody knows: his certificate goes with theirs.
        SIGNING_CERTIFICATE,
        SIGNING_KEY,
        SIGNING_KUBELETS,
        SIGNING_KUBELETS_KEY,
        TOKENS_SIGNED_BY,
        "service-cluster-ip-range",
    ],
    defaults: &[
        // CIS 1.3.1; the default of 12500 finished pods is a tenth of a gigabyte of etcd.
        ("terminated-pod-gc-threshold", "1000"),
    ],
    refused: &[
        "authentication-skip-lookup",
        "authorization-always-allow-paths",
        "cloud-config",
        "cloud-provider",
        // They exclude those of the single signers.
        "cluster-signing-cert-file",
        "cluster-signing-key-file",
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
    allowed: &[
        (
            34,
            &[
                "allow-metric-labels",
                "attach-detach-reconcile-sync-period",
                "concurrent-cron-job-syncs",
                "concurrent-daemonset-syncs",
                "concurrent-deployment-syncs",
                "concurrent-endpoint-syncs",
                "concurrent-ephemeralvolume-syncs",
                "concurrent-gc-syncs",
                "concurrent-horizontal-pod-autoscaler-syncs",
                "concurrent-job-syncs",
                "concurrent-namespace-syncs",
                "concurrent-rc-syncs",
                "concurrent-replicaset-syncs",
                "concurrent-resource-quota-syncs",
                "concurrent-service-endpoint-syncs",
                "concurrent-service-syncs",
                "concurrent-serviceaccount-token-syncs",
                "concurrent-statefulset-syncs",
                "concurrent-ttl-after-finished-syncs",
                "concurrent-validating-admission-policy-status-syncs",
                "controller-start-interval",
                "disable-attach-detach-reconcile-sync",
                "disable-force-detach-on-timeout",
                "disabled-metrics",
                "endpoint-updates-batch-period",
                "endpointslice-updates-batch-period",
                "horizontal-pod-autoscaler-cpu-initialization-period",
                "horizontal-pod-autoscaler-downscale-stabilization",
                "horizontal-pod-autoscaler-initial-readiness-delay",
                "horizontal-pod-autoscaler-sync-period",
                "horizontal-pod-autoscaler-tolerance",
                "http2-max-streams-per-connection",
                "kube-api-burst",
                "kube-api-qps",
                "large-cluster-size-threshold",
                "leader-elect-lease-duration",
                "leader-elect-renew-deadline",
                "leader-elect-retry-period",
                "legacy-service-account-token-clean-up-period",
                "log-flush-frequency",
                "logging-format",
                "max-endpoints-per-slice",
                "min-resync-period",
                "mirroring-concurrent-service-endpoint-syncs",
                "mirroring-endpointslice-updates-batch-period",
                "mirroring-max-endpoints-per-subset",
                "namespace-sync-period",
                "node-cidr-mask-size",
                "node-eviction-rate",
                "node-monitor-grace-period",
                "node-monitor-period",
                "node-startup-grace-period",
                "pvclaimbinder-sync-period",
                "resource-quota-sync-period",
                "secondary-node-eviction-rate",
                "show-hidden-metrics-for-version",
                "terminated-pod-gc-threshold",
                "unhealthy-zone-threshold",
                "v",
            ],
        ),
        (36, &["concurrent-resourceclaim-syncs"]),
    ],
};
