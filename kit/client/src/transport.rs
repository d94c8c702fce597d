//! Transport to an API server: everything over HTTP/2 connections that many watches share. kube's
//! own speaks HTTP/1.1, where each watch holds a TLS connection on both sides and each burst of
//! requests opens several. A server in front that knows no HTTP/2 is spoken to in HTTP/1.1.
//!
//! Invariants: no connection has more than [`MOST_STREAMS`] requests open, so that none waits for a
//! watch to end; one whose other end has gone silent is given up within [`ALIVE_EVERY`] plus
//! [`ALIVE_WITHIN`], so that watches on it end and come back.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{self, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::{Body, ConfigExt, DynBody};
use rustls::client::Resumption;
use rustls_pki_types::ServerName;
use tower::util::BoxService;
use tower::{BoxError, Service, ServiceBuilder};

use crate::crypto::install_crypto;
use crate::error::Error;

/// Pause between two pings of a connection on which something is open.
const ALIVE_EVERY: Duration = Duration::from_secs(20);
/// An answer to a ping must come within this.
const ALIVE_WITHIN: Duration = Duration::from_secs(10);
/// Requests open on one connection, watches included. Servers allow 100 and more (RFC 9113 §6.5.2).
const MOST_STREAMS: usize = 64;

/// Credentials and connections, around which a caller's layer goes.
pub type Transport = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// Makes the transport. Nothing is sent yet.
///
/// # Errors
/// [`Error::Build`], when credentials are not usable; [`Error::ServerName`]; [`Error::Proxy`].
pub fn transport(config: &Config) -> Result<Transport, Error> {
    install_crypto();
    if config.proxy_url.is_some() {
        return Err(Error::Proxy);
    }
    let failed = |source| Error::Build(Box::new(source));
    let mut tls = config.rustls_client_config().map_err(failed)?;
    // Connections are few and stay, so nothing is remembered of earlier ones.
    tls.resumption = Resumption::disabled();
    // Plain HTTP is what kubectl proxy speaks.
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone()).map_err(Error::ServerName)?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(config.connect_timeout);
    let connections = Connections {
        connector: builder.enable_all_versions().wrap_connector(connector),
        all: Arc::default(),
    };
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(failed)?)
        .layer(config.extra_headers_layer().map_err(failed)?)
        .map_response(|response: Response<Counted>| response.map(|body| Box::new(body) as _))
        .service(connections);
    Ok(BoxService::new(service))
}

/// The connections to one server.
#[derive(Clone)]
struct Connections {
    connector: HttpsConnector<HttpConnector>,
    all: Arc<Mutex<Vec<Connection>>>,
}

/// What hyper calls a client: one connection where HTTP/2 is spoken, which is opened when it is
/// needed and closed when it was not for a while.
#[derive(Clone)]
struct Connection {
    client: Client<HttpsConnector<HttpConnector>, Body>,
    /// One more owner for each request that is open.
    open: Arc<()>,
}

impl Connections {
    /// The first with room for another request, so that those that come and go share it with
    /// those that stay.
    fn with_room(&self) -> Connection {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = |c: &&Connection| Arc::strong_count(&c.open) <= MOST_STREAMS;
        if let Some(found) = all.iter().find(has_room) {
            return found.clone();
        }
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_keep_alive_interval(ALIVE_EVERY)
            .http2_keep_alive_timeout(ALIVE_WITHIN)
            .build(self.connector.clone());
        let open = Arc::new(());
        let connection = Connection { client, open };
        all.push(connection.clone());
        connection
    }
}

impl Service<Request<Body>> for Connections {
    type Response = Response<Counted>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Connection { client, open } = self.with_room();
        let answer = client.request(request);
        async move {
            let answer = answer.await?;
            Ok(answer.map(|body| Counted { body, _open: open }))
        }
        .boxed()
    }
}

/// The body of an answer: as long as it is there, its request is open.
struct Counted {
    body: Incoming,
    _open: Arc<()>,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        frame.map_err(BoxError::from)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
