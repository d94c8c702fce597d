//! The Job that asks a BackupTarget for everything that backups will ask of it, in the operator's namespace, where the
//! Secrets are.
//!
//! Invariant: its name follows from the target and from everything that is asked, so what one says holds for no other
//! spec; it runs once, has no token, and nothing of its own but what it checks.

use std::collections::BTreeMap;

use api::backup_target::BackupTargetSpec;
use api::{BackupTarget, names};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Container, EphemeralVolumeSource, PersistentVolumeClaimSpec, PersistentVolumeClaimTemplate,
    PodSpec, PodTemplateSpec, Volume, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kit_objects::object::{self, Object};
use kube::Resource;
use serde_json::json;

use super::place::{self, CLAIM, Place};
use crate::desired::pod;
use crate::settings::Settings;
use crate::validate::validated::Scheduling;

/// Name of its container.
pub const CONTAINER: &str = "check";
/// Where the program reports what failed: the kubelet makes it a part of the pod's status.
const REPORT: &str = "/dev/termination-log";
/// It does next to nothing.
const REQUESTS: [(&str, &str); 2] = [("cpu", "10m"), ("memory", "32Mi")];
/// For what runs wild.
const LIMITS: [(&str, &str); 1] = [("memory", "128Mi")];
const KEY: &str = "key";

/// The Job for a target as it is now.
#[must_use]
pub fn job(target: &BackupTarget, settings: &Settings) -> Object {
    let uid = target.metadata.uid.as_deref().unwrap_or_default();
    let (spec, annotations) = pod_spec(&target.spec, settings);
    let asked = object::hash(&json!([spec, annotations]));
    let short: String = uid.chars().filter(|c| *c != '-').take(10).collect();
    let labels = labels(uid);
    Object::new(&Job {
        metadata: ObjectMeta {
            name: Some(format!("backup-check-{short}-{asked}")),
            namespace: Some(settings.operator_namespace.clone()),
            labels: Some(labels.clone()),
            owner_references: Some(vec![OwnerReference {
                api_version: BackupTarget::api_version(&()).into_owned(),
                kind: BackupTarget::kind(&()).into_owned(),
                name: target.metadata.name.clone().unwrap_or_default(),
                uid: uid.to_owned(),
                controller: Some(true),
                block_owner_deletion: None,
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(JobSpec {
            // Who asks again, and when, is decided by the operator.
            backoff_limit: Some(0),
            completions: Some(1),
            parallelism: Some(1),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    annotations: Some(annotations).filter(|map| !map.is_empty()),
                    ..ObjectMeta::default()
                }),
                spec: Some(spec),
            },
            ..JobSpec::default()
        }),
        ..Job::default()
    })
}

fn labels(uid: &str) -> BTreeMap<String, String> {
    let pairs = [
        (names::LABEL_BACKUP_TARGET, uid),
        (names::LABEL_COMPONENT, names::COMPONENT_BACKUP_CHECK),
        (names::LABEL_MANAGED_BY, names::MANAGED_BY),
    ];
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    pairs.map(owned).into()
}

fn pod_spec(target: &BackupTargetSpec, settings: &Settings) -> (PodSpec, BTreeMap<String, String>) {
    let credentials = target.s3.as_ref().map(|s3| s3.credentials_secret.as_str());
    let mut place = Place::of(target, credentials.unwrap_or_default());
    if target.s3.is_none() {
        place.volumes.push(scratch(target));
    }
    let key = place.mount(place::secret(KEY, &target.encryption.key_secret), KEY);
    let mut args = vec!["backup".to_owned(), "check".to_owned()];
    args.extend(place.args);
    args.push(format!("--wrapping-key={key}/wrapping-key"));
    args.push(format!("--report={REPORT}"));
    let amounts = |list: &[(&str, &str)]| {
        let owned = |(name, amount): &(&str, &str)| ((*name).to_owned(), (*amount).to_owned());
        list.iter().map(owned).collect()
    };
    let images = &settings.images;
    let image = pod::own_image(settings, &images.etcd_agent_registry, &images.etcd_agent);
    let container = Container {
        name: CONTAINER.to_owned(),
        image: Some(image),
        args: Some(args),
        resources: Some(pod::resources(&amounts(&REQUESTS), &amounts(&LIMITS))),
        security_context: Some(pod::container_security()),
        termination_message_path: Some(REPORT.to_owned()),
        // What ends without a report, as for a lack of memory, has said something.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(place.mounts),
        ..Container::default()
    };
    let spec = PodSpec {
        containers: vec![container],
        restart_policy: Some("Never".to_owned()),
        volumes: Some(place.volumes),
        // It has rights nowhere, and no token.
        service_account_name: None,
        // One pod needs no place apart from others of its kind.
        affinity: None,
        ..pod::spec(names::COMPONENT_BACKUP_CHECK, &Scheduling::default())
    };
    (spec, place.annotations)
}

/// A claim as tenant clusters will have one: that the class makes it is a part of what is checked. It goes with the pod.
fn scratch(target: &BackupTargetSpec) -> Volume {
    let claim = target.claim.clone().unwrap_or_default();
    let size = Quantity(claim.size.0);
    Volume {
        name: CLAIM.to_owned(),
        ephemeral: Some(EphemeralVolumeSource {
            volume_claim_template: Some(PersistentVolumeClaimTemplate {
                metadata: None,
                spec: PersistentVolumeClaimSpec {
                    access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
                    storage_class_name: claim.storage_class_name,
                    resources: Some(VolumeResourceRequirements {
                        requests: Some([("storage".to_owned(), size)].into()),
                        ..VolumeResourceRequirements::default()
                    }),
                    ..PersistentVolumeClaimSpec::default()
                },
            }),
        }),
        ..Volume::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn target(spec: Value) -> BackupTarget {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "BackupTarget", "spec": spec,
            "metadata": { "name": "main", "uid": "0a1b2c3d-0000-4000-8000-000000000001", "generation": 1 },
        }))
        .unwrap()
    }

    fn bucket() -> Value {
        json!({
            "s3": {
                "endpoint": "https://s3.example.com", "bucket": "backups", "prefix": "covey",
                "credentialsSecret": "backup-bucket", "caBundle": "-----BEGIN CERTIFICATE-----\nMII=\n",
            },
            "encryption": { "keySecret": "backup-key" },
        })
    }

    fn made(spec: Value) -> Object {
        let settings = Settings {
            operator_namespace: "covey-system".to_owned(),
            ..Settings::default()
        };
        job(&target(spec), &settings)
    }

    #[test]
    fn bucket_is_asked_in_the_operators_namespace_with_the_secrets_as_files() {
        let made = made(bucket());
        assert_eq!(made.namespace.as_deref(), Some("covey-system"));
        let pod = &made.value["spec"]["template"];
        let container = &pod["spec"]["containers"][0];
        assert_eq!(
            container["args"],
            json!([
                "backup",
                "check",
                "--s3-bucket=backups",
                "--s3-region=us-east-1",
                "--s3-credentials=/run/covey/credentials",
                "--s3-endpoint=https://s3.example.com",
                "--prefix=covey",
                "--s3-ca=/run/covey/ca/ca.crt",
                "--wrapping-key=/run/covey/key/wrapping-key",
                "--report=/dev/termination-log",
            ])
        );
        assert!(container["env"].is_null() && container["envFrom"].is_null());
        assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
        assert!(pod["spec"]["serviceAccountName"].is_null());
        let secrets: Vec<_> = pod["spec"]["volumes"].as_array().unwrap().iter().collect();
        let named = |name: &str| {
            let volume = secrets.iter().find(|volume| volume["name"] == name);
            volume.unwrap()["secret"]["secretName"].clone()
        };
        assert_eq!(named("credentials"), "backup-bucket");
        assert_eq!(named("key"), "backup-key");
        assert!(pod["metadata"]["annotations"][place::ANNOTATION_CA].is_string());
    }

    #[test]
    fn claim_is_asked_on_a_volume_of_its_class_that_goes_with_the_pod() {
        let made = made(json!({
            "claim": { "size": "20Gi", "storageClassName": "fast" },
            "encryption": { "keySecret": "backup-key" },
        }));
        let pod = &made.value["spec"]["template"]["spec"];
        let args = pod["containers"][0]["args"].as_array().unwrap();
        assert!(args.contains(&json!("--directory=/backups")));
        let volume = pod["volumes"].as_array().unwrap();
        let claim = volume.iter().find(|volume| volume["name"] == "backups");
        let spec = &claim.unwrap()["ephemeral"]["volumeClaimTemplate"]["spec"];
        assert_eq!(spec["storageClassName"], "fast");
        assert_eq!(spec["resources"]["requests"]["storage"], "20Gi");
    }

    #[test]
    fn name_is_another_one_for_each_spec_and_fits_a_label() {
        let mut names = vec![made(bucket()).name];
        for (field, value) in [
            ("bucket", "other"),
            ("credentialsSecret", "other"),
            ("caBundle", "-----BEGIN CERTIFICATE-----\nMIJ=\n"),
        ] {
            let mut spec = bucket();
            spec["s3"][field] = json!(value);
            names.push(made(spec).name);
        }
        assert_eq!(made(bucket()).name, names[0]);
        // A Job's name is a label of its pods.
        assert!(names.iter().all(|name| name.len() <= 63), "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 4, "{names:?}");
    }
}
