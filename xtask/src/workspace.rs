//! The crates of this repository as `cargo metadata` tells them: where each one is, and which others
//! it uses, read by `tidy` and by the selection of tests.
//!
//! Invariant: only direct dependencies are here; who wants more follows them.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The part of `cargo metadata` that matters here.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    #[serde(default)]
    workspace_root: String,
}

/// One crate of this repository.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
    #[serde(default)]
    manifest_path: String,
}

/// What one crate uses.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `dev`, `build`, or none for an ordinary one.
    pub(crate) kind: Option<String>,
    /// Set for crates of this repository.
    pub(crate) path: Option<String>,
    pub(crate) features: Vec<String>,
}

impl Dependency {
    /// Whether only tests, examples and benches use it.
    pub(crate) fn is_of_tests(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

impl Metadata {
    /// Asks cargo.
    ///
    /// # Errors
    /// When cargo does not answer.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let output = lab::run::cargo()
            .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
            .current_dir(root)
            .output()
            .context("could not start cargo")?;
        if !output.status.success() {
            bail!(
                "cargo metadata failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        let json = String::from_utf8(output.stdout)
            .context("cargo metadata printed something that is not UTF-8")?;
        Self::parse(&json)
    }

    /// Reads what `cargo metadata --no-deps` printed.
    ///
    /// # Errors
    /// When it is something else.
    pub(crate) fn parse(json: &str) -> Result<Self> {
        serde_json::from_str(json).context("could not read the output of cargo metadata")
    }

    /// The crate that holds `path` (from the top of the repository): the innermost one.
    pub(crate) fn owner(&self, path: &str) -> Option<&Package> {
        let holds = |package: &&Package| {
            let folder = self.folder(package);
            path.strip_prefix(folder)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        self.packages
            .iter()
            .filter(holds)
            .max_by_key(|package| self.folder(package).len())
    }

    /// The crate's folder, from the top of the repository.
    pub(crate) fn folder<'a>(&self, package: &'a Package) -> &'a str {
        let path = package.manifest_path.as_str();
        let path = path.strip_prefix(&self.workspace_root).unwrap_or(path);
        let folder = path.strip_suffix("/Cargo.toml").unwrap_or(path);
        folder.trim_start_matches('/')
    }

    /// `name` and every crate whose program or library is made of it.
    pub(crate) fn made_of(&self, name: &str) -> BTreeSet<&str> {
        let mut reached: BTreeSet<&str> = BTreeSet::new();
        let found = self.packages.iter().find(|package| package.name == name);
        let mut next: Vec<&str> = found.map(|p| p.name.as_str()).into_iter().collect();
        while let Some(name) = next.pop() {
            if !reached.insert(name) {
                continue;
            }
            let uses = |package: &&Package| {
                package
                    .dependencies
                    .iter()
                    .any(|d| d.path.is_some() && d.name == name && !d.is_of_tests())
            };
            next.extend(self.packages.iter().filter(uses).map(|p| p.name.as_str()));
        }
        reached
    }

    /// Every crate whose tests see a change of `name`: what is made of it, and what is tested with
    /// something that is. What only tests use goes no further, because nobody uses tests.
    pub(crate) fn tested_with(&self, name: &str) -> BTreeSet<&str> {
        let mut reached = self.made_of(name);
        let made = reached.clone();
        let tested = self.packages.iter().filter(|package| {
            package
                .dependencies
                .iter()
                .any(|d| d.path.is_some() && made.contains(d.name.as_str()))
        });
        reached.extend(tested.map(|package| package.name.as_str()));
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::Metadata;
    use serde_json::{Value, json};

    fn package(name: &str, folder: &str, uses: &[(&str, Option<&str>)]) -> Value {
        let dependencies: Vec<_> = uses
            .iter()
            .map(|(name, kind)| json!({ "name": name, "kind": kind, "path": "/w", "features": [] }))
            .collect();
        let manifest = format!("/w/{folder}/Cargo.toml");
        json!({ "name": name, "manifest_path": manifest, "dependencies": dependencies })
    }

    fn metadata() -> Metadata {
        let packages = [
            package("pki", "core/pki", &[]),
            package("core", "core", &[("pki", None)]),
            package(
                "program",
                "program",
                &[("core", None), ("kit", Some("dev"))],
            ),
            package("suite", "suite", &[("program", None)]),
            package("kit", "kit", &[]),
            package("generator", "generator", &[("core", Some("build"))]),
        ];
        let text = json!({ "packages": packages, "workspace_root": "/w" }).to_string();
        Metadata::parse(&text).unwrap()
    }

    #[test]
    fn a_file_belongs_to_the_innermost_crate() {
        let metadata = metadata();
        let owner = |path| metadata.owner(path).map(|package| package.name.as_str());
        assert_eq!(owner("core/pki/src/lib.rs"), Some("pki"));
        assert_eq!(owner("core/src/lib.rs"), Some("core"));
        assert_eq!(owner("core.rs"), None);
        assert_eq!(owner("docs/a.md"), None);
    }

    #[test]
    fn programs_are_made_of_what_they_use_and_not_of_what_their_tests_use() {
        let metadata = metadata();
        let made = |name| metadata.made_of(name).into_iter().collect::<Vec<_>>();
        assert_eq!(
            made("pki"),
            ["core", "generator", "pki", "program", "suite"]
        );
        assert_eq!(made("kit"), ["kit"]);
        assert_eq!(made("gone"), [""; 0]);
    }

    #[test]
    fn tests_see_a_change_of_what_they_use_and_hand_it_to_nobody() {
        let metadata = metadata();
        let tested = |name| metadata.tested_with(name).into_iter().collect::<Vec<_>>();
        assert_eq!(tested("kit"), ["kit", "program"]);
        assert_eq!(tested("program"), ["program", "suite"]);
    }
}
