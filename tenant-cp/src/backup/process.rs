//! The process that backs a tenant cluster's etcd up, in the tenant namespace: `etcd-agent backup run`, with its own
//! client certificate, no token, and a way to etcd and to the target alone.
//!
//! Invariant: one pod, which is gone before another one comes; its name is in nobody's selector but its own.

use std::collections::BTreeMap;

use api::BackupTarget;
use api::tenant_cluster::Backup;
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, PersistentVolumeClaim, PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource, PodSpec, PodTemplateSpec, ResourceRequirements, Secret,
    ServiceAccount, Volume, VolumeMount, VolumeResourceRequirements,
};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
    NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kit_objects::object::{self, Object};
use pki::{KeyPair, Want};
use serde_json::json;

use super::place::{self, CLAIM, Place};
use crate::amounts::{Amounts, Resource};
use crate::desired::pod;
use crate::meta::{meta, pod_meta, selector};
use crate::names;
use crate::settings::Settings;
use crate::validate::quantity::nanos;
use crate::validate::validated::Validated;

/// Deployment, ServiceAccount, claim, NetworkPolicy and component label.
pub const BACKUP: &str = "backup";
/// Component label of what tests a restore: it reads the same target, and etcd.
pub const RESTORE_TEST: &str = "restore-test";
/// NetworkPolicy that lets it in to etcd.
pub const TO_ETCD: &str = "backup-to-etcd";
/// Secret with `data-key` and `wrapped-key`.
pub const KEYS: &str = "backup-keys";
/// Secret with the client certificate for etcd: `ca.crt`, `tls.crt`, `tls.key`.
pub const CERTIFICATE: &str = "backup-etcd-client";
/// Secret with the tenant cluster's identity, sealed for the recovery key: who copies it cannot read it.
pub const IDENTITY: &str = "backup-identity";
/// Its field.
pub const IDENTITY_FIELD: &str = "identity";
/// Annotation of [`IDENTITY`]: hash of the authorities and keys in it, and of whom it is sealed for.
pub const ANNOTATION_IDENTITY_KEYS: &str = "covey.dev/identity-keys";
/// The same of all that is in it.
pub const ANNOTATION_IDENTITY_WHOLE: &str = "covey.dev/identity-whole";
/// Secret with the bucket's credentials: a copy of the target's.
pub const CREDENTIALS: &str = "backup-bucket";
/// Field of a target's Secret with the key that data keys are wrapped with.
pub const WRAPPING_KEY: &str = "wrapping-key";
/// Fields of a bucket's credentials.
pub const CREDENTIAL_FIELDS: [&str; 2] = ["access-key-id", "secret-access-key"];
/// Port where the process says how far it is. As that of etcd which the operator asks, so that one rule lets it out.
pub const STATUS_PORT: i32 = names::ETCD_HTTP_PORT;
/// Annotation of [`KEYS`]: which wrapping key its wrapped key is for, as a hash.
pub const ANNOTATION_WRAPPED_FOR: &str = "covey.dev/wrapped-for";
/// Annotation of the pods: hash of the Secrets that they read when they start.
pub(super) const ANNOTATION_SECRETS: &str = "covey.dev/secrets-hash";

const REQUESTS: [(&str, &str); 2] = [("cpu", "10m"), ("memory", "64Mi")];
/// It has 4 MiB of events, one delta and one part of a snapshot at most; the rest is room.
const LIMITS: [(&str, &str); 1] = [("memory", "256Mi")];
/// What waits is written before it ends (`LAST_DELTA` of the engine is 20 s).
const GRACE_SECONDS: i64 = 30;

/// What the Secrets hold. It is not printed.
#[derive(Clone, PartialEq)]
pub struct Secrets {
    /// The tenant cluster's data key, 32 bytes.
    pub data_key: Vec<u8>,
    /// That, wrapped for the recovery key.
    pub wrapped_key: Vec<u8>,
    /// Which wrapping key it is wrapped for: a hash.
    pub wrapped_for: String,
    /// The client certificate.
    pub certificate: KeyPair,
    /// Whom it believes: etcd's authority, a bundle.
    pub authority: String,
    /// The bucket's credentials; none for a claim.
    pub credentials: Option<BTreeMap<String, Vec<u8>>>,
    /// The identity; none where none was sealed yet.
    pub identity: Option<Identity>,
}

/// A tenant cluster's identity, sealed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// What only the recovery key opens.
    pub sealed: Vec<u8>,
    /// Hash of the authorities and keys in it, and of whom it is sealed for.
    pub keys: String,
    /// The same of all that is in it.
    pub whole: String,
}

/// The client certificate that the process shows etcd.
#[must_use]
pub fn certificate(settings: &Settings) -> Want {
    let hours = settings.certificates.leaf_hours;
    Want::client(CERTIFICATE, names::ETCD_CA, "covey-backup", hours)
}

/// What its pod takes of a quota. A claim counts for nobody: it is of the platform's target, and no user chose its size.
#[must_use]
pub fn takes() -> Amounts {
    let mut all = Amounts::default();
    for (resource, list, name) in [
        (Resource::Cores, &REQUESTS[..], "cpu"),
        (Resource::Memory, &LIMITS[..], "memory"),
    ] {
        let amount = list.iter().find(|(listed, _)| *listed == name);
        let amount = amount.and_then(|(_, text)| nanos(text));
        all.add(resource, amount.unwrap_or_default());
    }
    all
}

/// Everything but the Deployment: what has to be there before it.
#[must_use]
pub fn base(
    v: &Validated,
    target: &BackupTarget,
    secrets: &Secrets,
    settings: &Settings,
) -> Vec<Object> {
    let mut objects = vec![
        account(v),
        own_policy(v, target, settings),
        etcd_policy(v),
        keys(v, secrets),
        files(
            v,
            CERTIFICATE,
            [
                ("ca.crt", secrets.authority.as_bytes()),
                ("tls.crt", secrets.certificate.certificate.as_bytes()),
                ("tls.key", secrets.certificate.key.reveal().as_bytes()),
            ],
        ),
    ];
    if let Some(credentials) = &secrets.credentials {
        let fields = credentials.iter();
        let fields = fields.map(|(name, value)| (name.as_str(), value.as_slice()));
        objects.push(files(v, CREDENTIALS, fields));
    }
    objects.extend(secrets.identity.as_ref().map(|of| identity(v, of)));
    objects.extend(claim(v, target));
    objects
}

pub(super) fn account(v: &Validated) -> Object {
    Object::new(&ServiceAccount {
        metadata: meta(v, BACKUP, BACKUP),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    })
}

fn identity(v: &Validated, identity: &Identity) -> Object {
    let field = (IDENTITY_FIELD, identity.sealed.as_slice());
    let mut secret = files(v, IDENTITY, [field]);
    let annotations = &mut secret.value["metadata"]["annotations"];
    annotations[ANNOTATION_IDENTITY_KEYS] = json!(identity.keys);
    annotations[ANNOTATION_IDENTITY_WHOLE] = json!(identity.whole);
    Object::from_value(secret.value)
}

fn keys(v: &Validated, secrets: &Secrets) -> Object {
    let fields = [
        ("data-key", secrets.data_key.as_slice()),
        ("wrapped-key", secrets.wrapped_key.as_slice()),
    ];
    let mut secret = files(v, KEYS, fields);
    secret.value["metadata"]["annotations"][ANNOTATION_WRAPPED_FOR] = json!(secrets.wrapped_for);
    Object::from_value(secret.value)
}

pub(super) fn files<'a>(
    v: &Validated,
    name: &str,
    fields: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Object {
    let owned = |(name, bytes): (&str, &[u8])| (name.to_owned(), ByteString(bytes.to_vec()));
    Object::new(&Secret {
        metadata: meta(v, name, BACKUP),
        data: Some(fields.into_iter().map(owned).collect()),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    })
}

fn claim(v: &Validated, target: &BackupTarget) -> Option<Object> {
    let claim = target.spec.claim.as_ref()?;
    let size = Quantity(claim.size.0.clone());
    Some(Object::new(&PersistentVolumeClaim {
        metadata: meta(v, BACKUP, BACKUP),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            storage_class_name: claim.storage_class_name.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some([("storage".to_owned(), size)].into()),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }))
}

/// The Deployment.
#[must_use]
pub fn deployment(
    v: &Validated,
    backup: &Backup,
    target: &BackupTarget,
    secrets: &Secrets,
    settings: &Settings,
) -> Object {
    let mut place = Place::of(&target.spec, CREDENTIALS);
    if target.spec.claim.is_some() {
        place.volumes.push(Volume {
            name: CLAIM.to_owned(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: BACKUP.to_owned(),
                read_only: None,
            }),
            ..Volume::default()
        });
    }
    let keys = place.mount(place::secret("keys", KEYS), "keys");
    let tls = place.mount(place::secret("etcd", CERTIFICATE), "etcd");
    // It is read anew when it changes, so it is not among what pods are replaced for.
    let identity = place.mount(place::secret("identity", IDENTITY), "identity");
    let mut annotations = place.annotations.clone();
    let read_once = object::hash(&json!([
        secrets.certificate.certificate,
        secrets.authority,
        secrets.wrapped_for,
        secrets
            .credentials
            .as_ref()
            .map(|c| object::hash(&json!(c))),
    ]));
    annotations.insert(ANNOTATION_SECRETS.to_owned(), read_once);
    let identity = format!("--identity={identity}/{IDENTITY_FIELD}");
    place.args.push(identity);
    let container = container(v, backup, place.args, (&keys, &tls), place.mounts, settings);
    workload(v, annotations, container, place.volumes)
}

pub(super) fn workload(
    v: &Validated,
    annotations: BTreeMap<String, String>,
    container: Container,
    volumes: Vec<Volume>,
) -> Object {
    Object::new(&Deployment {
        metadata: meta(v, BACKUP, BACKUP),
        spec: Some(DeploymentSpec {
            replicas: Some(1),
            revision_history_limit: Some(2),
            selector: LabelSelector {
                match_labels: Some(selector(BACKUP)),
                ..LabelSelector::default()
            },
            // Two write no worse than one, and one of them ends; a claim has room for one.
            strategy: Some(DeploymentStrategy {
                type_: Some("Recreate".to_owned()),
                rolling_update: None,
            }),
            template: PodTemplateSpec {
                metadata: Some(pod_meta(v, BACKUP, annotations, &v.etcd.pod_metadata)),
                spec: Some(PodSpec {
                    containers: vec![container],
                    termination_grace_period_seconds: Some(GRACE_SECONDS),
                    volumes: Some(volumes),
                    ..pod::lone(BACKUP, &v.etcd.scheduling)
                }),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    })
}

fn container(
    v: &Validated,
    backup: &Backup,
    place: Vec<String>,
    (keys, tls): (&str, &str),
    mounts: Vec<VolumeMount>,
    settings: &Settings,
) -> Container {
    let keep = &backup.retention;
    let millis = |text: &api::Duration, default: u128| {
        text.get().map_or(default, |duration| duration.as_millis())
    };
    let mut args = vec!["backup".to_owned(), "run".to_owned()];
    args.extend(place);
    args.extend([
        format!("--etcd={}", etcd_url(v)),
        format!("--etcd-tls={tls}"),
        format!("--tenant={}", v.identity.uid),
        format!("--keys={keys}"),
        "--writer=$(POD_NAME)".to_owned(),
        format!("--kubernetes={}", v.version),
        format!("--delta-ms={}", millis(&backup.delta, 10_000)),
        format!("--full-seconds={}", millis(&backup.full, 86_400_000) / 1000),
        format!("--keep-hours={}", keep.hours),
        format!("--keep-days={}", keep.days),
        format!("--keep-weeks={}", keep.weeks),
        format!("--keep-months={}", keep.months),
        format!("--listen=[::]:{STATUS_PORT}"),
    ]);
    own_container(args, mounts, settings)
}

pub(super) fn own_container(
    args: Vec<String>,
    mounts: Vec<VolumeMount>,
    settings: &Settings,
) -> Container {
    Container {
        name: BACKUP.to_owned(),
        image: Some(own_image(settings)),
        args: Some(args),
        env: Some(vec![pod::own_name("POD_NAME")]),
        ports: Some(vec![ContainerPort {
            name: Some("status".to_owned()),
            container_port: STATUS_PORT,
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        liveness_probe: Some(pod::probe("/livez", STATUS_PORT, "HTTP", 10, 6)),
        resources: Some(resources()),
        security_context: Some(pod::container_security()),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

/// The member that is read: the leader is the first one most often, and a snapshot is best taken from a follower.
pub(super) fn etcd_url(v: &Validated) -> String {
    let member = names::etcd_member(v.etcd.servers - 1);
    format!("https://{member}:{}", names::ETCD_CLIENT_PORT)
}

pub(super) fn own_image(settings: &Settings) -> String {
    let images = &settings.images;
    pod::own_image(settings, &images.etcd_agent_registry, &images.etcd_agent)
}

/// Of one program of ours that reads or writes a backup.
pub(super) fn resources() -> ResourceRequirements {
    let amounts = |list: &[(&str, &str)]| {
        let owned = |(name, amount): &(&str, &str)| ((*name).to_owned(), (*amount).to_owned());
        list.iter().map(owned).collect()
    };
    pod::resources(&amounts(&REQUESTS), &amounts(&LIMITS))
}

fn ports(numbers: &[i32]) -> Option<Vec<NetworkPolicyPort>> {
    let port = |number: &i32| NetworkPolicyPort {
        protocol: Some("TCP".to_owned()),
        port: Some(IntOrString::Int(*number)),
        ..NetworkPolicyPort::default()
    };
    Some(numbers.iter().map(port).collect())
}

fn labelled(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels),
        ..LabelSelector::default()
    }
}

fn pods_of(component: &str) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        pod_selector: Some(labelled(selector(component))),
        ..NetworkPolicyPeer::default()
    }
}

/// Who may ask it: the operator. Whom it asks: etcd, and the port of the bucket's endpoint, wherever that is: the
/// platform team says it, and no user of tenant clusters.
pub(super) fn own_policy(v: &Validated, target: &BackupTarget, settings: &Settings) -> Object {
    let operator = NetworkPolicyPeer {
        namespace_selector: Some(labelled(BTreeMap::from([(
            "kubernetes.io/metadata.name".to_owned(),
            settings.operator_namespace.clone(),
        )]))),
        ..NetworkPolicyPeer::default()
    };
    let mut egress = vec![NetworkPolicyEgressRule {
        to: Some(vec![pods_of(names::ETCD)]),
        ports: ports(&[names::ETCD_CLIENT_PORT]),
    }];
    if let Some(s3) = &target.spec.s3 {
        egress.push(NetworkPolicyEgressRule {
            to: None,
            ports: ports(&[endpoint_port(s3.endpoint.as_deref())]),
        });
    }
    Object::new(&NetworkPolicy {
        metadata: meta(v, BACKUP, BACKUP),
        spec: Some(NetworkPolicySpec {
            // What restores reads the same target, and what tests a restore, too. etcd lets in the process and the
            // test alone, and nobody listens there.
            pod_selector: Some(LabelSelector {
                match_expressions: Some(vec![LabelSelectorRequirement {
                    key: api::names::LABEL_COMPONENT.to_owned(),
                    operator: "In".to_owned(),
                    values: Some(
                        [BACKUP, names::ETCD_RESTORE, RESTORE_TEST]
                            .map(str::to_owned)
                            .into(),
                    ),
                }]),
                ..LabelSelector::default()
            }),
            policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
            ingress: Some(vec![NetworkPolicyIngressRule {
                from: Some(vec![operator]),
                ports: ports(&[STATUS_PORT]),
            }]),
            egress: Some(egress),
        }),
    })
}

fn etcd_policy(v: &Validated) -> Object {
    Object::new(&NetworkPolicy {
        metadata: meta(v, TO_ETCD, BACKUP),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(labelled(selector(names::ETCD))),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(vec![NetworkPolicyIngressRule {
                from: Some(vec![pods_of(BACKUP), pods_of(RESTORE_TEST)]),
                ports: ports(&[names::ETCD_CLIENT_PORT]),
            }]),
            egress: None,
        }),
    })
}

/// Port of an endpoint's URL.
fn endpoint_port(endpoint: Option<&str>) -> i32 {
    let endpoint = endpoint.unwrap_or("https://").trim_end_matches('/');
    let (default, rest) = match endpoint.strip_prefix("http://") {
        Some(rest) => (80, rest),
        None => (443, endpoint.trim_start_matches("https://")),
    };
    let after_address = rest.rsplit_once(']').map_or(rest, |(_, after)| after);
    let port = after_address.rsplit_once(':').map(|(_, port)| port);
    port.and_then(|port| port.parse().ok()).unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_of_an_endpoint_is_found() {
        assert_eq!(endpoint_port(None), 443);
        assert_eq!(endpoint_port(Some("https://s3.example.com/")), 443);
        assert_eq!(endpoint_port(Some("http://s3.example.com")), 80);
        assert_eq!(endpoint_port(Some("https://192.0.2.10:9000")), 9000);
        assert_eq!(endpoint_port(Some("https://[2001:db8::10]")), 443);
        assert_eq!(endpoint_port(Some("http://[2001:db8::10]:7070/")), 7070);
    }
}
