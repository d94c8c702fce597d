//! Files and flags of etcd, kube-apiserver and kube-controller-manager.
//!
//! Invariant: every server listens on 127.0.0.1 only and writes below its folder only.

use std::path::Path;

use anyhow::{Context as _, Result};
use rcgen::KeyPair;

use super::Options;
use crate::certs::{Authority, PROXY};
use crate::process::Workdir;

/// Name of the audit log in the folder.
pub(super) const AUDIT_LOG: &str = "audit.log";

/// Certificate and key of the authority of the server and its clients.
pub(super) const CA: (&str, &str) = ("ca.crt", "ca.key");
/// Certificate and key of the authority of authenticating proxies.
pub(super) const FRONT_PROXY: (&str, &str) = ("front-proxy-ca.crt", "front-proxy-ca.key");
/// Kubeconfig of the administrator.
pub(super) const KUBECONFIG: &str = "admin.kubeconfig";

/// Metadata of every request, when it arrives (in mode `blocking` written before it is carried
/// out, so that a count is exact as soon as the caller has its answer) and when it is answered.
const AUDIT_POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [
    {"level": "None", "nonResourceURLs": ["/readyz*", "/livez*", "/healthz*"]},
    {"level": "Metadata"}]}"#;

pub(super) fn write_files(dir: &Workdir, ca: &Authority, front_proxy: &Authority) -> Result<()> {
    let serving = ca.server("kube-apiserver", &["kubernetes.default.svc", "10.96.0.1"])?;
    let accounts = KeyPair::generate().context("cannot generate a key")?;
    for (name, content) in [
        (CA.0, ca.pem()),
        (CA.1, ca.key()),
        (FRONT_PROXY.0, front_proxy.pem()),
        (FRONT_PROXY.1, front_proxy.key()),
        ("apiserver.crt", serving.cert),
        ("apiserver.key", serving.key),
        ("sa.key", accounts.serialize_pem()),
        ("sa.pub", accounts.public_key_pem()),
        ("audit-policy.json", AUDIT_POLICY.to_owned()),
    ] {
        dir.write(name, &content)?;
    }
    Ok(())
}

pub(super) fn etcd(dir: &Path, client: u16, peer: u16) -> Vec<String> {
    let (client, peer) = (
        format!("http://127.0.0.1:{client}"),
        format!("http://127.0.0.1:{peer}"),
    );
    [
        ("name", "testkit".to_owned()),
        ("data-dir", dir.join("etcd").display().to_string()),
        ("listen-client-urls", client.clone()),
        ("advertise-client-urls", client),
        ("listen-peer-urls", peer.clone()),
        ("initial-advertise-peer-urls", peer.clone()),
        ("initial-cluster", format!("testkit={peer}")),
        // Nothing here has to survive a power cut, and it is several times quicker.
        ("unsafe-no-fsync", "true".to_owned()),
        ("log-level", "warn".to_owned()),
    ]
    .map(flag)
    .to_vec()
}

pub(super) fn apiserver(dir: &Path, etcd: &str, port: u16, options: &Options) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    let mut flags = [
        ("etcd-servers", etcd.to_owned()),
        ("bind-address", "127.0.0.1".to_owned()),
        ("secure-port", port.to_string()),
        // Endpoints may not be loopback addresses, so the Service `kubernetes` gets none.
        ("advertise-address", "127.0.0.1".to_owned()),
        ("endpoint-reconciler-type", "none".to_owned()),
        ("service-cluster-ip-range", "10.96.0.0/12".to_owned()),
        ("cert-dir", file("certs")),
        ("tls-cert-file", file("apiserver.crt")),
        ("tls-private-key-file", file("apiserver.key")),
        ("client-ca-file", file("ca.crt")),
        ("requestheader-client-ca-file", file("front-proxy-ca.crt")),
        ("requestheader-allowed-names", PROXY.to_owned()),
        ("requestheader-username-headers", "X-Remote-User".to_owned()),
        ("requestheader-group-headers", "X-Remote-Group".to_owned()),
        (
            "requestheader-extra-headers-prefix",
            "X-Remote-Extra-".to_owned(),
        ),
        ("authorization-mode", "RBAC".to_owned()),
        (
            "service-account-issuer",
            "https://kubernetes.default.svc".to_owned(),
        ),
        ("service-account-key-file", file("sa.pub")),
        ("service-account-signing-key-file", file("sa.key")),
        ("audit-policy-file", file("audit-policy.json")),
        ("audit-log-path", file(AUDIT_LOG)),
        ("audit-log-mode", "blocking".to_owned()),
        ("audit-log-maxsize", "1000".to_owned()),
        ("profiling", "false".to_owned()),
        ("v", "1".to_owned()),
    ]
    .map(flag)
    .to_vec();
    flags.extend(options.apiserver_flags.iter().cloned());
    flags
}

pub(super) fn controller_manager(dir: &Path, port: u16, controllers: &[&str]) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    [
        ("kubeconfig", file(KUBECONFIG)),
        ("bind-address", "127.0.0.1".to_owned()),
        ("secure-port", port.to_string()),
        ("cert-dir", file("certs")),
        ("tls-cert-file", file("apiserver.crt")),
        ("tls-private-key-file", file("apiserver.key")),
        ("root-ca-file", file("ca.crt")),
        ("service-account-private-key-file", file("sa.key")),
        ("controllers", controllers.join(",")),
        ("leader-elect", "false".to_owned()),
        // A claim that is seen before its volume is looked at again only then; the default is 15 s.
        ("pvclaimbinder-sync-period", "1s".to_owned()),
        // Deleting is what it is here for: the default of 20 requests per second would be felt.
        ("kube-api-qps", "500".to_owned()),
        ("kube-api-burst", "1000".to_owned()),
        ("v", "1".to_owned()),
    ]
    .map(flag)
    .to_vec()
}

fn flag((name, value): (&str, String)) -> String {
    format!("--{name}={value}")
}
