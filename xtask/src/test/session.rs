//! One run: stages that are measured, tests by nextest, a verdict after each, and the folder in which all
//! of it is kept.
//!
//! Invariant: a test's result counts by nextest's report alone, judged by [`super::flaky`]; a stage
//! without a report has failed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail};
use jiff::{Timestamp, tz::TimeZone};
use lab::{Layout, progress::Progress};

use super::change::{self, Change};
use super::changed::{LastRun, TestName};
use super::flaky::{self, Flaky, Known, Verdict};
use super::junit::{self, Case};
use super::quarantine::{self, Quarantine};
use super::runs::{self, Kind, Run, Stage, Unsteady};
use super::{attempt, built, invocation, nextest, report, signals, usage};

/// When the whole check began, in seconds since 1970: set by who compiled this program for it.
const BEGAN: &str = "COVEY_CHECKS_BEGAN";

/// One run.
pub(crate) struct Session<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) progress: &'a Progress,
    /// What this change is; none where git cannot say.
    pub(crate) change: Option<Change>,
    place: PathBuf,
    nextest: PathBuf,
    quarantine: Quarantine,
    known: Known,
    before: Vec<Run>,
    built: built::Before,
    cases: Vec<Case>,
    run: Run,
    began: SystemTime,
}

impl<'a> Session<'a> {
    /// Makes the run's folder and everything that tests are run with.
    pub(crate) fn begin(
        layout: &'a Layout,
        progress: &'a Progress,
        kind: Kind,
        since: Option<&str>,
    ) -> Result<Self> {
        let began = began();
        let built = built::Before::now(layout.checkout(), began)?;
        let nextest = nextest::ensure(progress)?;
        let before: Vec<Run> = runs::read(&runs::folder()?)
            .into_iter()
            .map(|(_, run)| run)
            .collect();
        let checkout = layout.checkout();
        let change = change::read(checkout, since, last(&before), kind.changed);
        if let Err(error) = &change {
            progress.note(format!("what this change is cannot be told: {error:#}"));
        }
        let text = fs::read_to_string(checkout.join(quarantine::PATH)).unwrap_or_default();
        let quarantine = Quarantine::parse(&text)?;
        let now = Timestamp::now().to_zoned(TimeZone::UTC);
        let known = Known {
            history: history(&before),
            quarantine: quarantine.in_force(now.date()),
            touched: BTreeSet::new(),
        };
        let (commit, dirty) = change::commit(checkout)?;
        let short = commit.get(..12).unwrap_or(&commit);
        let name = format!("{}-{short}", now.strftime("%Y%m%d-%H%M%S"));
        let place = runs::folder()?.join(name);
        runs::sweep(&runs::folder()?, began)?;
        fs::create_dir(&place).with_context(|| format!("{} cannot be made", place.display()))?;
        let session = Self {
            layout,
            progress,
            change: change.ok(),
            nextest,
            quarantine,
            before,
            built,
            cases: Vec::new(),
            run: Run {
                began: now.timestamp().to_string(),
                commit,
                dirty,
                kind,
                ..Run::default()
            },
            known,
            place,
            began,
        };
        let first = session.change.as_ref().map(|change| &change.selection);
        let first = first.filter(|selection| selection.everything.is_none());
        let first = first.and_then(super::changed::Selection::filter);
        let config = invocation::config(&session.known.quarantine, first.as_deref());
        fs::write(session.config(), config)?;
        // Cargo replaces the program that runs here.
        fs::copy("/proc/self/exe", session.program())?;
        fs::set_permissions(session.program(), fs::Permissions::from_mode(0o755))?;
        Ok(session)
    }

    /// Whether only what a change reaches is run.
    pub(crate) fn is_changed(&self) -> bool {
        self.run.kind.changed
    }

    /// Since the check began.
    pub(crate) fn gone(&self) -> Duration {
        self.began.elapsed().unwrap_or_default()
    }

    /// Notes what is not run, and says so now and at the end.
    pub(crate) fn leave_out(&mut self, what: String) {
        if self.run.left_out.is_none() {
            self.progress.note(format!("left out: {what}"));
            self.run.left_out = Some(what);
        }
    }

    /// Whether something is not run.
    pub(crate) fn leaves_out(&self) -> bool {
        self.run.left_out.is_some()
    }

    /// A copy of this program that stays as it is.
    pub(crate) fn program(&self) -> PathBuf {
        self.place.join("xtask")
    }

    fn config(&self) -> PathBuf {
        self.place.join("nextest.toml")
    }

    fn attempts(&self) -> PathBuf {
        self.place.join("attempts.jsonl")
    }

    /// Measures `work` as a stage.
    pub(crate) fn stage<T>(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let step = self.progress.step(name);
        let (begun, own, machine) = (Instant::now(), usage::children(), usage::machine());
        let result = work(self);
        self.run.stages.push(Stage {
            name: name.to_owned(),
            seconds: begun.elapsed().as_secs_f64(),
            core_seconds: usage::children() - own,
            machine_core_seconds: usage::machine() - machine,
            passed: result.is_ok(),
        });
        step.finish(result)
    }

    /// Runs cargo with its output shown; it says itself what failed.
    pub(crate) fn cargo(&self, args: &[&str]) -> Result<()> {
        let mut cargo = lab::run::cargo();
        cargo.args(args).current_dir(self.layout.checkout());
        let status = signals::status(&mut cargo).context("cargo cannot be run")?;
        if !status.success() {
            bail!("cargo {}: {status}", args.join(" "))
        }
        Ok(())
    }

    /// nextest, which builds all targets of all crates; `args` say the rest.
    pub(crate) fn nextest(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.nextest);
        // What cargo says of the package by whose run we are here is for nobody else.
        for (name, value) in lab::run::cargo().get_envs() {
            if value.is_none() {
                command.env_remove(name);
            }
        }
        command
            .args([
                "nextest",
                "run",
                "--workspace",
                "--user-config-file",
                "none",
            ])
            .arg("--tool-config-file")
            .arg(format!("covey:{}", self.config().display()))
            .args(["--config", &invocation::runner(&self.program())])
            .args(args)
            .env(attempt::FILE, self.attempts())
            .current_dir(self.layout.checkout())
            .stdin(Stdio::null());
        command
    }

    /// Runs the tests of `filter` by the rules of `profile`, and judges all results so far.
    pub(crate) fn tests(
        &mut self,
        profile: &str,
        filter: &str,
        environment: &[(&str, &OsStr)],
    ) -> Result<()> {
        let nextest = self.layout.checkout().join("target/nextest");
        let written = nextest.join(profile).join("junit.xml");
        let _ = fs::remove_file(&written); // of a run before
        let mut command = self.nextest(&["--profile", profile, "-E", filter]);
        command.envs(environment.iter().copied());
        let status = signals::status(&mut command).context("cargo-nextest cannot be run")?;
        match invocation::ended(status.code()) {
            invocation::Ended::Ran => {}
            // `--changed` may reach no test of a tier.
            invocation::Ended::NoTests if self.run.kind.changed => return Ok(()),
            _ => bail!("cargo nextest: {status}"),
        }
        let text = fs::read_to_string(&written)
            .with_context(|| format!("nextest wrote no {}", written.display()))?;
        let number = self.run.stages.len();
        fs::write(self.place.join(format!("{number:02}-{profile}.xml")), &text)?;
        let cases = junit::parse(&text)?;
        self.keep_logs(&cases)?;
        self.cases.extend(cases);
        let verdict = self.judge();
        match verdict.red.first() {
            Some(red) => bail!("{red}"),
            None => Ok(()),
        }
    }

    /// What each try said that failed, a file each.
    fn keep_logs(&self, cases: &[Case]) -> Result<()> {
        let folder = self.place.join("failures");
        for case in cases {
            for (at, failure) in case.failures.iter().enumerate() {
                fs::create_dir_all(&folder)?;
                let name = format!("{}-{}-try-{}", case.test.binary, case.test.name, at + 1);
                let name = name.replace(['/', ':', '$'], "_");
                fs::write(folder.join(format!("{name}.txt")), &failure.log)?;
            }
        }
        Ok(())
    }

    fn judge(&mut self) -> Verdict {
        if let Some(change) = &self.change {
            self.known.touched = change.touched(self.cases.iter().map(|case| &case.test));
        }
        flaky::judge(&self.cases, &self.known)
    }

    /// Notes how long the start of etcd and kube-apiserver took.
    pub(crate) fn calibrate(&mut self, start: Duration) {
        self.run.calibration_seconds = Some(start.as_secs_f64());
    }

    /// Writes down what came of it and says so.
    pub(crate) fn finish(mut self, result: Result<()>) -> Result<()> {
        let verdict = self.judge();
        let attempts = attempt::read(&self.attempts());
        let unsteady = |of: &[Flaky]| -> Vec<Unsteady> {
            of.iter().map(|test| noted(test, &attempts)).collect()
        };
        let error = result.as_ref().err().map(|error| format!("{error:#}"));
        let run = &mut self.run;
        run.flaky = unsteady(&verdict.flaky);
        run.failed = unsteady(&verdict.failed);
        for (test, how) in &verdict.quarantined {
            let cause = self.quarantine.cause(test).unwrap_or_default();
            let how = format!("{how}; {cause}");
            run.quarantined.insert(flaky::shown(test), how);
        }
        run.red = verdict.red;
        run.red
            .extend(error.filter(|error| !run.red.contains(error)));
        run.passed = run.red.is_empty();
        let after = self.built.after(self.layout.checkout())?;
        run.go = after.go;
        run.dependencies = after.dependencies;
        run.from_empty = after.from_empty;
        run.minutes = self.began.elapsed().unwrap_or_default().as_secs_f64() / 60.0;
        let _ = fs::remove_file(self.place.join("xtask"));
        runs::keep(&self.place, &self.run)?;
        self.say(&attempts);
        result
    }

    fn say(&self, attempts: &[attempt::Attempt]) {
        let run = &self.run;
        let usual: Vec<f64> = self
            .before
            .iter()
            .filter(|other| other.kind == run.kind)
            .filter_map(|other| other.calibration_seconds)
            .collect();
        let mut text = String::from("\n");
        if !self.cases.is_empty() {
            text.push_str(&report::longest(&report::costs(&self.cases, attempts)));
            text.push('\n');
        }
        text.push_str(&report::stages(&run.stages));
        for line in report::over_budget(run, &usual) {
            text.push_str(&format!("over its budget: {line}\n"));
        }
        if run.kind.changed {
            text.push_str(&self.left_out());
        } else if let Some(change) = &self.change {
            let failed: Vec<TestName> = run.failed.iter().map(Unsteady::test).collect();
            for line in super::changed::missed(&failed, &change.selection) {
                text.push_str(&format!("{line}\n"));
            }
        }
        text.push_str(&format!("kept in {}\n", self.place.display()));
        text.push_str(&report::closing(run));
        self.progress.note(text.trim_end());
    }

    /// What `--changed` did not run, and how long everything took when it was run last.
    fn left_out(&self) -> String {
        let mut lines = match &self.change {
            Some(change) => change.selection.left_out(),
            None => Vec::new(),
        };
        let whole = self.before.iter().find(|run| run.is_whole() && run.passed);
        if let Some(run) = whole {
            lines.push(format!(
                "all of it took {:.1} min when it last passed",
                run.minutes
            ));
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

fn began() -> SystemTime {
    let seconds = std::env::var(BEGAN).ok().and_then(|text| text.parse().ok());
    let began = seconds.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    let now = SystemTime::now();
    began.filter(|began| *began <= now).unwrap_or(now)
}

/// Tests that were flaky in each of the runs before that had tests with retries.
fn history(before: &[Run]) -> Vec<Vec<TestName>> {
    let retried = |run: &&Run| {
        let stages = [report::T1, report::PLAYED, report::T2, report::WORKERS];
        stages.iter().any(|name| run.stage(name).is_some())
    };
    let runs = before.iter().filter(retried);
    runs.map(|run| run.flaky.iter().map(Unsteady::test).collect())
        .collect()
}

/// What the last run says for `--changed`.
fn last(before: &[Run]) -> LastRun {
    let unsteady = before.first().map(|run| {
        let tests = run.failed.iter().chain(&run.flaky);
        tests.map(Unsteady::test).collect()
    });
    LastRun {
        unsteady: unsteady.unwrap_or_default(),
    }
}

/// What the last kept run says for `--changed --list`.
pub(crate) fn last_kept() -> Result<LastRun> {
    let runs: Vec<Run> = runs::read(&runs::folder()?)
        .into_iter()
        .map(|(_, run)| run)
        .collect();
    Ok(last(&runs))
}

fn noted(flaky: &Flaky, attempts: &[attempt::Attempt]) -> Unsteady {
    let Flaky { test, message } = flaky;
    let first = attempts.iter().find(|attempt| {
        attempt.binary == test.binary && attempt.name == test.name && attempt.attempt == 1
    });
    Unsteady {
        binary: test.binary.clone(),
        name: test.name.clone(),
        message: message.clone(),
        pressure: first.and_then(|attempt| attempt.pressure),
    }
}

/// Where cargo puts what it builds.
pub(crate) fn target(checkout: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.map_or_else(|| checkout.join("target"), |target| checkout.join(target))
}
