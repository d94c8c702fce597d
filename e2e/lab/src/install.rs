//! Installs the operator in the lab as a user would: images of all that Covey consists of, the chart,
//! helm.
//!
//! Invariant: what runs is built from this checkout.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, anyhow};
use sha2::{Digest, Sha256};

use crate::{
    binaries,
    config::Cluster,
    images,
    layout::{Layout, MANAGEMENT_HOST},
    packages, programs,
    progress::Progress,
    run,
    state::State,
    storage,
    up::{UpOptions, kubectl, load},
};

/// What the binaries are built for: static, so that their images need no files of a distribution.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// How the operator is installed.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Helm release and namespace.
    pub namespace: String,
    /// `--set` values on top of the chart's own.
    pub values: Vec<(String, String)>,
    /// The version of the image's tag.
    pub version: String,
}

impl Operator {
    /// As the README installs it: namespace covey-system, the chart's own values.
    #[must_use]
    pub fn as_released(version: &str) -> Self {
        let namespace = "covey-system".to_owned();
        Self {
            namespace,
            values: Vec::new(),
            version: version.to_owned(),
        }
    }
}

/// Builds the operator, the cloud controller manager and the CSI driver, pushes their images to the lab
/// and installs or upgrades the chart. Where the lab has block storage, tenant clusters are offered it.
///
/// # Errors
/// When the lab is down, the build fails or the operator does not become ready in 3 minutes.
pub fn install_operator(layout: &Layout, operator: &Operator, progress: &Progress) -> Result<()> {
    let state = State::read(layout).filter(State::is_up);
    let state = state.context("the lab is not up: run `cargo xtask lab up` first")?;
    packages::ensure(&packages::FILESYSTEMS, progress)?;
    let [binary, ccm, csi, autoscaler] = build(layout, progress)?;

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
    let bins = programs::find(&binaries::wanted(&[], false))?;
    let wanted = [
        images::operator(&name, &binary)?,
        // As the operator's settings call it: tenant clusters ask for it.
        images::ccm(&format!("ghcr.io/covey-dev/ccm:{version}"), &ccm)?,
        images::csi(&format!("ghcr.io/covey-dev/csi:{version}"), &csi)?,
        images::autoscaler(
            &format!("ghcr.io/covey-dev/autoscaler:{version}"),
            &autoscaler,
        )?,
    ];
    load(host, &cluster, &wanted, &bins, progress)?;

    let step = progress.step("installing the chart");
    let mut helm = Command::new(layout.tool("helm"));
    helm.arg("--kubeconfig").arg(layout.kubeconfig());
    helm.args(["upgrade", "--install", "covey", "deploy/charts/covey"]);
    helm.args(["--namespace", &operator.namespace, "--create-namespace"]);
    // The tag stays as it is between two builds; the pods must not.
    let hash = format!("podAnnotations.covey\\.dev/binary={}", digest(&binary)?);
    helm.args(["--set-string", &hash]);
    // Machines are emulated here; the operator's default is for real processors.
    let kernel = "config.providers.kubevirt.kernel.args";
    let arguments = crate::worker::KERNEL_ARGUMENTS;
    helm.args(["--set-string", &format!("{kernel}={arguments}")]);
    if state.kubevirt {
        let classes = format!("config.storage.classes={}", storage::offered());
        helm.args(["--set-json", &classes]);
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

/// Builds what [`install_operator`] and `up` need later, with what the processors have left: the calling
/// thread is the least important one from now on, and so is what it starts.
///
/// # Errors
/// When a build fails.
pub fn prepare(layout: &Layout, options: &UpOptions, progress: &Progress) -> Result<()> {
    rustix::process::nice(19).context("the priority cannot be lowered")?;
    build(layout, progress)?;
    let wanted = binaries::wanted(&options.tenant_versions, options.kubevirt);
    programs::ensure(&wanted, progress).map(drop)
}

fn digest(file: &Path) -> Result<String> {
    let bytes = std::fs::read(file).with_context(|| format!("read {}", file.display()))?;
    Ok(hex::encode(&Sha256::digest(bytes)[..8]))
}

/// All that runs in clusters, by one cargo: the programs share nearly all crates.
fn build(layout: &Layout, progress: &Progress) -> Result<[PathBuf; 4]> {
    // Only for what is built for TARGET, never for build scripts: hence `--target` although it is
    // the machine's own.
    let args = [
        "-p",
        "operator",
        "--bin",
        "operator",
        "-p",
        "ccm",
        "--bin",
        "ccm",
        "-p",
        "csi-proxy",
        "--bin",
        "csi-proxy",
        "-p",
        "autoscaler",
        "--bin",
        "autoscaler",
        "--release",
        "--target",
        TARGET,
    ];
    let flags = [("RUSTFLAGS", "-C target-feature=+crt-static")];
    let built = binaries::cargo_binaries(
        layout,
        "building operator, ccm, csi-proxy and autoscaler (release)",
        &args,
        &flags,
        progress,
    )?;
    let named = |name: &str| {
        let found = built.iter().find(|path| path.ends_with(name));
        found
            .cloned()
            .with_context(|| format!("cargo built no {name}"))
    };
    Ok([
        named("operator")?,
        named("ccm")?,
        named("csi-proxy")?,
        named("autoscaler")?,
    ])
}
