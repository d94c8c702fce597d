//! The fault proxy: a process of its own between a client and the kube-apiserver that delays,
//! refuses, loses and distorts what the rules pick, and the handle by which a test drives it.
//!
//! It serves with a certificate of the management API's authority, so clients trust it, and tells
//! the server by `X-Remote-User` and `X-Remote-Group` who the client's certificate names
//! (authenticating proxy). Upgrades (exec, port-forward) do not pass.
//! Invariant: without rules it changes nothing that a client can see.

mod binary;
mod control;
mod events;
mod rules;
mod server;
mod shared;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::TokioExecutor;
use kube::{Client, Config};
use serde::{Deserialize, Serialize};

use crate::apiserver::{ManagementApi, config};
use crate::certs::{Identity, PROXY};
use crate::process::{Process, Workdir};

pub use binary::FINGERPRINT;
pub use rules::{Action, Counters, Rule, RuleCounters};
pub use server::run;

/// How long the proxy may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// The file, next to the settings, into which the proxy writes where it listens.
const ADDRESSES: &str = "addresses.json";

/// What the process is started with; everything is PEM.
#[derive(Deserialize, Serialize)]
pub struct Settings {
    /// URL of the real server.
    pub upstream: String,
    /// Authority of the real server, and of the clients.
    pub ca: String,
    /// Certificate and key to serve with.
    pub serving: (String, String),
    /// Certificate and key of the authenticating proxy.
    pub identity: (String, String),
}

/// Where the process listens.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Addresses {
    proxy: String,
    control: String,
}

/// A running proxy; it is killed when this is dropped.
pub struct FaultProxy {
    // Order matters: the process ends before its folder goes.
    process: Process,
    _dir: Workdir,
    addresses: Addresses,
    ca: String,
}

impl FaultProxy {
    /// Starts a proxy in front of a management API. Builds the program first where that is
    /// needed.
    pub async fn start(api: &ManagementApi) -> Result<Self> {
        let program = binary::ensure().await?;
        let dir = Workdir::new()?;
        let pair = |identity: Identity| (identity.cert, identity.key);
        let settings = Settings {
            upstream: api.url(),
            ca: api.ca(),
            serving: pair(api.authority().server("fault-proxy", &[])?),
            identity: pair(api.front_proxy().client(PROXY, &[])?),
        };
        let settings = serde_json::to_string(&settings).context("cannot write settings")?;
        let settings = dir.write("settings.json", &settings)?;
        let args = [settings.display().to_string()];
        let log = dir.path().join("fault-proxy.log");
        let mut process = Process::spawn("fault-proxy", &program, &args, &log)?;
        let deadline = Instant::now() + START_TIMEOUT;
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        let addresses = loop {
            ticks.tick().await;
            if let Ok(text) = std::fs::read(dir.path().join(ADDRESSES)) {
                break serde_json::from_slice(&text).context("not the proxy's addresses")?;
            }
            if process.exited().is_some() || Instant::now() > deadline {
                bail!("the fault proxy did not start:\n{}", process.log_tail(15));
            }
        };
        Ok(Self {
            process,
            _dir: dir,
            addresses,
            ca: api.ca(),
        })
    }

    /// `https://127.0.0.1:<port>`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.addresses.proxy)
    }

    /// The proxy's pid, for tests that stop it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// A configuration that leads through the proxy, with a client certificate of this user and
    /// at most two groups.
    pub fn config_as(&self, api: &ManagementApi, user: &str, groups: &[&str]) -> Result<Config> {
        config(&self.url(), &self.ca, &api.identity(user, groups)?)
    }

    /// A client that leads through the proxy.
    pub fn client_as(&self, api: &ManagementApi, user: &str, groups: &[&str]) -> Result<Client> {
        Client::try_from(self.config_as(api, user, groups)?).context("cannot make a client")
    }

    /// Adds or replaces a rule; its counters start anew. Watches that are open already are
    /// subject to it too.
    pub async fn set(&self, id: &str, rule: &Rule) -> Result<()> {
        let body = serde_json::to_string(rule).context("cannot write a rule")?;
        self.control(Method::PUT, &format!("/rules/{id}"), body)
            .await
            .map(drop)
    }

    /// Removes a rule; what it held back goes on.
    pub async fn remove(&self, id: &str) -> Result<()> {
        self.control(Method::DELETE, &format!("/rules/{id}"), String::new())
            .await
            .map(drop)
    }

    /// Removes all rules.
    pub async fn clear(&self) -> Result<()> {
        self.control(Method::DELETE, "/rules", String::new())
            .await
            .map(drop)
    }

    /// Breaks every open watch off, as a broken connection would.
    pub async fn close_streams(&self) -> Result<()> {
        self.control(Method::POST, "/streams/close", String::new())
            .await
            .map(drop)
    }

    /// What was seen and done so far.
    pub async fn counters(&self) -> Result<Counters> {
        let answer = self
            .control(Method::GET, "/counters", String::new())
            .await?;
        serde_json::from_slice(&answer).context("not counters")
    }

    async fn control(&self, method: Method, path: &str, body: String) -> Result<Bytes> {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.addresses.control))
            .body(Full::<Bytes>::from(body))
            .context("not a request")?;
        let client = HttpClient::builder(TokioExecutor::new()).build_http();
        let answer = client
            .request(request)
            .await
            .context("the fault proxy does not answer")?;
        let status = answer.status();
        let body = answer
            .into_body()
            .collect()
            .await
            .context("the fault proxy broke off")?;
        let body = body.to_bytes();
        if !status.is_success() {
            bail!(
                "the fault proxy refused {path}: {}",
                String::from_utf8_lossy(&body)
            );
        }
        Ok(body)
    }
}
