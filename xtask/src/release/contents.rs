//! What a release says of itself: `release.json`, and `SHA256SUMS` of its files.
//!
//! Invariant: every file that is not a blob of a layout is in SHA256SUMS but SHA256SUMS itself; blobs are called by their
//! hash.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// `release.json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Contents {
    pub(crate) api_version: &'static str,
    pub(crate) version: String,
    /// Hash of the commit.
    pub(crate) revision: String,
    /// When that was made.
    pub(crate) created: String,
    /// What compiled, and with which flags.
    pub(crate) toolchain: Toolchain,
    pub(crate) advisories: Advisories,
    pub(crate) programs: Vec<Program>,
    pub(crate) images: Vec<Image>,
    pub(crate) chart: Chart,
    /// Archives with the command line.
    pub(crate) cli: Vec<Named>,
    /// Images of others that the configuration names by default, by tag: their digests are not ours to know.
    pub(crate) images_of_others: Vec<String>,
    /// What was asked for and is not there, and why.
    pub(crate) left_out: Vec<String>,
    /// Set where programs are not built but stand-ins: it is no release.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) stand_ins: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Toolchain {
    pub(crate) rustc: String,
    pub(crate) cc: String,
    pub(crate) flags: Vec<String>,
    /// Packages of Debian that files were taken from: name and version.
    pub(crate) packages: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Advisories {
    pub(crate) asked: bool,
    /// The program that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
}

/// A file of the release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Named {
    pub(crate) file: String,
    pub(crate) sha256: String,
    /// Bytes.
    pub(crate) size: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) architecture: &'static str,
    #[serde(flatten)]
    pub(crate) file: Named,
    /// Its bill of materials.
    pub(crate) sbom: Named,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Image {
    /// As the chart names it, by tag.
    pub(crate) name: String,
    /// Folder with its layout.
    pub(crate) layout: String,
    /// By which the chart names it.
    pub(crate) digest: String,
    /// Manifests by architecture.
    pub(crate) manifests: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Chart {
    #[serde(flatten)]
    pub(crate) file: Named,
    pub(crate) layout: String,
    pub(crate) digest: String,
}

/// Hexadecimal SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Names a file that was written below `out`.
///
/// # Errors
/// It cannot be read.
pub(crate) fn named(out: &Path, file: &str) -> Result<Named> {
    let bytes = fs::read(out.join(file)).with_context(|| format!("{file} cannot be read"))?;
    Ok(Named {
        file: file.to_owned(),
        sha256: sha256(&bytes),
        size: bytes.len() as u64,
    })
}

/// The lines of SHA256SUMS for a release, as `sha256sum --check` reads them.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn sums(out: &Path) -> Result<String> {
    let mut lines = BTreeMap::new();
    add(out, "", &mut lines)?;
    let lines = lines.into_iter();
    Ok(lines
        .map(|(path, sum)| format!("{sum}  {path}\n"))
        .collect())
}

fn add(folder: &Path, prefix: &str, lines: &mut BTreeMap<String, String>) -> Result<()> {
    for entry in
        fs::read_dir(folder).with_context(|| format!("{} is not there", folder.display()))?
    {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().context("a name that is no UTF-8")?;
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            if name != "blobs" {
                add(&entry.path(), &format!("{path}/"), lines)?;
            }
        } else if path != "SHA256SUMS" {
            lines.insert(path, sha256(&fs::read(entry.path())?));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_of_all_files_but_blobs_and_the_sums_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path();
        fs::create_dir_all(out.join("images/a/blobs/sha256")).unwrap();
        for (path, text) in [
            ("b", "x"),
            ("images/a/index.json", "{}"),
            ("images/a/blobs/sha256/00", "blob"),
            ("SHA256SUMS", "old"),
        ] {
            fs::write(out.join(path), text).unwrap();
        }
        let sums = sums(out).unwrap();
        let names: Vec<_> = sums
            .lines()
            .map(|line| line.split_once("  ").unwrap().1)
            .collect();
        assert_eq!(names, ["b", "images/a/index.json"]);
        fs::write(out.join("SHA256SUMS"), &sums).unwrap();
        let mut check = std::process::Command::new("sha256sum");
        check
            .args(["--check", "--strict", "SHA256SUMS"])
            .current_dir(out);
        lab::run::output(&mut check).unwrap();
        assert_eq!(named(out, "b").unwrap().size, 1);
    }
}
