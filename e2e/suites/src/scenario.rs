//! What every test of the suites runs in: a namespace of its own, and a dump when it fails.
//!
//! Without a lab a test prints SKIPPED and passes, unless `COVEY_TEST_REQUIRE=1` (or
//! `COVEY_TEST_REQUIRE_LAB=1`). With
//! `COVEY_KEEP=1` what it made stays. Tests may run side by side, also those of other processes; one that
//! changes what they share (the operator) runs alone ([`run_alone`]).
//! Invariant: after a test, whether it passed or not, nothing of it is left in the lab; none passes in which the etcd of a
//! tenant cluster was begun anew, or lost what its API acknowledged when it was first Ready.

pub mod autoscaler;
mod backups;
mod dump;
pub mod hotplug;
mod identities;
pub mod kubectl;
pub mod lab_hosts;
mod markers;
pub mod pods;
pub mod processes;
pub mod sleeping;
pub mod stateful;
pub mod steady;
pub mod traffic;
mod turn;
pub mod versions;
pub mod workers;
pub mod workload;

use std::{
    env,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use api::{Host, NodePool, TenantCluster, TenantClusterSpec, names};
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::process::Command;

use crate::cluster::{Management, Tenant, suffix, wait::wait_gone};
use identities::Identities;
use markers::Markers;
use turn::Turn;

/// How long tests wait for a tenant while others are busy too. Nothing is proven by it: figures
/// are the bench's business.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// The version of Kubernetes that tests ask for unless it matters.
pub const VERSION: &str = "1.35.4";
/// How there is a lab with all of Covey in it.
const UP: &str = "`cargo xtask lab up && cargo xtask lab install` brings it up";
/// Label of namespaces that tests make.
const LABEL: &str = "covey.dev/test";

/// One test's surroundings.
pub struct Scenario {
    /// The management cluster.
    pub management: Management,
    /// The test's namespace, as a user would have one.
    pub namespace: String,
    files: PathBuf,
}

/// Runs a test side by side with others.
///
/// # Panics
/// When the test fails, which is how a test says so.
pub async fn run(name: &str, test: impl AsyncFnOnce(&Scenario) -> Result<()>) {
    Box::pin(run_inside(name, Turn::SideBySide, test)).await;
}

/// Runs a test while no other one runs in this lab.
///
/// # Panics
/// When the test fails.
pub async fn run_alone(name: &str, test: impl AsyncFnOnce(&Scenario) -> Result<()>) {
    Box::pin(run_inside(name, Turn::Alone, test)).await;
}

#[allow(clippy::panic, reason = "a test fails by a panic")]
async fn run_inside(name: &str, turn: Turn, test: impl AsyncFnOnce(&Scenario) -> Result<()>) {
    let management = match Management::connect().await {
        Ok(Some(management)) => management,
        Ok(None) if !required() => {
            eprintln!("SKIPPED {name}: the lab is not up; {UP}");
            return;
        }
        Ok(None) => panic!("{name}: the lab is not up; {UP}"),
        Err(error) => panic!("{name}: {error:#}"),
    };
    // What a command measures has nothing beside it.
    let marked = async |scenario: &Scenario| {
        let markers = Markers::watch(scenario.client(), &scenario.namespace);
        test(scenario).await?;
        markers.check(scenario.client(), &scenario.namespace).await
    };
    if let Err(error) = inside(management, name, turn, marked).await {
        panic!("{name}: {error:#}")
    }
}

/// What a command does in the lab, with the same surroundings as a test, side by side with others.
///
/// # Errors
/// When there is no lab, with what went wrong, or with what it made and could not remove.
pub async fn command(name: &str, work: impl AsyncFnOnce(&Scenario) -> Result<()>) -> Result<()> {
    let management = Management::connect().await?;
    let management = management.with_context(|| format!("the lab is not up: {UP}"))?;
    Box::pin(inside(management, name, Turn::SideBySide, work)).await
}

async fn inside(
    management: Management,
    name: &str,
    turn: Turn,
    test: impl AsyncFnOnce(&Scenario) -> Result<()>,
) -> Result<()> {
    let _held = turn.wait(management.layout.root().join("tests")).await?;
    let scenario = Scenario::new(management, name).await?;
    let identities = Identities::watch(scenario.client(), &scenario.namespace);
    let outcome = AssertUnwindSafe(test(&scenario)).catch_unwind().await;
    let same = identities
        .check(scenario.client(), &scenario.namespace)
        .await;
    drop(identities);
    let outcome = outcome.map(|done| done.and(same));
    let failure = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("{error:#}")),
        Err(_) => Some("it panicked, see above".to_owned()),
    };
    if failure.is_some() {
        eprintln!("{}", dump::dump(&scenario).await);
    }
    let cleaned = match env::var_os("COVEY_KEEP").is_some() {
        true => {
            eprintln!("COVEY_KEEP: namespace {} is kept", scenario.namespace);
            Ok(())
        }
        false => scenario.clean().await,
    };
    match failure {
        Some(failure) => bail!("{failure}"),
        None => cleaned.context("what it made cannot be removed"),
    }
}

fn required() -> bool {
    let set = |name: &str| env::var(name).is_ok_and(|value| value == "1");
    set("COVEY_TEST_REQUIRE") || set("COVEY_TEST_REQUIRE_LAB")
}

impl Scenario {
    async fn new(management: Management, name: &str) -> Result<Self> {
        let namespace = format!("t-{name}-{}", suffix());
        ensure!(namespace.len() <= 63, "the test's name is too long");
        let metadata = ObjectMeta {
            name: Some(namespace.clone()),
            labels: Some([(LABEL.to_owned(), name.to_owned())].into()),
            ..ObjectMeta::default()
        };
        let namespaces: Api<Namespace> = Api::all(management.client.clone());
        let object = Namespace {
            metadata,
            ..Namespace::default()
        };
        namespaces.create(&PostParams::default(), &object).await?;
        let files = management.layout.root().join("tests").join(&namespace);
        std::fs::create_dir_all(&files)?;
        Ok(Self {
            management,
            namespace,
            files,
        })
    }

    /// The administrator's client of the management cluster.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.management.client
    }

    /// Creates a TenantCluster; `change` alters what is otherwise the smallest one.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn tenant(
        &self,
        name: &str,
        change: impl FnOnce(&mut TenantClusterSpec),
    ) -> Result<Tenant> {
        let mut spec = TenantClusterSpec {
            version: VERSION.to_owned(),
            ..Default::default()
        };
        change(&mut spec);
        Tenant::create(self.client(), &self.namespace, name, spec).await
    }

    /// TenantClusters of the test.
    #[must_use]
    pub fn tenants(&self) -> Api<TenantCluster> {
        Api::namespaced(self.client().clone(), &self.namespace)
    }

    /// Writes a file that lives as long as the test, readable by its owner alone.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn file(&self, name: &str, content: &str) -> Result<PathBuf> {
        use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
        let path = self.files.join(name);
        let mut options = std::fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)?;
        file.write_all(content.as_bytes())?;
        Ok(path)
    }

    /// Runs kubectl, as a user would, and returns what it printed.
    ///
    /// # Errors
    /// With what it said when it failed.
    pub async fn kubectl(&self, kubeconfig: &Path, args: &[&str]) -> Result<String> {
        let mut command = Command::new(self.management.layout.tool("kubectl"));
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(args)
            .kill_on_drop(true);
        let output = command.output().await.context("kubectl cannot be run")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if !output.status.success() {
            bail!(
                "kubectl {}: {}",
                args.join(" "),
                text(&output.stderr).trim()
            );
        }
        Ok(text(&output.stdout))
    }

    /// kubectl against the management cluster, in the test's namespace.
    ///
    /// # Errors
    /// With what it said when it failed.
    pub async fn manage(&self, args: &[&str]) -> Result<String> {
        let namespace = ["--namespace", &self.namespace];
        let kubeconfig = self.management.layout.kubeconfig();
        self.kubectl(&kubeconfig, &[&namespace[..], args].concat())
            .await
    }

    /// Runs a program inside the management cluster's only host.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub fn on_host(&self, program: &str, args: &[&str]) -> Result<String> {
        let state = lab::state::State::read(&self.management.layout);
        let state = state.context("the lab went down meanwhile")?;
        let host = state
            .hosts
            .get(lab::MANAGEMENT_HOST)
            .context("the lab has no host")?;
        let output = host
            .inside(program, args)
            .output()
            .context("nsenter cannot be run")?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(
            output.status.success(),
            "{program} {}: {error}",
            args.join(" ")
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    async fn clean(&self) -> Result<()> {
        let _ = std::fs::remove_dir_all(&self.files);
        match self.clean_clusters().await {
            // Suites of the lab itself do without the operator and its kinds.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            listed => {
                self.wait_for_deletion(listed?).await?;
                self.abandon_hosts().await?;
                self.remove_backup_target().await?;
            }
        }
        let namespaces: Api<Namespace> = Api::all(self.client().clone());
        match namespaces
            .delete(&self.namespace, &DeleteParams::background())
            .await
        {
            Ok(_) => wait_gone(&namespaces, &self.namespace, None, PATIENCE).await,
            // The test itself may have deleted it.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes what the operator looks after, and says what that was.
    async fn clean_clusters(&self) -> kube::Result<(Vec<TenantCluster>, Vec<NodePool>)> {
        let clusters = self.tenants();
        let pools = self.pools();
        let all = ListParams::default();
        // The tenant clusters first: then nobody drains nodes that go anyway.
        let background = DeleteParams::background();
        clusters.delete_collection(&background, &all).await?;
        pools.delete_collection(&background, &all).await?;
        Ok((
            clusters.list(&all).await?.items,
            pools.list(&all).await?.items,
        ))
    }

    async fn wait_for_deletion(
        &self,
        (clusters, pools): (Vec<TenantCluster>, Vec<NodePool>),
    ) -> Result<()> {
        for cluster in clusters {
            let (name, uid) = (cluster.name_any(), cluster.uid());
            wait_gone(&self.tenants(), &name, uid.as_deref(), PATIENCE).await?;
        }
        for pool in pools {
            let (name, uid) = (pool.name_any(), pool.uid());
            wait_gone(&self.pools(), &name, uid.as_deref(), PATIENCE).await?;
        }
        Ok(())
    }

    /// A Host whose machine did not come clean would wait for that, and a machine of the lab ends anyway.
    async fn abandon_hosts(&self) -> kube::Result<()> {
        let hosts: Api<Host> = Api::namespaced(self.client().clone(), &self.namespace);
        for host in hosts.list(&ListParams::default()).await? {
            let annotations = json!({ names::ANNOTATION_ABANDON: host.uid() });
            let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
            let params = PatchParams::default();
            match hosts.patch(&host.name_any(), &params, &patch).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                patched => drop(patched?),
            }
        }
        Ok(())
    }

    fn pools(&self) -> Api<NodePool> {
        Api::namespaced(self.client().clone(), &self.namespace)
    }
}
