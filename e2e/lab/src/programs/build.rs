//! Runs `go build` for one program and puts the result in its place.
//!
//! Invariant: a build happens under the program's lock, in a folder beside its place, and only a
//! whole result is renamed into it.

use std::collections::{BTreeMap, btree_map::Entry as Place};
use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use tempfile::TempDir;

use super::Program;
use super::catalogue::{Binary, Catalogue, Entry, Source};
use crate::cache::cache_dir;
use crate::packages;
use crate::progress::{Progress, Step};
use crate::run;

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
    let changes = changes(entry, folder)?;
    for binary in &entry.binary {
        step.detail(&binary.name);
        build(entry, binary, folder, changes.as_ref(), into, step)?;
        for link in &binary.links {
            symlink(&binary.name, into.join(link))?;
        }
    }
    for source in &entry.c {
        step.detail(&source.name);
        compile(source, folder, into, step)?;
    }
    for source in &entry.data {
        let from = find(&source.module, &source.source, folder)?;
        std::fs::copy(&from, into.join(&source.name))
            .with_context(|| format!("{} cannot be copied", from.display()))?;
    }
    Ok(())
}

/// Copies of the modules with what is changed in them, and a `go.mod` that leads to those. None
/// without changes. (Go's `-overlay` does not reach into its module cache.)
fn changes(entry: &Entry, folder: &Path) -> anyhow::Result<Option<TempDir>> {
    if entry.change.is_empty() {
        return Ok(None);
    }
    let changed = TempDir::new()?;
    let mut go_mod = std::fs::read_to_string(folder.join("go.mod"))?;
    let mut copies = BTreeMap::new();
    for change in &entry.change {
        let number = copies.len();
        let copy = match copies.entry(&change.module) {
            Place::Occupied(copy) => copy.into_mut(),
            Place::Vacant(place) => {
                let copy = changed.path().join(number.to_string());
                let original = find(&change.module, "", folder)?;
                let mut cp = run::command("cp", ["--recursive", "--no-preserve=mode"]);
                run::output(cp.args([&original, &copy]))?;
                go_mod += &format!("\nreplace {} => {}\n", change.module, copy.display());
                place.insert(copy)
            }
        };
        let file = copy.join(&change.source);
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("{} has no {}", change.module, change.source))?;
        if text.matches(&change.from).count() != 1 {
            bail!("{} does not say {:?} once", change.source, change.from);
        }
        std::fs::write(&file, text.replace(&change.from, &change.to))?;
    }
    std::fs::write(changed.path().join("go.mod"), go_mod)?;
    std::fs::copy(folder.join("go.sum"), changed.path().join("go.sum"))?;
    Ok(Some(changed))
}

fn build(
    entry: &Entry,
    binary: &Binary,
    folder: &Path,
    changes: Option<&TempDir>,
    into: &Path,
    step: &mut Step,
) -> anyhow::Result<()> {
    let mut command = go(folder)?;
    let verb: &[&str] = if binary.test {
        &["test", "-c"]
    } else {
        &["build"]
    };
    command
        .args(verb)
        .args([
            "-trimpath",
            "-buildvcs=false",
            // It would be made and then left out.
            "-gcflags=all=-dwarf=false",
            "-tags",
            &binary.all_tags(entry),
        ])
        .args(changes.map(|changes| {
            let go_mod = changes.path().join("go.mod");
            format!("-modfile={}", go_mod.display())
        }))
        .args(["-ldflags", &entry.ldflags(), "-o"])
        .arg(into.join(&binary.name))
        .arg(&binary.package)
        .env("CGO_ENABLED", if entry.cgo { "1" } else { "0" });
    watch(
        command,
        &format!("go {} {}", verb.join(" "), binary.package),
        step,
    )
}

fn compile(source: &Source, folder: &Path, into: &Path, step: &mut Step) -> anyhow::Result<()> {
    let mut command = Command::new("gcc");
    command
        .args(["-static", "-O2", "-s", "-o"])
        .arg(into.join(&source.name))
        .arg(find(&source.module, &source.source, folder)?);
    watch(command, &format!("gcc {}", source.source), step)
}

/// A module's file in Go's module cache.
fn find(module: &str, source: &str, folder: &Path) -> anyhow::Result<PathBuf> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Downloaded {
        dir: PathBuf,
    }
    let output = go(folder)?
        .args(["mod", "download", "-json", module])
        .output()
        .context("`go mod download` cannot be run")?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("`go mod download {module}` failed: {}", why.trim());
    }
    let downloaded: Downloaded = serde_json::from_slice(&output.stdout)
        .context("`go mod download -json` was not understood")?;
    Ok(downloaded.dir.join(source))
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
        // The compiler collects its garbage for a seventh of its time otherwise.
        .env("GOGC", "400")
        .env("GOMODCACHE", cache.join("go-mod"))
        .env("GOWORK", "off")
        .env_remove("GOARCH")
        .env_remove("GOOS")
        .stdin(Stdio::null());
    Ok(command)
}

fn watch(mut command: Command, what: &str, step: &mut Step) -> anyhow::Result<()> {
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
