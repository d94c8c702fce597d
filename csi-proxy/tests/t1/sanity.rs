//! What the specification asks of a driver, by its own tests: `csi-sanity`, against both halves. What
//! KubeVirt does between them is played: a disk that is plugged becomes a loop device.
//!
//! Invariant: nothing that is advertised is skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use api::foreign::kubevirt::VirtualMachine;
use csi_proxy::cache::objects::Machine;
use csi_proxy::node::host::Folders;
use csi_proxy::node::server::{self, Service};
use csi_proxy::settings::Settings;
use csi_proxy::socket;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client};
use lab::programs::Program;
use serde_json::json;
use testkit::FaultPlan;
use testkit::disks::{LoopDevice, alone};
use testkit::faults::Answer;
use testkit::request::RequestInfo;

use crate::support::{Driver, Environment, Fakes, Mode, PATIENCE};

/// What may be skipped, because it is not advertised.
const MISSING: [&str; 5] = [
    "SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported",
    "GroupControllerService not supported",
    "ControllerGetVolumeHealth not supported",
    "ControllerListVolumeHealth not supported",
    "NodeGetStorageHealth not supported",
];

/// Where the machine is, and its volumes can be attached.
const ZONE: &str = "east";
/// Volumes on one machine.
const MOST: usize = 4;
/// How long a slow KubeVirt does nothing, and how long it then works.
const NAP: Duration = Duration::from_millis(300);
/// Refused changes of machines below which nothing was tried: there are some ten specs that attach.
const REFUSED: u64 = 10;
/// Sizes of volumes, before and after they grow.
const SIZES: [i64; 2] = [1 << 30, 2 << 30];

#[test]
fn driver_passes_the_tests_of_the_specification() -> Result<()> {
    let name = "sanity::driver_passes_the_tests_of_the_specification";
    alone(name, async || {
        let Some(environment) = Environment::new("sanity").await? else {
            return Ok(());
        };
        let _fakes = Fakes::start(&environment);
        passes(&environment, &["mount", "block"], &FaultPlan::none()).await
    })
}

/// Every other change of a machine is refused or fails, so each has to be tried again, and what is plugged
/// waits for a KubeVirt that does nothing half of the time.
#[test]
fn driver_passes_them_although_kubevirt_refuses_and_is_slow() -> Result<()> {
    let name = "sanity::driver_passes_them_although_kubevirt_refuses_and_is_slow";
    alone(name, async || {
        let Some(environment) = Environment::new("insane").await? else {
            return Ok(());
        };
        let fakes = Fakes::start(&environment);
        let of_machines =
            |request: &RequestInfo| request.is_write() && request.resource == "virtualmachines";
        let plan = FaultPlan::none()
            .answering(Answer::status(422).every(2).when(of_machines))
            // Of those that the first answer leaves.
            .answering(Answer::status(429).every(5).when(of_machines));
        let slow = async {
            let mut naps = tokio::time::interval(NAP);
            for mode in [Mode::Asleep, Mode::Works].into_iter().cycle() {
                naps.tick().await;
                fakes.set(mode);
            }
        };
        // Machines start before it begins.
        environment.machine("a").await?;
        tokio::select! {
            () = slow => bail!("it never ends"),
            passed = passes(&environment, &["mount"], &plan) => passed?,
        }
        let refused = plan.answered();
        ensure!(refused >= REFUSED, "only {refused} changes were refused");
        Ok(())
    })
}

async fn passes(environment: &Environment, accesses: &[&str], plan: &FaultPlan) -> Result<()> {
    let Some(program) = testkit::programs::reference_or_skip(Program::CSI_SANITY, "csi-sanity")?
    else {
        return Ok(());
    };
    let mut settings = Settings {
        most_volumes: MOST,
        ..environment.settings()
    };
    settings.offer.classes[0].zones = vec![ZONE.to_owned()];
    let gold = ("gold".to_owned(), "iops-9000".to_owned());
    settings.offer.classes[0].attributes = [gold].into();
    let driver = Driver::with(environment, settings, plan).await?;
    environment.machine("a").await?;
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    for name in ["sys", "disks"] {
        fs::create_dir(path(name))?;
    }
    fs::write(path("attributes.yaml"), "class: gold\n")?;
    let plugs = Plugs {
        vms: environment.vms(),
        claims: environment.claims(),
        sys: path("sys"),
        disks: path("disks"),
    };
    let plugs = tokio::spawn(async move {
        if let Err(error) = plugs.follow().await {
            eprintln!("disks are not plugged any more: {error:?}");
        }
    });
    let service = Service::new(server::Settings {
        name: "a".to_owned(),
        most_volumes: i64::try_from(MOST)?,
        patience: PATIENCE,
        topology: true,
        folders: Folders {
            disks: path("sys"),
            devices: "/dev".into(),
            kubelet: folder.path().to_owned(),
            records: path("records"),
        },
    });
    service.find_zone(&tenant(environment).await?).await;
    let socket = path("node.sock");
    let listener = socket::bind(&socket)?;
    let server = tokio::spawn(async move {
        let _ = server::serve(service, listener, std::future::pending()).await;
    });
    for access in accesses {
        let report = path(&format!("{access}.xml"));
        let mut sanity = Command::new(&program);
        let unix = |path: &Path| format!("unix://{}", path.display());
        sanity
            .arg(format!("--csi.endpoint={}", unix(&socket)))
            .arg(format!(
                "--csi.controllerendpoint={}",
                unix(&driver.socket())
            ))
            .arg(format!("--csi.mountdir={}", path("mount").display()))
            .arg(format!("--csi.stagingdir={}", path("stage").display()))
            .arg(format!(
                "--csi.testvolumemutableparameters={}",
                path("attributes.yaml").display()
            ))
            .arg(format!("--csi.testvolumesize={}", SIZES[0]))
            .arg(format!("--csi.testvolumeexpandsize={}", SIZES[1]))
            .arg(format!("--csi.testvolumeaccesstype={access}"))
            .arg(format!("--ginkgo.junit-report={}", report.display()))
            .arg("--csi.testnodevolumeattachlimit=true")
            .args(["--ginkgo.no-color", "--ginkgo.timeout=9m"]);
        let output = tokio::task::spawn_blocking(move || sanity.output()).await?;
        let output = output.context("csi-sanity cannot be run")?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "{access}: {text}");
        let summary = text.lines().find(|line| line.contains("Passed |"));
        eprintln!("{access}: {}", summary.context("it says no figures")?);
        let report = fs::read_to_string(report)?;
        let skipped = report.split("<skipped message=\"skipped - ").skip(1);
        let reasons = skipped.filter_map(|rest| rest.split('"').next());
        let known = |reason: &&str| MISSING.iter().any(|missing| reason.contains(missing));
        let unknown: BTreeSet<_> = reasons.filter(|reason| !known(reason)).collect();
        ensure!(
            unknown.is_empty(),
            "{access}: skipped, and why? {unknown:#?}"
        );
        let passed = report.matches("status=\"passed\"").count();
        ensure!(passed >= 70, "{access}: only {passed} specs were run");
        let left = fs::read_dir(path("records"))?.count();
        ensure!(left == 0, "{access}: {left} volumes are still staged");
    }
    server.abort();
    plugs.abort();
    Ok(())
}

/// The API that shows the Node, as the half on nodes may read it. The management API plays that, too.
async fn tenant(environment: &Environment) -> Result<Client> {
    let (user, group) = ("csi-node", "rbac.authorization.k8s.io");
    for object in [
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": "a", "labels": { api::names::LABEL_ZONE: ZONE } },
        }),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": { "name": user },
            "rules": kit_objects::rbac::render(&csi_proxy::rbac::node()),
        }),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
            "metadata": { "name": user },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": user },
            "subjects": [{ "apiGroup": group, "kind": "User", "name": user }],
        }),
    ] {
        environment.apply(&object).await?;
    }
    environment.management.client_as(user, &[])
}

/// Plugs what the templates of virtual machines name, and unplugs what they no longer do.
struct Plugs {
    vms: Api<VirtualMachine>,
    claims: Api<PersistentVolumeClaim>,
    /// Where the node looks for disks.
    sys: PathBuf,
    /// What is on the volumes, by claim.
    disks: PathBuf,
}

impl Plugs {
    async fn follow(&self) -> Result<()> {
        let mut plugged: BTreeMap<String, LoopDevice> = BTreeMap::new();
        let vms = watcher(self.vms.clone(), Config::default()).default_backoff();
        let mut vms = vms.applied_objects().boxed();
        while let Some(vm) = vms.next().await {
            let machine = Machine::read(&vm?);
            let disks = machine.disks.into_iter().flatten();
            let wanted: BTreeMap<_, _> = disks
                .filter(|disk| !disk.serial.is_empty())
                .map(|disk| (disk.serial, disk.name))
                .collect();
            for (_, gone) in plugged.extract_if(.., |serial, _| !wanted.contains_key(serial)) {
                fs::remove_dir_all(self.sys.join(gone.name()))?;
            }
            for (serial, claim) in wanted {
                if plugged.contains_key(&serial) {
                    continue;
                }
                let status = self.claims.get(&claim).await?.status.unwrap_or_default();
                let size = status.capacity.unwrap_or_default().remove("storage");
                let bytes = kit_objects::quantity::bytes(&size.context("it is not bound")?.0);
                let bytes = u64::try_from(bytes.context("it has no size")?)?;
                let disk = LoopDevice::new(&self.disks.join(&claim), bytes)?;
                disk.show(&self.sys, &serial)?;
                plugged.insert(serial, disk);
            }
        }
        Ok(())
    }
}
