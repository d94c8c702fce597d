//! What the addon `csi` consists of in the tenant namespace: the Deployment `csi` with our driver and
//! the stock sidecars, the driver's rights there, and the sidecars' client certificates. What of it
//! is inside the tenant cluster: `addons/csi.rs`.
//!
//! The rules are data, here, so that whoever lays them and whoever needs them agree: crate
//! `csi-proxy` compares them with what its code declares.
//! Invariant: only the driver speaks to the management API, and only the sidecars to the tenant's,
//! each with a certificate of its own that no other container sees. One pod at a time: nobody has to
//! be elected, and claims are written with the version that was read all the same.

use std::collections::BTreeMap;

use api::storage::{Hotplug, Offer};
use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy},
    core::v1::{
        ConfigMapProjection, Container, DownwardAPIProjection, DownwardAPIVolumeFile, KeyToPath,
        ObjectFieldSelector, PodSpec, PodTemplateSpec, ProjectedVolumeSource, SecretVolumeSource,
        ServiceAccountTokenProjection, Volume, VolumeProjection,
    },
    rbac::v1::PolicyRule,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use pki::Want;
use serde_json::json;

use super::{
    between::{self, Right},
    labels, meta, names, pod, selector,
};
use crate::{Object, Settings, Validated, object::Key};

/// Deployment, ServiceAccount, RoleBinding, NetworkPolicy, Secret and component label.
pub const NAME: &str = "csi";
/// ClusterRole of the chart with [`rules_outside`], bound in tenant namespaces (docs/adr/0001).
pub const CLUSTER_ROLE: &str = "covey-csi";
/// Name of the driver: its CSIDriver, and the provisioner of its StorageClasses.
pub const DRIVER: &str = "csi.covey.dev";
/// Port for probes and metrics.
const ADMIN_PORT: i32 = 8080;
/// Where the driver and the sidecars meet.
const SOCKET_DIR: &str = "/run/csi";
/// Where a program finds the account that its pod runs as (client-go, kube).
const ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Volumes of the pod.
const SOCKET: &str = "socket";
const ACCOUNT: &str = "account";
/// How long a sidecar waits for an answer: longer than the driver takes to say "not yet".
const PATIENCE: &str = "30s";
/// Seconds that a token of the account lasts, as Kubernetes itself mounts it.
const TOKEN_SECONDS: i64 = 3607;

/// Without it the snapshot-controller looks for kinds that are not there for half a minute first.
const NO_GROUPS: &str = "--feature-gates=CSIVolumeGroupSnapshot=false";
/// The sidecars' own 5 requests a second are four to a volume: fifty pods that start together would
/// wait for that alone.
const REQUESTS: [&str; 2] = ["--kube-api-qps=50", "--kube-api-burst=100"];

const READ: &[&str] = &["get", "list", "watch"];
const EVENTS: Right = (
    "",
    "events",
    &["create", "list", "patch", "update", "watch"],
);
const STORAGE: &str = "storage.k8s.io";
const SNAPSHOTS: &str = "snapshot.storage.k8s.io";

/// In the tenant namespace, whatever is offered.
const OUTSIDE: &[Right] = &[
    (
        "",
        "persistentvolumeclaims",
        &["create", "delete", "get", "list", "patch", "watch"],
    ),
    ("", "events", &["list"]),
    ("", "resourcequotas", &["list"]),
    ("kubevirt.io", "virtualmachineinstances", READ),
    ("kubevirt.io", "virtualmachines", READ),
    (
        SNAPSHOTS,
        "volumesnapshots",
        &["create", "delete", "get", "list", "watch"],
    ),
];
const SUBRESOURCES: &[Right] = &[
    (
        "subresources.kubevirt.io",
        "virtualmachines/addvolume",
        &["update"],
    ),
    (
        "subresources.kubevirt.io",
        "virtualmachines/removevolume",
        &["update"],
    ),
];
const DECLARATIVE: &[Right] = &[("kubevirt.io", "virtualmachines", &["patch"])];

/// Inside, where there is topology: the half on nodes reads its own, and the provisioner all.
const ON_NODES: &[Right] = &[("", "nodes", &["get"])];
const TOPOLOGY: &[Right] = &[("", "nodes", READ), (STORAGE, "csinodes", READ)];

/// What the half on nodes may do inside the tenant cluster, where there is topology.
#[must_use]
pub fn rules_on_nodes() -> Vec<PolicyRule> {
    between::rules(ON_NODES)
}

/// What the driver may do in the tenant namespace.
#[must_use]
pub fn rules_outside(hotplug: Hotplug) -> Vec<PolicyRule> {
    let more = match hotplug {
        Hotplug::Subresources => SUBRESOURCES,
        Hotplug::Declarative => DECLARATIVE,
    };
    between::rules(&[OUTSIDE, more].concat())
}

/// One of the stock sidecars.
#[derive(Debug)]
pub struct Sidecar {
    /// Container, and certificate.
    pub name: &'static str,
    /// Whether it is there for snapshots alone.
    pub of_snapshots: bool,
    args: &'static [&'static str],
    rights: &'static [Right],
}

/// Flags and rights: the sidecars' own `deploy/kubernetes/rbac.yaml`, but for what only a leader's
/// election, capacity, pods of a volume in use or groups of snapshots would need.
const SIDECARS: [Sidecar; 5] = [
    Sidecar {
        name: "csi-provisioner",
        of_snapshots: false,
        // The claim's namespace and name reach the driver, which writes them down for people. Classes
        // without zones have no topology, and nodes need none for them.
        args: &[
            "--extra-create-metadata=true",
            "--default-fstype=ext4",
            "--immediate-topology=false",
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
            (SNAPSHOTS, "volumesnapshotcontents", &["get", "list"]),
            (
                SNAPSHOTS,
                "volumesnapshots",
                &["get", "list", "update", "watch"],
            ),
        ],
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

    /// What its Secret [`NAME`] calls its kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        format!("{}.kubeconfig", self.name)
    }

    fn volume(&self) -> Volume {
        let item = |key: String, path: &str| KeyToPath {
            key,
            path: path.to_owned(),
            mode: None,
        };
        let same = |key: String| item(key.clone(), &key);
        Volume {
            name: self.name.to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(NAME.to_owned()),
                default_mode: Some(0o440),
                items: Some(vec![
                    same("ca.crt".to_owned()),
                    same(format!("{}.crt", self.name)),
                    same(format!("{}.key", self.name)),
                    item(self.kubeconfig(), "kubeconfig"),
                ]),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        }
    }
}

/// The sidecars' rights inside the tenant cluster.
#[must_use]
pub fn inside(offer: &Offer) -> Vec<Object> {
    let rights = |s: &Sidecar| {
        let mut rights = s.rights.to_vec();
        if s.name == "csi-provisioner" && offer.has_zones() {
            rights.extend(TOPOLOGY);
        }
        between::inside(&s.role(), &s.user(), between::rules(&rights))
    };
    sidecars(offer).flat_map(rights).collect()
}

/// The sidecars' client certificates, by the tenant cluster's authority `ca`.
#[must_use]
pub fn certificates(settings: &Settings, offer: &Offer) -> Vec<Want> {
    sidecars(offer)
        .map(|sidecar| between::certificate(settings, sidecar.name, &sidecar.user()))
        .collect()
}

/// Everything in the tenant namespace by name, in the order in which it has to go, the Secret last:
/// whoever lists the namespace sees by it that something is left. Volumes are not among it.
#[must_use]
pub fn parts(tenant_namespace: &str) -> Vec<Key> {
    [
        "Deployment",
        "RoleBinding",
        "NetworkPolicy",
        "ServiceAccount",
        "Secret",
    ]
    .map(|kind| Key::new(kind, tenant_namespace, NAME))
    .into()
}

/// Account, rights and NetworkPolicy in the tenant namespace.
pub(super) fn base(v: &Validated) -> Vec<Object> {
    let mut objects = Vec::from(between::account(v, NAME, CLUSTER_ROLE));
    objects.push(between::both_apis(v, NAME));
    objects
}

/// The Deployment.
pub(super) fn deployment(v: &Validated, settings: &Settings, offer: &Offer) -> Object {
    let mut containers = vec![driver(v, settings, offer)];
    containers.extend(sidecars(offer).map(|sidecar| container(v, settings, sidecar)));
    let mut volumes = vec![pod::empty_dir(SOCKET, "1Mi"), account()];
    volumes.extend(sidecars(offer).map(Sidecar::volume));
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels(v, NAME)),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            containers,
            volumes: Some(volumes),
            ..pod::spec(NAME)
        }),
    };
    Object::new(&Deployment {
        metadata: meta(v, NAME, NAME),
        spec: Some(DeploymentSpec {
            replicas: Some(1),
            revision_history_limit: Some(2),
            selector: LabelSelector {
                match_labels: Some(selector(NAME)),
                ..LabelSelector::default()
            },
            strategy: Some(DeploymentStrategy {
                type_: Some("Recreate".to_owned()),
                rolling_update: None,
            }),
            template,
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    })
}

fn driver(v: &Validated, settings: &Settings, offer: &Offer) -> Container {
    let images = &settings.images;
    Container {
        name: NAME.to_owned(),
        image: Some(pod::other_image(v, &images.csi_registry, &images.csi)),
        args: Some(vec![
            "controller".to_owned(),
            format!("--namespace={}", v.tenant_namespace),
            format!("--cluster-uid={}", v.uid),
            format!("--socket={SOCKET_DIR}/csi.sock"),
            format!("--offer={}", json!(offer)),
            format!("--admin-address=0.0.0.0:{ADMIN_PORT}"),
        ]),
        resources: Some(pod::resources(&settings.resources.csi, &BTreeMap::new())),
        security_context: Some(pod::container_security()),
        liveness_probe: Some(pod::probe("/livez", ADMIN_PORT, "HTTP", 20, 6)),
        readiness_probe: Some(pod::probe("/readyz", ADMIN_PORT, "HTTP", 5, 3)),
        volume_mounts: Some(vec![
            pod::mount(SOCKET, SOCKET_DIR, false),
            pod::mount(ACCOUNT, ACCOUNT_DIR, true),
        ]),
        ..Container::default()
    }
}

fn container(v: &Validated, settings: &Settings, sidecar: &Sidecar) -> Container {
    let mut args = vec![format!("--kubeconfig={}/kubeconfig", names::SECRET_DIR)];
    let mut mounts = vec![pod::mount(sidecar.name, names::SECRET_DIR, true)];
    // This one speaks to the tenant's API alone.
    if sidecar.name != "snapshot-controller" {
        args.push(format!("--csi-address={SOCKET_DIR}/csi.sock"));
        let timeout = match sidecar.name {
            "csi-resizer" => "resize-timeout",
            _ => "timeout",
        };
        args.push(format!("--{timeout}={PATIENCE}"));
        mounts.push(pod::mount(SOCKET, SOCKET_DIR, false));
    }
    args.extend(
        REQUESTS
            .iter()
            .chain(sidecar.args)
            .map(|&arg| arg.to_owned()),
    );
    let limits = BTreeMap::new();
    Container {
        name: sidecar.name.to_owned(),
        image: Some(format!(
            "{}/{}",
            v.registry,
            settings.images.sidecar(sidecar.name)
        )),
        args: Some(args),
        env: pod::go_threads(&limits),
        resources: Some(pod::resources(&settings.resources.csi_sidecar, &limits)),
        security_context: Some(pod::container_security()),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

/// What Kubernetes itself would mount into every container, for one alone.
fn account() -> Volume {
    let token = VolumeProjection {
        service_account_token: Some(ServiceAccountTokenProjection {
            expiration_seconds: Some(TOKEN_SECONDS),
            path: "token".to_owned(),
            ..ServiceAccountTokenProjection::default()
        }),
        ..VolumeProjection::default()
    };
    let authority = VolumeProjection {
        config_map: Some(ConfigMapProjection {
            name: "kube-root-ca.crt".to_owned(),
            items: Some(vec![KeyToPath {
                key: "ca.crt".to_owned(),
                path: "ca.crt".to_owned(),
                mode: None,
            }]),
            ..ConfigMapProjection::default()
        }),
        ..VolumeProjection::default()
    };
    let namespace = VolumeProjection {
        downward_api: Some(DownwardAPIProjection {
            items: Some(vec![DownwardAPIVolumeFile {
                path: "namespace".to_owned(),
                field_ref: Some(ObjectFieldSelector {
                    api_version: Some("v1".to_owned()),
                    field_path: "metadata.namespace".to_owned(),
                }),
                ..DownwardAPIVolumeFile::default()
            }]),
        }),
        ..VolumeProjection::default()
    };
    Volume {
        name: ACCOUNT.to_owned(),
        projected: Some(ProjectedVolumeSource {
            default_mode: Some(0o440),
            sources: Some(vec![token, authority, namespace]),
        }),
        ..Volume::default()
    }
}
