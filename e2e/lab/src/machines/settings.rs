//! What machines are made of: prepared when the lab is brought up, and told to `lab-agent` in a file.
//!
//! Invariant: everything that a start of a machine needs is there before a machine can be asked for.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::{
    binaries, host_root, layout::Layout, programs::kubernetes::KubernetesVersion,
    progress::Progress, slot::addresses::Slot, worker,
};

/// Read again for each machine, because versions may be added to a lab that is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Root of the checkout whose lab it is.
    pub checkout: PathBuf,
    /// Names and addresses of the lab.
    pub slot: Slot,
    /// Of which trees the root of a machine is made, the uppermost first, by the version of its kubelet (`1.35.4`).
    pub trees: BTreeMap<String, Vec<PathBuf>>,
}

impl Settings {
    /// Reads them.
    ///
    /// # Errors
    /// When the file is not there, or is none of this.
    pub fn read(file: &Path) -> Result<Self> {
        let text = fs::read(file).with_context(|| format!("{}: not readable", file.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{}: not valid", file.display()))
    }

    /// The lab's paths.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Layout::at(&self.checkout)
    }
}

/// Makes what machines of these versions consist of, unless it is there, which takes minutes the first time.
pub(crate) fn prepare(
    layout: &Layout,
    versions: &[KubernetesVersion],
    progress: &Progress,
) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    prepare_init(layout, progress)?;
    let trees = versions
        .iter()
        .map(|version| Ok((version.to_string(), trees(*version, progress)?)));
    trees.collect()
}

/// Builds what a machine starts first, and puts it where machines of this checkout find it.
///
/// # Errors
/// When the build fails.
pub fn prepare_init(layout: &Layout, progress: &Progress) -> Result<()> {
    let init = worker::build_init(layout, progress)?;
    binaries::install(&init, &layout.worker_init())
}

/// The trees of a version, for [`Settings::trees`]; made unless they are there.
///
/// # Errors
/// When something cannot be had.
pub fn trees(version: KubernetesVersion, progress: &Progress) -> Result<Vec<PathBuf>> {
    Ok(host_root::prepare(Some(version), progress)?.trees)
}

/// The same, and tells who plays machines.
pub(crate) fn configure(
    layout: &Layout,
    slot: Slot,
    versions: &[KubernetesVersion],
    progress: &Progress,
) -> Result<()> {
    let settings = Settings {
        checkout: layout.checkout().to_path_buf(),
        slot,
        trees: prepare(layout, versions, progress)?,
    };
    let file = layout.machine_settings();
    let new = file.with_extension("new");
    fs::write(&new, serde_json::to_vec_pretty(&settings)?)
        .and_then(|()| fs::rename(&new, &file))
        .with_context(|| format!("{}: cannot be written", file.display()))
}
