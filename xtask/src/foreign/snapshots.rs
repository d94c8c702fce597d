//! The kinds of snapshots that tenant clusters get: the stock snapshotter's definitions, without
//! descriptions and without versions that are not served.
//!
//! Invariant: where the lab's sidecars have been built, the committed file says the same as they do.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use lab::programs::{self, Program};
use serde_json::{Value, json};

use super::trim::undescribe;
use crate::generated::File;

const FILE: &str = "tenant-cp/src/addons/csi/snapshots.json";
const APPROVED: &str = "api-approved.kubernetes.io";
const KINDS: [&str; 3] = [
    "volumesnapshotclasses",
    "volumesnapshotcontents",
    "volumesnapshots",
];

/// The file as it should be; the committed one where the snapshotter has not been built.
///
/// # Errors
/// When a file cannot be read, or a definition is not as expected.
pub(super) fn file(root: &Path) -> Result<File> {
    let path = Path::new(FILE);
    let text = match programs::find(&[Program::CSI]) {
        Ok(bins) => text(bins.dir(Program::CSI)?)?,
        Err(_) => {
            eprintln!(
                "{FILE} is not compared with the snapshotter, which has not been built here (`cargo \
                 xtask lab up` does)"
            );
            fs::read_to_string(root.join(path)).with_context(|| format!("could not read {FILE}"))?
        }
    };
    Ok(File {
        path: path.to_owned(),
        text,
    })
}

fn text(folder: &Path) -> Result<String> {
    let kinds = KINDS.map(|kind| -> Result<String> {
        let path = folder.join(format!("{kind}.yaml"));
        let text = fs::read_to_string(&path)
            .with_context(|| format!("could not read {}", path.display()))?;
        let definition: Value = serde_saphyr::from_str(&text)
            .with_context(|| format!("{} is no YAML", path.display()))?;
        let trimmed = trim(definition).with_context(|| format!("the definition of {kind}"))?;
        Ok(trimmed.to_string())
    });
    let kinds: Result<Vec<_>> = kinds.into_iter().collect();
    Ok(format!("[\n{}\n]\n", kinds?.join(",\n")))
}

fn trim(mut definition: Value) -> Result<Value> {
    let versions = definition["spec"]["versions"].as_array_mut();
    let versions = versions.context("it has no versions")?;
    versions.retain(|version| version["served"] == true);
    for version in versions {
        let schema = version["schema"]["openAPIV3Schema"].as_object_mut();
        undescribe(schema.context("a version has no schema")?);
    }
    let metadata = &definition["metadata"];
    Ok(json!({
        "apiVersion": definition["apiVersion"], "kind": definition["kind"],
        "metadata": {
            "annotations": { APPROVED: metadata["annotations"][APPROVED] },
            "name": metadata["name"],
        },
        "spec": definition["spec"],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_and_what_is_not_served_go_and_columns_stay() {
        let schema = json!({ "type": "object", "description": "a text" });
        let columns = json!([{ "name": "Driver", "description": "which" }]);
        let definition = json!({
            "apiVersion": "v1", "kind": "K",
            "metadata": { "name": "a.b", "annotations": { APPROVED: "url", "by": "generator" } },
            "spec": { "versions": [
                { "name": "v1", "served": true, "additionalPrinterColumns": columns,
                  "schema": { "openAPIV3Schema": schema } },
                { "name": "v1beta1", "served": false },
            ] },
            "status": {},
        });
        let trimmed = trim(definition).unwrap();
        assert_eq!(
            trimmed["spec"]["versions"],
            json!([{ "name": "v1", "served": true, "additionalPrinterColumns": columns,
                     "schema": { "openAPIV3Schema": { "type": "object" } } }])
        );
        let metadata = json!({ "name": "a.b", "annotations": { APPROVED: "url" } });
        assert_eq!(trimmed["metadata"], metadata);
        assert!(trimmed.get("status").is_none());
    }
}
