//! Stock sidecars of CSI: which there are for what is offered, their flags, rights and certificates.
//!
//! Invariant: a sidecar speaks only to the tenant's API and to the driver's socket, with a certificate of
//! its own.

use api::storage::Offer;
use kit_objects::object::Object;
use pki::Want;

use crate::addons::adapter::{self, Right};
use crate::addons::csi::rules::{READ, SNAPSHOTS, STORAGE};
use crate::settings::Settings;

/// Without it the snapshot-controller looks for kinds that are not there for half a minute first.
const NO_GROUPS: &str = "--feature-gates=CSIVolumeGroupSnapshot=false";
const EVENTS: Right = (
    "",
    "events",
    &["create", "list", "patch", "update", "watch"],
);

/// Namespace of the CSIStorageCapacities, of which the provisioner learns by a variable.
pub(crate) const CAPACITIES: &str = "kube-system";

/// One of the stock sidecars.
#[derive(Debug)]
pub struct Sidecar {
    /// Container, and certificate.
    pub name: &'static str,
    /// Whether it is there for snapshots alone.
    pub of_snapshots: bool,
    /// Flags of its own, besides what all of them are given.
    pub args: &'static [&'static str],
    /// Everywhere.
    rights: &'static [Right],
    /// In [`CAPACITIES`] alone.
    local: &'static [Right],
}

/// Users of all of them.
#[cfg(test)]
pub(crate) fn users() -> impl Iterator<Item = String> {
    SIDECARS.iter().map(Sidecar::user)
}

/// Flags and rights: the sidecars' own `deploy/kubernetes/rbac.yaml`, but for what only a leader's
/// election, pods of a volume in use, owners of capacities or groups of snapshots would need.
const SIDECARS: [Sidecar; 5] = [
    Sidecar {
        name: "csi-provisioner",
        of_snapshots: false,
        // The claim's namespace and name reach the driver, which writes them down for people. Classes
        // without zones have no topology, and nodes need none for them. Its pod is in another cluster,
        // so nothing there can own what it publishes of capacity.
        args: &[
            "--extra-create-metadata=true",
            "--default-fstype=ext4",
            "--immediate-topology=false",
            "--enable-capacity=true",
            "--capacity-ownerref-level=-1",
        ],
        rights: &[
            (
                "",
                "persistentvolumes",
                &["create", "delete", "get", "list", "patch", "watch"],
            ),
            (
                "",
                "persistentvolumeclaims",
                &["get", "list", "update", "watch"],
            ),
            EVENTS,
            (STORAGE, "storageclasses", READ),
            (STORAGE, "volumeattachments", READ),
            (STORAGE, "volumeattributesclasses", &["get"]),
            // Which zones there are: capacity is published for each.
            ("", "nodes", READ),
            (STORAGE, "csinodes", READ),
            (SNAPSHOTS, "volumesnapshotcontents", &["get", "list"]),
            (
                SNAPSHOTS,
                "volumesnapshots",
                &["get", "list", "update", "watch"],
            ),
        ],
        local: &[(
            STORAGE,
            "csistoragecapacities",
            &["create", "delete", "get", "list", "update", "watch"],
        )],
    },
    Sidecar {
        name: "csi-attacher",
        of_snapshots: false,
        // The driver makes one change of what fifty workers ask it for at once.
        args: &["--default-fstype=ext4", "--worker-threads=50"],
        rights: &[
            ("", "persistentvolumes", &["get", "list", "patch", "watch"]),
            (STORAGE, "csinodes", READ),
            (
                STORAGE,
                "volumeattachments",
                &["get", "list", "patch", "watch"],
            ),
            (STORAGE, "volumeattachments/status", &["patch"]),
        ],
        local: &[],
    },
    Sidecar {
        name: "csi-resizer",
        of_snapshots: false,
        // Volumes grow while they are in use, so nobody has to know which are.
        args: &["--handle-volume-inuse-error=false"],
        rights: &[
            ("", "persistentvolumes", &["get", "list", "patch", "watch"]),
            ("", "persistentvolumeclaims", READ),
            ("", "persistentvolumeclaims/status", &["patch"]),
            EVENTS,
            (STORAGE, "volumeattributesclasses", READ),
        ],
        local: &[],
    },
    Sidecar {
        name: "csi-snapshotter",
        of_snapshots: true,
        args: &[NO_GROUPS],
        rights: &[
            EVENTS,
            (SNAPSHOTS, "volumesnapshotclasses", READ),
            (
                SNAPSHOTS,
                "volumesnapshotcontents",
                &["get", "list", "patch", "update", "watch"],
            ),
            (
                SNAPSHOTS,
                "volumesnapshotcontents/status",
                &["patch", "update"],
            ),
        ],
        local: &[],
    },
    Sidecar {
        name: "snapshot-controller",
        of_snapshots: true,
        args: &[NO_GROUPS],
        rights: &[
            ("", "persistentvolumes", READ),
            (
                "",
                "persistentvolumeclaims",
                &["get", "list", "update", "watch"],
            ),
            EVENTS,
            (SNAPSHOTS, "volumesnapshotclasses", READ),
            (
                SNAPSHOTS,
                "volumesnapshotcontents",
                &[
                    "create", "delete", "get", "list", "patch", "update", "watch",
                ],
            ),
            (SNAPSHOTS, "volumesnapshotcontents/status", &["patch"]),
            (
                SNAPSHOTS,
                "volumesnapshots",
                &[
                    "create", "delete", "get", "list", "patch", "update", "watch",
                ],
            ),
            (SNAPSHOTS, "volumesnapshots/status", &["patch", "update"]),
        ],
        local: &[],
    },
];

/// The sidecars that are needed for what is offered.
pub fn sidecars(offer: &Offer) -> impl Iterator<Item = &'static Sidecar> {
    let snapshots = offer.has_snapshots();
    SIDECARS
        .iter()
        .filter(move |sidecar| snapshots || !sidecar.of_snapshots)
}

impl Sidecar {
    /// Its user inside the tenant cluster.
    #[must_use]
    pub fn user(&self) -> String {
        format!("covey-{}", self.name)
    }

    /// Its ClusterRole and ClusterRoleBinding inside the tenant cluster.
    #[must_use]
    pub fn role(&self) -> String {
        format!("covey:{}", self.name)
    }

    /// What its Secret [`super::NAME`] calls its kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        format!("{}.kubeconfig", self.name)
    }
}

/// The sidecars' rights inside the tenant cluster.
#[must_use]
pub fn tenant_objects(offer: &Offer) -> Vec<Object> {
    let rights = |s: &Sidecar| {
        let (role, user) = (s.role(), s.user());
        let everywhere = adapter::tenant_rights(&role, &user, adapter::rules(s.rights));
        let local = match s.local.is_empty() {
            true => None,
            false => {
                let rules = adapter::rules(s.local);
                Some(adapter::kube_system_rights(&role, &user, rules))
            }
        };
        everywhere.into_iter().chain(local.into_iter().flatten())
    };
    sidecars(offer).flat_map(rights).collect()
}

/// The sidecars' client certificates, by the tenant cluster's authority `ca`.
#[must_use]
pub fn certificates(settings: &Settings, offer: &Offer) -> Vec<Want> {
    sidecars(offer)
        .map(|sidecar| adapter::certificate(settings, sidecar.name, &sidecar.user()))
        .collect()
}
