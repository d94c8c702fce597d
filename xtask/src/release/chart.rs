//! The released chart: the chart of this checkout with digests of images in its values, and in Chart.yaml what Artifact
//! Hub shows.
//!
//! Invariant: pure, and what was written is read again: a digest that did not get where it belongs is an error, not a
//! chart that names a tag. Comments of the values stay.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail, ensure};
use kit_oci::image::File;
use semver::Version;
use serde_json::Value;

use super::catalogue::{Digest, PROGRAMS, Program};
use super::changelog::Change;

/// The chart's name, and the folder in its archive.
pub(crate) const NAME: &str = "covey";
const VALUES: &str = "values.yaml";
const CHART: &str = "Chart.yaml";
/// Where definitions are in the chart.
const DEFINITIONS: &str = "files/crds/";
/// Where the values say which configuration is the default, in comments below it.
const CONFIG: &str = "config: {}";
/// What begins a line of that.
const SHOWN: &str = "  # ";
const CATEGORY: &str = "integration-delivery";

/// Files by their paths in the chart.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// What the released chart says that the checkout's does not.
#[derive(Clone, Debug)]
pub(crate) struct Said<'a> {
    pub(crate) version: &'a Version,
    /// `sha256:…` of each program's image, by the image's name.
    pub(crate) digests: &'a BTreeMap<&'static str, String>,
    /// `linux/amd64` and so on: what the images are for.
    pub(crate) platforms: &'a [String],
    pub(crate) changes: &'a [Change],
}

/// The files of the released chart.
///
/// # Errors
/// The chart is not what this expects, or a program has no digest.
pub(crate) fn released(files: &Files, said: &Said<'_>) -> Result<Files> {
    let mut released = files.clone();
    let before = text(files, VALUES)?;
    let others = others(before)?;
    let values = values(before, said)?;
    let about = chart(files, said, &others)?;
    released.insert(VALUES.to_owned(), values.into_bytes());
    released.insert(CHART.to_owned(), about.into_bytes());
    Ok(released)
}

/// The same files for an archive as helm makes and reads it: below a folder with the chart's name.
pub(crate) fn archived(files: &Files) -> Vec<File> {
    let file =
        |(path, bytes): (&String, &Vec<u8>)| File::bytes(format!("/{NAME}/{path}"), bytes.clone());
    files.iter().map(file).collect()
}

/// Chart.yaml as JSON, which is the configuration of a chart in a registry.
///
/// # Errors
/// It cannot be read.
pub(crate) fn configuration(files: &Files) -> Result<Value> {
    parsed(text(files, CHART)?, CHART)
}

/// Images of others that the chart's configuration names by default; their digests are not ours to know.
///
/// # Errors
/// The values do not show the configuration.
pub(crate) fn others(values: &str) -> Result<Vec<String>> {
    let (_, rest) = values
        .split_once(&format!("\n{CONFIG}\n"))
        .with_context(|| format!("{VALUES} lacks the line {CONFIG:?}"))?;
    let shown: Vec<_> = rest
        .lines()
        .map_while(|line| line.strip_prefix(SHOWN))
        .collect();
    let shown = parsed(&shown.join("\n"), VALUES)?;
    let registry = shown["registry"].as_str().unwrap_or_default();
    let images = shown["images"].as_object();
    let images = images.context("the values show no images")?;
    let flannel = images.get("flannelRegistry").and_then(Value::as_str);
    let mut found = vec![format!(
        "{registry}/{}",
        shown["etcdImage"].as_str().unwrap_or_default()
    )];
    for (name, image) in images {
        let is_its = |digest: Digest| matches!(digest, Digest::Config(key) if key == name);
        let is_ours = PROGRAMS.iter().any(|program| is_its(program.digest));
        match image {
            Value::String(_) if is_ours || name.ends_with("Registry") => {}
            Value::String(path) if name == "flannel" => {
                found.push(format!("{}/{path}", flannel.unwrap_or(registry)));
            }
            Value::String(path) => found.push(format!("{registry}/{path}")),
            Value::Object(minors) => {
                let paths = minors.values().filter_map(Value::as_str);
                found.extend(paths.map(|path| format!("{registry}/{path}")));
            }
            _ => bail!("the values show an image {name} that is no text"),
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// An image of ours by version and digest: whoever reads it sees which it is, and a registry is asked for the digest.
fn pinned(name: &str, program: &Program, said: &Said<'_>) -> Result<String> {
    let digest = digest(program, said)?;
    Ok(format!("{name}:{}@{digest}", said.version))
}

fn digest<'a>(program: &Program, said: &'a Said<'_>) -> Result<&'a str> {
    let digest = said.digests.get(program.image);
    let digest = digest.with_context(|| format!("the image {} has no digest", program.image))?;
    Ok(digest)
}

fn values(before: &str, said: &Said<'_>) -> Result<String> {
    let mut text = before.to_owned();
    let mut images = String::new();
    for program in &PROGRAMS {
        match program.digest {
            Digest::Image(part) => text = with_digest(&text, part, digest(program, said)?)?,
            Digest::Config(key) => {
                let path = format!("covey-dev/{}", program.image);
                // Writing to a String cannot fail.
                let _ = write!(images, "\n    {key}: {}", pinned(&path, program, said)?);
            }
        }
    }
    let line = format!("\n{CONFIG}\n");
    ensure!(
        text.matches(&line).count() == 1,
        "{VALUES}: the line {CONFIG:?} has to be there once"
    );
    let text = text.replace(&line, &format!("\nconfig:\n  images:{images}\n"));
    let read = parsed(&text, VALUES)?;
    for program in &PROGRAMS {
        let (at, wanted) = match program.digest {
            Digest::Image(None) => (
                "/image/digest".to_owned(),
                digest(program, said)?.to_owned(),
            ),
            Digest::Image(Some(part)) => (
                format!("/{part}/image/digest"),
                digest(program, said)?.to_owned(),
            ),
            Digest::Config(key) => {
                let path = format!("covey-dev/{}", program.image);
                (
                    format!("/config/images/{key}"),
                    pinned(&path, program, said)?,
                )
            }
        };
        let found = read.pointer(&at).and_then(Value::as_str);
        ensure!(
            found == Some(wanted.as_str()),
            "{VALUES}: {at} is {found:?}, not {wanted}"
        );
    }
    Ok(text)
}

/// The values with this digest in the image of a part of them.
fn with_digest(values: &str, part: Option<&str>, digest: &str) -> Result<String> {
    let wanted: Vec<_> = part.into_iter().chain(["image", "digest"]).collect();
    let mut above: Vec<(usize, &str)> = Vec::new();
    let (mut lines, mut found) = (Vec::new(), 0);
    for line in values.lines() {
        let indent = line.len() - line.trim_start().len();
        let key = line.trim_start().split_once(':').map(|(key, _)| key);
        let key = key.filter(|key| !key.starts_with('#'));
        if let Some(key) = key {
            above.retain(|(other, _)| *other < indent);
            above.push((indent, key));
        }
        if key.is_some() && above.iter().map(|(_, key)| *key).eq(wanted.iter().copied()) {
            found += 1;
            lines.push(format!("{}digest: {digest:?}", " ".repeat(indent)));
        } else {
            lines.push(line.to_owned());
        }
    }
    let place = wanted.join(".");
    ensure!(found == 1, "{VALUES}: {place} is there {found} times");
    Ok(lines.join("\n") + "\n")
}

fn chart(files: &Files, said: &Said<'_>, others: &[String]) -> Result<String> {
    let text = text(files, CHART)?;
    let read = parsed(text, CHART)?;
    ensure!(
        read.get("annotations").is_none(),
        "{CHART}: annotations are written by the release"
    );
    let mut images = Vec::new();
    for program in &PROGRAMS {
        let image = pinned(&program.repository(), program, said)?;
        images.push(vec![
            ("name", Item::Text(program.image.to_owned())),
            ("image", Item::Text(image)),
            ("platforms", Item::List(said.platforms.to_vec())),
        ]);
    }
    for image in others {
        let name = image.rsplit('/').next().unwrap_or(image);
        let name = name.split([':', '@']).next().unwrap_or(name);
        images.push(vec![
            ("name", Item::Text(name.to_owned())),
            ("image", Item::Text(image.clone())),
        ]);
    }
    let change = |change: &Change| {
        vec![
            ("kind", Item::Text(change.kind.to_owned())),
            ("description", Item::Text(change.text.clone())),
        ]
    };
    let changes = list(said.changes.iter().map(change));
    let home = read["home"].as_str().unwrap_or_default();
    let source = read.pointer("/sources/0").and_then(Value::as_str);
    let source = source.with_context(|| format!("{CHART} names no sources"))?;
    let links = [("Website", home), ("Source", source)].map(|(name, url)| {
        vec![
            ("name", Item::Text(name.to_owned())),
            ("url", Item::Text(url.to_owned())),
        ]
    });
    let annotations = [
        ("category", CATEGORY.to_owned()),
        ("changes", changes),
        ("crds", list(definitions(files)?.into_iter())),
        ("images", list(images.into_iter())),
        ("license", "Apache-2.0".to_owned()),
        ("links", list(links.into_iter())),
        ("operator", "true".to_owned()),
        ("prerelease", (!said.version.pre.is_empty()).to_string()),
    ];
    let mut text = text.trim_end().to_owned() + "\nannotations:";
    for (name, value) in &annotations {
        // A block scalar: its lines are as they are, further in. Writing to a String cannot fail.
        let _ = match value.contains('\n') {
            true => {
                let lines = value.trim_end().replace('\n', "\n    ");
                write!(text, "\n  artifacthub.io/{name}: |\n    {lines}")
            }
            false => write!(text, "\n  artifacthub.io/{name}: {value:?}"),
        };
    }
    text.push('\n');
    let read = parsed(&text, CHART)?;
    for (name, value) in &annotations {
        let found = read["annotations"][format!("artifacthub.io/{name}")].as_str();
        ensure!(
            found.map(str::trim_end) == Some(value.trim_end()),
            "{CHART}: the annotation {name} is {found:?}"
        );
    }
    for key in ["version", "appVersion"] {
        let found = read[key].as_str();
        ensure!(
            found == Some(said.version.to_string().as_str()),
            "{CHART}: {key} is {found:?}, not {}",
            said.version
        );
    }
    Ok(text)
}

/// The kinds that the chart brings.
fn definitions(files: &Files) -> Result<Vec<Vec<(&'static str, Item)>>> {
    let mut found = Vec::new();
    let paths = files.keys().filter(|path| path.starts_with(DEFINITIONS));
    for path in paths {
        let read = parsed(text(files, path)?, path)?;
        let versions = read.pointer("/spec/versions").and_then(Value::as_array);
        let stored = versions.into_iter().flatten();
        let mut stored = stored.filter(|version| version["storage"] == true);
        let stored = stored
            .next()
            .with_context(|| format!("{path}: no version is stored"))?;
        let of = |at: &str| {
            let text = read.pointer(at).and_then(Value::as_str);
            text.map(str::to_owned)
                .with_context(|| format!("{path}: {at} lacks"))
        };
        let about = stored.pointer("/schema/openAPIV3Schema/description");
        let about = about.and_then(Value::as_str).unwrap_or_default();
        let about = about.split("\n\n").next().unwrap_or_default();
        let kind = of("/spec/names/kind")?;
        let version = stored["name"].as_str().unwrap_or_default();
        found.push(vec![
            ("kind", Item::Text(kind.clone())),
            ("version", Item::Text(version.to_owned())),
            ("name", Item::Text(of("/metadata/name")?)),
            ("displayName", Item::Text(kind)),
            ("description", Item::Text(about.replace('\n', " "))),
        ]);
    }
    ensure!(!found.is_empty(), "the chart has no definitions");
    Ok(found)
}

/// A value in a list of objects.
enum Item {
    Text(String),
    List(Vec<String>),
}

/// YAML of a list of objects. Texts are written as JSON has them, which YAML reads.
fn list(items: impl Iterator<Item = Vec<(&'static str, Item)>>) -> String {
    let mut text = String::new();
    for item in items {
        for (at, (key, value)) in item.into_iter().enumerate() {
            let value = match value {
                Item::Text(value) => Value::String(value),
                Item::List(values) => values.into(),
            };
            let mark = if at == 0 { "- " } else { "  " };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{mark}{key}: {value}");
        }
    }
    text
}

fn text<'a>(files: &'a Files, path: &str) -> Result<&'a str> {
    let bytes = files
        .get(path)
        .with_context(|| format!("the chart has no {path}"))?;
    std::str::from_utf8(bytes).with_context(|| format!("{path} is not UTF-8"))
}

fn parsed(text: &str, path: &str) -> Result<Value> {
    serde_saphyr::from_str(text).with_context(|| format!("{path} cannot be read"))
}

#[cfg(test)]
mod tests;
