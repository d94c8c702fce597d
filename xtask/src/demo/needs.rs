//! What the lab has to have for the objects of an example.
//!
//! Invariant: nothing that the objects do not ask for: whatever is needed is built first, and a build
//! takes minutes.

use anyhow::{Context as _, Result, bail};
use lab::{Adapter, programs::KubernetesVersion};
use serde_json::Value;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Needs {
    /// Of control planes and nodes; each once.
    pub(super) versions: Vec<KubernetesVersion>,
    /// What addons that are on have in clusters; each once.
    pub(super) adapters: Vec<Adapter>,
}

/// The addons that have an adapter; all of them are off unless they are switched on.
const ADDONS: [(&str, Adapter); 4] = [
    ("cloudController", Adapter::CloudController),
    ("csi", Adapter::Csi),
    ("autoscaler", Adapter::Autoscaler),
    ("overlay", Adapter::Overlay),
];

impl Needs {
    /// Of the objects in `yaml`, any number of documents.
    pub(super) fn of(yaml: &str) -> Result<Self> {
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(yaml).context("the example is not valid YAML")?;
        let (mut versions, mut adapters) = (Vec::new(), Vec::new());
        for object in &objects {
            let spec = &object["spec"];
            let named = match object["kind"].as_str() {
                Some("TenantCluster") => {
                    let version = spec["version"].as_str();
                    Some(version.context("a TenantCluster of the example has no version")?)
                }
                // By default that of its TenantCluster.
                Some("NodePool") => spec["version"].as_str(),
                _ => None,
            };
            if let Some(version) = named {
                versions.push(version.parse()?);
            }
            for (addon, adapter) in ADDONS {
                if spec["addons"][addon]["enabled"] == true {
                    adapters.push(adapter);
                }
            }
        }
        if versions.is_empty() {
            bail!("the example has no TenantCluster")
        }
        versions.sort_unstable();
        versions.dedup();
        adapters.sort_unstable();
        adapters.dedup();
        Ok(Self { versions, adapters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(yaml: &str) -> Needs {
        Needs::of(yaml).unwrap()
    }

    #[test]
    fn the_example_needs_one_version_and_no_adapter() {
        let example = include_str!("../../../deploy/examples/demo.yaml");
        let expected = Needs {
            versions: vec![KubernetesVersion::V1_35],
            adapters: Vec::new(),
        };
        assert_eq!(needs(example), expected);
    }

    #[test]
    fn addons_that_are_on_need_their_adapters_and_others_do_not() {
        let found = needs(
            "kind: TenantCluster\nspec: {version: 1.36.3, addons: {csi: {enabled: true}, \
             autoscaler: {enabled: true}, cloudController: {enabled: false}}}\n---\n\
             kind: TenantCluster\nspec: {version: 1.36.3, addons: {csi: {enabled: true}}}\n",
        );
        assert_eq!(found.versions, [KubernetesVersion::V1_36]);
        assert_eq!(found.adapters, [Adapter::Csi, Adapter::Autoscaler]);
    }

    #[test]
    fn a_pool_of_another_version_needs_that_version_too() {
        let found = needs(
            "kind: TenantCluster\nspec: {version: 1.36.3}\n---\n\
             kind: NodePool\nspec: {version: 1.35.4}\n",
        );
        assert_eq!(
            found.versions,
            [KubernetesVersion::V1_35, KubernetesVersion::V1_36]
        );
    }

    #[test]
    fn what_cannot_be_had_is_said() {
        for (yaml, expected) in [
            ("kind: NodePool\nspec: {}\n", "no TenantCluster"),
            ("kind: TenantCluster\nspec: {}\n", "no version"),
            (
                "kind: TenantCluster\nspec: {version: 1.30.0}\n",
                "no Kubernetes \"1.30.0\"",
            ),
        ] {
            let error = Needs::of(yaml).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
