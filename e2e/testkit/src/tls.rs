//! rustls for both sides, with the one provider of the workspace, and a bare GET.
//!
//! Invariant: certificates are always verified; there is no way to switch it off.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The first certificate of a PEM text.
pub(crate) fn certificate(pem: &str) -> Result<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).context("not a certificate in PEM")
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn roots(pem: &str) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.context("not a certificate in PEM")?;
        roots
            .add(certificate)
            .context("not a certificate of an authority")?;
    }
    Ok(roots)
}

/// A server that asks for a client certificate of `client_ca` and accepts to get none (then the
/// caller is anonymous, or has a token). `protocols` are those of HTTP that it speaks.
pub(crate) fn server(
    (cert, key): (&str, &str),
    client_ca: &str,
    protocols: &[&str],
) -> Result<Arc<ServerConfig>> {
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots(client_ca)?), provider())
            .allow_unauthenticated()
            .build()
            .context("cannot verify clients with this authority")?;
    let chain = CertificateDer::pem_slice_iter(cert.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .context("the serving certificate is not PEM")?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).context("the key is not PEM")?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .context("no TLS version")?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .context("certificate and key do not belong together")?;
    config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
    Ok(Arc::new(config))
}

/// Common name and organisations of a client certificate.
pub(crate) fn subject(certificate: &CertificateDer<'_>) -> Option<(String, Vec<String>)> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let subject = parsed.subject();
    let user = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups = subject.iter_organization().filter_map(|o| o.as_str().ok());
    Some((user, groups.map(str::to_owned).collect()))
}

/// GET of one URL, `http` or `https`, on a new connection each time.
pub(crate) struct Get {
    uri: Uri,
    tls: Option<TlsConnector>,
}

impl Get {
    /// `ca` is not looked at for `http`.
    pub(crate) fn new(url: &str, ca: &str) -> Result<Self> {
        let uri: Uri = url.parse().context("not a URL")?;
        let tls = if uri.scheme_str() == Some("https") {
            let config = ClientConfig::builder_with_provider(provider())
                .with_safe_default_protocol_versions()
                .context("no TLS version")?
                .with_root_certificates(roots(ca)?)
                .with_no_client_auth();
            Some(TlsConnector::from(Arc::new(config)))
        } else {
            None
        };
        Ok(Self { uri, tls })
    }

    /// Whether the answer is 200, within two seconds.
    pub(crate) async fn is_ok(&self) -> bool {
        let answer = tokio::time::timeout(Duration::from_secs(2), self.status()).await;
        matches!(answer, Ok(Ok(200)))
    }

    async fn status(&self) -> Result<u16> {
        let authority = self.uri.authority().context("the URL has no host")?;
        let stream = TcpStream::connect(authority.as_str()).await?;
        match &self.tls {
            None => self.ask(TokioIo::new(stream)).await,
            Some(tls) => {
                let name = ServerName::try_from(authority.host().to_owned())?;
                self.ask(TokioIo::new(tls.connect(name, stream).await?))
                    .await
            }
        }
    }

    async fn ask<IO>(&self, io: IO) -> Result<u16>
    where
        IO: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
        let driver = tokio::spawn(connection);
        let host = self
            .uri
            .authority()
            .context("the URL has no host")?
            .as_str();
        let request = Request::get(self.uri.path()).header("host", host);
        let answer = sender
            .send_request(request.body(Empty::<Bytes>::new())?)
            .await;
        driver.abort();
        Ok(answer?.status().as_u16())
    }
}
