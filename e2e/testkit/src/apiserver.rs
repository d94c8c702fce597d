//! A management API for tests: a real etcd and kube-apiserver on loopback, RBAC on, no kubelet.
//!
//! Invariant: the value holds no task and no connection, so one can be shared by tests that have
//! runtimes of their own; clients are made per call and belong to the caller's runtime.

mod access;
mod flags;
mod rewind;
mod start;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use kube::{Client, Config};
use rustix::process::Signal;
use tokio::sync::{Mutex, OnceCell};

use crate::audit::AuditLog;
use crate::certs::{Authority, Identity};
use crate::etcd::Etcd;
use crate::process::{Process, Workdir};
use crate::programs::Programs;

pub use access::{config, kubeconfig};
pub use rewind::{Restored, Snapshot};
use start::{free_port, retry_ports, start_apiserver, start_etcd, wait_http};

/// Group of the administrator.
const MASTERS: &str = "system:masters";

/// Controllers that make namespaces go away as in a real cluster. Without the claim protection a
/// PersistentVolumeClaim keeps its finalizer and the namespace stays.
pub const DELETION_CONTROLLERS: &[&str] = &[
    "namespace-controller",
    "garbage-collector-controller",
    "persistentvolumeclaim-protection-controller",
];

/// What differs from one management API to another.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Further flags of the kube-apiserver, with their dashes.
    pub apiserver_flags: Vec<String>,
    /// Controllers of the kube-controller-manager; empty: it is not started.
    pub controllers: Vec<String>,
}

/// A running management API; everything ends when it is dropped.
pub struct ManagementApi {
    // Order matters: processes end before their folder goes.
    servers: Mutex<Servers>,
    programs: Programs,
    authority: Authority,
    front_proxy: Authority,
    options: Options,
    port: u16,
    etcd: Etcd,
    audit: AuditLog,
    kubeconfig: PathBuf,
    started_in: Duration,
    dir: Workdir,
}

#[derive(Default)]
struct Servers {
    controller_manager: Option<Process>,
    apiserver: Option<Process>,
    etcd: Option<Process>,
}

impl ManagementApi {
    /// Starts one with the default options. `None`, after saying `SKIPPED`, when the programs are
    /// missing (see [`Programs::find_or_skip`]).
    pub async fn start() -> Result<Option<Self>> {
        Self::start_with(Options::default()).await
    }

    /// As [`Self::start`], with options.
    pub async fn start_with(options: Options) -> Result<Option<Self>> {
        match Programs::find_or_skip()? {
            Some(programs) => Ok(Some(Self::start_from(programs, options).await?)),
            None => Ok(None),
        }
    }

    /// The one that all tests of this process share; it has the controllers of
    /// [`DELETION_CONTROLLERS`] and the CRDs of Covey. Use a namespace of your own
    /// ([`Self::namespace`]).
    pub async fn shared() -> Result<Option<&'static Self>> {
        static SHARED: OnceCell<Option<ManagementApi>> = OnceCell::const_new();
        let shared = SHARED.get_or_try_init(|| async {
            let options = Options {
                controllers: DELETION_CONTROLLERS
                    .iter()
                    .map(|c| (*c).to_owned())
                    .collect(),
                ..Options::default()
            };
            let Some(api) = Self::start_with(options).await? else {
                return Ok(None);
            };
            api.install_crds().await?;
            anyhow::Ok(Some(api))
        });
        Ok(shared.await?.as_ref())
    }

    /// Starts one from given programs.
    pub async fn start_from(programs: Programs, options: Options) -> Result<Self> {
        let begin = Instant::now();
        let dir = Workdir::new()?;
        let authority = Authority::new("testkit")?;
        let front_proxy = Authority::new("testkit-front-proxy")?;
        let (etcd_process, etcd) = start_etcd(&programs, &dir).await?;
        flags::write_files(&dir, &authority, &front_proxy)?;
        let (apiserver, port) = start_apiserver(&programs, &dir, &etcd, &options).await?;
        let mut api = Self {
            servers: Mutex::new(Servers {
                controller_manager: None,
                apiserver: Some(apiserver),
                etcd: Some(etcd_process),
            }),
            programs,
            authority,
            front_proxy,
            port,
            etcd,
            audit: AuditLog::new(dir.path().join(flags::AUDIT_LOG)),
            kubeconfig: dir.path().join("admin.kubeconfig"),
            started_in: Duration::ZERO,
            options: Options {
                controllers: Vec::new(),
                ..options.clone()
            },
            dir,
        };
        let yaml = api.kubeconfig_as("testkit-admin", &[MASTERS])?;
        api.dir.write("admin.kubeconfig", &yaml)?;
        api.started_in = begin.elapsed();
        if !options.controllers.is_empty() {
            let names: Vec<&str> = options.controllers.iter().map(String::as_str).collect();
            api.with_controller_manager(&names).await?;
            api.options.controllers = options.controllers;
        }
        Ok(api)
    }

    /// `https://127.0.0.1:<port>`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Certificate of the authority that signed the server and the clients, as PEM.
    #[must_use]
    pub fn ca(&self) -> String {
        self.authority.pem()
    }

    /// From the call of `start` until `/readyz` answered.
    #[must_use]
    pub fn started_in(&self) -> Duration {
        self.started_in
    }

    /// A client with all rights (group `system:masters`).
    pub fn admin(&self) -> Result<Client> {
        self.client_as("testkit-admin", &[MASTERS])
    }

    /// A client with a client certificate of this user and at most two groups.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Result<Client> {
        Client::try_from(self.config_as(user, groups)?).context("cannot make a client")
    }

    /// The configuration behind [`Self::client_as`]: for clients with layers.
    pub fn config_as(&self, user: &str, groups: &[&str]) -> Result<Config> {
        config(&self.url(), &self.ca(), &self.identity(user, groups)?)
    }

    /// A client certificate for a user.
    pub fn identity(&self, user: &str, groups: &[&str]) -> Result<Identity> {
        self.authority.client(user, groups)
    }

    /// Path of a kubeconfig file with all rights, for kubectl and controllers.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A kubeconfig as YAML for this user and at most two groups.
    pub fn kubeconfig_as(&self, user: &str, groups: &[&str]) -> Result<String> {
        kubeconfig(&self.url(), &self.ca(), &self.identity(user, groups)?)
    }

    /// The audit log: every request, with user and time.
    #[must_use]
    pub fn audit(&self) -> &AuditLog {
        &self.audit
    }

    /// The etcd behind the server.
    #[must_use]
    pub fn etcd(&self) -> &Etcd {
        &self.etcd
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    pub(crate) fn front_proxy(&self) -> &Authority {
        &self.front_proxy
    }

    /// A number that no other call in this process got, for names.
    #[must_use]
    pub fn unique(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// Starts the kube-controller-manager with just these controllers (for example
    /// [`DELETION_CONTROLLERS`]; `deployment-controller`, `statefulset-controller`). One that runs
    /// already is replaced.
    pub async fn with_controller_manager(&self, controllers: &[&str]) -> Result<()> {
        let mut servers = self.servers.lock().await;
        servers.controller_manager = None;
        let process = retry_ports(|| async {
            let port = free_port()?;
            let args = flags::controller_manager(self.dir.path(), port, controllers);
            let log = self.dir.path().join("kube-controller-manager.log");
            let program = &self.programs.kube_controller_manager;
            let mut process = Process::spawn("kube-controller-manager", program, &args, &log)?;
            let authority = self.ca();
            wait_http(
                &mut process,
                &format!("https://127.0.0.1:{port}/healthz"),
                &authority,
            )
            .await?;
            Ok(process)
        });
        servers.controller_manager = Some(process.await?);
        Ok(())
    }

    /// Ends the kube-apiserver at once, as a crash would; etcd keeps running.
    pub async fn stop_apiserver(&self) {
        self.servers.lock().await.apiserver = None;
    }

    /// Starts the kube-apiserver again on the same port and waits until it is ready.
    pub async fn start_apiserver(&self) -> Result<()> {
        let mut servers = self.servers.lock().await;
        servers.apiserver = None;
        let flags = flags::apiserver(self.dir.path(), self.etcd.url(), self.port, &self.options);
        let log = self.dir.path().join("kube-apiserver.log");
        let program = &self.programs.kube_apiserver;
        servers.apiserver = Some(Process::spawn("kube-apiserver", program, &flags, &log)?);
        drop(servers);
        self.wait_ready().await
    }

    /// Stops the kube-apiserver in its tracks (SIGSTOP): connections hang and do not break.
    pub async fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP).await
    }

    /// Undoes [`Self::pause`].
    pub async fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT).await
    }

    async fn signal(&self, signal: Signal) -> Result<()> {
        match &mut self.servers.lock().await.apiserver {
            Some(process) => process.signal(signal),
            None => bail!("the kube-apiserver is stopped; call start_apiserver first"),
        }
    }

    /// Pids of the running children, for tests of this crate.
    pub async fn pids(&self) -> Vec<u32> {
        let servers = self.servers.lock().await;
        let all = [
            &servers.etcd,
            &servers.apiserver,
            &servers.controller_manager,
        ];
        all.into_iter().flatten().map(Process::pid).collect()
    }

    async fn wait_ready(&self) -> Result<()> {
        let mut servers = self.servers.lock().await;
        let Some(process) = &mut servers.apiserver else {
            bail!("the kube-apiserver is stopped; call start_apiserver first")
        };
        wait_http(process, &format!("{}/readyz", self.url()), &self.ca()).await
    }
}
