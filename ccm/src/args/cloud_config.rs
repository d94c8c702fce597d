//! The configuration file of the KubeVirt CCM (kubevirt/cloud-provider-kubevirt,
//! `pkg/provider/cloud.go`), so that moving over is a change of the image.
//!
//! Invariant: every key of that file is accepted; one that has no effect here is named in the log.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

use crate::names;

/// The file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CloudConfig {
    /// Path of a kubeconfig of the management cluster. Default: the pod's service account.
    pub kubeconfig: Option<String>,
    /// Namespace of virtual machines and mirrors.
    pub namespace: Option<String>,
    /// Further labels of mirrors.
    pub infra_labels: BTreeMap<String, String>,
    /// About Services.
    pub load_balancer: LoadBalancer,
    /// About nodes.
    pub instances_v2: InstancesV2,
}

/// About Services.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancer {
    /// Default: yes.
    pub enabled: bool,
    /// Mirrors have no selector. Default: no.
    pub selectorless: Option<bool>,
    /// The CCM writes EndpointSlices. Default: no.
    #[serde(rename = "enableEPSController")]
    pub enable_eps_controller: Option<bool>,
    /// No effect: nothing polls.
    pub creation_poll_interval: Option<i64>,
    /// No effect: nothing polls.
    pub creation_poll_timeout: Option<i64>,
}

impl Default for LoadBalancer {
    fn default() -> Self {
        Self {
            enabled: true,
            selectorless: None,
            enable_eps_controller: None,
            creation_poll_interval: None,
            creation_poll_timeout: None,
        }
    }
}

/// About nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstancesV2 {
    /// Default: yes.
    pub enabled: bool,
    /// Default: yes.
    pub zone_and_region_enabled: bool,
}

impl Default for InstancesV2 {
    fn default() -> Self {
        Self {
            enabled: true,
            zone_and_region_enabled: true,
        }
    }
}

impl CloudConfig {
    /// Reads and understands the file, and logs what of it has no effect.
    ///
    /// # Errors
    /// When it is not there, or is not that file.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("read {}", path.display()))?;
        let config = Self::parse(&text);
        let config = config.with_context(|| format!("understand {}", path.display()))?;
        for key in config.without_effect() {
            tracing::warn!(key, "{key} in {} has no effect", path.display());
        }
        Ok(config)
    }

    /// Understands the file.
    ///
    /// # Errors
    /// When it is not YAML, or a value has another type.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        Ok(serde_saphyr::from_str(text)?)
    }

    /// Keys that are there and change nothing.
    #[must_use]
    pub fn without_effect(&self) -> Vec<&'static str> {
        let LoadBalancer {
            creation_poll_interval,
            creation_poll_timeout,
            ..
        } = &self.load_balancer;
        [
            (
                "loadBalancer.creationPollInterval",
                creation_poll_interval.is_some(),
            ),
            (
                "loadBalancer.creationPollTimeout",
                creation_poll_timeout.is_some(),
            ),
        ]
        .into_iter()
        .filter_map(|(key, there)| there.then_some(key))
        .collect()
    }

    /// Whether EndpointSlices stand in for the selector.
    #[must_use]
    pub fn has_slices(&self) -> bool {
        let LoadBalancer {
            selectorless,
            enable_eps_controller,
            ..
        } = self.load_balancer;
        selectorless.unwrap_or(false) || enable_eps_controller.unwrap_or(false)
    }

    /// What the KubeVirt CCM selects machines by.
    #[must_use]
    pub fn selector(cluster: &str) -> [(String, String); 2] {
        [
            (names::LEGACY_ROLE, "worker"),
            (names::LEGACY_CLUSTER, cluster),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_theirs_is_understood() {
        let text = "kubeconfig: /etc/cloud/kubeconfig\nnamespace: tenant\ninfraLabels:\n  a: b\n\
                    loadBalancer:\n  enabled: false\n  creationPollInterval: 5\n  \
                    creationPollTimeout: 300\n  selectorless: true\n  enableEPSController: true\n\
                    instancesV2:\n  enabled: true\n  zoneAndRegionEnabled: false\n";
        let config = CloudConfig::parse(text).unwrap();
        assert!(!config.load_balancer.enabled && config.has_slices());
        assert!(config.instances_v2.enabled && !config.instances_v2.zone_and_region_enabled);
        assert_eq!(config.namespace.as_deref(), Some("tenant"));
        let expected = [
            "loadBalancer.creationPollInterval",
            "loadBalancer.creationPollTimeout",
        ];
        assert_eq!(config.without_effect(), expected);
    }

    #[test]
    fn an_empty_file_says_what_theirs_says_by_default() {
        let config = CloudConfig::parse("\n").unwrap();
        assert!(config.load_balancer.enabled && config.instances_v2.enabled);
        assert!(config.instances_v2.zone_and_region_enabled && !config.has_slices());
        assert_eq!(config.without_effect(), Vec::<&str>::new());
    }

    #[test]
    fn what_is_not_that_file_is_refused() {
        assert!(CloudConfig::parse("loadBalancer: 5").is_err());
        assert!(CloudConfig::parse("[a").is_err());
    }
}
