//! Runs `go build` for one program and puts the result in its place.
//!
//! Invariant: a build happens under the program's lock, in a folder beside its place, and only a
//! whole result is renamed into it.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Deserialize;

use super::catalogue::{Binary, Catalogue, Entry, Source};
use super::{Program, cache_dir};
use crate::packages;
use crate::progress::{Progress, Step};

/// So many last lines of a failed build's output are worth showing.
const TAIL: usize = 30;

/// The machine's Go.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) struct Go {
    goversion: String,
    gotoolchain: String,
    goos: String,
    goarch: String,
}

impl Go {
    /// Asks outside of any module: there Go never fetches another version of itself.
    pub(super) fn detect() -> anyhow::Result<Self> {
        let output = Command::new("go")
            .args(["env", "-json", "GOVERSION", "GOTOOLCHAIN", "GOOS", "GOARCH"])
            .current_dir("/")
            .env_remove("GOOS")
            .env_remove("GOARCH")
            .output()
            .context("`go` cannot be run: install Go 1.26 or newer and put it on the PATH")?;
        if !output.status.success() {
            bail!(
                "`go env` failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        serde_json::from_slice(&output.stdout).context("`go env -json` was not understood")
    }

    fn identity(&self) -> String {
        format!("{} {}/{}", self.goversion, self.goos, self.goarch)
    }

    /// Refuses early what `go build` would refuse late. A Go that may fetch a newer one is let be.
    fn check(&self, program: Program, go_mod: &str) -> anyhow::Result<()> {
        let Some(needs) = go_mod.lines().find_map(|line| line.strip_prefix("go ")) else {
            bail!(
                "the go.mod of {} has no line `go <version>`",
                program.name()
            );
        };
        if self.gotoolchain == "local" && number(&self.goversion) < number(needs) {
            bail!(
                "{} needs Go {} and this machine has {}: install a newer Go, or set \
                 GOTOOLCHAIN=auto to let it fetch one",
                program.name(),
                needs.trim(),
                self.goversion
            );
        }
        Ok(())
    }
}

/// `go1.26.8` and `1.26.8` as numbers; what follows (`-custom`, `rc1`) does not count.
fn number(version: &str) -> Vec<u32> {
    let version = version.trim().trim_start_matches("go");
    let digits = |part: &str| {
        part.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
    };
    version
        .split('.')
        .map_while(|part| digits(part).parse().ok())
        .collect()
}

/// Where the program is or would be.
pub(super) fn place(catalogue: &Catalogue, program: Program, go: &Go) -> anyhow::Result<PathBuf> {
    let key = catalogue.key(program, &go.identity())?;
    Ok(cache_dir()?.join("programs").join(key))
}

pub(super) fn ensure(
    catalogue: &Catalogue,
    program: Program,
    go: &Go,
    progress: &Progress,
) -> anyhow::Result<PathBuf> {
    let place = place(catalogue, program, go)?;
    if place.is_dir() {
        return Ok(place);
    }
    let entry = catalogue.entry(program)?;
    let folder = catalogue.folder(program);
    go.check(program, &std::fs::read_to_string(folder.join("go.mod"))?)?;
    let apt: Vec<_> = entry.apt.iter().map(String::as_str).collect();
    packages::ensure(&apt, progress)?;

    let programs = cache_dir()?.join("programs");
    std::fs::create_dir_all(&programs)
        .with_context(|| format!("{} cannot be made", programs.display()))?;
    let name = program.name();
    let _lock = lock(&programs.join(format!(".{name}.lock")), name, progress)?;
    if place.is_dir() {
        return Ok(place); // somebody else built it while we waited
    }
    // Ours by the lock: whatever is there is left from a build that was interrupted.
    let partial = programs.join(format!(".{name}.partial"));
    if partial.exists() {
        std::fs::remove_dir_all(&partial)
            .with_context(|| format!("{} cannot be removed", partial.display()))?;
    }
    std::fs::create_dir(&partial)?;

    let expect = match entry.minutes {
        0 => String::new(),
        minutes => format!("about {minutes} min with an empty build cache"),
    };
    let mut step = progress.step_that_takes(format!("building {}", entry.label(program)), &expect);
    let built = build_all(entry, &folder, &partial, &mut step);
    step.finish(built)
        .with_context(|| format!("{name} could not be built"))?;
    std::fs::rename(&partial, &place)
        .with_context(|| format!("{} cannot be put in place", place.display()))?;
    Ok(place)
}

fn build_all(entry: &Entry, folder: &Path, into: &Path, step: &mut Step) -> anyhow::Result<()> {
    for binary in &entry.binary {
        step.detail(&binary.name);
        build(entry, binary, folder, into, step)?;
        for link in &binary.links {
            symlink(&binary.name, into.join(link))?;
        }
    }
    for source in &entry.c {
        step.detail(&source.name);
        compile(source, folder, into, step)?;
    }
    for source in &entry.data {
        let from = find(source, folder)?;
        std::fs::copy(&from, into.join(&source.name))
            .with_context(|| format!("{} cannot be copied", from.display()))?;
    }
    Ok(())
}

fn build(
    entry: &Entry,
    binary: &Binary,
    folder: &Path,
    into: &Path,
    step: &mut Step,
) -> anyhow::Result<()> {
    let mut command = go(folder)?;
    command
        .arg("build")
        .args([
            "-trimpath",
            "-buildvcs=false",
            "-tags",
            &binary.all_tags(entry),
        ])
        .args(["-ldflags", &entry.ldflags(), "-o"])
        .arg(into.join(&binary.name))
        .arg(&binary.package)
        .env("CGO_ENABLED", if entry.cgo { "1" } else { "0" });
    run(command, &format!("go build {}", binary.package), step)
}

fn compile(source: &Source, folder: &Path, into: &Path, step: &mut Step) -> anyhow::Result<()> {
    let mut command = Command::new("gcc");
    command
        .args(["-static", "-O2", "-s", "-o"])
        .arg(into.join(&source.name))
        .arg(find(source, folder)?);
    run(command, &format!("gcc {}", source.source), step)
}

/// The file in Go's module cache, where the build of the module's packages has put it.
fn find(source: &Source, folder: &Path) -> anyhow::Result<PathBuf> {
    let output = go(folder)?
        .args(["list", "-m", "-f", "{{.Dir}}", &source.module])
        .output()
        .context("`go list` cannot be run")?;
    let module = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || module.is_empty() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("`go list -m {}` failed: {}", source.module, why.trim());
    }
    Ok(Path::new(&module).join(&source.source))
}

/// Go with our caches, in a module of ours.
fn go(folder: &Path) -> anyhow::Result<Command> {
    let cache = cache_dir()?;
    let mut command = Command::new("go");
    command
        .current_dir(folder)
        .env("GOCACHE", cache.join("go-build"))
        // A module cache that its owner may delete like any other folder.
        .env("GOFLAGS", "-mod=readonly -modcacherw")
        .env("GOMODCACHE", cache.join("go-mod"))
        .env("GOWORK", "off")
        .env_remove("GOARCH")
        .env_remove("GOOS")
        .stdin(Stdio::null());
    Ok(command)
}

fn run(mut command: Command, what: &str, step: &mut Step) -> anyhow::Result<()> {
    let output = tempfile::tempfile()?;
    let mut building = command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .spawn()
        .with_context(|| format!("`{what}` cannot be run"))?;
    let status = loop {
        if let Some(status) = building.try_wait()? {
            break status;
        }
        step.still();
        std::thread::sleep(Duration::from_millis(100));
    };
    if !status.success() {
        bail!("`{what}` ended with {status}:\n{}", tail(output)?);
    }
    Ok(())
}

fn tail(mut output: File) -> anyhow::Result<String> {
    use std::io::{Read as _, Seek as _};
    output.rewind()?;
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with("go: downloading"))
        .collect();
    Ok(lines[lines.len().saturating_sub(TAIL)..].join("\n"))
}

/// Held until dropped, also across processes.
fn lock(path: &Path, name: &str, progress: &Progress) -> anyhow::Result<File> {
    let file = File::create(path).with_context(|| format!("{} cannot be made", path.display()))?;
    if file.try_lock().is_err() {
        let step = progress.step(format!("waiting for another process that builds {name}"));
        let locked = file.lock();
        step.finish(locked)
            .with_context(|| format!("{} cannot be locked", path.display()))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests;
