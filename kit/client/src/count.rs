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
use prometheus_client::metrics::{counter::Counter, family::Family};
use prometheus_client::registry::Registry;
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

/// Counts of one client. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct RequestCounter {
    family: Family<RequestLabels, Counter>,
    totals: Arc<Totals>,
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

    /// Shows the counts as `kubernetes_requests_total`.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Requests sent to the Kubernetes API, every try counted";
        registry.register("kubernetes_requests", help, self.family.clone());
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

    fn count(&self, verb: &'static str, resource: String, code: Option<u16>) {
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
        let answer = self.inner.call(request);
        Box::pin(async move {
            let result = answer.await;
            let code = result
                .as_ref()
                .ok()
                .map(|response| response.status().as_u16());
            counter.count(verb, resource, code);
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
