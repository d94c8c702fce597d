//! Runs the tests: those that allow it side by side, then the others one after another.
//!
//! Invariant: what is run is chosen by the labels that the tests carry, so `--focus` can only make it less; a run
//! without a report is an error, never a run of nothing.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result};
use lab::{
    programs::{Bins, KubernetesVersion},
    run,
};

use super::{
    report::{self, Outcome},
    site::Site,
};

/// Longer than everything that is published takes on two cores.
const TIMEOUT: &str = "--timeout=8h";

/// Which tests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// So many at once.
    SideBySide { procs: u8 },
    /// Those that change what others see: `[Serial]`.
    OneByOne,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::SideBySide { .. } => "parallel",
            Self::OneByOne => "serial",
        }
    }

    fn labels(self) -> &'static str {
        match self {
            Self::SideBySide { .. } => "Conformance && !Serial",
            Self::OneByOne => "Conformance && Serial",
        }
    }

    fn procs(self) -> u8 {
        match self {
            Self::SideBySide { procs } => procs,
            Self::OneByOne => 1,
        }
    }
}

/// The tests of one version.
pub(crate) struct Ginkgo<'a> {
    pub(crate) bins: &'a Bins,
    pub(crate) version: KubernetesVersion,
    /// Reports and logs.
    pub(crate) folder: &'a Path,
    pub(crate) focus: Option<&'a str>,
    pub(crate) nodes: u8,
}

impl Ginkgo<'_> {
    /// Runs a part and says how each test of it ended.
    pub(crate) async fn run(&self, site: &Site<'_>, part: &Part) -> Result<Vec<Outcome>> {
        let log = self.folder.join(format!("{}.log", part.name()));
        let junit = self.report(*part);
        // That of an earlier run would be taken for this one's.
        if junit.exists() {
            fs::remove_file(&junit)?;
        }
        let mut command = self.command(&site.kubeconfig, *part)?;
        let output =
            File::create(&log).with_context(|| format!("{} cannot be written", log.display()))?;
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let begun = Instant::now();
        eprintln!(
            "{} tests run; what they say is in {}",
            part.name(),
            log.display()
        );
        let mut command = tokio::process::Command::from(command);
        let status = command.kill_on_drop(true).status().await?;
        eprintln!(
            "{} tests ended with {status} after {:.0?}",
            part.name(),
            begun.elapsed()
        );
        let text = fs::read_to_string(&junit).with_context(|| {
            format!(
                "the {} tests wrote no report ({status}); {} says why",
                part.name(),
                log.display()
            )
        })?;
        report::outcomes(&text, part.name())
    }

    fn report(&self, part: Part) -> PathBuf {
        self.folder.join(format!("junit_{}_01.xml", part.name()))
    }

    fn command(&self, kubeconfig: &Path, part: Part) -> Result<Command> {
        let mut command = Command::new(self.bins.path("ginkgo")?);
        command
            .current_dir(self.folder)
            .arg(format!("--procs={}", part.procs()))
            .arg(format!("--label-filter={}", part.labels()))
            .args(self.focus.map(|focus| format!("--focus={focus}")))
            .args([TIMEOUT, "--no-color", "--silence-skips"])
            .arg(self.bins.path("e2e.test")?)
            .arg("--")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--kubectl-path")
            .arg(self.bins.kubernetes("kubectl", self.version)?)
            .args(["--provider", "skeleton", "--disable-log-dump"])
            .arg(format!("--num-nodes={}", self.nodes))
            .arg("--report-dir")
            .arg(self.folder)
            .arg(format!("--report-prefix={}_", part.name()));
        Ok(command)
    }
}

/// Images that the tests may ask for.
pub(crate) fn named_images(bins: &Bins) -> Result<Vec<String>> {
    let said = run::output(&mut run::command(bins.path("e2e.test")?, ["--list-images"]))?;
    Ok(said.lines().map(|line| line.trim().to_owned()).collect())
}
