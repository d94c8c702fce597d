//! Runs the tests: those that allow it side by side, then the others one after another.
//!
//! Invariant: what is run is chosen by the labels that the tests carry and, of storage, by the driver's name, so
//! `--focus` can only make it less; a run without a report is an error, never a run of nothing, unless somebody has
//! interrupted it. Nothing that it has started outlives it.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use lab::{
    programs::{Bins, KubernetesVersion},
    run,
};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

use super::{
    interrupt::Interrupt,
    report::{self, Outcome},
    site::Site,
    suite::Suite,
};

/// Longer than everything that is published takes on two cores.
const TIMEOUT: &str = "--timeout=8h";
/// How long tests that were told to end may clean up, and write what became of them.
const GRACE: Duration = Duration::from_mins(5);

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

    fn labels(self, suite: Suite) -> String {
        let serial = match self {
            Self::SideBySide { .. } => "!Serial",
            Self::OneByOne => "Serial",
        };
        format!("{} && {serial}", suite.labels())
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
    pub(crate) suite: Suite,
    /// Reports and logs.
    pub(crate) folder: &'a Path,
    /// Of their names.
    pub(crate) focus: Option<&'a str>,
    /// What the tests are told of the driver, if they are about one.
    pub(crate) driver: Option<&'a Path>,
    pub(crate) nodes: u8,
}

impl Ginkgo<'_> {
    /// Runs a part and says how each test of it ended; what an interrupt has kept from ending is not run.
    pub(crate) async fn run(
        &self,
        site: &Site<'_>,
        part: &Part,
        interrupt: &Interrupt,
    ) -> Result<Vec<Outcome>> {
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
        // Of its own group: what is told to this process it hears once, from here.
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let status = until_it_ends(child, interrupt).await?;
        eprintln!(
            "{} tests ended with {status} after {:.0?}",
            part.name(),
            begun.elapsed()
        );
        if interrupt.is_there() && !junit.exists() {
            eprintln!("they wrote no report: none of them counts");
            return Ok(Vec::new());
        }
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
            .arg(format!("--label-filter={}", part.labels(self.suite)))
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
        if let Some(driver) = self.driver {
            command.arg("--storage.testdriver").arg(driver);
        }
        Ok(command)
    }
}

/// Waits for the tests. The first interrupt is handed on, by which ginkgo ends what runs, cleans up and writes its
/// report; a second one, or no end within [`GRACE`], ends all of it at once.
async fn until_it_ends(
    mut child: Child,
    interrupt: &Interrupt,
) -> Result<std::process::ExitStatus> {
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let group = group.context("the tests have no process")?;
    tokio::select! {
        ended = child.wait() => return Ok(ended?),
        () = interrupt.reaches(1) => {}
    }
    eprintln!("interrupted: the tests end, and clean up; once more ends them at once");
    // They may just have ended by themselves.
    let _ = kill_process_group(group, Signal::INT);
    let ended = tokio::select! {
        ended = child.wait() => Some(ended?),
        () = interrupt.reaches(2) => None,
        () = tokio::time::sleep(GRACE) => {
            eprintln!("they have not ended within {GRACE:?}");
            None
        }
    };
    // Also what the first of them has left.
    let _ = kill_process_group(group, Signal::KILL);
    match ended {
        Some(ended) => Ok(ended),
        None => Ok(child.wait().await?),
    }
}

/// Images that the tests may ask for.
pub(crate) fn named_images(bins: &Bins) -> Result<Vec<String>> {
    let said = run::output(&mut run::command(bins.path("e2e.test")?, ["--list-images"]))?;
    Ok(said.lines().map(|line| line.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child in a group of its own.
    fn started(script: &str) -> Child {
        let mut command = tokio::process::Command::new("sh");
        command.args(["-c", script]).process_group(0);
        command.spawn().unwrap()
    }

    fn tell() {
        rustix::process::kill_process(rustix::process::getpid(), Signal::INT).unwrap();
    }

    #[tokio::test]
    async fn tests_are_told_to_end_once_and_ended_at_once_the_second_time() {
        let interrupt = Interrupt::listen().unwrap();
        let patient = started("trap 'exit 7' INT; while :; do sleep 1000 & wait; done");
        let patient = until_it_ends(patient, &interrupt);
        let (status, ()) = tokio::join!(patient, async { tell() });
        // By its own way out, or by the signal where the trap was not there yet.
        assert!(!status.unwrap().success());
        // It hears of the first one only what was handed on; the second one ends it whatever it does.
        let stubborn = started("trap '' INT; while :; do sleep 1000; done");
        let stubborn = until_it_ends(stubborn, &interrupt);
        let (status, ()) = tokio::join!(stubborn, async { tell() });
        assert!(!status.unwrap().success());
    }

    #[test]
    fn serial_tests_are_in_one_part_and_the_others_in_the_other() {
        let side_by_side = Part::SideBySide { procs: 4 };
        assert_eq!(
            side_by_side.labels(Suite::Conformance),
            "Conformance && !Serial"
        );
        assert_eq!(
            Part::OneByOne.labels(Suite::Conformance),
            "Conformance && Serial"
        );
        let storage = Part::OneByOne.labels(Suite::Storage);
        assert!(storage.ends_with(" && Serial"), "{storage}");
    }
}
