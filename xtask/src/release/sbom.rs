//! What a program is made of, as CycloneDX 1.6: from what cargo says that it compiled.
//!
//! A component is a crate that the program's own crate reaches and that was compiled by this very build, with the
//! features that it was compiled with (docs/adr/0027). Invariant: pure, and without a clock or chance: the same build
//! has the same text.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The part of `cargo metadata` that matters here.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
    /// Where cargo builds.
    pub(crate) target_directory: std::path::PathBuf,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    /// None for crates of this repository.
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    kind: Option<String>,
}

/// What was compiled, by the id of the package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compiled {
    /// For the program's own machine: what is in it, with features.
    target: BTreeMap<String, BTreeSet<String>>,
    /// For the machine that compiled: macros, build scripts and what these use.
    host: BTreeSet<String>,
}

/// One program.
#[derive(Clone, Debug)]
pub(crate) struct About<'a> {
    /// Its crate.
    pub(crate) package: &'a str,
    /// What its file is called.
    pub(crate) name: &'a str,
    /// Hexadecimal SHA-256 of its file.
    pub(crate) sha256: &'a str,
    /// When its commit was made (RFC 3339).
    pub(crate) created: &'a str,
    /// SHA-256 of crates from Cargo.lock, by name and version.
    pub(crate) checksums: &'a BTreeMap<(String, String), String>,
    /// What is linked besides crates: name, version, licence.
    pub(crate) linked: &'a [(String, String, String)],
}

/// Reads `cargo metadata`.
///
/// # Errors
/// It is something else.
pub(crate) fn metadata(json: &str) -> Result<Metadata> {
    serde_json::from_str(json).context("could not read the output of cargo metadata")
}

/// Reads what cargo said while it built for `target` (`--message-format=json`), a line each.
///
/// # Errors
/// A line that tells of something compiled cannot be read.
pub(crate) fn compiled(messages: &str, target: &str) -> Result<Compiled> {
    #[derive(Deserialize)]
    struct Message {
        reason: String,
        #[serde(default)]
        package_id: String,
        #[serde(default)]
        features: Vec<String>,
        #[serde(default)]
        filenames: Vec<String>,
    }
    let mut compiled = Compiled::default();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Message =
            serde_json::from_str(line).context("could not read what cargo said of its build")?;
        if message.reason != "compiler-artifact" {
            continue;
        }
        // What is for the target is in a folder of its name; all else is for the machine that compiles.
        let part = format!("/{target}/");
        if message.filenames.iter().any(|name| name.contains(&part)) {
            let features = compiled.target.entry(message.package_id).or_default();
            features.extend(message.features);
        } else {
            compiled.host.insert(message.package_id);
        }
    }
    Ok(compiled)
}

/// SHA-256 of crates that come from a registry, by name and version, from Cargo.lock.
///
/// # Errors
/// It cannot be read.
pub(crate) fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>> {
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<Locked>,
    }
    #[derive(Deserialize)]
    struct Locked {
        name: String,
        version: String,
        checksum: Option<String>,
    }
    let lock: Lock = toml::from_str(lock).context("could not read Cargo.lock")?;
    let locked = lock.package.into_iter();
    Ok(locked
        .filter_map(|one| Some(((one.name, one.version), one.checksum?)))
        .collect())
}

/// The bill of materials of one program. Without `compiled` nothing is known of features, and all is listed that the
/// program's crate could use.
///
/// # Errors
/// The metadata lack the program, or of what it is made.
pub(crate) fn bill(
    metadata: &Metadata,
    compiled: Option<&Compiled>,
    about: &About<'_>,
) -> Result<Value> {
    let packages: BTreeMap<_, _> = metadata
        .packages
        .iter()
        .map(|p| (p.id.as_str(), p))
        .collect();
    let nodes: BTreeMap<_, _> = metadata
        .resolve
        .nodes
        .iter()
        .map(|n| (n.id.as_str(), n))
        .collect();
    let own = |package: &&Package| package.name == about.package && package.source.is_none();
    let own = metadata.packages.iter().find(own);
    let own = own.with_context(|| format!("the workspace has no crate {}", about.package))?;
    // `Some(true)`: in the program; `Some(false)`: only used to make it.
    let role = |id: &str| match compiled {
        None => Some(true),
        Some(compiled) if compiled.target.contains_key(id) => Some(true),
        Some(compiled) if compiled.host.contains(id) => Some(false),
        Some(_) => None,
    };
    ensure!(
        role(&own.id) == Some(true),
        "this build did not compile {}",
        about.package
    );
    let edges = |id: &str| -> BTreeSet<&str> {
        let node = nodes.get(id);
        let edges = node.into_iter().flat_map(|node| &node.deps);
        let is_used = |edge: &&Edge| {
            let mut kinds = edge.dep_kinds.iter();
            kinds.any(|kind| kind.kind.as_deref() != Some("dev")) && role(&edge.pkg).is_some()
        };
        edges
            .filter(is_used)
            .map(|edge| edge.pkg.as_str())
            .collect()
    };
    let mut reached = BTreeSet::from([own.id.as_str()]);
    let mut next = vec![own.id.as_str()];
    while let Some(id) = next.pop() {
        for other in edges(id) {
            if reached.insert(other) {
                next.push(other);
            }
        }
    }
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for id in &reached {
        let package = packages.get(id);
        let package = package.with_context(|| format!("cargo metadata has no package {id}"))?;
        let mut uses: Vec<_> = edges(id)
            .into_iter()
            .filter_map(|id| packages.get(id).map(|package| reference(package)))
            .collect();
        if *id == own.id {
            uses.extend(
                about
                    .linked
                    .iter()
                    .map(|(name, version, _)| linked(name, version)),
            );
        }
        uses.sort();
        dependencies.push(json!({"ref": reference(package), "dependsOn": uses}));
        if *id != own.id {
            let features = compiled.and_then(|compiled| compiled.target.get(*id));
            let scope = if role(id) == Some(true) {
                "required"
            } else {
                "excluded"
            };
            components.push(component(package, scope, features, about));
        }
    }
    for (name, version, licence) in about.linked {
        let reference = linked(name, version);
        components.push(json!({
            "type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference,
            "scope": "required", "licenses": [{"expression": licence}],
        }));
    }
    let by_reference = |value: &Value| value["bom-ref"].as_str().unwrap_or_default().to_owned();
    components.sort_by_key(by_reference);
    dependencies.sort_by_key(|value| value["ref"].as_str().unwrap_or_default().to_owned());
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": serial(about),
        "version": 1,
        "metadata": {
            "timestamp": about.created,
            "tools": {"components": [{"type": "application", "name": "cargo xtask release"}]},
            "component": {
                "type": "application",
                "bom-ref": reference(own),
                "name": about.name,
                "version": own.version,
                "hashes": [{"alg": "SHA-256", "content": about.sha256}],
                "licenses": licences(own),
            },
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

fn component(
    package: &Package,
    scope: &str,
    features: Option<&BTreeSet<String>>,
    about: &About<'_>,
) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(package),
        "name": package.name,
        "version": package.version,
        "scope": scope,
        "licenses": licences(package),
    });
    if package.source.is_some() {
        component["purl"] = reference(package).into();
    }
    let key = (package.name.clone(), package.version.clone());
    if let Some(checksum) = about.checksums.get(&key) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if let Some(features) = features.filter(|features| !features.is_empty()) {
        let features: Vec<_> = features.iter().map(String::as_str).collect();
        component["properties"] = json!([{"name": "cargo:features", "value": features.join(" ")}]);
    }
    component
}

/// Package URL of a crate (purl-spec, type cargo).
fn reference(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

fn linked(name: &str, version: &str) -> String {
    // purl-spec: what is not of its unreserved characters is percent-encoded.
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || "-._~:".contains(c) => c.to_string(),
        c => {
            let mut bytes = [0; 4];
            let bytes = c.encode_utf8(&mut bytes).bytes();
            bytes.map(|byte| format!("%{byte:02X}")).collect()
        }
    };
    let version: String = version.chars().map(plain).collect();
    format!("pkg:generic/{name}@{version}")
}

fn licences(package: &Package) -> Value {
    match &package.license {
        // The older form of `OR`, which SPDX does not know.
        Some(text) => json!([{"expression": text.replace('/', " OR ").replace("  ", " ")}]),
        None => json!([]),
    }
}

/// A UUID (RFC 9562, version 8) that follows from the program.
fn serial(about: &About<'_>) -> String {
    let hash = Sha256::digest(format!("{} {}", about.name, about.sha256));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| &digits[from..to];
    format!(
        "urn:uuid:{}-{}-{}-{}-{}",
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Metadata {
        let edge = |id: &str, kind: Option<&str>| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let registry = "registry+https://index";
        metadata(
            &json!({
                "target_directory": "/t",
                "packages": [
                    {"id": "own", "name": "program", "version": "0.1.0", "license": "Apache-2.0", "source": null},
                    {"id": "a", "name": "a", "version": "1.0.0", "license": "MIT/Apache-2.0", "source": registry},
                    {"id": "m", "name": "macros", "version": "2.0.0", "license": "MIT", "source": registry},
                    {"id": "w", "name": "unused", "version": "3.0.0", "license": "MIT", "source": registry},
                    {"id": "d", "name": "of-tests", "version": "4.0.0", "license": null, "source": registry},
                    {"id": "o", "name": "of-another-program", "version": "5.0.0", "license": null, "source": registry},
                ],
                "resolve": {"nodes": [
                    {"id": "own", "deps": [edge("a", None), edge("m", None), edge("d", Some("dev"))]},
                    {"id": "a", "deps": [edge("w", None), edge("m", Some("build"))]},
                    {"id": "m", "deps": []}, {"id": "w", "deps": []}, {"id": "d", "deps": []}, {"id": "o", "deps": []},
                ]},
            })
            .to_string(),
        )
        .unwrap()
    }

    fn built() -> Compiled {
        let artifact = |id: &str, file: &str, features: &[&str]| {
            json!({"reason": "compiler-artifact", "package_id": id, "features": features, "filenames": [file]}).to_string()
        };
        let messages = [
            artifact("own", "/t/x86/release/program", &[]),
            artifact("a", "/t/x86/release/deps/liba.rlib", &["std", "fast"]),
            artifact("m", "/t/release/deps/libm.so", &[]),
            artifact("d", "/t/x86/release/deps/libd.rlib", &[]),
            artifact("o", "/t/x86/release/deps/libo.rlib", &[]),
            json!({"reason": "build-finished", "success": true}).to_string(),
        ];
        compiled(&messages.join("\n"), "x86").unwrap()
    }

    fn about<'a>(
        checksums: &'a BTreeMap<(String, String), String>,
        linked: &'a [(String, String, String)],
    ) -> About<'a> {
        About {
            package: "program",
            name: "program",
            sha256: "00",
            created: "2027-01-02T03:04:05Z",
            checksums,
            linked,
        }
    }

    fn bill_of(compiled: Option<&Compiled>) -> Value {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n[[package]]\nname = \"program\"\n\
             version = \"0.1.0\"\n";
        let checksums = checksums(lock).unwrap();
        let libc = (
            "glibc".to_owned(),
            "2.36-9+deb12u9".to_owned(),
            "LGPL-2.1-or-later".to_owned(),
        );
        bill(&found(), compiled, &about(&checksums, &[libc])).unwrap()
    }

    #[test]
    fn components_are_what_was_compiled_and_the_program_reaches() {
        let bill = bill_of(Some(&built()));
        let components = bill["components"].as_array().unwrap();
        let told: Vec<_> = components
            .iter()
            .map(|one| {
                (
                    one["bom-ref"].as_str().unwrap(),
                    one["scope"].as_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("pkg:cargo/a@1.0.0", "required"),
                ("pkg:cargo/macros@2.0.0", "excluded"),
                ("pkg:generic/glibc@2.36-9%2Bdeb12u9", "required"),
            ]
        );
        assert_eq!(components[0]["properties"][0]["value"], "fast std");
        assert_eq!(components[0]["hashes"][0]["content"], "ab");
        assert_eq!(
            components[0]["licenses"][0]["expression"],
            "MIT OR Apache-2.0"
        );
        let uses = bill["dependencies"].as_array().unwrap();
        let own = uses
            .iter()
            .find(|one| one["ref"] == "pkg:cargo/program@0.1.0")
            .unwrap();
        assert_eq!(own["dependsOn"].as_array().unwrap().len(), 3);
        assert_eq!(bill["metadata"]["component"]["hashes"][0]["content"], "00");
    }

    #[test]
    fn every_reference_is_to_something_that_is_listed() {
        let bill = bill_of(Some(&built()));
        let listed: BTreeSet<_> = bill["components"]
            .as_array()
            .unwrap()
            .iter()
            .chain([&bill["metadata"]["component"]])
            .map(|one| one["bom-ref"].as_str().unwrap())
            .collect();
        for one in bill["dependencies"].as_array().unwrap() {
            assert!(listed.contains(one["ref"].as_str().unwrap()), "{one}");
            for used in one["dependsOn"].as_array().unwrap() {
                assert!(listed.contains(used.as_str().unwrap()), "{used}");
            }
        }
    }

    #[test]
    fn the_serial_number_is_a_uuid_that_follows_from_the_program() {
        let (one, other) = (bill_of(Some(&built())), bill_of(Some(&built())));
        assert_eq!(one, other);
        let serial = one["serialNumber"].as_str().unwrap();
        assert_eq!((serial.len(), &serial[23..24]), (45, "8"), "{serial}");
    }

    #[test]
    fn a_program_that_was_not_compiled_has_no_bill() {
        let checksums = BTreeMap::new();
        let error = bill(
            &found(),
            Some(&Compiled::default()),
            &about(&checksums, &[]),
        );
        assert!(error.unwrap_err().to_string().contains("did not compile"));
        let mut other = about(&checksums, &[]);
        other.package = "nobody";
        assert!(bill(&found(), None, &other).is_err());
    }
}
