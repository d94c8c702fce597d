//! Builds the Kubernetes client: its time-outs, retries, rate limit and request counts.
//!
//! A request passes, from the outside in: retries ([`crate::retry`]), rate limit ([`crate::rate`]), counter
//! ([`crate::count`]), time-out ([`crate::deadline`]), an extra layer of the caller ([`crate::fence`],
//! [`crate::meter`], faults in tests), and credentials and connections ([`crate::transport`]). So every attempt is counted, limited and timed, and
//! an injected fault is retried as a real one would be.
//!
//! kube's own retry (15 tries with waits of up to 1000 s, also of writes) is not there: a reconcile
//! that hangs in it holds its slot; our backoff per object does the waiting.

use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::body::{Body as HttpBody, Bytes};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::buffer::Buffer;
use tower::layer::util::{Identity, Stack};
use tower::retry::Retry;
use tower::util::BoxService;
use tower::{BoxError, Layer, Service};

use crate::args::{ClientArgs, RESERVE_BURST, RESERVE_QPS};
use crate::count::{self, RequestCounter};
use crate::error::Error;
use crate::transport::{self, Transport};
use crate::{deadline, fence, meter, rate, retry};

/// The client that the arguments describe. `requests` counts what it sends.
///
/// # Errors
/// [`Error`]; nothing is sent yet, so an API that does not answer is no error here.
pub async fn connect(args: &ClientArgs, requests: &RequestCounter) -> Result<Client, Error> {
    let clients = connect_with_reserve(args, requests).await?;
    Ok(clients.usual)
}

/// As [`connect`]; what it writes is sent only while `leadership` lasts ([`crate::fence`]), and it is metered.
///
/// # Errors
/// [`Error`].
pub async fn connect_fenced<G>(
    args: &ClientArgs,
    requests: &RequestCounter,
    gate: &G,
) -> Result<Client, Error>
where
    G: fence::WriteGate + Clone + Send + 'static,
{
    let clients = connect_fenced_with_reserve(args, requests, gate).await?;
    Ok(clients.usual)
}

/// Two clients of one API, over the same connections and limited together.
#[derive(Clone)]
pub struct Clients {
    /// For everything.
    pub usual: Client,
    /// For what keeps a failover going, whatever the other one has to do: it has a reserve of requests
    /// ([`RESERVE_BURST`], [`RESERVE_QPS`]) besides.
    pub urgent: Client,
    /// How far the first one is behind its rate.
    pub backlog: rate::Backlog,
}

impl From<Client> for Clients {
    /// Without a reserve; nothing is known of its rate.
    fn from(client: Client) -> Self {
        Self {
            usual: client.clone(),
            urgent: client,
            backlog: rate::Backlog::default(),
        }
    }
}

/// As [`connect`], with a reserve.
///
/// # Errors
/// [`Error`].
pub async fn connect_with_reserve(
    args: &ClientArgs,
    requests: &RequestCounter,
) -> Result<Clients, Error> {
    build_with_reserve(config(args).await?, args, requests, &Identity::new())
}

/// As [`connect_fenced`], with a reserve.
///
/// # Errors
/// [`Error`].
pub async fn connect_fenced_with_reserve<G>(
    args: &ClientArgs,
    requests: &RequestCounter,
    gate: &G,
) -> Result<Clients, Error>
where
    G: fence::WriteGate + Clone + Send + 'static,
{
    let fence = fence::FenceLayer::new(gate.clone());
    let extra = Stack::new(meter::MeterLayer, fence);
    build_with_reserve(config(args).await?, args, requests, &extra)
}

/// Reads the kubeconfig named, or else what the environment offers: KUBECONFIG, `~/.kube/config`,
/// the pod's service account.
///
/// # Errors
/// [`Error::Kubeconfig`].
pub async fn config(args: &ClientArgs) -> Result<Config, Error> {
    let invalid = |source| Error::Kubeconfig(Box::new(source));
    match &args.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)
                .map_err(|source| invalid(kube::Error::InferKubeconfig(source)))?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .map_err(|source| invalid(kube::Error::InferKubeconfig(source)))
        }
        None => Config::infer()
            .await
            .map_err(|source| invalid(kube::Error::InferConfig(source))),
    }
}

/// As [`connect`], from a configuration that is read already and with the layer `extra` around the
/// transport; [`Identity`] adds nothing.
///
/// # Errors
/// As those of [`transport::transport`].
pub fn build<L, B>(
    config: Config,
    args: &ClientArgs,
    requests: &RequestCounter,
    extra: &L,
) -> Result<Client, Error>
where
    L: Layer<Transport>,
    L::Service: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Send + 'static,
    <L::Service as Service<Request<Body>>>::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    build_with_reserve(config, args, requests, extra).map(|clients| clients.usual)
}

/// As [`build`], with a reserve.
///
/// # Errors
/// As those of [`transport::transport`].
pub fn build_with_reserve<L, B>(
    config: Config,
    args: &ClientArgs,
    requests: &RequestCounter,
    extra: &L,
) -> Result<Clients, Error>
where
    L: Layer<Transport>,
    L::Service: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Send + 'static,
    <L::Service as Service<Request<Body>>>::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    // Time-outs of ours, in `deadline`, know watches from plain requests.
    let transport = extra.layer(transport::transport(&config)?);
    let namespace = config.default_namespace;
    Ok(assemble_with_reserve(transport, namespace, args, requests))
}

/// A client over any transport, with our layers around it: for tests that bring a fake API server.
pub fn assemble<S, B>(
    transport: S,
    namespace: impl Into<String>,
    args: &ClientArgs,
    requests: &RequestCounter,
) -> Client
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Send + 'static,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    assemble_with_reserve(transport, namespace, args, requests).usual
}

/// As [`assemble`], with a reserve.
pub fn assemble_with_reserve<S, B>(
    transport: S,
    namespace: impl Into<String>,
    args: &ClientArgs,
    requests: &RequestCounter,
) -> Clients
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Send + 'static,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let (shared, namespace) = (
        Buffer::new(BoxService::new(transport), BUFFERED),
        namespace.into(),
    );
    let common = rate::RateLayer::new(args.qps, args.burst);
    let urgent = common.with_reserve(RESERVE_QPS, RESERVE_BURST);
    let usual = stack(shared.clone(), &common, requests);
    Clients {
        usual: Client::new(usual, namespace.clone()),
        urgent: Client::new(stack(shared, &urgent, requests), namespace),
        backlog: common.backlog(),
    }
}

type Layers<B> =
    Retry<retry::Policy, rate::RateLimited<count::Counted<deadline::Deadline<Shared<B>>>>>;
/// Retries need a service that can be cloned; the transport cannot.
type Shared<B> = Buffer<Request<Body>, BoxFuture<'static, Result<Response<B>, BoxError>>>;

fn stack<B>(shared: Shared<B>, limit: &rate::RateLayer, requests: &RequestCounter) -> Layers<B>
where
    B: Send + 'static,
{
    let timed = deadline::DeadlineLayer::default().layer(shared);
    let counted = requests.layer().layer(timed);
    Retry::new(retry::Policy::default(), limit.layer(counted))
}

/// Requests on their way into the transport at one time; more wait.
const BUFFERED: usize = 1024;

#[cfg(test)]
mod tests;
