//! A management API for tests: a real etcd and kube-apiserver on loopback, RBAC on, no kubelet.
//!
//! Invariant: the value holds no task and no connection, so one can be shared by tests that have
//! runtimes of their own; clients are made per call and belong to the caller's runtime.

mod access;
mod flags;
mod keep;
mod lent;
mod own;
mod rewind;
mod start;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use kube::{Client, Config};
use tokio::sync::OnceCell;

use crate::audit::AuditLog;
use crate::certs::{Authority, Identity};
use crate::etcd::Etcd;
use crate::process::Workdir;
use crate::programs::Programs;

pub use access::{config, kubeconfig};
pub use keep::Kept;
pub use lent::VARIABLE;
use own::Own;
pub use rewind::{Restored, Snapshot};
use start::{start_apiserver, start_etcd};

/// The administrator.
const ADMIN: &str = "testkit-admin";
/// Name of the authority of the server and its clients.
const AUTHORITY: &str = "testkit";
/// Name of the authority of authenticating proxies.
const FRONT_PROXY: &str = "testkit-front-proxy";
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

impl Options {
    /// Those of [`ManagementApi::alone`]: Services may have both families of addresses.
    #[must_use]
    pub fn alone() -> Self {
        Self {
            apiserver_flags: vec![
                "--service-cluster-ip-range=10.96.0.0/16,fd00:1::/112".to_owned(),
            ],
            controllers: Vec::new(),
        }
    }
}

/// A management API that many use at once. It has the definitions of Covey, of KubeVirt and of volume
/// snapshots. Use a namespace of your own ([`ManagementApi::namespace`]).
#[derive(Clone, Copy, Debug)]
enum Common {
    /// With the controllers of [`DELETION_CONTROLLERS`].
    Shared,
    /// Without any controller: what a test waits for is done by what it tests.
    Bare,
}

impl Common {
    const ALL: [Self; 2] = [Self::Shared, Self::Bare];

    /// Name of its folder.
    fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Bare => "bare",
        }
    }

    async fn start(self, programs: Programs, dir: Workdir) -> Result<ManagementApi> {
        let api = ManagementApi::start_in(dir, programs, Options::default()).await?;
        // First, so that the garbage collector knows them from its first look on: it looks for new
        // kinds every 30 s.
        api.install_kinds().await?;
        if let Self::Shared = self {
            api.with_controller_manager(DELETION_CONTROLLERS).await?;
        }
        Ok(api)
    }
}

/// A running management API. One that was started here ends when it is dropped; one that is lent by
/// `test-servers` goes on.
pub struct ManagementApi {
    // Order matters: processes end before others may have the server.
    own: Option<Own>,
    _turn: Option<lent::Turn>,
    authority: Authority,
    front_proxy: Authority,
    port: u16,
    etcd: Etcd,
    audit: AuditLog,
    folder: PathBuf,
    kubeconfig: PathBuf,
    started_in: Duration,
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

    /// One that others use at the same time: lent by `test-servers` (see [`VARIABLE`]), or else shared by
    /// the tests of this process. It has the controllers of [`DELETION_CONTROLLERS`], and the definitions
    /// of [`Self::install_kinds`].
    pub async fn shared() -> Result<Option<&'static Arc<Self>>> {
        static SHARED: OnceCell<Arc<ManagementApi>> = OnceCell::const_new();
        Self::common(Common::Shared, &SHARED).await
    }

    /// As [`Self::shared`], without any controller.
    pub async fn bare() -> Result<Option<&'static Arc<Self>>> {
        static BARE: OnceCell<Arc<ManagementApi>> = OnceCell::const_new();
        Self::common(Common::Bare, &BARE).await
    }

    async fn common(
        common: Common,
        cell: &'static OnceCell<Arc<Self>>,
    ) -> Result<Option<&'static Arc<Self>>> {
        if let Some(folder) = lent::folder() {
            let lent = async || lent::connect(&folder.join(common.name())).map(Arc::new);
            return cell.get_or_try_init(lent).await.map(Some);
        }
        // Each test that is skipped says so itself.
        let Some(programs) = Programs::find_or_skip()? else {
            return Ok(None);
        };
        let start = async || {
            let api = common.start(programs, Workdir::new()?).await?;
            Ok(Arc::new(api))
        };
        cell.get_or_try_init(start).await.map(Some)
    }

    /// One that nobody else uses, without controllers and without our definitions, with
    /// [`Options::alone`]: lent by `test-servers`, as if nobody had ever used it, or else started. It
    /// cannot be stopped or paused; for that, [`Self::start`] one.
    ///
    /// Who holds one must not ask for another: all would wait for each other. See
    /// [`Self::alone_together`].
    pub async fn alone() -> Result<Option<Self>> {
        let one = Self::alone_together::<1>().await?;
        Ok(one.map(|[api]| api))
    }

    /// So many as by [`Self::alone`], at once.
    pub async fn alone_together<const N: usize>() -> Result<Option<[Self; N]>> {
        let mut all = Vec::new();
        match lent::folder() {
            Some(folder) => all = lent::borrow(&folder, N).await?,
            None => {
                let Some(programs) = Programs::find_or_skip()? else {
                    return Ok(None);
                };
                for _ in 0..N {
                    all.push(Self::start_from(programs.clone(), Options::alone()).await?);
                }
            }
        }
        let all = <[Self; N]>::try_from(all).ok();
        Ok(Some(
            all.context("invariant: there are as many as asked for")?,
        ))
    }

    /// Starts one from given programs.
    pub async fn start_from(programs: Programs, options: Options) -> Result<Self> {
        Self::start_in(Workdir::new()?, programs, options).await
    }

    async fn start_in(dir: Workdir, programs: Programs, mut options: Options) -> Result<Self> {
        let begin = Instant::now();
        let authority = Authority::new(AUTHORITY)?;
        let front_proxy = Authority::new(FRONT_PROXY)?;
        let (etcd_process, etcd) = start_etcd(&programs, &dir).await?;
        flags::write_files(&dir, &authority, &front_proxy)?;
        let controllers = std::mem::take(&mut options.controllers);
        let (apiserver, port) = start_apiserver(&programs, &dir, &etcd, &options).await?;
        let folder = dir.path().to_owned();
        let mut api = Self {
            authority,
            front_proxy,
            port,
            audit: AuditLog::new(folder.join(flags::AUDIT_LOG)),
            kubeconfig: folder.join(flags::KUBECONFIG),
            folder,
            started_in: Duration::ZERO,
            own: None,
            _turn: None,
            etcd,
        };
        let yaml = api.kubeconfig_as(ADMIN, &[MASTERS])?;
        dir.write(flags::KUBECONFIG, &yaml)?;
        api.started_in = begin.elapsed();
        api.own = Some(Own::new(programs, options, dir, etcd_process, apiserver));
        if !controllers.is_empty() {
            let names: Vec<&str> = controllers.iter().map(String::as_str).collect();
            api.with_controller_manager(&names).await?;
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
        self.client_as(ADMIN, &[MASTERS])
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
}
