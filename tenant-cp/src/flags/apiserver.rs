//! Flags of the kube-apiserver: which Covey sets, which a user may set, and which nobody may.
//!
//! Invariant: every flag is one that kube-apiserver 1.34, 1.35 and 1.36 know.

use crate::flags::table::{CIPHER_SUITES, Table};

pub(super) const FLAGS: Table = Table {
    fixed: &[
        (
            "admission-control-config-file",
            "/etc/kubernetes/admission.yaml",
        ),
        ("allow-privileged", "true"),
        ("audit-log-path", "/var/log/kubernetes/audit.log"),
        ("audit-policy-file", "/etc/kubernetes/audit-policy.yaml"),
        (
            "authentication-config",
            "/etc/kubernetes/authentication.yaml",
        ),
        ("authorization-mode", "Node,RBAC"),
        ("client-ca-file", "/etc/kubernetes/ca.crt"),
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
        ("kubelet-certificate-authority", "/etc/kubernetes/ca.crt"),
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
        ("service-account-extend-token-expiration", "false"),
        ("service-account-key-file", "/etc/kubernetes/sa.pub"),
        ("service-account-lookup", "true"),
        ("service-account-signing-key-file", "/etc/kubernetes/sa.key"),
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
        "egress-selector-config-file",
        "etcd-servers",
        "service-account-issuer",
        "service-account-jwks-uri",
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
        "audit-webhook-config-file",
        "authentication-token-webhook-config-file",
        "authorization-config",
        "authorization-policy-file",
        "authorization-webhook-config-file",
        "bind-address",
        "cloud-config",
        "cloud-provider",
        "disable-admission-plugins",
        "emulation-forward-compatible",
        "etcd-prefix",
        "etcd-servers-overrides",
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
};
