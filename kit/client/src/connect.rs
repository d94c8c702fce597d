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

use crate::args::ClientArgs;
use crate::count::{self, RequestCounter};
use crate::error::Error;
use crate::transport::{self, Transport};
use crate::{deadline, fence, meter, rate, retry};

/// The client that the arguments describe. `requests` counts what it sends.
///
/// # Errors
/// [`Error`]; nothing is sent yet, so an API that does not answer is no error here.
pub async fn connect(args: &ClientArgs, requests: &RequestCounter) -> Result<Client, Error> {
    build(config(args).await?, args, requests, &Identity::new())
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
    let fence = fence::FenceLayer::new(gate.clone());
    let extra = Stack::new(meter::MeterLayer, fence);
    build(config(args).await?, args, requests, &extra)
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
    // Time-outs of ours, in `deadline`, know watches from plain requests.
    let transport = extra.layer(transport::transport(&config)?);
    let namespace = config.default_namespace;
    Ok(assemble(transport, namespace, args, requests))
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
    Client::new(stack(transport, args, requests), namespace)
}

type Layers<B> =
    Retry<retry::Policy, rate::RateLimited<count::Counted<deadline::Deadline<Shared<B>>>>>;
/// Retries need a service that can be cloned; the transport cannot.
type Shared<B> = Buffer<Request<Body>, BoxFuture<'static, Result<Response<B>, BoxError>>>;

fn stack<S, B>(transport: S, args: &ClientArgs, requests: &RequestCounter) -> Layers<B>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Send + 'static,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    let shared = Buffer::new(BoxService::new(transport), BUFFERED);
    let timed = deadline::DeadlineLayer::default().layer(shared);
    let counted = requests.layer().layer(timed);
    let limited = rate::RateLayer::new(args.qps, args.burst).layer(counted);
    Retry::new(retry::Policy::default(), limited)
}

/// Requests on their way into the transport at one time; more wait.
const BUFFERED: usize = 1024;

#[cfg(test)]
mod tests;
