//! Installs the operator in the lab as a user would: images of all that Covey consists of, the chart,
//! helm.
//!
//! Invariant: what runs is built from this checkout.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, anyhow};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{
    adapters::Adapter,
    binaries,
    cache::cache_dir,
    cargo::{self, Build},
    cgroups,
    config::Cluster,
    golden::{self, Golden},
    images,
    kubectl::kubectl,
    layout::{Layout, MANAGEMENT_HOST},
    packages,
    programs::{self, Bins, kubernetes::KubernetesVersion},
    progress::Progress,
    run,
    state::State,
    storage,
    up::load,
};

/// The operator's binary.
const OPERATOR: &str = "operator";
/// StorageClass that etcd of tenant clusters may be of besides the default one. Nothing makes it but who moves an etcd.
pub const SECOND_CLASS: &str = "lab-local-second";
/// The binary beside each member of a tenant cluster's etcd.
const ETCD_AGENT: &str = "etcd-agent";

/// How the operator is installed.
#[derive(Clone, Debug)]
pub struct Operator {
    /// How it and the adapters are built.
    pub build: Build,
    /// Adapters that are built and have images: those that addons of tenant clusters ask for.
    pub adapters: Vec<Adapter>,
    /// Helm release and namespace.
    pub namespace: String,
    /// Whether new tenant clusters begin with golden files: of every version that the lab has for tenants.
    pub golden: bool,
    /// Control planes that wait for somebody who wants one, of the first version that the lab has for tenants.
    pub standby: u16,
    /// `--set` values on top of the chart's own.
    pub values: Vec<(String, String)>,
    /// The version of the image's tag.
    pub version: String,
}

impl Operator {
    /// As the README installs it: namespace covey-system, the chart's own values, release builds of all
    /// of it.
    #[must_use]
    pub fn as_released(version: &str) -> Self {
        let namespace = "covey-system".to_owned();
        Self {
            build: Build::Release,
            adapters: Adapter::ALL.to_vec(),
            namespace,
            golden: false,
            standby: 0,
            values: Vec::new(),
            version: version.to_owned(),
        }
    }

    /// The binaries that are built for it.
    pub(crate) fn programs(&self) -> Vec<&'static str> {
        let adapters = self.adapters.iter().map(|adapter| adapter.program());
        [OPERATOR, ETCD_AGENT].into_iter().chain(adapters).collect()
    }

    /// Debian's packages that images take files from.
    pub(crate) fn packages(&self) -> Vec<&'static str> {
        match self.adapters.contains(&Adapter::Csi) {
            true => packages::FILESYSTEMS.to_vec(),
            false => Vec::new(),
        }
    }
}

/// Builds the operator and its adapters, pushes their images to the lab and installs or upgrades the
/// chart. Where the lab has block storage, tenant clusters are offered it.
///
/// # Errors
/// When the lab is down, the build fails or the operator does not become ready in 3 minutes.
pub fn install_operator(layout: &Layout, operator: &Operator, progress: &Progress) -> Result<()> {
    let state = State::read(layout).filter(State::is_up);
    let state = state.context("the lab is not up: run `cargo xtask lab up` first")?;
    packages::ensure(&operator.packages(), progress)?;
    let built = cargo::build(layout, &operator.programs(), operator.build, progress)?;
    let binary = |program: &str| {
        let found = built.get(program).map(PathBuf::as_path);
        found.with_context(|| format!("cargo built no {program}"))
    };
    let own = binary(OPERATOR)?;

    let version = &operator.version;
    let name = format!("ghcr.io/covey-dev/operator:{version}");
    let host = state
        .hosts
        .get(MANAGEMENT_HOST)
        .context("the lab has no management host")?;
    let cluster = Cluster {
        layout: layout.clone(),
        slot: state.slot,
    };
    let versions = state.tenant_versions.iter().filter(|_| operator.golden);
    let versions = versions.map(|version| version.parse());
    let versions = versions.collect::<Result<Vec<KubernetesVersion>>>()?;
    let bins = programs::find(&binaries::wanted(&versions, None, false))?;
    let golden = golden_files(own, &versions, &bins, progress)?;
    let agent = format!("ghcr.io/covey-dev/etcd-agent:{version}");
    let mut wanted = vec![
        images::operator(&name, own)?,
        images::etcd_agent(&agent, binary(ETCD_AGENT)?, &bins, &golden)?,
    ];
    for adapter in &operator.adapters {
        wanted.push(adapter.image(version, binary(adapter.program())?)?);
    }
    load(host, &cluster, &wanted, &bins, progress)?;

    let step = progress.step("installing the chart");
    let mut helm = Command::new(layout.tool("helm"));
    helm.arg("--kubeconfig").arg(layout.kubeconfig());
    helm.args(["upgrade", "--install", "covey", "deploy/charts/covey"]);
    helm.args(["--namespace", &operator.namespace, "--create-namespace"]);
    // The tag stays as it is between two builds; the pods must not.
    let mut binaries = vec![own];
    if operator.adapters.contains(&Adapter::Activator) {
        binaries.push(binary(Adapter::Activator.program())?);
        helm.args(["--set", "activator.enabled=true"]);
    }
    let hash = format!("podAnnotations.covey\\.dev/binary={}", digest(&binaries)?);
    helm.args(["--set-string", &hash]);
    // Machines are emulated here; the operator's default is for real processors.
    let kernel = "config.providers.kubevirt.kernel.args";
    let arguments = crate::worker::KERNEL_ARGUMENTS;
    helm.args(["--set-string", &format!("{kernel}={arguments}")]);
    // Hosts that are reached by SSH, and gateways of their sites, are beside the node.
    let ranges = format!(
        r#"config.providers.static.ranges=["{}"]"#,
        cluster.slot.node_network()
    );
    helm.args(["--set-json", &ranges]);
    // What this machine's kernel has is what its hosts have.
    if !cgroups::is_v2() {
        helm.args(["--set", "config.providers.static.allowCgroupV1=true"]);
    }
    // Load balancers that nobody has, whose part tests play.
    let classes = r#"config.endpoint.classes=["example.com/losses","example.com/names"]"#;
    helm.args(["--set-json", classes]);
    // What etcd may move to: `bench restore` makes it, of the same storage.
    let second = format!(r#"config.etcdStorageClasses=["{SECOND_CLASS}"]"#);
    helm.args(["--set-json", &second]);
    // Nodes' ranges for pods are the lab's own doing: no node says them.
    let pods = format!(
        r#"config.network.reserved=["{}"]"#,
        cluster.slot.pod_network()
    );
    helm.args(["--set-json", &pods]);
    if !golden.is_empty() {
        let starts = golden.iter();
        let starts = starts.map(|golden| (golden.version.to_string(), golden.entry()));
        let starts: BTreeMap<_, _> = starts.collect();
        let starts = format!("config.goldenStarts={}", serde_json::to_string(&starts)?);
        helm.args(["--set-json", &starts]);
    }
    if let Some(version) = state
        .tenant_versions
        .first()
        .filter(|_| operator.standby > 0)
    {
        let version: KubernetesVersion = version.parse()?;
        let version = version.to_string();
        let standby = json!({ version: operator.standby });
        helm.args(["--set-json", &format!("config.standby={standby}")]);
    }
    if state.storage {
        let classes = format!("config.storage.classes={}", storage::offered());
        helm.args(["--set-json", &classes]);
    }
    if let Some(release) = state.kubevirt {
        let hotplug = format!("config.storage.hotplug={}", release.hotplug());
        helm.args(["--set-string", &hotplug]);
    }
    for (key, value) in &operator.values {
        helm.args(["--set", &format!("{key}={value}")]);
    }
    helm.args(["--wait", "--timeout", "3m"])
        .current_dir(layout.checkout());
    step.finish(run::output(&mut helm).map_err(|error| {
        let get = ["get", "pods,events", "--namespace", &operator.namespace];
        let pods = run::output(kubectl(layout).args(get)).unwrap_or_default();
        if pods.is_empty() {
            error
        } else {
            anyhow!("{error:#}\n{pods}")
        }
    }))?;
    Ok(())
}

/// Golden files with the objects of this operator.
fn golden_files(
    operator: &Path,
    versions: &[KubernetesVersion],
    bins: &Bins,
    progress: &Progress,
) -> Result<Vec<Golden>> {
    if versions.is_empty() {
        return Ok(Vec::new());
    }
    let step = progress.step(format!("making {} golden files", versions.len()));
    let make = || {
        let printed = run::output(Command::new(operator).args(["print", "golden"]))?;
        let wanted = serde_json::from_str(&printed).context("`operator print golden`")?;
        let folder = cache_dir()?.join("golden");
        let each = versions.iter();
        each.map(|version| golden::ensure(bins, *version, &wanted, &folder))
            .collect()
    };
    step.finish(make())
}

fn digest(files: &[&Path]) -> Result<String> {
    let mut digest = Sha256::new();
    for file in files {
        digest.update(std::fs::read(file).with_context(|| format!("read {}", file.display()))?);
    }
    Ok(hex::encode(&digest.finalize()[..8]))
}
