//! Flags of the kube-apiserver: which Covey sets, which a user may set, and which nobody may.
//!
//! Invariant: every flag is one that kube-apiserver 1.34, 1.35 and 1.36 know.

use crate::flags::table::{CIPHER_SUITES, Table};

/// A key that verifies tokens of service accounts; once for each.
pub const TOKENS_VERIFIED_BY: &str = "service-account-key-file";
/// The key that signs them.
pub const TOKENS_SIGNED_BY: &str = "service-account-signing-key-file";
/// Resources that are kept in another etcd.
pub const EVENTS_ELSEWHERE: &str = "etcd-servers-overrides";
/// Longest that a token lasts which is not in a Secret, in hours.
pub const LONGEST_TOKEN_HOURS: i64 = 24;
/// The same, as the flag says it.
const LONGEST_TOKEN: &str = "24h";

pub(super) const FLAGS: Table = Table {
    fixed: &[
        (
            "admission-control-config-file",
            "/etc/kubernetes/admission.yaml",
        ),
        ("allow-privileged", "true"),
        ("audit-policy-file", "/etc/kubernetes/audit-policy.yaml"),
        (
            "authentication-config",
            "/etc/kubernetes/authentication.yaml",
        ),
        ("client-ca-file", "/etc/kubernetes/clients.crt"),
        // On top of the defaults, which hold PodSecurity, NamespaceLifecycle and ServiceAccount.
        (
            "enable-admission-plugins",
            "DenyServiceExternalIPs,EventRateLimit,NodeRestriction",
        ),
        ("enable-bootstrap-token-auth", "true"),
        (
            "encryption-provider-config",
            "/etc/kubernetes/encryption.yaml",
        ),
        ("encryption-provider-config-automatic-reload", "true"),
        // All replicas share one address, which the operator writes into default/kubernetes.
        ("endpoint-reconciler-type", "none"),
        ("etcd-cafile", "/etc/kubernetes/etcd-ca.crt"),
        ("etcd-certfile", "/etc/kubernetes/apiserver-etcd-client.crt"),
        ("etcd-keyfile", "/etc/kubernetes/apiserver-etcd-client.key"),
        (
            "kubelet-certificate-authority",
            "/etc/kubernetes/kubelet-serving-ca.crt",
        ),
        (
            "kubelet-client-certificate",
            "/etc/kubernetes/apiserver-kubelet-client.crt",
        ),
        (
            "kubelet-client-key",
            "/etc/kubernetes/apiserver-kubelet-client.key",
        ),
        (
            "kubelet-preferred-address-types",
            "InternalIP,ExternalIP,Hostname",
        ),
        ("profiling", "false"),
        (
            "proxy-client-cert-file",
            "/etc/kubernetes/front-proxy-client.crt",
        ),
        (
            "proxy-client-key-file",
            "/etc/kubernetes/front-proxy-client.key",
        ),
        ("requestheader-allowed-names", "front-proxy-client"),
        (
            "requestheader-client-ca-file",
            "/etc/kubernetes/front-proxy-ca.crt",
        ),
        ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
        ("requestheader-group-headers", "X-Remote-Group"),
        ("requestheader-username-headers", "X-Remote-User"),
        ("secure-port", "6443"),
        // Or a pod's token lasts a year, whatever is the most: the extension is made after the cut
        // (kubernetes `pkg/registry/core/serviceaccount/storage/token.go`, 1.35).
        ("service-account-extend-token-expiration", "false"),
        ("service-account-lookup", "true"),
        // A longer one is cut to it and not refused. An old key that has not signed for so long has no
        // token left. The least that is let in is an hour; only tokens of Secrets last for ever.
        ("service-account-max-token-expiration", LONGEST_TOKEN),
        // The endpoint is taken out of the Service before connections are refused.
        ("shutdown-delay-duration", "5s"),
        ("shutdown-send-retry-after", "true"),
        ("tls-cert-file", "/etc/kubernetes/apiserver.crt"),
        ("tls-cipher-suites", CIPHER_SUITES),
        ("tls-min-version", "VersionTLS12"),
        ("tls-private-key-file", "/etc/kubernetes/apiserver.key"),
    ],
    computed: &[
        "advertise-address",
        "api-audiences",
        "audit-log-path",
        "audit-webhook-config-file",
        // One of them.
        "authorization-config",
        "authorization-mode",
        "egress-selector-config-file",
        // While it is upgraded.
        "emulated-version",
        "etcd-servers",
        // Once the etcd of Events works.
        EVENTS_ELSEWHERE,
        "service-account-issuer",
        "service-account-jwks-uri",
        // Once for each key that verifies.
        TOKENS_VERIFIED_BY,
        TOKENS_SIGNED_BY,
        "service-cluster-ip-range",
    ],
    defaults: &[
        // CIS 1.2.17 to 1.2.19; with the volume's limit in `control_plane`.
        ("audit-log-maxage", "30"),
        ("audit-log-maxbackup", "10"),
        ("audit-log-maxsize", "100"),
        // Long connections spread again after a rollout; with one replica it costs one handshake
        // in a thousand requests.
        ("goaway-chance", "0.001"),
        ("request-timeout", "1m0s"),
    ],
    refused: &[
        "anonymous-auth",
        "audit-log-version",
        "authentication-token-webhook-config-file",
        "authorization-policy-file",
        "authorization-webhook-config-file",
        "bind-address",
        "cloud-config",
        "cloud-provider",
        "disable-admission-plugins",
        "emulation-forward-compatible",
        "etcd-prefix",
        "kubernetes-service-node-port",
        // They exclude `authentication-config`.
        "oidc-ca-file",
        "oidc-client-id",
        "oidc-groups-claim",
        "oidc-groups-prefix",
        "oidc-issuer-url",
        "oidc-required-claim",
        "oidc-signing-algs",
        "oidc-username-claim",
        "oidc-username-prefix",
        "peer-advertise-ip",
        "peer-advertise-port",
        "peer-ca-file",
        "requestheader-uid-headers",
        "runtime-config-emulation-forward-compatible",
        "service-account-signing-endpoint",
        "storage-backend",
        "storage-media-type",
        "token-auth-file",
        "tracing-config-file",
    ],
    allowed: &[(
        34,
        &[
            "allow-metric-labels",
            "audit-log-batch-buffer-size",
            "audit-log-batch-max-size",
            "audit-log-batch-max-wait",
            "audit-log-batch-throttle-burst",
            "audit-log-batch-throttle-enable",
            "audit-log-batch-throttle-qps",
            "audit-log-compress",
            "audit-log-format",
            "audit-log-maxage",
            "audit-log-maxbackup",
            "audit-log-maxsize",
            "audit-log-mode",
            "audit-log-truncate-enabled",
            "audit-log-truncate-max-batch-size",
            "audit-log-truncate-max-event-size",
            "default-not-ready-toleration-seconds",
            "default-unreachable-toleration-seconds",
            "delete-collection-workers",
            "disabled-metrics",
            // docs/adr/0028.
            "enable-aggregator-routing",
            "enable-priority-and-fairness",
            "etcd-compaction-interval",
            "etcd-count-metric-poll-period",
            "etcd-db-metric-poll-interval",
            "etcd-healthcheck-timeout",
            "etcd-readycheck-timeout",
            "event-ttl",
            "goaway-chance",
            "http2-max-streams-per-connection",
            "kubelet-timeout",
            "lease-reuse-duration-seconds",
            "livez-grace-period",
            "log-flush-frequency",
            "logging-format",
            "max-connection-bytes-per-sec",
            "max-mutating-requests-inflight",
            "max-requests-inflight",
            "min-request-timeout",
            "request-timeout",
            "show-hidden-metrics-for-version",
            "shutdown-watch-termination-grace-period",
            "storage-initialization-timeout",
            "strict-transport-security-directives",
            "v",
            "watch-cache",
            "watch-cache-sizes",
        ],
    )],
};
