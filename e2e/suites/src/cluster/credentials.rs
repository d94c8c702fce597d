//! Clients made from certificates and tokens.
//!
//! Invariant: none of them tries again by itself, so a test or a bench sees every refusal.

use std::time::Duration;

use anyhow::{Context as _, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::{Client, Config, config::Kubeconfig};
use serde_json::{Value, json};

/// Longest time for one connection, and for one answer.
const CONNECT: Duration = Duration::from_millis(500);
const ANSWER: Duration = Duration::from_secs(10);

/// Who asks.
#[derive(Clone, Debug)]
pub enum Identity {
    /// PEM certificate and key.
    Certificate {
        /// Certificate.
        certificate: Vec<u8>,
        /// Key.
        key: Vec<u8>,
    },
    /// Bearer token.
    Token(String),
    /// Nobody.
    Anonymous,
}

/// A client for `server` (a URL) that trusts `authority` (PEM).
///
/// # Errors
/// When the material is not what it should be.
pub async fn client(server: &str, authority: &[u8], identity: &Identity) -> Result<Client> {
    from_kubeconfig(kubeconfig(server, authority, identity, None)?).await
}

/// The same, for a server that has to prove that it is called `name`.
///
/// # Errors
/// When the material is not what it should be.
pub async fn named(
    server: &str,
    authority: &[u8],
    identity: &Identity,
    name: &str,
) -> Result<Client> {
    from_kubeconfig(kubeconfig(server, authority, identity, Some(name))?).await
}

fn kubeconfig(
    server: &str,
    authority: &[u8],
    identity: &Identity,
    name: Option<&str>,
) -> Result<Kubeconfig> {
    let user = match identity {
        Identity::Certificate { certificate, key } => json!({
            "client-certificate-data": STANDARD.encode(certificate),
            "client-key-data": STANDARD.encode(key),
        }),
        Identity::Token(token) => json!({ "token": token }),
        Identity::Anonymous => json!({}),
    };
    let mut cluster = json!({
        "server": server,
        "certificate-authority-data": STANDARD.encode(authority),
    });
    if let Some(name) = name {
        cluster["tls-server-name"] = name.into();
    }
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{ "name": "x", "cluster": cluster }],
        "users": [{ "name": "x", "user": user }],
        "contexts": [{ "name": "x", "context": { "cluster": "x", "user": "x" } }],
    });
    Ok(serde_json::from_value(kubeconfig)?)
}

/// A client from a kubeconfig.
///
/// # Errors
/// When it is not a kubeconfig with embedded credentials.
pub async fn from_kubeconfig(kubeconfig: Kubeconfig) -> Result<Client> {
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(ANSWER);
    config.write_timeout = Some(ANSWER);
    config.default_retry = false;
    Client::try_from(config).context("no client can be made of the kubeconfig")
}

/// What is in a kubeconfig with one cluster and one user.
#[derive(Clone, Debug)]
pub struct Access {
    /// URL.
    pub server: String,
    /// PEM.
    pub authority: Vec<u8>,
    /// PEM.
    pub certificate: Vec<u8>,
    /// PEM.
    pub key: Vec<u8>,
}

impl Access {
    /// The user.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity::Certificate {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
        }
    }
}

/// Reads a kubeconfig.
///
/// # Errors
/// When something is missing.
pub fn parts(kubeconfig: &str) -> Result<Access> {
    let parsed = Kubeconfig::from_yaml(kubeconfig).context("not a kubeconfig")?;
    let value: Value = serde_json::to_value(&parsed)?;
    let text = |pointer: &str| {
        let text = value.pointer(pointer).and_then(Value::as_str);
        text.with_context(|| format!("the kubeconfig lacks {pointer}"))
    };
    let decode = |text: &str| STANDARD.decode(text).context("not base64");
    // Keys are hidden when a Kubeconfig is serialised, so this one is read from the text.
    let key = kubeconfig
        .lines()
        .find_map(|line| line.trim().strip_prefix("client-key-data:"))
        .context("the kubeconfig lacks client-key-data")?;
    Ok(Access {
        server: text("/clusters/0/cluster/server")?.to_owned(),
        authority: decode(text("/clusters/0/cluster/certificate-authority-data")?)?,
        certificate: decode(text("/users/0/user/client-certificate-data")?)?,
        key: decode(key.trim())?,
    })
}
