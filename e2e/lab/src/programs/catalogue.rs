//! Reads `e2e/lab/programs/programs.toml` and names each program's place in the cache.
//!
//! Invariant: equal names mean equal content. The hash covers the program's folder, its entry and
//! the Go version; it leaves out what only informs (`minutes`) or prepares (`apt`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Program;
use crate::Layout;

/// Raised when the way of building changes in a manner that no input shows.
const RECIPE: &str = "1";

pub(super) struct Catalogue {
    root: PathBuf,
    entries: BTreeMap<String, Entry>,
}

/// One table of `programs.toml`; the heading of that file says what the fields mean.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) version: String,
    #[serde(skip_serializing)]
    pub(super) minutes: u32,
    #[serde(default)]
    pub(super) cgo: bool,
    #[serde(default, skip_serializing)]
    pub(super) apt: Vec<String>,
    #[serde(default)]
    pub(super) tags: Vec<String>,
    #[serde(default)]
    ldflags: String,
    pub(super) binary: Vec<Binary>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) c: Vec<Source>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) data: Vec<Source>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) change: Vec<Change>,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Binary {
    pub(super) name: String,
    pub(super) package: String,
    #[serde(default)]
    pub(super) tags: Vec<String>,
    #[serde(default)]
    pub(super) links: Vec<String>,
    /// Made by `go test -c`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) test: bool,
}

/// One file of a module that `go.mod` pins.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) module: String,
    pub(super) source: String,
}

/// A text in one file of a module that is built as another. The module itself is left as it is.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    pub(super) module: String,
    pub(super) source: String,
    pub(super) from: String,
    pub(super) to: String,
}

impl Catalogue {
    /// Reads the file of the checkout that holds the current folder, which need not be the one
    /// that this program was built in: two may share a folder of build results.
    pub(super) fn load() -> anyhow::Result<Self> {
        let root = Layout::discover()?.checkout().join("e2e/lab/programs");
        let file = root.join("programs.toml");
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("{} cannot be read", file.display()))?;
        Self::parse(&text, root).with_context(|| format!("{} is not valid", file.display()))
    }

    pub(super) fn parse(text: &str, root: PathBuf) -> anyhow::Result<Self> {
        let entries: BTreeMap<String, Entry> = toml::from_str(text)?;
        for (name, entry) in &entries {
            if entry.binary.is_empty() {
                bail!("program {name:?} has no binary: add [[{name}.binary]]");
            }
        }
        Ok(Self { root, entries })
    }

    pub(super) fn entry(&self, program: Program) -> anyhow::Result<&Entry> {
        let entry = self.entries.get(program.name());
        entry.with_context(|| format!("programs.toml has no table {:?}", program.name()))
    }

    /// The program's Go module.
    pub(super) fn folder(&self, program: Program) -> PathBuf {
        self.root.join(program.name())
    }

    /// `<program>-<hash>`, the name of its folder in the cache. `go` is Go's version and target.
    pub(super) fn key(&self, program: Program, go: &str) -> anyhow::Result<String> {
        let entry = serde_json::to_string(self.entry(program)?)?;
        let mut hash = Sha256::new();
        for part in [RECIPE, go, &entry] {
            add(&mut hash, part.as_bytes());
        }
        let folder = self.folder(program);
        for path in files(&folder)? {
            let name = path.strip_prefix(&folder).unwrap_or(&path);
            add(&mut hash, name.as_os_str().as_encoded_bytes());
            let content = std::fs::read(&path)
                .with_context(|| format!("{} cannot be read", path.display()))?;
            add(&mut hash, &content);
        }
        let hash = hex::encode(&hash.finalize()[..6]);
        Ok(format!("{}-{hash}", program.name()))
    }
}

impl Entry {
    /// `kubernetes 1.35.4`, for people. A folder that is named after a minor version loses it.
    pub(super) fn label(&self, program: Program) -> String {
        let name = program.name();
        let minor = self
            .version
            .rsplit_once('.')
            .map_or("", |(minor, _patch)| minor);
        let bare = name
            .strip_suffix(minor)
            .and_then(|name| name.strip_suffix('-'));
        format!("{} {}", bare.unwrap_or(name), self.version)
    }

    /// What the linker is told: nothing but what we stamp, without symbols and debug data.
    pub(super) fn ldflags(&self) -> String {
        let mut numbers = self.version.split('.');
        let (major, minor) = (numbers.next().unwrap_or("0"), numbers.next().unwrap_or("0"));
        let flags = self
            .ldflags
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let flags = flags
            .replace("{version}", &self.version)
            .replace("{major}", major)
            .replace("{minor}", minor);
        format!("-s -w {flags}").trim_end().to_owned()
    }
}

/// What is not said does not count, so that a program's place stays what it was.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Binary {
    pub(super) fn all_tags(&self, entry: &Entry) -> String {
        let tags = entry.tags.iter().chain(&self.tags).map(String::as_str);
        tags.collect::<Vec<_>>().join(",")
    }
}

// Lengths keep two parts from being mistaken for one.
fn add(hash: &mut Sha256, part: &[u8]) {
    hash.update((part.len() as u64).to_le_bytes());
    hash.update(part);
}

/// Every file below `folder`, sorted.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(dir) = open.pop() {
        let listing =
            std::fs::read_dir(&dir).with_context(|| format!("{} is not there", dir.display()))?;
        for item in listing {
            let item = item?;
            if item.file_type()?.is_dir() {
                open.push(item.path());
            } else {
                found.push(item.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests;
