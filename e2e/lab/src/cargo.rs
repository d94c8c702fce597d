//! Programs of this workspace, built by cargo of this checkout.
//!
//! Invariant: whichever programs are asked for, crates have the features of the whole workspace; so
//! what was compiled for some is not compiled once more for others.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::Stdio,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow};

use crate::{layout::Layout, packages, progress::Progress, run};

/// Which of the two programs that cargo makes of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Build {
    /// That of the tests, without symbols, which are half of it: what T1 compiled is there already. It
    /// loads shared libraries of this machine.
    #[default]
    Dev,
    /// That of a release: optimised, static, and a panic is its end.
    Release,
}

/// With an example, cargo gives crates the features that dev-dependencies ask for, as it does for
/// tests; without, it would compile kube, tokio and all above them once more. This one is small.
const AS_TESTS_ARE_BUILT: [&str; 2] = ["--example", "programs"];
/// What takes symbols away.
const STRIP: [&str; 1] = ["binutils"];

impl Build {
    fn word(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Release => "release",
        }
    }

    /// What cargo is told after `build`.
    fn arguments(self, programs: &[&str]) -> Vec<String> {
        let mut arguments = vec!["--workspace".to_owned()];
        for program in programs {
            arguments.extend(["--bin".to_owned(), (*program).to_owned()]);
        }
        match self {
            Self::Dev => arguments.extend(AS_TESTS_ARE_BUILT.map(str::to_owned)),
            // With a target the flags are not those of build scripts, although it is the machine's own.
            Self::Release => arguments.extend([
                "--release".to_owned(),
                "--target".to_owned(),
                format!("{}-unknown-linux-gnu", std::env::consts::ARCH),
            ]),
        }
        arguments
    }
}

/// Builds `programs`, in one step and by one cargo because they share nearly all crates. Says where each
/// is; the next build may replace it.
pub(crate) fn build(
    layout: &Layout,
    programs: &[&str],
    build: Build,
    progress: &Progress,
) -> Result<BTreeMap<String, PathBuf>> {
    let built = cargo(layout, programs, build, progress)?;
    let place = |program: &&str| {
        let found = built.iter().find(|path| path.ends_with(program));
        let found = found.with_context(|| format!("cargo built no {program}"))?;
        let place = match build {
            Build::Dev => strip(found, &layout.stripped().join(program))?,
            Build::Release => found.clone(),
        };
        Ok(((*program).to_owned(), place))
    };
    if build == Build::Dev {
        packages::ensure(&STRIP, progress)?;
    }
    programs.iter().map(place).collect()
}

/// Writes beside and renames: what is there may be read.
fn strip(from: &Path, to: &Path) -> Result<PathBuf> {
    let folder = to.parent().context("a path without folder")?;
    fs::create_dir_all(folder)?;
    let new = to.with_extension("new");
    let mut strip = run::command("strip", ["--strip-all", "-o"]);
    run::output(strip.arg(&new).arg(from))?;
    fs::rename(&new, to)?;
    Ok(to.to_owned())
}

/// Says what all of its files are that cargo calls executables.
fn cargo(
    layout: &Layout,
    programs: &[&str],
    build: Build,
    progress: &Progress,
) -> Result<Vec<PathBuf>> {
    let arguments = build.arguments(programs);
    let mut step = progress.step(format!(
        "building {} ({})",
        programs.join(", "),
        build.word()
    ));
    let mut command = run::cargo();
    if build == Build::Release {
        // Images need no files of a distribution then, and a machine that boots has none.
        command.env("RUSTFLAGS", "-C target-feature=+crt-static");
    }
    let mut child = command
        .args(["build", "--message-format=json-render-diagnostics"])
        .args(&arguments)
        .current_dir(layout.checkout())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cargo cannot be run")?;
    let (messages, said) = (child.stdout.take(), child.stderr.take());
    let messages = thread::spawn(move || {
        let lines = messages.map(|pipe| BufReader::new(pipe).lines().map_while(Result::ok));
        lines
            .into_iter()
            .flatten()
            .filter_map(|line| run::built(&line))
            .collect::<Vec<_>>()
    });
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let lines = said.map(|pipe| BufReader::new(pipe).lines().map_while(Result::ok));
        lines
            .into_iter()
            .flatten()
            .for_each(|line| drop(sender.send(line)));
    });
    let mut said = Vec::new();
    loop {
        match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => {
                step.detail(line.trim());
                said.push(line);
            }
            Err(RecvTimeoutError::Timeout) => step.still(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait()?;
    let built = messages.join().unwrap_or_default();
    let result = match built {
        paths if status.success() => Ok(paths),
        _ => Err(anyhow!(
            "cargo build {}: {status}\n{}",
            arguments.join(" "),
            said.join("\n")
        )),
    };
    step.finish(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_asked_for_has_the_features_of_the_whole_workspace() {
        for build in [Build::Dev, Build::Release] {
            let arguments = build.arguments(&["operator", "ccm"]);
            assert_eq!(
                arguments[..5],
                ["--workspace", "--bin", "operator", "--bin", "ccm"]
            );
            assert!(!arguments.contains(&"-p".to_owned()));
        }
    }

    #[test]
    fn a_dev_build_is_that_of_the_tests_and_a_release_is_static_for_a_target() {
        let dev = Build::Dev.arguments(&["operator"]);
        assert_eq!(dev[3..], AS_TESTS_ARE_BUILT);
        let release = Build::Release.arguments(&["operator"]);
        assert_eq!(release[3..5], ["--release", "--target"]);
    }

    #[test]
    fn a_stripped_program_runs_and_the_other_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        let size = |path: &Path| fs::metadata(path).unwrap().len();
        let before = size(&own);
        let stripped = strip(&own, &folder.path().join("deep/program")).unwrap();
        assert!(size(&stripped) < before, "{before}");
        assert_eq!(size(&own), before);
        let listed = run::output(run::command(&stripped, ["--list"]).arg("stripped")).unwrap();
        assert!(listed.contains("a_stripped_program_runs"), "{listed}");
    }
}
