//! Faults inside the process: a layer below a kube client that counts writes, "kills" the client
//! before or after the k-th of them, and answers chosen requests with errors.
//!
//! Invariant: once crashed, nothing more reaches the server through any client of the plan, and
//! every open watch ends; a restarted operator gets a new plan. A layer added by
//! [`FaultPlan::client`] lies below kube's retries, so those are tested too.

mod answer;
mod layer;
mod lives;
mod shake;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use http::{Method, Uri};
use kube::client::{Body, ConfigExt as _, retry::RetryPolicy};
use kube::{Client, Config};
use tokio::sync::watch;
use tower::retry::RetryLayer;
use tower::{BoxError, ServiceBuilder};

use crate::request::RequestInfo;

pub use answer::Answer;
pub(crate) use answer::{status_body, status_response};
pub use layer::{FaultLayer, FaultService};
pub use lives::{Deaths, Ledger, failures_of_a_silence, wherever_it_dies};

/// Where the process "dies". Writes count from 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Crash {
    /// Nowhere.
    Never,
    /// The k-th write does not reach the server.
    Before(u64),
    /// The k-th write is carried out and its reply is lost.
    After(u64),
}

type Ignore = Arc<dyn Fn(&RequestInfo) -> bool + Send + Sync>;

/// What is to go wrong; clones share their counters.
#[derive(Clone)]
pub struct FaultPlan {
    answers: Arc<Vec<Answer>>,
    ignore: Ignore,
    silent: Option<Ignore>,
    state: Arc<State>,
}

struct State {
    requests: AtomicU64,
    writes: watch::Sender<Writes>,
    answered: AtomicU64,
    crashed: watch::Sender<bool>,
}

/// Writes so far, and at which of them the process dies.
struct Writes {
    count: u64,
    crash: Crash,
}

impl FaultPlan {
    /// Nothing goes wrong; counts.
    #[must_use]
    pub fn none() -> Self {
        Self::with(Crash::Never)
    }

    /// Dies instead of sending the k-th write (from 1).
    #[must_use]
    pub fn crash_before_write(k: u64) -> Self {
        Self::with(Crash::Before(k))
    }

    /// Dies when the k-th write (from 1) is carried out, before its reply is seen.
    #[must_use]
    pub fn crash_after_write(k: u64) -> Self {
        Self::with(Crash::After(k))
    }

    fn with(crash: Crash) -> Self {
        let state = State {
            requests: AtomicU64::new(0),
            writes: watch::Sender::new(Writes { count: 0, crash }),
            answered: AtomicU64::new(0),
            crashed: watch::Sender::new(false),
        };
        let ignore: Ignore = Arc::new(|info| info.kind() == "coordination.k8s.io/leases");
        Self {
            answers: Arc::new(Vec::new()),
            ignore,
            silent: None,
            state: Arc::new(state),
        }
    }

    /// Changes where it dies: `crash` counts from the next write on. So one that has come to rest can
    /// be made to die in what happens next.
    pub fn arm(&self, crash: Crash) {
        self.state.writes.send_modify(|writes| {
            let so_far = writes.count;
            writes.crash = match crash {
                Crash::Never => Crash::Never,
                Crash::Before(k) => Crash::Before(so_far + k),
                Crash::After(k) => Crash::After(so_far + k),
            };
        });
    }

    /// Adds an answer; the first that applies to a request is given.
    #[must_use]
    pub fn answering(mut self, answer: Answer) -> Self {
        Arc::make_mut(&mut self.answers).push(answer);
        self
    }

    /// Writes that do not count; default: those of Leases. Dry runs and access reviews are no
    /// writes anyway.
    #[must_use]
    pub fn ignoring(
        mut self,
        ignore: impl Fn(&RequestInfo) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.ignore = Arc::new(ignore);
        self
    }

    /// Watches that stay open and never tell a word, as over a connection of which only one end knows
    /// that it is gone. Asked once for each that is begun; default: none.
    #[must_use]
    pub fn silencing(
        mut self,
        silent: impl Fn(&RequestInfo) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.silent = Some(Arc::new(silent));
        self
    }

    /// Whether a request is a watch that is to be silent.
    pub(crate) fn silences(&self, method: &Method, uri: &Uri) -> bool {
        let info = RequestInfo::new(method, uri);
        let silent = self.silent.as_ref();
        info.verb == "watch" && silent.is_some_and(|silent| silent(&info))
    }

    /// Writes so far; one that was lost before it reached the server included.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.state.writes.borrow().count
    }

    /// Returns once the k-th write (from 1) is on its way. What it does to the server may be still to
    /// come: somebody else can be made to go away in the middle of it.
    pub async fn reached(&self, k: u64) {
        let mut writes = self.state.writes.subscribe();
        // The sender is ours, so waiting cannot fail.
        let _ = writes.wait_for(|writes| writes.count >= k).await;
    }

    /// Requests so far, retries included.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::SeqCst)
    }

    /// Requests that got one of the plan's answers.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.state.answered.load(Ordering::SeqCst)
    }

    /// Whether it died.
    #[must_use]
    pub fn is_crashed(&self) -> bool {
        *self.state.crashed.borrow()
    }

    /// Returns once it died: abort the operator's task then.
    pub async fn crashed(&self) {
        let mut crashed = self.state.crashed.subscribe();
        // The sender is ours, so waiting cannot fail.
        let _ = crashed.wait_for(|crashed| *crashed).await;
    }

    /// Dies now: as killing the process between two requests.
    pub fn crash(&self) {
        self.state.crashed.send_replace(true);
    }

    /// The layer, for a stack of one's own; above kube's retries when it is added with
    /// `ClientBuilder::with_layer`.
    #[must_use]
    pub fn layer(&self) -> FaultLayer {
        FaultLayer::new(self.clone())
    }

    /// A client with the plan between kube's retries and the connection.
    pub fn client(&self, config: Config) -> Result<Client> {
        let connector = config
            .rustls_https_connector()
            .context("no TLS to this server")?;
        let http =
            hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new())
                .build::<_, Body>(connector);
        let retry = config
            .default_retry
            .then(|| RetryLayer::new(RetryPolicy::server_retry()));
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(retry)
            .option_layer(config.auth_layer().context("cannot authenticate")?)
            .layer(self.layer())
            .map_err(BoxError::from)
            .service(http);
        Ok(Client::new(service, config.default_namespace))
    }

    /// Decides about one request: `Err(answer)` when it must not be sent.
    pub(crate) fn decide(&self, method: &Method, uri: &Uri) -> Decision {
        if self.is_crashed() {
            return Decision::Dead;
        }
        self.state.requests.fetch_add(1, Ordering::SeqCst);
        let info = RequestInfo::new(method, uri);
        if let Some(answer) = self.answers.iter().find(|answer| answer.applies(&info)) {
            self.state.answered.fetch_add(1, Ordering::SeqCst);
            return Decision::Answer(answer.clone());
        }
        if !info.is_write() || (self.ignore)(&info) {
            return Decision::Send;
        }
        let (mut number, mut crash) = (0, Crash::Never);
        self.state.writes.send_modify(|writes| {
            writes.count += 1;
            (number, crash) = (writes.count, writes.crash);
        });
        match crash {
            Crash::Before(k) if number == k => {
                self.crash();
                Decision::Dead
            }
            Crash::After(k) if number == k => Decision::SendAndDie,
            _ => Decision::Send,
        }
    }
}

/// What becomes of one request.
pub(crate) enum Decision {
    Send,
    SendAndDie,
    Answer(Answer),
    Dead,
}

#[cfg(test)]
mod tests;
