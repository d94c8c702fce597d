//! The kube-scheduler: flags and container.
//!
//! On loopback and without probes, as the kube-controller-manager and for the same reason.
//! Invariant: it speaks to the kube-apiserver of its own pod, never through the Service.

use k8s_openapi::api::core::v1::Container;

use super::{
    flags::{CIPHER_SUITES, Program, Table, args, lease_times},
    names, pod,
};
use crate::Validated;

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
};

pub(super) fn flags(v: &Validated) -> Vec<String> {
    let extra = &v.scheduler.extra_args;
    args(Program::Scheduler, &lease_times(extra), extra)
}

pub(super) fn container(v: &Validated) -> Container {
    Container {
        name: names::SCHEDULER.to_owned(),
        image: Some(format!("{}/kube-scheduler:v{}", v.registry, v.version)),
        command: Some(vec!["kube-scheduler".to_owned()]),
        args: Some(flags(v)),
        env: pod::go_threads(&v.scheduler.limits),
        resources: Some(pod::resources(&v.scheduler.requests, &v.scheduler.limits)),
        security_context: Some(pod::container_security()),
        volume_mounts: Some(vec![pod::mount(names::SCHEDULER, names::SECRET_DIR, true)]),
        ..Container::default()
    }
}
