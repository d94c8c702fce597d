//! Deployment `csi`: our driver and the stock sidecars in one pod of the tenant namespace.
//!
//! Invariant: only the driver speaks to the management API, and only the sidecars to the tenant's, each
//! with a certificate that no other container sees. One pod at a time: nobody has to be elected, and
//! claims are written with the version that was read all the same.

use std::collections::BTreeMap;

use api::storage::Offer;
use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy},
    core::v1::{
        ConfigMapProjection, Container, DownwardAPIProjection, DownwardAPIVolumeFile, EnvVar,
        KeyToPath, ObjectFieldSelector, PodSpec, PodTemplateSpec, ProjectedVolumeSource,
        SecretVolumeSource, ServiceAccountTokenProjection, Volume, VolumeProjection,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kit_objects::object::{self, Object};
use pki::Store;
use serde_json::json;

use crate::addons::adapter::{self, ADMIN_PORT};
use crate::addons::csi::names::NAME;
use crate::addons::csi::sidecars::{CAPACITIES, Sidecar, sidecars};
use crate::desired::pod;
use crate::generations::{bundle, later_signer};
use crate::meta::{labels, meta, selector};
use crate::names;
use crate::settings::Settings;
use crate::validate::validated::Validated;

/// Annotation of the pod: hash of the authority that the sidecars start with.
const ANNOTATION_AUTHORITY: &str = "covey.dev/authority-hash";
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

/// The sidecars' own 5 requests a second are four to a volume: fifty pods that start together would
/// wait for that alone.
const REQUESTS: [&str; 2] = ["--kube-api-qps=50", "--kube-api-burst=100"];

/// The Deployment. `store` is what its Secret holds.
pub(crate) fn deployment(
    v: &Validated,
    settings: &Settings,
    offer: &Offer,
    store: &Store,
) -> Object {
    let mut containers = vec![driver(v, settings, offer)];
    containers.extend(sidecars(offer).map(|sidecar| container(settings, sidecar)));
    let mut volumes = vec![pod::empty_dir(SOCKET, "1Mi"), account()];
    volumes.extend(sidecars(offer).map(secret_volume));
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels(v, NAME)),
            annotations: Some(BTreeMap::from([(
                ANNOTATION_AUTHORITY.to_owned(),
                read_at_start(store),
            )])),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            containers,
            volumes: Some(volumes),
            ..pod::lone(NAME, &v.scheduling)
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

/// Hash of what sidecars start with. Their pairs they read again when they change, whom they believe they do not
/// (client-go). Nobody can see when they do, so it is a rollout where their signer is another one than the first.
fn read_at_start(store: &Store) -> String {
    let trusted = bundle(store, names::CA);
    match later_signer(store, "csi-provisioner", names::CLIENT_CA) {
        Some(signer) => object::hash(&json!([trusted, signer])),
        None => object::hash(&json!(trusted)),
    }
}

fn driver(v: &Validated, settings: &Settings, offer: &Offer) -> Container {
    let images = &settings.images;
    Container {
        name: NAME.to_owned(),
        image: Some(pod::own_image(settings, &images.csi_registry, &images.csi)),
        args: Some(vec![
            "controller".to_owned(),
            format!("--namespace={}", v.tenant_namespace),
            format!("--cluster-uid={}", v.identity.uid),
            format!("--socket={SOCKET_DIR}/csi.sock"),
            format!("--offer={}", json!(offer)),
            format!("--admin-address=0.0.0.0:{ADMIN_PORT}"),
        ]),
        ports: Some(vec![adapter::admin_port()]),
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

fn container(settings: &Settings, sidecar: &Sidecar) -> Container {
    let mut args = vec![format!("--kubeconfig={}/kubeconfig", names::SECRET_DIR)];
    let mut mounts = vec![pod::mount(sidecar.name, names::SECRET_DIR, true)];
    // This one speaks to the tenant's API alone.
    if sidecar.name != "snapshot-controller" {
        args.push(format!("--csi-address={SOCKET_DIR}/csi.sock"));
        let timeouts: &[&str] = match sidecar.name {
            "csi-resizer" => &["resize-timeout", "modify-timeout"],
            _ => &["timeout"],
        };
        args.extend(timeouts.iter().map(|name| format!("--{name}={PATIENCE}")));
        mounts.push(pod::mount(SOCKET, SOCKET_DIR, false));
    }
    args.extend(
        REQUESTS
            .iter()
            .chain(sidecar.args)
            .map(|&arg| arg.to_owned()),
    );
    let limits = BTreeMap::new();
    let mut env = pod::go_threads(&limits).unwrap_or_default();
    if sidecar.name == "csi-provisioner" {
        env.push(EnvVar {
            name: "NAMESPACE".to_owned(),
            value: Some(CAPACITIES.to_owned()),
            ..EnvVar::default()
        });
    }
    Container {
        name: sidecar.name.to_owned(),
        image: Some(pod::trusted_image(
            settings,
            settings.images.sidecar(sidecar.name),
        )),
        args: Some(args),
        env: Some(env),
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

/// What one sidecar sees of the Secret: its own pair, the authority and its kubeconfig.
fn secret_volume(sidecar: &Sidecar) -> Volume {
    let item = |key: String, path: &str| KeyToPath {
        key,
        path: path.to_owned(),
        mode: None,
    };
    let same = |key: String| item(key.clone(), &key);
    Volume {
        name: sidecar.name.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(NAME.to_owned()),
            default_mode: Some(0o440),
            items: Some(vec![
                same("ca.crt".to_owned()),
                same(format!("{}.crt", sidecar.name)),
                same(format!("{}.key", sidecar.name)),
                item(sidecar.kubeconfig(), "kubeconfig"),
            ]),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}
