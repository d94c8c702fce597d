//! One HTTPS server on a random loopback port.
//!
//! Invariant: its tasks end when it is dropped, and its open connections with them.

use std::io::Error;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::Secret;
use rustls::ServerConfig;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::answer;
use super::call::{Call, Mode};
use super::hostile;
use super::select::Selection;
use super::sent::Body;
use super::state::State;
use super::store::Outcome;
use super::wire;
use crate::faults::{Decision, FaultPlan};

/// A running server.
pub(super) struct Server {
    address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

/// The server's side of TLS from a Secret `apiserver`.
pub(super) fn tls(secret: &Secret) -> Result<Arc<ServerConfig>> {
    let text = |key: &str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(key));
        let bytes = bytes.with_context(|| format!("the Secret has no {key}"))?;
        String::from_utf8(bytes.0.clone()).with_context(|| format!("{key} is not text"))
    };
    let pair = (&*text("apiserver.crt")?, &*text("apiserver.key")?);
    crate::tls::server(pair, &text("clients.crt")?, &["h2", "http/1.1"])
}

impl Server {
    /// `secret`: resourceVersion of the Secret; `version`: what `/version` says.
    pub(super) async fn start(
        tls: Arc<ServerConfig>,
        secret: String,
        version: &str,
        faults: &watch::Receiver<Option<FaultPlan>>,
    ) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .context("no free port")?;
        let address = listener.local_addr().context("no free port")?;
        let state = Arc::new(State::new((tls, secret), version, faults));
        let task = tokio::spawn(accept(listener, Arc::clone(&state)));
        Ok(Self {
            address,
            state,
            task,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn renew(&self, tls: Arc<ServerConfig>, secret: String) {
        if *self.state.secret.borrow() != secret {
            *self.state.tls() = tls;
            self.state.secret.send_replace(secret);
        }
    }

    pub(super) fn secret(&self) -> watch::Receiver<String> {
        self.state.secret.subscribe()
    }

    pub(super) fn set(&self, mode: Mode) {
        self.state.mode.send_replace(mode);
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.state.calls().clone()
    }

    pub(super) fn played(&self) -> Vec<u64> {
        self.state.played()
    }

    /// Told after every request that may have changed something.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.state.changes.subscribe()
    }

    /// Patches or deletes an object behind everybody's back.
    pub(super) fn change(&self, path: &str, patch: Option<&Value>) -> bool {
        let outcome = match patch {
            Some(patch) => self.state.store().merge(path, patch, false),
            None => self.state.store().delete(path, false),
        };
        self.state.changes.send_modify(|count| *count += 1);
        matches!(outcome, Outcome::Found(_))
    }

    /// Applies an object behind everybody's back; `false`: there is none with the UID that it has.
    pub(super) fn put(&self, path: &str, object: &Value) -> bool {
        let object = object.clone();
        let outcome = self.state.store().apply(path, "testkit", object, false);
        self.state.changes.send_modify(|count| *count += 1);
        matches!(outcome, Outcome::Found(_) | Outcome::Created(_))
    }

    pub(super) fn object(&self, path: &str) -> Option<Value> {
        self.state.store().get(path)
    }

    pub(super) fn paths(&self) -> Vec<String> {
        self.state.store().paths()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Aborts the connections too: their JoinSet is the task's.
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    let mut modes = state.mode.subscribe();
    loop {
        tokio::select! {
            _ = modes.changed() => if matches!(*modes.borrow_and_update(), Mode::Down | Mode::Wire(_)) {
                connections.shutdown().await;
            },
            stream = listener.accept() => if let Ok((stream, _)) = stream {
                // Accepting and closing is as near to "refused" as one gets without giving up
                // the port.
                if *state.mode.borrow() != Mode::Down {
                    connections.spawn(serve(stream, Arc::clone(&state)));
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, state: Arc<State>) {
    let acceptor = TlsAcceptor::from(Arc::clone(&state.tls()));
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let mode = *state.mode.borrow();
    if let Mode::Wire(wire) = mode {
        // A caller that goes away is no error of ours.
        let _ = wire::play(stream, wire, &state).await;
        return;
    }
    let certificates = stream.get_ref().1.peer_certificates();
    let who = certificates.and_then(|chain| crate::tls::subject(chain.first()?));
    let asked = Notify::new();
    let service = service_fn(|request: Request<Incoming>| {
        let (state, who) = (Arc::clone(&state), who.clone());
        asked.notify_one();
        async move { handle(request, &state, who).await }
    });
    let http = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    if mode == Mode::OneEach {
        tokio::select! {
            _ = connection.as_mut() => return,
            () = asked.notified() => {
                let _ = state.play();
                connection.as_mut().graceful_shutdown();
            }
        }
    }
    // A caller that goes away is no error of ours.
    let _ = connection.await;
}

async fn handle(
    request: Request<Incoming>,
    state: &Arc<State>,
    who: Option<(String, Vec<String>)>,
) -> std::io::Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(Error::other)?.to_bytes();
    let plan = state.faults.borrow().clone();
    let fate = plan
        .as_ref()
        .map(|plan| plan.decide(&head.method, &head.uri));
    if matches!(fate, Some(Decision::Dead)) {
        return Err(Error::other("the caller is dead (a fault of the test)"));
    }
    let mode = *state.mode.borrow();
    if let Mode::Slow(delay) = mode {
        tokio::time::sleep(delay).await;
    }
    let info = crate::request::RequestInfo::new(&head.method, &head.uri);
    if let Mode::SlowApprovals(delay) = mode
        && info.subresource.as_deref() == Some("approval")
    {
        state.play();
        tokio::time::sleep(delay).await;
    }
    let known = who.is_some();
    if let Some(body) = known
        .then(|| hostile::body(mode, &head, &info, state))
        .flatten()
    {
        return Ok(Response::new(body));
    }
    let watches = info.verb == "watch" && mode != Mode::Failing && who.is_some();
    let response = match mode {
        _ if watches => Response::new(Vec::new()),
        Mode::Failing => crate::faults::status_response(500, None),
        _ => answer::answer(&head, &body, state, who.is_some()),
    };
    if let (Some(plan), Some(Decision::SendAndDie)) = (&plan, fate) {
        plan.crash();
        state.changes.send_modify(|count| *count += 1);
        return Err(Error::other("the caller died (a fault of the test)"));
    }
    state.changes.send_modify(|count| *count += 1);
    let (user, groups) = who.unwrap_or_default();
    let path = head.uri.path().to_owned();
    let code = response.status().as_u16();
    state.calls().push(Call {
        user,
        groups,
        verb: info.verb,
        path,
        code,
    });
    if watches {
        return Ok(response.map(|_| events(Arc::clone(state), &head.uri)));
    }
    Ok(response.map(|bytes| Full::from(bytes).boxed_unsync()))
}

/// The body of a watch: what happened since the revision that the caller knows, and then whatever
/// happens, until he goes.
fn events(state: Arc<State>, uri: &http::Uri) -> Body {
    let query = uri.query().unwrap_or_default();
    let known = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("resourceVersion="));
    let known: u64 = known.and_then(|text| text.parse().ok()).unwrap_or(0);
    let selection = Selection::new(uri);
    let changes = state.changes.subscribe();
    let lines = futures::stream::unfold(
        (state, changes, known),
        move |(state, mut changes, known)| {
            let selection = selection.clone();
            async move {
                loop {
                    changes.borrow_and_update();
                    let (revision, lines) = state.store().after(known, &selection);
                    if !lines.is_empty() {
                        let frame = Ok(Frame::data(bytes::Bytes::from(lines)));
                        return Some((frame, (state, changes, revision)));
                    }
                    changes.changed().await.ok()?;
                }
            }
        },
    );
    StreamBody::new(lines).boxed_unsync()
}
