//! HTTP server over any transport: accept, handshake, requests, graceful end.
//!
//! Invariant: no peer can hold the server up. Connections are capped, and who comes when all places
//! are taken gets the place of one that did nothing for longest; handshake, request head and the
//! graceful end have time-outs; one connection's failure never ends the loop.

mod places;
pub(crate) mod settings;

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
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tower::{Service, ServiceExt as _};

use self::places::{Place, Places};
use self::settings::Settings;
use crate::panics;
use crate::shutdown::Shutdown;

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

/// What happens to a connection before its first request.
pub(crate) trait Handshake: Clone + Send + 'static {
    /// What requests are read from.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// From what was accepted to what requests are read from.
    fn handshake(
        &self,
        stream: TcpStream,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send + 'static;
}

/// Nothing: plain HTTP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain;

impl Handshake for Plain {
    type Stream = TcpStream;

    fn handshake(
        &self,
        stream: TcpStream,
    ) -> impl Future<Output = io::Result<TcpStream>> + Send + 'static {
        std::future::ready(Ok(stream))
    }
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

/// Serves `service` on a port that is open already, until the shutdown starts.
pub(crate) fn serve<S: Serve, H: Handshake + Sync>(
    listener: TcpListener,
    handshake: H,
    service: S,
    settings: Settings,
    shutdown: &Shutdown,
) -> io::Result<Server> {
    let address = listener.local_addr()?;
    let listening = Listening {
        listener,
        handshake,
        service,
        settings,
        shutdown: shutdown.clone(),
    };
    Ok(Server {
        address,
        task: tokio::spawn(listening.run()),
    })
}

struct Listening<S, H> {
    listener: TcpListener,
    handshake: H,
    service: S,
    settings: Settings,
    shutdown: Shutdown,
}

impl<S: Serve, H: Handshake + Sync> Listening<S, H> {
    async fn run(self) {
        let places = Places::new(self.settings.connections);
        let mut connections = JoinSet::new();
        while let Some((stream, place)) = self.shutdown.until(accept(&self.listener, &places)).await
        {
            let connection = Connection {
                handshake: self.handshake.clone(),
                service: self.service.clone(),
                settings: self.settings,
                shutdown: self.shutdown.clone(),
            };
            connections.spawn(async move {
                // What is cut is dropped, and with it the socket and all its requests.
                tokio::select! {
                    // What panics has said so in the log, and has ended.
                    _ = panics::contained(connection.run(stream, &place)) => {}
                    () = place.cut() => tracing::debug!("a connection made place for another"),
                }
            });
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

async fn accept(listener: &TcpListener, places: &Arc<Places>) -> (TcpStream, Place) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, places.enter().await),
            Err(error) => {
                // Out of file descriptors, or the peer is gone already: neither ends the loop.
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

struct Connection<S, H> {
    handshake: H,
    service: S,
    settings: Settings,
    shutdown: Shutdown,
}

impl<S: Serve, H: Handshake> Connection<S, H> {
    async fn run(self, stream: TcpStream, place: &Place) {
        let Self {
            handshake,
            service,
            settings,
            shutdown,
        } = self;
        // Small answers at once; without it a webhook's answer may wait 40 ms for an ACK.
        let _ = stream.set_nodelay(true);
        let handshake = tokio::time::timeout(settings.handshake, handshake.handshake(stream));
        let stream = match shutdown.until(handshake).await {
            Some(Ok(Ok(stream))) => stream,
            Some(Ok(Err(error))) => return tracing::debug!(%error, "TLS handshake failed"),
            Some(Err(_)) => return tracing::debug!("TLS handshake took too long"),
            None => return,
        };
        let uses = place.uses();
        let service = service_fn(move |request| {
            let (answer, uses) = (service.clone().oneshot(request), uses.clone());
            async move {
                let answer = answer.await;
                uses.answered();
                answer
            }
        });
        let builder = builder(&settings);
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
    }
}

fn builder(settings: &Settings) -> Builder<Tasks> {
    let at_once = settings.at_once;
    let mut builder = Builder::new(Tasks { at_once });
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.idle)
        .max_buf_size(settings.window as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .max_concurrent_streams(settings.streams)
        .initial_stream_window_size(settings.window)
        .initial_connection_window_size(settings.window);
    builder
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
        let request = panics::contained(request);
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
