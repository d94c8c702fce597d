//! Serves HTTP over TLS: accept, handshake, requests, graceful end.
//!
//! Invariant: no peer can hold the server up. Connections are capped, and handshake, request head
//! and the graceful end have time-outs; one connection's failure never ends the loop.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tower::Service;

use crate::shutdown::Shutdown;

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Open connections; more wait in the kernel's queue. Default 512.
    pub connections: usize,
    /// For the TLS handshake, and again for the head of a request. Default 10 s.
    pub handshake: Duration,
    /// For requests that run when the shutdown starts. Default 10 s.
    pub grace: Duration,
    /// Begins each request of HTTP/2 within the task of its connection, and gives it a task of its
    /// own only when it has to wait. Suits answers that are in memory: an answer is on its way with
    /// one write, and nothing is woken for it. Default: no, so that one that needs a processor for
    /// long does not hold up others of its connection.
    pub at_once: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let ten = Duration::from_secs(10);
        Self {
            connections: 512,
            handshake: ten,
            grace: ten,
            at_once: false,
        }
    }
}

/// What a server can serve: a router of axum, a service of tonic.
pub trait Serve:
    Service<
        Request<Incoming>,
        Response = Response<<Self as Serve>::Answer>,
        Error: Into<Box<dyn Error + Send + Sync>>,
        Future: Send + 'static,
    > + Clone
    + Send
    + 'static
{
    /// The body of an answer.
    type Answer: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;
}

impl<S, B> Serve for S
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    S::Future: Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    type Answer = B;
}

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    /// The address really bound.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    /// Resolves when the last connection has ended after the shutdown.
    pub async fn ended(self) {
        // It fails only when the runtime ends, and then it has ended too.
        let _ = self.task.await;
    }
}

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
    let address = listener.local_addr()?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listening = Listening {
        listener,
        acceptor,
        service,
        settings,
        shutdown: shutdown.clone(),
    };
    Ok(Server {
        address,
        task: tokio::spawn(listening.run()),
    })
}

struct Listening<S> {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    service: S,
    settings: Settings,
    shutdown: Shutdown,
}

impl<S: Serve> Listening<S> {
    async fn run(self) {
        let permits = Arc::new(Semaphore::new(self.settings.connections));
        let mut connections = JoinSet::new();
        while let Some((stream, permit)) =
            self.shutdown.until(accept(&self.listener, &permits)).await
        {
            let connection = Connection {
                acceptor: self.acceptor.clone(),
                service: self.service.clone(),
                settings: self.settings,
                shutdown: self.shutdown.clone(),
            };
            connections.spawn(connection.run(stream, permit));
            // Collects those that have ended, so that the set does not grow.
            while connections.try_join_next().is_some() {}
        }
        let Self {
            listener, settings, ..
        } = self;
        drop(listener);
        let all = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(settings.grace, all).await.is_err() {
            tracing::warn!("connections still open after the grace period are cut");
        }
    }
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> (TcpStream, OwnedSemaphorePermit) {
    loop {
        let Ok(permit) = Arc::clone(permits).acquire_owned().await else {
            // Nobody closes the semaphore; if somebody did, no more connections is right.
            std::future::pending::<()>().await;
            continue;
        };
        match listener.accept().await {
            Ok((stream, _)) => return (stream, permit),
            Err(error) => {
                // Out of file descriptors, or the peer is gone already: neither ends the loop.
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

struct Connection<S> {
    acceptor: TlsAcceptor,
    service: S,
    settings: Settings,
    shutdown: Shutdown,
}

impl<S: Serve> Connection<S> {
    async fn run(self, stream: TcpStream, permit: OwnedSemaphorePermit) {
        let Self {
            acceptor,
            service,
            settings,
            shutdown,
        } = self;
        // Small answers at once; without it a webhook's answer may wait 40 ms for an ACK.
        let _ = stream.set_nodelay(true);
        let handshake = tokio::time::timeout(settings.handshake, acceptor.accept(stream));
        let stream = match shutdown.until(handshake).await {
            Some(Ok(Ok(stream))) => stream,
            Some(Ok(Err(error))) => return tracing::debug!(%error, "TLS handshake failed"),
            Some(Err(_)) => return tracing::debug!("TLS handshake took too long"),
            None => return,
        };
        let mut builder = Builder::new(Tasks {
            at_once: settings.at_once,
        });
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(settings.handshake);
        let idle = Some(Duration::from_secs(30));
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(idle);
        let service = TowerToHyperService::new(service);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = shutdown.triggered() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error = %error, "connection ended with an error");
        }
        drop(permit);
    }
}

/// Where requests of HTTP/2 run.
#[derive(Clone, Copy, Debug)]
struct Tasks {
    at_once: bool,
}

impl<F> Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, request: F) {
        if !self.at_once {
            tokio::spawn(request);
            return;
        }
        let mut request = Box::pin(request);
        // A waker that wakes nobody is enough: a task looks at once at what it is given.
        let mut nobody = Context::from_waker(Waker::noop());
        if request.as_mut().poll(&mut nobody).is_pending() {
            tokio::spawn(request);
        }
    }
}
