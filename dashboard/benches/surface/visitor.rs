//! Somebody who is logged in to the dashboard, without a browser.
//!
//! Invariant: what is asked is asked over TLS of the process that is measured.

use anyhow::{Context as _, Result, ensure};
use http::header::{CONTENT_TYPE, COOKIE, SET_COOKIE};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::{Client, Config};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use testkit::fixtures::PATIENCE;

/// Somebody with a session.
pub(crate) struct Visitor {
    client: Client,
    cookie: String,
}

/// What a page listens to; it ends when it is dropped.
pub(crate) struct Stream(Body);

impl Visitor {
    /// Logs in with a token, at an address whose certificate is this one.
    pub(crate) async fn log_in(address: &str, certificate: &str, token: &str) -> Result<Self> {
        let mut config = Config::new(address.parse().context("an address")?);
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes());
        let certificate = certificate.context("a certificate")?;
        config.root_cert = Some(vec![certificate.to_vec()]);
        let mut visitor = Self {
            client: Client::try_from(config)?,
            cookie: String::new(),
        };
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("token", token)
            .finish();
        let answer = visitor.send(Method::POST, "/login", form).await?;
        let status = answer.status();
        ensure!(
            status == StatusCode::SEE_OTHER,
            "nobody was let in: {status}"
        );
        let cookie = answer.headers().get(SET_COOKIE).context("no cookie came")?;
        let cookie = cookie.to_str()?.split(';').next().unwrap_or_default();
        cookie.clone_into(&mut visitor.cookie);
        Ok(visitor)
    }

    async fn send(&self, method: Method, path: &str, form: String) -> Result<http::Response<Body>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("sec-fetch-site", "same-origin")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(COOKIE, &self.cookie);
        let request = request.body(Body::from(form.into_bytes()))?;
        let answer = tokio::time::timeout(PATIENCE, self.client.send(request)).await;
        let answer = answer.with_context(|| format!("{path} does not answer"))?;
        answer.with_context(|| format!("ask for {path}"))
    }

    /// What stands there, as bytes that are not packed.
    pub(crate) async fn get(&self, path: &str) -> Result<String> {
        let answer = self.send(Method::GET, path, String::new()).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        let text = String::from_utf8(body.to_vec()).context("not a text")?;
        ensure!(status == StatusCode::OK, "{path}: {status}: {text}");
        Ok(text)
    }

    /// Opens a stream, and waits until it misses no change.
    pub(crate) async fn listen(&self, path: &str) -> Result<Stream> {
        let answer = self.send(Method::GET, path, String::new()).await?;
        ensure!(
            answer.status() == StatusCode::OK,
            "{path}: {}",
            answer.status()
        );
        let mut stream = Stream(answer.into_body());
        let synced = tokio::time::timeout(PATIENCE, stream.synced()).await;
        synced.with_context(|| format!("{path} does not say that it follows"))??;
        Ok(stream)
    }
}

impl Stream {
    async fn synced(&mut self) -> Result<()> {
        let mut text = String::new();
        while !text.contains("event: synced") {
            let frame = self.0.frame().await.context("the stream has ended")??;
            if let Ok(data) = frame.into_data() {
                text.push_str(&String::from_utf8_lossy(&data));
            }
        }
        Ok(())
    }
}
