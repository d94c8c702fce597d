//! The kube-apiserver: flags and container.
//!
//! A restartable init container: the others of the pod start only once it answers, so they neither
//! fail nor fall into back-off.
//! Invariant: every flag is one that kube-apiserver 1.34, 1.35 and 1.36 know.

use k8s_openapi::api::core::v1::{Capabilities, Container, ContainerPort, SecurityContext};

use super::{
    flags::{CIPHER_SUITES, Program, Table, args},
    names::{self, API_PORT},
    pod,
};
use crate::{Addresses, Validated};

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

pub(super) fn flags(v: &Validated, addresses: &Addresses) -> Vec<String> {
    let issuer = format!("https://kubernetes.default.svc.{}", v.network.dns_domain);
    let servers: Vec<_> = (0..v.etcd.replicas)
        .map(|member| {
            format!(
                "https://{}:{}",
                names::etcd_member(member),
                names::ETCD_CLIENT_PORT
            )
        })
        .collect();
    let mut computed = vec![
        ("advertise-address", addresses.cluster_ip.to_string()),
        ("api-audiences", issuer.clone()),
        ("etcd-servers", servers.join(",")),
        (
            "service-account-jwks-uri",
            format!("{issuer}/openid/v1/jwks"),
        ),
        ("service-account-issuer", issuer),
        (
            "service-cluster-ip-range",
            v.network.service_cidr.to_string(),
        ),
    ];
    if v.addons.konnectivity {
        let file = format!("{}/egress-selector.yaml", names::SECRET_DIR);
        computed.push(("egress-selector-config-file", file));
    }
    args(Program::ApiServer, &computed, &v.api_server.extra_args)
}

pub(super) fn container(v: &Validated, addresses: &Addresses) -> Container {
    let mut mounts = vec![
        pod::mount(names::API_SERVER, names::SECRET_DIR, true),
        pod::mount("audit", names::AUDIT_DIR, false),
        pod::mount("tmp", "/tmp", false),
    ];
    if v.addons.konnectivity {
        mounts.push(pod::mount(
            names::KONNECTIVITY,
            names::KONNECTIVITY_DIR,
            true,
        ));
    }
    Container {
        name: names::API_SERVER.to_owned(),
        image: Some(format!("{}/kube-apiserver:v{}", v.registry, v.version)),
        command: Some(vec!["kube-apiserver".to_owned()]),
        args: Some(flags(v, addresses)),
        restart_policy: Some("Always".to_owned()),
        ports: Some(vec![ContainerPort {
            name: Some("https".to_owned()),
            container_port: API_PORT,
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        startup_probe: Some(pod::startup_probe("/livez", API_PORT, "HTTPS")),
        // The kubelet asks at once when the start-up probe has passed, so a longer period does not
        // delay the first answer, and a hundred idle tenants stay cheap.
        readiness_probe: Some(pod::probe("/readyz", API_PORT, "HTTPS", 3, 3)),
        liveness_probe: Some(pod::probe("/livez", API_PORT, "HTTPS", 10, 9)),
        resources: Some(pod::resources(&v.api_server.requests, &v.api_server.limits)),
        security_context: Some(SecurityContext {
            // The published image gives its binary this capability (setcap), and without it in the
            // bounding set the kernel refuses to start such a binary. Nothing uses it.
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                add: Some(vec!["NET_BIND_SERVICE".to_owned()]),
            }),
            ..pod::container_security()
        }),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}
