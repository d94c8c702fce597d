//! What Kubernetes' tests of storage are told of our CSI driver: their file for `--storage.testdriver`.
//!
//! Its words are those of test/e2e/storage/external (driverDefinition) and test/e2e/storage/framework (Capability) of
//! Kubernetes 1.35; a word that it does not know it passes over in silence, so each is here once.
//! Invariant: pure; says nothing that docs/csi.md does not.

use serde_json::{Value, json};

/// The driver.
pub(crate) const NAME: &str = "csi.covey.dev";
/// The StorageClass inside the tenant cluster: that of the lab's class on offer.
const CLASS: &str = "block";
/// What the addon makes where a class has snapshots.
const SNAPSHOT_CLASS: &str = "covey";
/// XFS makes nothing smaller than 300 MiB.
const SMALLEST: &str = "512Mi";
/// Pods start, and go, on emulated processors.
const PATIENCE: &str = "15m";

/// What it can.
const CAPABILITIES: [&str; 14] = [
    "persistence",
    "block",
    "exec",
    "fsGroup",
    "multipods",
    "snapshotDataSource",
    "pvcDataSource",
    "controllerExpansion",
    "nodeExpansion",
    "onlineExpansion",
    "offlineExpansion",
    "readWriteOncePod",
    "multiplePVsSameID",
    "RWXBlockOnly",
];
/// What its tests ask about and it has not, or the lab cannot show, and why; docs/conformance.md has the same.
const WITHOUT: [(&str, &str); 8] = [
    ("RWX", "a filesystem is mounted on one node (docs/csi.md)"),
    (
        "capReadOnlyMany",
        "a filesystem is mounted on one node, read-only as well",
    ),
    (
        "volumeLimits",
        "a machine takes 64 volumes, and the test fills one",
    ),
    ("singleNodeVolume", "volumes move from node to node"),
    ("topology", "the lab is one zone"),
    (
        "capacity",
        "what is published follows quotas, and the lab's tenants have none",
    ),
    (
        "FSResizeFromSourceNotSupported",
        "filesystems of copies are grown",
    ),
    ("volumeGroupSnapshot", "snapshots are of one volume each"),
];

/// The file, which is YAML since it is JSON.
pub(crate) fn definition() -> Value {
    let capability = |value: bool| move |name: &str| (name.to_owned(), Value::Bool(value));
    let has = CAPABILITIES.iter().copied().map(capability(true));
    let has_not = WITHOUT.iter().map(|(name, _)| *name);
    let capabilities: serde_json::Map<_, _> = has.chain(has_not.map(capability(false))).collect();
    json!({
        "StorageClass": { "FromExistingClassName": CLASS },
        "SnapshotClass": { "FromExistingClassName": SNAPSHOT_CLASS },
        "DriverInfo": {
            "Name": NAME,
            "SupportedSizeRange": { "Min": SMALLEST },
            // The empty one is the driver's default.
            "SupportedFsType": { "": {}, "ext4": {}, "xfs": {} },
            "Capabilities": capabilities,
        },
        "Timeouts": { "PodStart": PATIENCE, "PodStartSlow": PATIENCE, "PodDelete": PATIENCE },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_says_what_it_can_and_what_it_cannot_once_each() {
        let definition = definition();
        let capabilities = definition["DriverInfo"]["Capabilities"]
            .as_object()
            .unwrap();
        assert_eq!(capabilities.len(), CAPABILITIES.len() + WITHOUT.len());
        assert_eq!(capabilities["snapshotDataSource"], true);
        // Two nodes that mount one filesystem would destroy it.
        assert_eq!(capabilities["RWX"], false);
        assert!(WITHOUT.iter().all(|(_, why)| !why.is_empty()));
    }

    #[test]
    fn classes_are_those_that_a_user_finds() {
        let definition = definition();
        assert_eq!(definition["StorageClass"]["FromExistingClassName"], "block");
        assert_eq!(
            definition["SnapshotClass"]["FromExistingClassName"],
            "covey"
        );
        assert_eq!(definition["DriverInfo"]["Name"], "csi.covey.dev");
    }
}
