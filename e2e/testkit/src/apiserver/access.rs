//! Ways into a server: client configurations and kubeconfigs from PEM.
//!
//! Invariant: pure; a kubeconfig that is given out can be read by kube.

use anyhow::{Context as _, Result};
use kube::config::{AuthInfo, Config, Kubeconfig};

use crate::certs::Identity;

/// A client configuration from an address, an authority and a certificate.
pub fn config(url: &str, ca: &str, identity: &Identity) -> Result<Config> {
    let mut config = Config::new(url.parse().context("not a URL")?);
    config.root_cert = Some(vec![crate::tls::certificate(ca)?.to_vec()]);
    config.auth_info = AuthInfo {
        client_certificate_data: Some(base64(&identity.cert)),
        client_key_data: Some(base64(&identity.key).into()),
        ..AuthInfo::default()
    };
    Ok(config)
}

/// A kubeconfig as YAML (which JSON is) from an address, an authority and a certificate.
pub fn kubeconfig(url: &str, ca: &str, identity: &Identity) -> Result<String> {
    let value = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "testkit",
        "clusters": [{"name": "testkit", "cluster": {
            "server": url, "certificate-authority-data": base64(ca) }}],
        "users": [{"name": "testkit", "user": {
            "client-certificate-data": base64(&identity.cert),
            "client-key-data": base64(&identity.key) }}],
        "contexts": [{"name": "testkit", "context": {"cluster": "testkit", "user": "testkit"}}],
    });
    // What kube cannot read is no kubeconfig.
    Kubeconfig::from_yaml(&value.to_string()).context("not a kubeconfig")?;
    serde_json::to_string_pretty(&value).context("cannot write a kubeconfig")
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
