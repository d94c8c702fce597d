//! A Kubernetes API in the memory of the process, for `kube::Client::new`: no sockets, no TLS, no etcd.
//! It is what deaths at every write are tried on, hundreds of them in seconds.
//!
//! Modelled: the kinds that the operator reads and writes (`resources`), with status subresources,
//! resource versions, generations and preconditions; server-side apply with owners for each field and
//! conflicts, merge patches, updates, dry runs; lists with selectors and pages, watches with selectors
//! and bookmarks, 410; finalizers, owners' dependents and the end of namespaces; addresses and node
//! ports; the defaults that our objects meet; refusals while a binding is young.
//!
//! Not modelled: validation, CEL and admission policies, authorization but for young bindings, strategic
//! merge and JSON patches, `generateName`, quotas, grace periods, and time: what controllers do is done
//! before a write is answered. [`replay`] compares it with what a real server answered, and [`strict`]
//! refuses what was never compared.
//!
//! Invariant: deterministic. Time is asked from the caller's clock, UIDs and addresses are counted, and
//! two instances share nothing.
//!
//! [`strict`]: Memory::strict

mod answer;
mod defaults;
mod exchange;
mod fields;
mod managers;
mod masks;
mod query;
pub mod recording;
pub mod replay;
mod resources;
mod shape;
mod store;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tower::{BoxError, Service};

use self::answer::Asked;
use self::exchange::kind_of;
use self::query::Query;
use self::store::{Refusal, Store};
use self::watch::Watch;
use crate::request::RequestInfo;

/// What gives the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
/// The body of an answer.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;
type Governed = Arc<dyn Fn(&RequestInfo) -> bool + Send + Sync>;

/// Refusals while a RoleBinding is so young that the authorizer does not know it.
#[derive(Clone)]
pub struct Young {
    /// So many requests of the user after the newest binding of a namespace are refused.
    pub requests: u64,
    /// Which requests need such a binding.
    pub governed: Governed,
}

/// An API; clones are one.
#[derive(Clone)]
pub struct Memory {
    shared: Arc<Shared>,
}

struct Shared {
    inner: Mutex<Inner>,
    revisions: tokio::sync::watch::Sender<u64>,
    refuses: tokio::sync::watch::Sender<bool>,
    known: Option<BTreeSet<String>>,
    young: Option<Young>,
}

struct Inner {
    store: Store,
    refused: BTreeSet<String>,
    /// For each namespace with a new binding, how many requests are refused still.
    early: BTreeMap<String, u64>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// An empty API with the process's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(Timestamp::now))
    }

    /// An empty API whose time is what `clock` says.
    #[must_use]
    pub fn with_clock(clock: Clock) -> Self {
        let schema = |crd: &Value| {
            let version = &crd["spec"]["versions"][0];
            version["schema"]["openAPIV3Schema"].clone()
        };
        let crds = api::crds().into_iter().map(|crd| {
            let crd = serde_json::to_value(crd).unwrap_or_default();
            let kind = crd["spec"]["names"]["kind"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            (kind, schema(&crd))
        });
        let crds: BTreeMap<String, Value> = crds.collect();
        let schemas = resources::ALL
            .iter()
            .filter_map(|resource| Some((resource.kind, crds.get(resource.kind)?.clone())));
        let store = Store::new(clock, schemas.collect());
        let revision = store.revision();
        Self {
            shared: Arc::new(Shared {
                inner: Mutex::new(Inner {
                    store,
                    refused: BTreeSet::new(),
                    early: BTreeMap::new(),
                }),
                revisions: tokio::sync::watch::Sender::new(revision),
                refuses: tokio::sync::watch::Sender::new(false),
                known: None,
                young: None,
            }),
        }
    }

    /// Refuses all kinds of requests but those that are known from a recording
    /// ([`recording::Recording::kinds`]), with 501; see [`Self::refused`]. To be called before any
    /// client is made.
    #[must_use]
    pub fn strict(self, known: BTreeSet<String>) -> Self {
        self.changed(|shared| shared.known = Some(known))
    }

    /// Lets new bindings take so long. To be called before any client is made.
    #[must_use]
    pub fn young(self, young: Young) -> Self {
        self.changed(|shared| shared.young = Some(young))
    }

    fn changed(self, change: impl FnOnce(&mut Shared)) -> Self {
        let Self { mut shared } = self;
        if let Some(shared) = Arc::get_mut(&mut shared) {
            change(shared);
        }
        Self { shared }
    }

    /// Kinds of requests that were refused because nothing was ever recorded of them. A test that
    /// ends well has to find none: who asked may have taken the refusal for a fault.
    #[must_use]
    pub fn refused(&self) -> Vec<String> {
        self.shared.lock().refused.iter().cloned().collect()
    }

    /// Returns once there is one of [`Self::refused`]: who asked may try it again and again.
    pub async fn refuses(&self) {
        let mut refuses = self.shared.refuses.subscribe();
        // The sender is ours, so waiting cannot fail.
        let _ = refuses.wait_for(|refuses| *refuses).await;
    }

    /// A client that may do everything.
    #[must_use]
    pub fn admin(&self) -> Client {
        Client::new(self.service(false), "default")
    }

    /// What a client is made of. `user`: one whose rights come from bindings, see [`Young`].
    #[must_use]
    pub fn service(&self, user: bool) -> MemoryService {
        MemoryService {
            shared: Arc::clone(&self.shared),
            user,
        }
    }

    /// Forgets how what is there came about: a watch from before is told 410.
    pub fn compact(&self) {
        self.shared.lock().store.compact();
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

/// The API as a tower service.
#[derive(Clone)]
pub struct MemoryService {
    shared: Arc<Shared>,
    user: bool,
}

impl<B> Service<Request<B>> for MemoryService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (shared, user) = (Arc::clone(&self.shared), self.user);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(Into::into)?.to_bytes();
            Ok(handle(&shared, user, &head, &body))
        }
        .boxed()
    }
}

fn handle(
    shared: &Arc<Shared>,
    user: bool,
    head: &http::request::Parts,
    body: &[u8],
) -> Response<Body> {
    let whole =
        |answer: answer::Answer| answer::reply(&answer).map(|body| Full::from(body).boxed_unsync());
    match head.uri.path() {
        "/readyz" | "/livez" | "/healthz" => {
            return Response::new(Full::from("ok").boxed_unsync());
        }
        "/version" => {
            return whole((
                200,
                json!({ "major": "1", "minor": "35", "gitVersion": "v1.35.4" }),
            ));
        }
        _ => {}
    }
    let info = RequestInfo::new(&head.method, &head.uri);
    let content = head.headers.get(header::CONTENT_TYPE);
    let content = content
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let partial = answer::is_partial(head);
    let kind = kind_of(&info, content, partial);
    let mut inner = shared.lock();
    if shared
        .known
        .as_ref()
        .is_some_and(|known| !known.contains(&kind))
    {
        eprintln!("refused, because no recording has a request of this kind: {kind}");
        inner.refused.insert(kind.clone());
        shared.refuses.send_replace(true);
        let refusal = Refusal::new(501, "NotImplemented", format!("never recorded: {kind}"));
        return whole((501, answer::status(&refusal)));
    }
    if user && let Some(refusal) = early(&mut inner, shared, &info) {
        return whole((403, answer::status(&refusal)));
    }
    let query = Query::new(&head.uri);
    if info.verb == "watch" {
        drop(inner);
        let Some(resource) = resources::find(&info) else {
            let refusal = Refusal::not_found("the server could not find the requested resource");
            return whole((404, answer::status(&refusal)));
        };
        let watch = Watch {
            resource,
            namespace: info.namespace.clone().unwrap_or_default(),
            query,
            partial,
        };
        let mut response = Response::new(watch::events(shared, watch));
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        return response;
    }
    let body = match body.is_empty() {
        true => Ok(Value::Null),
        false => serde_json::from_slice(body),
    };
    let Ok(body) = body else {
        let refusal = Refusal::new(400, "BadRequest", "the body is not JSON");
        return whole((400, answer::status(&refusal)));
    };
    let asked = Asked {
        info: &info,
        query: &query,
        content,
        partial,
        body,
    };
    let answer = answer::answer(&mut inner.store, &asked);
    let bound = answer.0 == 201 && info.resource == "rolebindings";
    if let (true, Some(young), Some(namespace)) = (bound, &shared.young, &info.namespace) {
        inner.early.insert(namespace.clone(), young.requests);
    }
    let revision = inner.store.revision();
    drop(inner);
    shared
        .revisions
        .send_if_modified(|known| std::mem::replace(known, revision) != revision);
    whole(answer)
}

/// Whether a request comes too early after the binding that allows it.
fn early(inner: &mut Inner, shared: &Shared, info: &RequestInfo) -> Option<Refusal> {
    let young = shared.young.as_ref()?;
    let left = inner.early.get_mut(info.namespace.as_ref()?)?;
    if *left == 0 || !(young.governed)(info) {
        return None;
    }
    *left -= 1;
    let message = format!("{} is forbidden: the binding is a moment old", info.kind());
    Some(Refusal::new(403, "Forbidden", message))
}
