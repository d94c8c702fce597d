//! Serves HTTP over TLS.
//!
//! Invariant: no peer can hold the server up, see [`crate::connections`]; that a handshake takes no
//! longer than it may is seen there.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::connections::settings::Settings;
use crate::connections::{self, Handshake, Serve, Server};
use crate::shutdown::Shutdown;

/// Binds `address` and serves `service` until the shutdown starts. The port is open when this
/// returns.
///
/// # Errors
/// When the address cannot be bound.
pub async fn serve<S: Serve>(
    address: SocketAddr,
    config: ServerConfig,
    service: S,
    settings: Settings,
    shutdown: &Shutdown,
) -> io::Result<Server> {
    let listener = TcpListener::bind(address).await?;
    serve_on(listener, config, service, settings, shutdown)
}

/// As [`serve`], on a port that is open already.
///
/// # Errors
/// When the address of the port cannot be told.
pub fn serve_on<S: Serve>(
    listener: TcpListener,
    config: ServerConfig,
    service: S,
    settings: Settings,
    shutdown: &Shutdown,
) -> io::Result<Server> {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    connections::serve(listener, acceptor, service, settings, shutdown)
}

impl Handshake for TlsAcceptor {
    type Stream = TlsStream<TcpStream>;

    fn handshake(
        &self,
        stream: TcpStream,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send + 'static {
        self.accept(stream)
    }
}
