//! A transport that sends everything over one HTTP/2 connection, for API servers of which there are
//! many: kube's own speaks HTTP/1.1, where each watch holds a TLS connection on both sides and each
//! burst of requests opens several.
//!
//! Invariant: a connection whose other end has gone silent is given up within [`ALIVE_EVERY`] plus
//! [`ALIVE_WITHIN`], so that watches on it end and come back.

use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::{Body, ConfigExt};
use rustls_pki_types::ServerName;
use tower::util::BoxService;
use tower::{BoxError, ServiceBuilder};

use super::{Error, install_crypto};

/// Pause between two pings of a connection on which something is open.
const ALIVE_EVERY: Duration = Duration::from_secs(20);
/// An answer to a ping must come within this.
const ALIVE_WITHIN: Duration = Duration::from_secs(10);

/// Requests and answers over one connection.
pub type Multiplexed = BoxService<Request<Body>, Response<Incoming>, BoxError>;

/// Makes the transport. Credentials are those of the TLS handshake: a client certificate, not a
/// token. Nothing is sent yet.
///
/// # Errors
/// [`Error::Build`], when certificates or names are not usable.
pub fn transport(config: &Config) -> Result<Multiplexed, Error> {
    install_crypto();
    let failed = |source| Error::Build(Box::new(source));
    let tls = config.rustls_client_config().map_err(failed)?;
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone()).map_err(Error::ServerName)?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(config.connect_timeout);
    let connector = builder.enable_http2().wrap_connector(connector);
    let client: Client<_, Body> = Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_only(true)
        .http2_keep_alive_interval(ALIVE_EVERY)
        .http2_keep_alive_timeout(ALIVE_WITHIN)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .map_err(BoxError::from)
        .service(client);
    Ok(BoxService::new(service))
}
