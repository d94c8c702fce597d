//! Command lines of etcd, the registry and the management cluster's control plane.
//!
//! Invariant: nothing here waits for nothing else: every program is started at once, except those
//! that would back off for seconds when the apiserver does not answer yet (`lab::up` orders them).

use super::{Cluster, ProgramPaths, text};
use crate::{host::Program, slot::REGISTRY_PORT};

/// Metadata of every request that a person, a test or a controller of ours makes. The chatter of
/// the cluster's own components (watches, lists, leases, node status) would drown it.
pub(super) const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: [/livez*, /readyz*, /healthz*, /version*, /openapi*, /api, /api/*, /apis, /apis/*]
- level: None
  users:
  - system:apiserver
  - system:kube-controller-manager
  - system:kube-proxy
  - system:kube-scheduler
  - lab-agent
  verbs: [get, list, watch]
- level: None
  userGroups: [system:nodes, 'system:serviceaccounts:kube-system', 'system:serviceaccounts:kubevirt']
  verbs: [get, list, watch]
- level: None
  userGroups: [system:nodes, 'system:serviceaccounts:kubevirt']
  resources:
  - group: coordination.k8s.io
    resources: [leases]
  - group: ''
    resources: [nodes/status]
- level: Metadata
";

pub(super) fn programs(cluster: &Cluster, paths: &ProgramPaths) -> Vec<Program> {
    let mut programs = vec![
        cluster.program("etcd", etcd(cluster, paths)),
        cluster.program("kube-apiserver", apiserver(cluster, paths)),
        cluster.program("registry", registry(cluster, paths)),
        cluster.program(
            "kube-controller-manager",
            controller_manager(cluster, paths),
        ),
        cluster.program("kube-scheduler", scheduler(cluster, paths)),
    ];
    for program in &mut programs {
        // They share processors with all tenant clusters, and memory there is enough: so garbage is
        // collected less often.
        let settings = [("GOGC", "400"), ("GOMEMLIMIT", "3GiB")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        program.env.extend(settings);
    }
    programs
}

fn etcd(cluster: &Cluster, paths: &ProgramPaths) -> Vec<String> {
    let node = cluster.slot.host_address(0);
    let data = text(&cluster.layout.etcd_data());
    let mut argv = flags(
        &paths.get("etcd"),
        &[
            ("name", "management-0"),
            ("data-dir", &data),
            ("cert-file", &cluster.pki_file("etcd.crt")),
            ("key-file", &cluster.pki_file("etcd.key")),
            ("trusted-ca-file", &cluster.pki_file("etcd-ca.crt")),
            ("client-cert-auth", "true"),
            (
                "listen-client-urls",
                &format!("https://127.0.0.1:2379,https://{node}:2379"),
            ),
            ("advertise-client-urls", &format!("https://{node}:2379")),
            ("listen-peer-urls", "http://127.0.0.1:2380"),
            ("initial-advertise-peer-urls", "http://127.0.0.1:2380"),
            ("initial-cluster", "management-0=http://127.0.0.1:2380"),
            ("log-level", "warn"),
        ],
    );
    // A lab's data are worth nothing after a power cut, and its disk is everybody's.
    argv.push("--unsafe-no-fsync".to_owned());
    argv
}

fn registry(cluster: &Cluster, paths: &ProgramPaths) -> Vec<String> {
    let mut argv = vec![
        paths.get("crane"),
        "registry".to_owned(),
        "serve".to_owned(),
    ];
    // At the host's address, and at the one that virtual machines know.
    argv.extend(["--address".to_owned(), format!("0.0.0.0:{REGISTRY_PORT}")]);
    argv.extend(["--disk".to_owned(), text(&cluster.layout.registry_data())]);
    argv
}

fn apiserver(cluster: &Cluster, paths: &ProgramPaths) -> Vec<String> {
    let slot = cluster.slot;
    flags(
        &paths.get("kube-apiserver"),
        &[
            ("advertise-address", &slot.host_address(0).to_string()),
            ("allow-privileged", "true"),
            ("audit-log-path", &text(&cluster.layout.audit_log())),
            ("audit-policy-file", &cluster.config_file("audit.yaml")),
            ("authorization-mode", "Node,RBAC"),
            ("client-ca-file", &cluster.pki_file("ca.crt")),
            ("enable-admission-plugins", "NodeRestriction"),
            ("etcd-cafile", &cluster.pki_file("etcd-ca.crt")),
            ("etcd-certfile", &cluster.pki_file("etcd-client.crt")),
            ("etcd-keyfile", &cluster.pki_file("etcd-client.key")),
            ("etcd-servers", "https://127.0.0.1:2379"),
            ("kubelet-certificate-authority", &cluster.pki_file("ca.crt")),
            (
                "kubelet-client-certificate",
                &cluster.pki_file("apiserver-kubelet-client.crt"),
            ),
            (
                "kubelet-client-key",
                &cluster.pki_file("apiserver-kubelet-client.key"),
            ),
            // Nobody resolves the hosts' names.
            ("kubelet-preferred-address-types", "InternalIP"),
            (
                "proxy-client-cert-file",
                &cluster.pki_file("front-proxy-client.crt"),
            ),
            (
                "proxy-client-key-file",
                &cluster.pki_file("front-proxy-client.key"),
            ),
            ("requestheader-allowed-names", "front-proxy-client"),
            (
                "requestheader-client-ca-file",
                &cluster.pki_file("front-proxy-ca.crt"),
            ),
            ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
            ("requestheader-group-headers", "X-Remote-Group"),
            ("requestheader-username-headers", "X-Remote-User"),
            ("secure-port", "6443"),
            (
                "service-account-issuer",
                "https://kubernetes.default.svc.cluster.local",
            ),
            (
                "service-account-key-file",
                &cluster.pki_file("service-accounts.pub"),
            ),
            (
                "service-account-signing-key-file",
                &cluster.pki_file("service-accounts.key"),
            ),
            (
                "service-cluster-ip-range",
                &slot.service_network().to_string(),
            ),
            ("tls-cert-file", &cluster.pki_file("apiserver.crt")),
            ("tls-private-key-file", &cluster.pki_file("apiserver.key")),
        ],
    )
}

fn controller_manager(cluster: &Cluster, paths: &ProgramPaths) -> Vec<String> {
    let kubeconfig = cluster.config_file("controller-manager.kubeconfig");
    flags(
        &paths.get("kube-controller-manager"),
        &[
            ("authentication-kubeconfig", &kubeconfig),
            ("authorization-kubeconfig", &kubeconfig),
            ("bind-address", "127.0.0.1"),
            ("cluster-signing-cert-file", &cluster.pki_file("ca.crt")),
            ("cluster-signing-key-file", &cluster.pki_file("ca.key")),
            ("flex-volume-plugin-dir", "/var/lib/kubelet/volume-plugins"),
            ("kube-api-burst", "400"),
            ("kube-api-qps", "200"),
            ("kubeconfig", &kubeconfig),
            ("leader-elect", "false"),
            ("root-ca-file", &cluster.pki_file("ca.crt")),
            (
                "service-account-private-key-file",
                &cluster.pki_file("service-accounts.key"),
            ),
            ("use-service-account-credentials", "true"),
        ],
    )
}

fn scheduler(cluster: &Cluster, paths: &ProgramPaths) -> Vec<String> {
    let kubeconfig = cluster.config_file("scheduler.kubeconfig");
    flags(
        &paths.get("kube-scheduler"),
        &[
            ("authentication-kubeconfig", &kubeconfig),
            ("authorization-kubeconfig", &kubeconfig),
            ("bind-address", "127.0.0.1"),
            ("kube-api-burst", "400"),
            ("kube-api-qps", "200"),
            ("kubeconfig", &kubeconfig),
            ("leader-elect", "false"),
        ],
    )
}

pub(super) fn flags(program: &str, flags: &[(&str, &str)]) -> Vec<String> {
    let shown = flags
        .iter()
        .map(|(name, value)| format!("--{name}={value}"));
    std::iter::once(program.to_owned()).chain(shown).collect()
}
