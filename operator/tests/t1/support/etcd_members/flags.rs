//! Flags of the members that are played.
//!
//! Invariant: they differ from those of a cluster by where a member listens, and by what a test says.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::apps::v1::StatefulSet;

use super::{MEMBERS, Ports};

/// Flags that are those of the StatefulSet, because nothing here stands in for what they are about.
const OWN_FLAGS: [&str; 3] = [
    "bootstrap-defrag-threshold-megabytes",
    "feature-gates",
    "quota-backend-bytes",
];

pub(super) fn own_flags(set: &StatefulSet, instead: &BTreeMap<String, String>) -> Vec<String> {
    let spec = set.spec.as_ref().and_then(|s| s.template.spec.as_ref());
    let args = spec.and_then(|spec| spec.containers.first()?.args.as_ref());
    let args = args.into_iter().flatten();
    let flags = args.filter_map(|arg| arg.strip_prefix("--")?.split_once('='));
    let flags = flags.filter(|(flag, _)| OWN_FLAGS.contains(flag));
    let flags = flags.map(|(flag, value)| {
        let value = instead.get(flag).map_or(value, String::as_str);
        format!("--{flag}={value}")
    });
    flags.collect()
}

/// As `tenant_cp::desired::etcd` has them, but for where a member listens.
pub(super) fn flags(
    name: &str,
    state: &str,
    ports: Ports,
    (files, volume): (&Path, &Path),
) -> Vec<String> {
    let file = |file: &str| files.join(file).display().to_string();
    let own = |kind: &str| file(&format!("{name}-{kind}"));
    let local = |scheme: &str, port: u16| format!("{scheme}://127.0.0.1:{port}");
    let cluster: Vec<_> = (0..MEMBERS)
        .map(|seat| format!("etcd-{seat}=https://etcd-{seat}:2380"))
        .collect();
    [
        ("advertise-client-urls", local("https", ports.client)),
        ("cert-file", own("server.crt")),
        ("client-cert-auth", "true".to_owned()),
        ("data-dir", volume.join("data").display().to_string()),
        (
            "initial-advertise-peer-urls",
            format!("https://{name}:2380"),
        ),
        ("initial-cluster", cluster.join(",")),
        ("initial-cluster-state", state.to_owned()),
        ("initial-cluster-token", "t1".to_owned()),
        ("key-file", own("server.key")),
        ("listen-client-http-urls", local("https", ports.http)),
        ("listen-client-urls", local("https", ports.client)),
        ("listen-metrics-urls", local("http", ports.metrics)),
        ("listen-peer-urls", local("https", ports.peer)),
        ("name", name.to_owned()),
        ("peer-cert-allowed-hostname", "etcd-peers".to_owned()),
        ("peer-cert-file", own("peer.crt")),
        ("peer-client-cert-auth", "true".to_owned()),
        ("peer-key-file", own("peer.key")),
        ("peer-skip-client-san-verification", "true".to_owned()),
        ("peer-trusted-ca-file", file("etcd-ca.crt")),
        ("trusted-ca-file", file("etcd-ca.crt")),
    ]
    .into_iter()
    .map(|(flag, value)| format!("--{flag}={value}"))
    .collect()
}
