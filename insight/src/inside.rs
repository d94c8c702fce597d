//! What was read inside a tenant cluster, and texts of its API made into facts.
//!
//! Invariant: pure; what cannot be read in a text is no part of what it says.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolumeClaim, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment};
use kit_objects::known::Known;

/// What was read inside a tenant cluster.
#[derive(Clone, Debug, Default)]
pub struct Inside {
    /// Its nodes.
    pub nodes: Known<Vec<Node>>,
    /// Its Services.
    pub services: Known<Vec<Service>>,
    /// Where they lead to.
    pub slices: Known<Vec<EndpointSlice>>,
    /// Its claims.
    pub claims: Known<Vec<PersistentVolumeClaim>>,
    /// Its StorageClasses.
    pub classes: Known<Vec<StorageClass>>,
    /// Volumes at nodes.
    pub attachments: Known<Vec<VolumeAttachment>>,
    /// Webhooks that judge.
    pub validating: Known<Vec<ValidatingWebhookConfiguration>>,
    /// Webhooks that change.
    pub mutating: Known<Vec<MutatingWebhookConfiguration>>,
    /// Events of type Warning.
    pub warnings: Known<Vec<Event>>,
    /// Parts of the API server that are not ready, by `/readyz?verbose`.
    pub not_ready: Known<Vec<String>>,
    /// APIs that somebody called since the API server started, and that a later version does not serve.
    pub removed: Known<Vec<RemovedApi>>,
}

/// An API that goes with a version.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct RemovedApi {
    /// `flowschemas.v1beta3.flowcontrol.apiserver.k8s.io`.
    pub name: String,
    /// The minor that does not serve it any more: 1 and 32 of `1.32`.
    pub removed_in: (u32, u32),
}

/// The parts of `/readyz?verbose` that are not ready: `[-]etcd failed: reason withheld`.
#[must_use]
pub fn failing_parts(readyz: &str) -> Vec<String> {
    let lines = readyz.lines().filter_map(|line| line.strip_prefix("[-]"));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

/// What `apiserver_requested_deprecated_apis` says (Prometheus' text format), without what goes in no version that is
/// known.
#[must_use]
pub fn removed_apis(metrics: &str) -> Vec<RemovedApi> {
    let lines = metrics.lines().filter_map(|line| {
        let rest = line.strip_prefix("apiserver_requested_deprecated_apis{")?;
        let (labels, value) = rest.rsplit_once('}')?;
        let is_called = value.trim().parse::<f64>().is_ok_and(|value| value > 0.0);
        is_called.then_some(labels)
    });
    let mut found: Vec<_> = lines.filter_map(removed_api).collect();
    found.sort();
    found.dedup();
    found
}

fn removed_api(labels: &str) -> Option<RemovedApi> {
    // Values are names of APIs: there is nothing to be unescaped in one.
    let label = |wanted: &str| {
        let mut pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(name, _)| name.trim() == wanted)?;
        Some(value.trim_matches('"'))
    };
    let (major, minor) = label("removed_release")?.split_once('.')?;
    let removed_in = (major.parse().ok()?, minor.parse().ok()?);
    let parts = [
        label("resource")?,
        label("version")?,
        label("group").unwrap_or_default(),
    ];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    Some(RemovedApi {
        name: parts.collect::<Vec<_>>().join("."),
        removed_in,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parts_that_fail_are_named() {
        let text = "[+]ping ok\n[-]etcd failed: reason withheld\n[+]log ok\n[-]poststarthook/rbac/bootstrap-roles failed\nreadyz check failed\n";
        assert_eq!(
            failing_parts(text),
            ["etcd", "poststarthook/rbac/bootstrap-roles"]
        );
        assert_eq!(failing_parts("ok"), [""; 0]);
    }

    #[test]
    fn apis_that_go_are_read_and_what_stays_is_left_out() {
        let text = r#"# HELP apiserver_requested_deprecated_apis [STABLE] Gauge
apiserver_requested_deprecated_apis{group="flowcontrol.apiserver.k8s.io",removed_release="1.32",resource="flowschemas",subresource="",version="v1beta3"} 1
apiserver_requested_deprecated_apis{group="flowcontrol.apiserver.k8s.io",removed_release="1.32",resource="flowschemas",subresource="status",version="v1beta3"} 1
apiserver_requested_deprecated_apis{group="",removed_release="",resource="componentstatuses",subresource="",version="v1"} 1
apiserver_requested_deprecated_apis{group="batch",removed_release="1.25",resource="cronjobs",subresource="",version="v1beta1"} 0
apiserver_request_total{code="200"} 7
"#;
        let expected = RemovedApi {
            name: "flowschemas.v1beta3.flowcontrol.apiserver.k8s.io".to_owned(),
            removed_in: (1, 32),
        };
        assert_eq!(removed_apis(text), [expected]);
    }
}
