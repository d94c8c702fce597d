//! What was read of a management cluster before Covey is installed in it.

use k8s_openapi::api::core::v1::Node;
use kit_objects::known::Known;

/// What an installation needs and brings nothing of.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// The version of the KubeVirt that runs, as it writes it: `v1.7.0`; empty where it does not say one.
    pub kubevirt: Known<String>,
    /// The nodes.
    pub nodes: Known<Vec<Node>>,
    /// Whether the ranges of Services can be read as objects (Kubernetes 1.33 and newer).
    pub has_service_ranges: Known<bool>,
    /// Whether the caller may do everything, as whoever gives the operator its rights has to.
    pub may_all: Known<bool>,
}
