//! Feature gates and API versions that a tenant cluster may switch, by the minors (of 1.x) that have them.
//!
//! A program that is told of a gate that it does not have, that is locked, or whose own needs are off, does
//! not start (component-base `featuregate`, `Validate`); so does a kube-apiserver for an API group that it
//! does not have. What is here concerns workloads and APIs. What concerns whom a kube-apiserver believes, how
//! it reaches others, how it shares its time or how it writes to etcd is left out, and so are gates that
//! others need which are on already.
//! Invariant: every entry has been read; each can be switched on and off in each of its minors, alone but for
//! what it needs.

use std::collections::BTreeMap;

/// What may be switched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Switch {
    /// Name of the gate, or group and version of the API.
    pub name: &'static str,
    /// The first minor that has it, of those that are supported.
    pub since: u64,
    /// The last one, of those that are supported.
    pub until: u64,
    /// Another gate that has to be on where this one is.
    pub needs: Option<&'static str>,
}

impl Switch {
    /// Whether a minor has it.
    #[must_use]
    pub fn is_in(&self, minor: u64) -> bool {
        (self.since..=self.until).contains(&minor)
    }
}

const fn switch(name: &'static str, since: u64, until: u64) -> Switch {
    Switch {
        name,
        since,
        until,
        needs: None,
    }
}

const fn needing(needs: &'static str, switch: Switch) -> Switch {
    Switch {
        needs: Some(needs),
        ..switch
    }
}

/// Gates that all programs of a control plane and the kubelet know
/// (`pkg/features/kube_features.go` and `apiserver/pkg/features/kube_features.go`, 1.35.4 and 1.36.3).
pub const FEATURE_GATES: &[Switch] = &[
    switch("ClusterTrustBundle", 34, 36),
    needing(
        "ClusterTrustBundle",
        switch("ClusterTrustBundleProjection", 34, 36),
    ),
    switch("DRAConsumableCapacity", 34, 36),
    switch("DRADeviceTaints", 34, 36),
    switch("DRAExtendedResource", 34, 36),
    switch("DRAPartitionableDevices", 34, 36),
    switch("DeploymentReplicaSetTerminatingReplicas", 34, 36),
    switch("EnvFiles", 34, 36),
    needing("GenericWorkload", switch("GangScheduling", 35, 36)),
    switch("GenericWorkload", 35, 36),
    switch("HPAConfigurableTolerance", 34, 36),
    switch("HPAScaleToZero", 34, 36),
    switch("HostnameOverride", 34, 36),
    // Locked in 1.36.
    switch("ImageVolume", 34, 35),
    switch("MaxUnavailableStatefulSet", 34, 36),
    switch("MutablePodResourcesForSuspendedJobs", 35, 36),
    // Finished in 1.36.
    switch("MutatingAdmissionPolicy", 34, 35),
    switch("PodCertificateRequest", 34, 36),
    switch("PodTopologyLabelsAdmission", 34, 36),
    switch("RelaxedServiceNameValidation", 34, 36),
    switch("SELinuxMount", 34, 36),
    switch("StorageVersionMigrator", 34, 36),
    switch("TaintTolerationComparisonOperators", 35, 36),
];

/// API versions that are off by default, and that nothing of Covey's uses (`k8s.io/api` of the minors).
pub const API_VERSIONS: &[Switch] = &[
    switch("admissionregistration.k8s.io/v1beta1", 34, 36),
    switch("certificates.k8s.io/v1alpha1", 34, 36),
    switch("certificates.k8s.io/v1beta1", 34, 36),
    switch("networking.k8s.io/v1beta1", 34, 36),
    switch("resource.k8s.io/v1alpha3", 34, 36),
    switch("resource.k8s.io/v1beta1", 34, 36),
    switch("resource.k8s.io/v1beta2", 34, 36),
    switch("scheduling.k8s.io/v1alpha1", 35, 35),
    switch("scheduling.k8s.io/v1alpha2", 36, 36),
    switch("storage.k8s.io/v1beta1", 34, 36),
    switch("storagemigration.k8s.io/v1alpha1", 34, 34),
    switch("storagemigration.k8s.io/v1beta1", 35, 36),
];

/// The entry of a list with this name.
#[must_use]
pub fn find(list: &'static [Switch], name: &str) -> Option<&'static Switch> {
    list.iter().find(|switch| switch.name == name)
}

/// Of the gates of a tenant cluster those that a minor has: a node may be older than its control plane.
#[must_use]
pub fn known_to(minor: u64, gates: &BTreeMap<String, bool>) -> BTreeMap<String, bool> {
    let known = |name: &str| find(FEATURE_GATES, name).is_some_and(|gate| gate.is_in(minor));
    let gates = gates.iter().filter(|(name, _)| known(name));
    gates.map(|(name, on)| (name.clone(), *on)).collect()
}

/// Of the API versions of a tenant cluster those that a minor has.
#[must_use]
pub fn served_by(minor: u64, apis: &BTreeMap<String, bool>) -> BTreeMap<String, bool> {
    let known = |name: &str| find(API_VERSIONS, name).is_some_and(|api| api.is_in(minor));
    let apis = apis.iter().filter(|(name, _)| known(name));
    apis.map(|(name, on)| (name.clone(), *on)).collect()
}

/// The flag with these values; none where there are none.
pub(crate) fn flag(
    name: &'static str,
    values: &BTreeMap<String, bool>,
) -> Option<(&'static str, String)> {
    let values: Vec<String> = values
        .iter()
        .map(|(name, on)| format!("{name}={on}"))
        .collect();
    (!values.is_empty()).then(|| (name, values.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_and_what_is_needed_is_there_as_long() {
        for list in [FEATURE_GATES, API_VERSIONS] {
            assert!(list.is_sorted_by(|a, b| a.name < b.name), "{list:?}");
            for switch in list {
                assert!(switch.since <= switch.until, "{switch:?}");
                let Some(needs) = switch.needs else { continue };
                let needed = find(list, needs).unwrap();
                assert!(needed.since <= switch.since && needed.until >= switch.until);
            }
        }
    }

    #[test]
    fn kubelet_is_told_of_what_its_minor_has() {
        let gates = BTreeMap::from([
            ("EnvFiles".to_owned(), false),
            ("GenericWorkload".to_owned(), true),
            ("Nonsense".to_owned(), true),
        ]);
        let old = known_to(34, &gates);
        assert_eq!(old, BTreeMap::from([("EnvFiles".to_owned(), false)]));
        assert_eq!(known_to(35, &gates).len(), 2);
    }
}
