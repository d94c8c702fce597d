//! A running controller: the very parts of the binary, minus signals and admin port; or the binary.
//!
//! Invariant: dropping it is a crash: every task is aborted, nothing is tidied up.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use csi_proxy::context::Context;
use csi_proxy::manager::Manager;
use csi_proxy::settings::Settings;
use csi_proxy::socket;
use kit_client::args::ClientArgs;
use kit_client::count::RequestCounter;
use proto::csi::controller_client::ControllerClient;
use proto::csi::identity_client::IdentityClient;
use proto::csi::volume_capability::access_mode::Mode;
use proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};
use proto::csi::{
    CapacityRange, ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest,
    CreateVolumeRequest, DeleteVolumeRequest, ListVolumesRequest, VolumeCapability,
};
use tempfile::TempDir;
use testkit::FaultPlan;
use testkit::fixtures::ask_until;
use testkit::process::Process;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::Environment;

/// One that runs.
pub(crate) struct Driver {
    pub(crate) plan: FaultPlan,
    channel: Channel,
    tasks: Vec<JoinHandle<()>>,
    /// Where it is the program itself.
    pub(crate) process: Option<Process>,
    folder: TempDir,
}

impl Driver {
    /// A healthy one.
    pub(crate) async fn start(environment: &Environment) -> Result<Self> {
        Self::with(environment, environment.settings(), &FaultPlan::none()).await
    }

    /// One with other settings, or faults on the way to the API. It has listed everything.
    pub(crate) async fn with(
        environment: &Environment,
        settings: Settings,
        plan: &FaultPlan,
    ) -> Result<Self> {
        // The tests share two cores; what most of them test is not the rate limit.
        let args = ClientArgs {
            qps: 500.0,
            burst: 1000,
            ..ClientArgs::default()
        };
        Self::begin(environment, settings, plan, &args).await
    }

    /// A healthy one whose requests to the management API are limited to this.
    pub(crate) async fn limited(environment: &Environment, args: &ClientArgs) -> Result<Self> {
        Self::begin(
            environment,
            environment.settings(),
            &FaultPlan::none(),
            args,
        )
        .await
    }

    async fn begin(
        environment: &Environment,
        settings: Settings,
        plan: &FaultPlan,
        args: &ClientArgs,
    ) -> Result<Self> {
        let config = environment.management.config_as(&environment.user(), &[])?;
        let requests = RequestCounter::new();
        let clients =
            kit_client::connect::build_with_reserve(config, args, &requests, &plan.layer())?;
        let ctx = Arc::new(Context::new(clients, settings));
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("csi.sock");
        let listener = socket::bind(&path)?;
        let manager = Manager::new(Arc::clone(&ctx));
        let background = tokio::spawn(manager.clone().run());
        let server = tokio::spawn(async move {
            let _ = manager.serve(listener, std::future::pending()).await;
        });
        let channel = connect(&path)?;
        let listed = tokio::time::timeout(super::PATIENCE, ctx.cache.listed());
        listed.await.context("the watches do not come about")?;
        Ok(Self {
            plan: plan.clone(),
            channel,
            tasks: vec![background, server],
            process: None,
            folder,
        })
    }

    /// The program itself, with further flags (without their dashes). It has listed everything.
    pub(crate) async fn program(
        environment: &Environment,
        settings: &Settings,
        further: &[(&str, String)],
    ) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = |name: &str| folder.path().join(name);
        let kubeconfig = path("kubeconfig");
        let yaml = environment
            .management
            .kubeconfig_as(&environment.user(), &[])?;
        std::fs::write(&kubeconfig, yaml)?;
        let flags = [
            ("kubeconfig", kubeconfig.display().to_string()),
            ("socket", path("csi.sock").display().to_string()),
            ("namespace", settings.namespace.clone()),
            ("cluster-uid", settings.cluster_uid.clone()),
            ("offer", serde_json::to_string(&settings.offer)?),
            ("admin-address", "127.0.0.1:0".to_owned()),
        ];
        let flags = flags.iter().chain(further);
        let flags = flags.map(|(name, value)| format!("--{name}={value}"));
        let flags: Vec<_> = std::iter::once("controller".to_owned())
            .chain(flags)
            .collect();
        let program = Path::new(env!("CARGO_BIN_EXE_csi-proxy"));
        let process = Process::spawn("csi-proxy", program, &flags, &path("log"))?;
        let driver = Self {
            plan: FaultPlan::none(),
            channel: connect(&path("csi.sock"))?,
            tasks: Vec::new(),
            process: Some(process),
            folder,
        };
        let ready = ask_until("it has listed everything", super::PATIENCE, || async {
            let mut controller = driver.controller();
            let list = controller.list_volumes(ListVolumesRequest::default());
            Ok(list.await.map(drop).map_err(|status| format!("{status:?}")))
        });
        let said = || std::fs::read_to_string(driver.folder.path().join("log")).unwrap_or_default();
        ready.await.with_context(said)?;
        Ok(driver)
    }

    /// A healthy one whose calls wait only this long: for those that wait in vain.
    pub(crate) async fn hasty(environment: &Environment, patience: Duration) -> Result<Self> {
        let settings = Settings {
            patience,
            ..environment.settings()
        };
        Self::with(environment, settings, &FaultPlan::none()).await
    }

    /// Calls, as sidecars do again and again, until the driver waited in vain and knew why: it may not
    /// have heard of that at the first time.
    pub(crate) async fn told_in_vain<T>(
        &self,
        why: &str,
        call: impl AsyncFn() -> Result<T, Status>,
    ) -> Result<()> {
        let mut last = None;
        let told = async {
            loop {
                match call().await {
                    Ok(_) => bail!("it is done, and was not to be"),
                    Err(status) if status.code() != Code::DeadlineExceeded => bail!("{status:?}"),
                    Err(status) if status.message().contains(why) => return Ok(()),
                    Err(status) => last = Some(status),
                }
            }
        };
        let told = tokio::time::timeout(super::PATIENCE, told).await;
        told.with_context(|| format!("not told {why:?}, but {last:?}"))?
    }

    /// Has its caller killed: its connection ends with every call on it, and another one comes.
    pub(crate) fn replace_caller(&mut self) -> Result<()> {
        self.channel = connect(&self.socket())?;
        Ok(())
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("csi.sock")
    }

    pub(crate) fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(self.channel.clone())
    }

    pub(crate) fn identity(&self) -> IdentityClient<Channel> {
        IdentityClient::new(self.channel.clone())
    }

    /// Makes a volume; its identifier.
    pub(crate) async fn create(&self, name: &str) -> Result<String, Status> {
        let made = self
            .controller()
            .create_volume(create(name, 1 << 30))
            .await?;
        Ok(made.into_inner().volume.unwrap_or_default().volume_id)
    }

    pub(crate) async fn delete(&self, id: &str) -> Result<(), Status> {
        let request = DeleteVolumeRequest {
            volume_id: id.to_owned(),
            ..Default::default()
        };
        self.controller().delete_volume(request).await.map(drop)
    }

    /// Attaches a volume; the serial number of its disk.
    pub(crate) async fn publish(&self, id: &str, node: &str) -> Result<String, Status> {
        let request = ControllerPublishVolumeRequest {
            volume_id: id.to_owned(),
            node_id: node.to_owned(),
            volume_capability: Some(mount()),
            ..Default::default()
        };
        let answer = self.controller().controller_publish_volume(request).await?;
        Ok(answer.into_inner().publish_context["serial"].clone())
    }

    pub(crate) async fn unpublish(&self, id: &str, node: &str) -> Result<(), Status> {
        let request = ControllerUnpublishVolumeRequest {
            volume_id: id.to_owned(),
            node_id: node.to_owned(),
            ..Default::default()
        };
        self.controller()
            .controller_unpublish_volume(request)
            .await
            .map(drop)
    }
}

fn connect(socket: &Path) -> Result<Channel> {
    let uri = format!("unix://{}", socket.display());
    Ok(Endpoint::from_shared(uri)?.connect_lazy())
}

/// A mount by one node.
pub(crate) fn mount() -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode {
            mode: Mode::SingleNodeWriter.into(),
        }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

/// Asks for a volume as the stock provisioner does.
pub(crate) fn create(name: &str, required_bytes: i64) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes,
            limit_bytes: 0,
        }),
        volume_capabilities: vec![mount()],
        ..Default::default()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.plan.crash();
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
