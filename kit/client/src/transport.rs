//! Transport to an API server: everything over HTTP/2 connections that many watches share. kube's
//! own speaks HTTP/1.1, where each watch holds a TLS connection on both sides and each burst of
//! requests opens several. A server in front that knows no HTTP/2 is spoken to in HTTP/1.1.
//!
//! Invariants: no connection has more than [`MOST_STREAMS`] requests open, so that none waits for a
//! watch to end; one whose other end has gone silent is given up within [`ALIVE_EVERY`] plus
//! [`ALIVE_WITHIN`], so that watches on it end and come back; a request is sent twice only where the
//! server says that it did nothing with the first.

use std::error::Error as _;
use std::iter;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{self, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use h2::Reason;
use http::{Request, Response};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error as LegacyError};
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

    async fn ask(&self, request: Request<Body>) -> Result<Response<Counted>, LegacyError> {
        let Connection { client, open } = self.with_room();
        let answer = client.request(request).await?;
        Ok(answer.map(|body| Counted { body, _open: open }))
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
        let connections = self.clone();
        async move {
            let again = copy(&request);
            match (connections.ask(request).await, again) {
                (Err(error), Some(again)) if is_untouched(&error) => {
                    Ok(connections.ask(again).await?)
                }
                (answer, _) => Ok(answer?),
            }
        }
        .boxed()
    }
}

/// The same request; none where its body comes bit by bit.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    copy.headers_mut().clone_from(request.headers());
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

/// Whether the server did nothing with a request, and says so: it was on its way, or not sent, when the server said that it
/// takes no more on this connection, as one does that ends, and kube-apiserver does now and then so that clients spread
/// (`--goaway-chance`). RFC 9113 §6.8 and §8.7 have both be tried again whatever the method is, as Go's client does.
fn is_untouched(error: &LegacyError) -> bool {
    let mut causes = iter::successors(error.source(), |&cause| cause.source());
    let cause = causes.find_map(|cause| cause.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| {
        let leaves = cause.is_go_away() && cause.reason() == Some(Reason::NO_ERROR);
        let refuses = cause.is_reset() && cause.reason() == Some(Reason::REFUSED_STREAM);
        cause.is_remote() && (leaves || refuses)
    })
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
