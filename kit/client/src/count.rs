//! Counts the requests that are sent, by verb, resource and answer.
//!
//! Invariant: labels come from a closed set (verbs of the API, resources that we use, status
//! codes); never an object's name.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;
use tower::{BoxError, Layer, Service};

/// What a request did, as RBAC and audit name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// get, list, watch, create, update, patch, delete or deletecollection; "get" for paths that
    /// are no resources.
    pub verb: &'static str,
    /// `pods` or `deployments/status`; empty for paths that are no resources.
    pub resource: String,
    /// The HTTP status, or "error" when there was no answer.
    pub code: String,
}

/// By what times are told apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByVerb {
    verb: &'static str,
}

type Durations = Family<ByVerb, Histogram, fn() -> Histogram>;

/// Counts of one client. Clones share them.
#[derive(Clone, Debug)]
pub struct RequestCounter {
    family: Family<RequestLabels, Counter>,
    durations: Durations,
    totals: Arc<Totals>,
}

impl Default for RequestCounter {
    fn default() -> Self {
        Self {
            family: Family::default(),
            durations: Family::new_with_constructor(buckets),
            totals: Arc::default(),
        }
    }
}

/// A read takes milliseconds, a write some more, and what takes longer than 30 s has failed.
fn buckets() -> Histogram {
    Histogram::new([0.005, 0.02, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
}

#[derive(Debug, Default)]
struct Totals {
    reads: AtomicU64,
    writes: AtomicU64,
}

impl RequestCounter {
    /// All zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows the counts as `covey_kubernetes_requests_total` and the times as
    /// `covey_kubernetes_request_duration_seconds`. `api` says whose API it is: `management` or `tenant`.
    pub fn register(&self, registry: &mut Registry, api: &'static str) {
        let registry = registry
            .sub_registry_with_prefix("covey")
            .sub_registry_with_label(("api".into(), api.into()));
        let help = "Requests sent to the Kubernetes API, every try counted";
        registry.register("kubernetes_requests", help, self.family.clone());
        let help = "How long the Kubernetes API took to begin an answer, or not to";
        let (name, times) = ("kubernetes_request_duration", self.durations.clone());
        registry.register_with_unit(name, help, Unit::Seconds, times);
    }

    /// Gets, lists and watches answered so far.
    pub fn reads(&self) -> u64 {
        self.totals.reads.load(Ordering::Relaxed)
    }

    /// All others answered so far, those of the Lease included.
    pub fn writes(&self) -> u64 {
        self.totals.writes.load(Ordering::Relaxed)
    }

    /// The layer that counts.
    pub fn layer(&self) -> CountLayer {
        CountLayer {
            counter: self.clone(),
        }
    }

    fn count(&self, verb: &'static str, resource: String, code: Option<u16>, begun: Instant) {
        let took = begun.elapsed().as_secs_f64();
        self.durations.get_or_create(&ByVerb { verb }).observe(took);
        let total = match verb {
            "get" | "list" | "watch" => &self.totals.reads,
            _ => &self.totals.writes,
        };
        total.fetch_add(1, Ordering::Relaxed);
        let code = code.map_or_else(|| "error".to_owned(), |code| code.to_string());
        self.family
            .get_or_create(&RequestLabels {
                verb,
                resource,
                code,
            })
            .inc();
    }
}

/// Makes [`Counted`] services.
#[derive(Clone, Debug)]
pub struct CountLayer {
    counter: RequestCounter,
}

impl<S> Layer<S> for CountLayer {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Counted {
            inner,
            counter: self.counter.clone(),
        }
    }
}

/// A service whose requests are counted once they are answered.
#[derive(Clone, Debug)]
pub struct Counted<S> {
    inner: S,
    counter: RequestCounter,
}

impl<S, R, B> Service<Request<R>> for Counted<S>
where
    S: Service<Request<R>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let counter = self.counter.clone();
        let (verb, resource) = verb_and_resource(&request);
        let (begun, answer) = (Instant::now(), self.inner.call(request));
        Box::pin(async move {
            let result = answer.await;
            let code = result
                .as_ref()
                .ok()
                .map(|response| response.status().as_u16());
            counter.count(verb, resource, code, begun);
            result
        })
    }
}

/// As the API server's RequestInfo (apiserver `endpoints/request/requestinfo.go`).
fn verb_and_resource<B>(request: &Request<B>) -> (&'static str, String) {
    let path = request.uri().path();
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
    let rest = match parts.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        _ => &[],
    };
    let (resource, has_name, subresource) = match rest {
        [] => (None, false, None),
        // An object in a namespace; `/namespaces/x/status` is a namespace's own subresource.
        ["namespaces", _, resource, rest @ ..] if !matches!(*resource, "status" | "finalize") => {
            (Some(*resource), !rest.is_empty(), rest.get(1))
        }
        [resource, rest @ ..] => (Some(*resource), !rest.is_empty(), rest.get(1)),
    };
    let query = request.uri().query().unwrap_or_default();
    let is_watch = query
        .split('&')
        .any(|pair| matches!(pair, "watch=true" | "watch=1"));
    let verb = match *request.method() {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if has_name => "delete",
        Method::DELETE => "deletecollection",
        _ if is_watch => "watch",
        _ if resource.is_some() && !has_name => "list",
        _ => "get",
    };
    let resource = resource.unwrap_or_default();
    let resource = match subresource {
        Some(subresource) => format!("{resource}/{subresource}"),
        None => resource.to_owned(),
    };
    (verb, resource)
}

#[cfg(test)]
mod tests;
