//! The probes of kubelet: a connection of its own for each, as often as the container says.
//!
//! Invariant: an answer that is no 200 is told; it ends nothing.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// Who asks what again and again; it ends when it is dropped.
pub(crate) struct Probes(Vec<JoinHandle<()>>);

impl Drop for Probes {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

/// One of them.
#[derive(Clone)]
struct Probe {
    name: String,
    path: String,
    port: u16,
    period: Duration,
    tls: Option<TlsConnector>,
}

/// All readiness and liveness probes of a container whose ports are mapped by `port`.
///
/// # Errors
/// When one of them cannot be read.
pub(crate) fn of_container(
    container: &Value,
    authority: &str,
    times: u32,
    port: impl Fn(u64) -> u16,
) -> Result<Probes> {
    let mut tasks = Vec::new();
    for kind in ["readinessProbe", "livenessProbe"] {
        let probe = &container[kind];
        let Some(get) = probe["httpGet"].as_object().filter(|_| times > 0) else {
            continue;
        };
        let text = |field: &str| get[field].as_str().unwrap_or_default().to_owned();
        let period = probe["periodSeconds"].as_u64().context("no period")?;
        let is_tls = text("scheme") == "HTTPS";
        let probe = Probe {
            name: format!("{kind} of {}", container["name"]),
            path: text("path"),
            port: port(get["port"].as_u64().context("no port")?),
            period: Duration::from_secs(period) * times,
            tls: is_tls.then(|| connector(authority)).transpose()?,
        };
        tasks.push(tokio::spawn(ask_for_ever(probe)));
    }
    Ok(Probes(tasks))
}

fn connector(authority: &str) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(certificate.context("not a certificate")?)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn ask_for_ever(probe: Probe) {
    let mut ticks = tokio::time::interval(probe.period);
    loop {
        ticks.tick().await;
        if let Err(error) = ask(&probe).await {
            eprintln!("{}: {error:#}", probe.name);
        }
    }
}

async fn ask(probe: &Probe) -> Result<()> {
    let stream = TcpStream::connect(("127.0.0.1", probe.port)).await?;
    let answer = match &probe.tls {
        None => get(stream, &probe.path).await?,
        Some(tls) => {
            let name = ServerName::try_from("kubernetes")?;
            get(tls.connect(name, stream).await?, &probe.path).await?
        }
    };
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    Ok(())
}

async fn get(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str) -> Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
