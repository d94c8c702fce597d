//! Stand-ins for the API servers of tenants, for tests without a kubelet: one HTTPS server for
//! each tenant namespace, from the moment its Secret `apiserver` appears.
//!
//! It has the serving certificate of that Secret, verifies clients with its `clients.crt`, answers the
//! health paths and `/version`, keeps what is applied in memory (lists, selectors and watches work
//! on it, as do evictions of pods and approvals of requests), and writes down who called.
//! Invariant: only the health paths and `/version` answer a caller without a certificate, as the
//! real one does; a changed Secret counts from the next connection on. A Secret has to bear the
//! labels of the scope ([`Scope::labels`]), as Covey's do: the stand-ins are sent no others.

mod answer;
mod call;
mod evict;
mod hostile;
mod page;
mod select;
mod sent;
mod server;
mod state;
mod store;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::cache::{Cache, Told};
use crate::faults::FaultPlan;
use crate::scope::{Change, Namespaces, Scope};
use server::Server;

pub use call::{Call, Mode, Wire};

/// The Secret with everything that a tenant's kube-apiserver mounts.
const SECRET: &str = "apiserver";
/// Nothing listens there (tcpmux): what a tenant without a server is dialled at.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

/// Port of members of etcd for their JSON gateway: nobody plays etcd.
const ETCD: u16 = 2382;

/// The servers of a scope; they end when it is dropped.
pub struct TenantApis {
    servers: watch::Receiver<Servers>,
    faults: watch::Sender<Option<FaultPlan>>,
    told: Told,
    task: JoinHandle<()>,
}

type Servers = BTreeMap<String, Arc<Server>>;

impl TenantApis {
    /// Starts to look for Secrets; `version` is what `/version` says, without the `v`.
    #[must_use]
    pub fn start(client: &Client, scope: &Scope, version: &str) -> Self {
        let (sender, servers) = watch::channel(Servers::new());
        let (faults, obeyed) = watch::channel(None);
        let told = Told::default();
        let keeper = Keeper {
            servers: sender,
            faults: obeyed,
            secrets: Cache::new(["Secret".to_owned()], &told),
            namespaces: Namespaces::default(),
            version: version.to_owned(),
        };
        let secrets = watcher::Config::default()
            .labels(&scope.labels())
            .fields(&format!("metadata.name={SECRET}"));
        let secrets = watcher(Api::all(client.clone()), secrets).default_backoff();
        let secrets = secrets.map_err(anyhow::Error::from).boxed();
        let namespaces = scope.watch(client);
        let task = tokio::spawn(async move {
            if let Err(error) = keeper.keep(secrets, namespaces).await {
                eprintln!("the tenants' stand-ins ended: {error:#}");
            }
        });
        Self {
            servers,
            faults,
            told,
            task,
        }
    }

    /// How many events it was sent about each Secret, by `Secret/namespace/name`.
    #[must_use]
    pub fn told(&self) -> BTreeMap<String, usize> {
        self.told.now()
    }

    /// Where the server of a tenant namespace listens, once it does.
    #[must_use]
    pub fn address(&self, namespace: &str) -> Option<SocketAddr> {
        self.servers
            .borrow()
            .get(namespace)
            .map(|server| server.address())
    }

    /// Waits until there is a server for a tenant namespace.
    pub async fn wait_address(&self, namespace: &str, timeout: Duration) -> Result<SocketAddr> {
        let mut servers = self.servers.clone();
        let found = servers.wait_for(|servers| servers.contains_key(namespace));
        let found = tokio::time::timeout(timeout, found).await;
        let found = found.with_context(|| {
            format!("no Secret {SECRET} with a certificate in {namespace} after {timeout:?}")
        })?;
        let servers = found.context("the tenants' stand-ins ended")?;
        Ok(servers
            .get(namespace)
            .context("invariant: just found")?
            .address())
    }

    /// Waits until the server of a tenant namespace has taken over this version of its Secret.
    pub async fn wait_secret(
        &self,
        namespace: &str,
        resource_version: &str,
        timeout: Duration,
    ) -> Result<()> {
        self.wait_address(namespace, timeout).await?;
        let server = self.servers.borrow().get(namespace).cloned();
        let server = server.context("the tenant namespace is gone")?;
        let mut secret = server.secret();
        let taken = secret.wait_for(|version| version == resource_version);
        let taken = tokio::time::timeout(timeout, taken).await;
        taken
            .with_context(|| format!("not taken over after {timeout:?}"))?
            .map(drop)?;
        Ok(())
    }

    /// Maps a tenant namespace and the address of its Service to where its stand-in listens; to
    /// a closed port while there is none.
    pub fn dialer(&self) -> impl Fn(&str, SocketAddr) -> SocketAddr + Clone + Send + Sync + use<> {
        let servers = self.servers.clone();
        move |namespace: &str, address: SocketAddr| {
            if address.port() == ETCD {
                return NOWHERE;
            }
            servers
                .borrow()
                .get(namespace)
                .map_or(NOWHERE, |server| server.address())
        }
    }

    /// Changes how the server of a tenant namespace behaves; `false`: there is none yet.
    pub fn set(&self, namespace: &str, mode: Mode) -> bool {
        let server = self.servers.borrow().get(namespace).cloned();
        server.map(|server| server.set(mode)).is_some()
    }

    /// All servers obey this plan too, so that what its client writes here counts, and what a dead
    /// one still sends does not arrive; `None`: none. Give the plan of the client that asks.
    pub fn obey(&self, plan: Option<&FaultPlan>) {
        self.faults.send_replace(plan.cloned());
    }

    /// The requests so far, in the order of their answers.
    #[must_use]
    pub fn calls(&self, namespace: &str) -> Vec<Call> {
        let server = self.servers.borrow().get(namespace).cloned();
        server.map(|server| server.calls()).unwrap_or_default()
    }

    /// The answers that only a hostile or slow mode gives, in the order in which they began: how many
    /// bytes of each were sent.
    #[must_use]
    pub fn played(&self, namespace: &str) -> Vec<u64> {
        let server = self.servers.borrow().get(namespace).cloned();
        server.map(|server| server.played()).unwrap_or_default()
    }

    /// Waits until so many of these have begun.
    pub async fn wait_played(&self, namespace: &str, most: usize, timeout: Duration) -> Result<()> {
        let server = self.servers.borrow().get(namespace).cloned();
        let server = server.context("the tenant namespace is gone")?;
        let mut changes = server.changes();
        let begun = async {
            while server.played().len() < most {
                changes.changed().await?;
            }
            anyhow::Ok(())
        };
        let begun = tokio::time::timeout(timeout, begun).await;
        begun.with_context(|| format!("less than {most} after {timeout:?}"))?
    }

    /// The stored object at a path (without query).
    #[must_use]
    pub fn object(&self, namespace: &str, path: &str) -> Option<Value> {
        self.servers.borrow().get(namespace)?.object(path)
    }

    /// Waits until the stored object at a path is as wanted.
    pub async fn wait(
        &self,
        namespace: &str,
        path: &str,
        mut wanted: impl FnMut(Option<&Value>) -> bool,
        timeout: Duration,
    ) -> Result<()> {
        self.wait_address(namespace, timeout).await?;
        let server = self.servers.borrow().get(namespace).cloned();
        let server = server.context("the tenant namespace is gone")?;
        let mut changes = server.changes();
        let seen = async {
            while !wanted(server.object(path).as_ref()) {
                changes.changed().await?;
            }
            anyhow::Ok(())
        };
        let seen = tokio::time::timeout(timeout, seen).await;
        seen.with_context(|| format!("{path} is not as wanted after {timeout:?}"))?
    }

    /// Changes the stored object at a path as somebody in the tenant would, by a merge patch;
    /// `false`: there is none.
    pub fn change(&self, namespace: &str, path: &str, patch: &Value) -> bool {
        let server = self.servers.borrow().get(namespace).cloned();
        server.is_some_and(|server| server.change(path, Some(patch)))
    }

    /// Applies an object at a path as somebody in the tenant would, who may make it by that;
    /// `false`: there is no server yet, or the object has a UID, and there is none with it.
    pub fn put(&self, namespace: &str, path: &str, object: &Value) -> bool {
        let server = self.servers.borrow().get(namespace).cloned();
        server.is_some_and(|server| server.put(path, object))
    }

    /// Deletes the stored object at a path as somebody in the tenant would; `false`: there is none.
    pub fn delete(&self, namespace: &str, path: &str) -> bool {
        let server = self.servers.borrow().get(namespace).cloned();
        server.is_some_and(|server| server.change(path, None))
    }

    /// The paths of all stored objects.
    #[must_use]
    pub fn paths(&self, namespace: &str) -> Vec<String> {
        let server = self.servers.borrow().get(namespace).cloned();
        server.map(|server| server.paths()).unwrap_or_default()
    }
}

impl Drop for TenantApis {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Keeper {
    servers: watch::Sender<Servers>,
    faults: watch::Receiver<Option<FaultPlan>>,
    secrets: Cache<Secret>,
    namespaces: Namespaces,
    version: String,
}

impl Keeper {
    async fn keep(
        mut self,
        mut secrets: BoxStream<'static, Result<Event<Secret>>>,
        mut namespaces: BoxStream<'static, Result<Event<Namespace>>>,
    ) -> Result<()> {
        loop {
            // Whom it may concern: each server that is looked at reads its certificates again.
            let changed = tokio::select! {
                // The watchers come back by themselves after an error.
                event = namespaces.try_next() => match event {
                    Ok(Some(event)) => match self.namespaces.take(event) {
                        Change::None => continue,
                        Change::Came(name) => BTreeSet::from([name]),
                        Change::Listed => self.of_secrets(),
                        Change::Went => BTreeSet::new(),
                    },
                    Ok(None) => return Ok(()),
                    Err(_) => continue,
                },
                event = secrets.try_next() => match event {
                    Ok(Some(event)) => {
                        let keys = self.secrets.take(0, event).into_iter();
                        keys.map(|(_, namespace, _)| namespace).collect()
                    }
                    Ok(None) => return Ok(()),
                    Err(_) => continue,
                },
            };
            self.arrange(&changed).await;
        }
    }

    fn of_secrets(&self) -> BTreeSet<String> {
        let keys = self.secrets.keys().into_iter();
        keys.map(|(_, namespace, _)| namespace).collect()
    }

    /// Starts, renews and ends servers until they fit the Secrets, of which those of `changed` are others.
    async fn arrange(&self, changed: &BTreeSet<String>) {
        let mut servers = self.servers.borrow().clone();
        let before: Vec<String> = servers.keys().cloned().collect();
        // Only a namespace that is gone ends a server: it keeps its data when a Secret is lost.
        servers.retain(|namespace, _| self.namespaces.contains(namespace));
        for ((_, namespace, _), secret) in self.secrets.iter() {
            if !changed.contains(namespace) || !self.namespaces.contains(namespace) {
                continue;
            }
            // One without a certificate (yet) is not for us.
            let Ok(tls) = server::tls(secret) else {
                continue;
            };
            let version = secret.resource_version().unwrap_or_default();
            match servers.get(namespace) {
                Some(server) => server.renew(tls, version),
                None => match Server::start(tls, version, &self.version, &self.faults).await {
                    Ok(server) => drop(servers.insert(namespace.clone(), Arc::new(server))),
                    Err(error) => eprintln!("no stand-in for {namespace}: {error:#}"),
                },
            }
        }
        if !before.iter().eq(servers.keys()) {
            self.servers.send_replace(servers);
        }
    }
}
