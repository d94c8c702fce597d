//! The admin port: `/livez`, `/readyz`, `/metrics` and `/state`; and a port that has only the first
//! two, for probes.
//!
//! Whoever has something to tell registers itself here. Invariant: an answer never waits for the
//! network or for a reconcile; checks and providers are plain functions that read memory.
//! The ports have no authentication: `/state` must not show secrets, and a NetworkPolicy decides who
//! may ask. Who asks much at one port takes nothing from the other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use prometheus_client::registry::Registry;
use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::args::AdminArgs;
use crate::connections::settings::Settings;
use crate::connections::{self, Plain};
use crate::shutdown::Shutdown;

/// Limits of either port: for a kubelet, a scraper or two, and a person.
const LIMITS: Settings = Settings {
    connections: 32,
    streams: 8,
    window: 16 * 1024,
    handshake: Duration::from_secs(5),
    idle: Duration::from_secs(120),
    grace: Duration::from_secs(5),
    at_once: false,
};

/// Loops that were not polled for so long are stuck.
pub const STUCK: Duration = Duration::from_secs(180);
/// How often loops are seen to be polled.
const BEAT: Duration = Duration::from_secs(10);

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;
type Provider = Box<dyn Fn() -> Value + Send + Sync>;

/// Everything that the admin port shows. Clones share it.
#[derive(Clone, Default)]
pub struct Admin {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    live: Mutex<BTreeMap<String, Check>>,
    ready: Mutex<BTreeMap<String, Check>>,
    state: Mutex<BTreeMap<String, Provider>>,
    registry: Mutex<Registry>,
}

impl Admin {
    /// Nothing registered: live, ready, no metrics.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a liveness check. `Err` says what is stuck; the kubelet then restarts the container,
    /// so check only what a restart mends. A name registered again replaces the earlier check.
    pub fn live(
        &self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        lock(&self.shared.live).insert(name.into(), Box::new(check));
    }

    /// Adds the liveness check that `loops`, which are one future and end never, are still polled, and gives
    /// what to run in their place. Loops that wait for an API, however long, are polled; one that never gets
    /// a lock, or computes without an end, keeps all of them from it for [`STUCK`], and a restart mends that.
    pub fn live_while_polled<F: Future>(
        &self,
        name: &str,
        loops: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        let progress = Progress::new(STUCK);
        let check = progress.clone();
        self.live(name, move || check.check());
        let mut loops = Box::pin(loops);
        async move {
            loop {
                let _in_hand = progress.begin();
                if let Ok(ended) = tokio::time::timeout(BEAT, &mut loops).await {
                    return ended;
                }
            }
        }
    }

    /// Adds a readiness check: stores synced, webhook serving. `Err` says what is missing.
    pub fn ready(
        &self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        lock(&self.shared.ready).insert(name.into(), Box::new(check));
    }

    /// Adds a part of `/state`, shown under `name`.
    pub fn state(
        &self,
        name: impl Into<String>,
        provider: impl Fn() -> Value + Send + Sync + 'static,
    ) {
        lock(&self.shared.state).insert(name.into(), Box::new(provider));
    }

    /// Registers metrics.
    pub fn metrics<T>(&self, register: impl FnOnce(&mut Registry) -> T) -> T {
        register(&mut lock(&self.shared.registry))
    }

    /// The routes of the admin port, to serve or to test with `oneshot`.
    pub fn router(&self) -> Router {
        let metrics = get(async |State(admin): State<Self>| admin.show_metrics());
        let state = get(async |State(admin): State<Self>| admin.show_state());
        let more = Router::new()
            .route("/metrics", metrics)
            .route("/state", state)
            .with_state(self.clone());
        self.probes().merge(more)
    }

    /// The routes of the port for probes.
    pub fn probes(&self) -> Router {
        let live = get(async |State(admin): State<Self>| answer(&admin.shared.live));
        let ready = get(async |State(admin): State<Self>| answer(&admin.shared.ready));
        Router::new()
            .route("/livez", live)
            .route("/readyz", ready)
            .with_state(self.clone())
    }

    /// Opens the ports and serves until the shutdown starts. Gives the address of the admin port.
    ///
    /// # Errors
    /// When an address cannot be bound.
    pub async fn open(&self, args: &AdminArgs, shutdown: &Shutdown) -> io::Result<SocketAddr> {
        if let Some(probes) = args.probes {
            listen(probes, self.probes(), shutdown).await?;
        }
        self.serve(args.address, shutdown).await
    }

    /// Listens on `address` and serves all routes until the shutdown starts. The listener is bound
    /// when this returns; the address is the one really bound (port 0 chooses one).
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn serve(&self, address: SocketAddr, shutdown: &Shutdown) -> io::Result<SocketAddr> {
        listen(address, self.router(), shutdown).await
    }

    fn show_metrics(&self) -> Response {
        let mut text = String::new();
        match prometheus_client::encoding::text::encode(&mut text, &lock(&self.shared.registry)) {
            Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }

    fn show_state(&self) -> Response {
        let state = lock(&self.shared.state);
        let parts: Map<String, Value> = state
            .iter()
            .map(|(name, provider)| (name.clone(), provider()))
            .collect();
        Json(parts).into_response()
    }
}

async fn listen(
    address: SocketAddr,
    router: Router,
    shutdown: &Shutdown,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let server = connections::serve(listener, Plain, router, LIMITS, shutdown)?;
    Ok(server.address)
}

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// 200 when all hold, else 503; one line per check, as the API server prints them.
fn answer(checks: &Mutex<BTreeMap<String, Check>>) -> Response {
    let mut text = String::new();
    let mut status = StatusCode::OK;
    for (name, check) in lock(checks).iter() {
        // Writing to a String cannot fail.
        let _ = match check() {
            Ok(()) => writeln!(text, "[+]{name} ok"),
            Err(reason) => {
                status = StatusCode::SERVICE_UNAVAILABLE;
                writeln!(text, "[-]{name} failed: {reason}")
            }
        };
    }
    text.push_str(if status == StatusCode::OK {
        "ok\n"
    } else {
        "failed\n"
    });
    (status, text).into_response()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sees whether a queue moves: work in hand, but nothing begun or ended for too long, is a
/// deadlock. Clones share it.
#[derive(Clone, Debug)]
pub struct Progress {
    inner: Arc<ProgressInner>,
}

#[derive(Debug)]
struct ProgressInner {
    limit: Duration,
    in_hand: AtomicUsize,
    moved: Mutex<Instant>,
}

impl Progress {
    /// Stuck after `limit` without movement. Take several times the longest honest reconcile.
    pub fn new(limit: Duration) -> Self {
        let moved = Mutex::new(Instant::now());
        Self {
            inner: Arc::new(ProgressInner {
                limit,
                in_hand: AtomicUsize::new(0),
                moved,
            }),
        }
    }

    /// One piece of work begins; it ends when the guard is dropped.
    pub fn begin(&self) -> InHand {
        self.inner.in_hand.fetch_add(1, Ordering::Relaxed);
        *lock(&self.inner.moved) = Instant::now();
        InHand {
            progress: self.clone(),
        }
    }

    /// For [`Admin::live`].
    ///
    /// # Errors
    /// When work is in hand and nothing moved for the limit.
    pub fn check(&self) -> Result<(), String> {
        let still = lock(&self.inner.moved).elapsed();
        match self.inner.in_hand.load(Ordering::Relaxed) {
            0 => Ok(()),
            _ if still <= self.inner.limit => Ok(()),
            in_hand => Err(format!(
                "{in_hand} in hand, none began or ended for {} s",
                still.as_secs()
            )),
        }
    }
}

/// One piece of work of a [`Progress`].
#[derive(Debug)]
pub struct InHand {
    progress: Progress,
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.progress.inner.in_hand.fetch_sub(1, Ordering::Relaxed);
        *lock(&self.progress.inner.moved) = Instant::now();
    }
}

#[cfg(test)]
mod tests;
