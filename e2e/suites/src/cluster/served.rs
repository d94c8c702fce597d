//! The certificate that a tenant's endpoint serves just now.
//!
//! Invariant: it is asked by a connection of its own, so what an older one was given does not count.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::tenant_cluster::EndpointStatus;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use x509_parser::pem::parse_x509_pem;

/// The certificate, DER; it must be the authority's (PEM).
///
/// # Errors
/// When nobody answers, or somebody with another authority.
pub async fn served(endpoint: &EndpointStatus, authority: &[u8]) -> Result<Vec<u8>> {
    let (_, pem) = parse_x509_pem(authority)?;
    let mut roots = RootCertStore::empty();
    roots.add(pem.contents.into())?;
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream =
        TcpStream::connect((endpoint.host.as_str(), u16::try_from(endpoint.port)?)).await?;
    let name = ServerName::try_from(endpoint.host.clone())?;
    let tls = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    let certificates = tls.get_ref().1.peer_certificates().unwrap_or_default();
    let first = certificates.first().context("no certificate is served")?;
    Ok(first.to_vec())
}
