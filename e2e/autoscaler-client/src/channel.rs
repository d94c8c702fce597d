//! One connection to the provider: gRPC over TLS, unary calls alone.
//!
//! Made of `h2` and not of tonic's client, because grpc-go gathers the head and the message of a call
//! in one write (`internal/transport/controlbuf.go`, `loopyWriter.run` flushes when nothing is left),
//! and how often the other side is woken decides what a loop takes.
//!
//! Invariant: it connects when it is first used and again when the connection is gone; no call is
//! made twice.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::{BufMut as _, Bytes, BytesMut};
use h2::RecvStream;
use h2::client::SendRequest;
use http::header::{CONTENT_TYPE, HeaderValue, TE, USER_AGENT};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Method, Request, StatusCode, Uri, Version};
use proto::Message;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;
use tonic::Status;

use crate::credentials::Credentials;

/// Before a message stand whether it is compressed, and its length in four bytes.
const PREFIX: usize = 5;

/// A connection that is made when it is needed.
pub(crate) struct Channel {
    address: String,
    name: ServerName<'static>,
    authority: Authority,
    tls: TlsConnector,
    live: Mutex<Option<SendRequest<Bytes>>>,
}

impl Channel {
    /// One to `address`, whose certificate has to be for `name`.
    pub(crate) fn new(address: &str, name: &str, shown: &Credentials) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for ca in CertificateDer::pem_slice_iter(shown.ca.as_bytes()) {
            roots.add(ca.context("the authority is no certificate")?)?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match &shown.identity {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
                let chain = chain.collect::<Result<Vec<_>, _>>();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
                config.with_client_auth_cert(chain?, key?)?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            address: address.to_owned(),
            name: ServerName::try_from(name.to_owned())?,
            authority: Authority::try_from(name)?,
            tls: TlsConnector::from(Arc::new(config)),
            live: Mutex::default(),
        })
    }

    /// Makes one call, within `limit`.
    pub(crate) async fn unary<Q: Message, A: Message + Default>(
        &self,
        path: &'static str,
        question: &Q,
        limit: Duration,
    ) -> Result<A, Status> {
        let call = async {
            let message = self.ask(path, question, limit).await?;
            let answer = message.get(PREFIX..).map(A::decode);
            let answer = answer.ok_or_else(|| Status::internal("an answer without a message"))?;
            answer.map_err(|error| Status::internal(error.to_string()))
        };
        match tokio::time::timeout(limit, call).await {
            Ok(answer) => answer,
            Err(_) => Err(Status::deadline_exceeded(format!("no answer in {limit:?}"))),
        }
    }

    async fn ask<Q: Message>(
        &self,
        path: &'static str,
        question: &Q,
        limit: Duration,
    ) -> Result<Bytes, Status> {
        let head = self.head(path, limit)?;
        let message = encode(question);
        let mut connection = self.connection().await?;
        // Both are only queued here; the connection's own task sends them, in one write.
        let (answer, mut body) = connection.send_request(head, false).map_err(broken)?;
        body.send_data(message, true).map_err(broken)?;
        let (head, body) = answer.await.map_err(broken)?.into_parts();
        if head.status != StatusCode::OK {
            return Err(Status::unknown(format!("HTTP status {}", head.status)));
        }
        // An answer that is an error has no message, and its trailers are its head.
        if head.headers.contains_key(GRPC_STATUS) {
            succeeded(&head.headers)?;
        }
        receive(body).await
    }

    fn head(&self, path: &'static str, limit: Duration) -> Result<Request<()>, Status> {
        let mut uri = http::uri::Parts::default();
        uri.scheme = Some(Scheme::HTTPS);
        uri.authority = Some(self.authority.clone());
        uri.path_and_query = Some(PathAndQuery::from_static(path));
        let uri = Uri::from_parts(uri).map_err(|error| Status::internal(error.to_string()))?;
        let mut head = Request::new(());
        *head.method_mut() = Method::POST;
        *head.uri_mut() = uri;
        *head.version_mut() = Version::HTTP_2;
        let timeout = HeaderValue::try_from(format!("{}m", limit.as_millis()));
        let timeout = timeout.map_err(|error| Status::internal(error.to_string()))?;
        let headers = head.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(USER_AGENT, HeaderValue::from_static("autoscaler-client"));
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert("grpc-timeout", timeout);
        Ok(head)
    }

    /// The present connection, or another one when it is gone.
    async fn connection(&self) -> Result<SendRequest<Bytes>, Status> {
        let mut live = self.live.lock().await;
        if let Some(present) = live.take()
            && let Ok(ready) = present.ready().await
        {
            *live = Some(ready.clone());
            return Ok(ready);
        }
        let unavailable = |error: anyhow::Error| Status::unavailable(format!("{error:#}"));
        let made = self.connect().await.map_err(unavailable)?;
        *live = Some(made.clone());
        Ok(made)
    }

    async fn connect(&self) -> Result<SendRequest<Bytes>> {
        let stream = TcpStream::connect(&self.address).await;
        let stream = stream.with_context(|| format!("connect to {}", self.address))?;
        stream.set_nodelay(true)?;
        let stream = self.tls.connect(self.name.clone(), stream).await?;
        let (ask, connection) = h2::client::handshake(stream).await?;
        tokio::spawn(async move {
            // Whoever asks is told what became of it.
            let _ = connection.await;
        });
        Ok(ask.ready().await?)
    }
}

const GRPC_STATUS: &str = "grpc-status";

fn encode(question: &impl Message) -> Bytes {
    let length = question.encoded_len();
    let mut message = BytesMut::with_capacity(PREFIX + length);
    message.put_u8(0);
    // Requests are far from four gigabytes.
    message.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // It grows as far as it has to, so encoding cannot fail.
    let _ = question.encode(&mut message);
    message.freeze()
}

/// The message, and how the call ended.
async fn receive(mut body: RecvStream) -> Result<Bytes, Status> {
    let mut message = Bytes::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.map_err(broken)?;
        body.flow_control()
            .release_capacity(chunk.len())
            .map_err(broken)?;
        message = match message.is_empty() {
            true => chunk,
            false => [message, chunk].concat().into(),
        };
    }
    let trailers = body.trailers().await.map_err(broken)?;
    succeeded(&trailers.unwrap_or_default())?;
    Ok(message)
}

fn succeeded(trailers: &HeaderMap) -> Result<(), Status> {
    if trailers.get(GRPC_STATUS).is_some_and(|code| code == "0") {
        return Ok(());
    }
    match Status::from_header_map(trailers) {
        Some(status) => Err(status),
        None => Err(Status::unknown("the answer does not say how it ended")),
    }
}

fn broken(error: h2::Error) -> Status {
    Status::unavailable(format!("the connection broke: {error}"))
}
