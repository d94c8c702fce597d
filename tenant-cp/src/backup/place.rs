//! The place of a BackupTarget as `etcd-agent backup` is told it: arguments, volumes and mounts.
//!
//! Invariant: Secrets may be missing: the program says so in its own words, which a pod that waits for ever does not.

use std::collections::BTreeMap;

use api::backup_target::{BackupTargetSpec, S3};
use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, DownwardAPIVolumeSource, ObjectFieldSelector, SecretVolumeSource,
    Volume, VolumeMount,
};

use crate::desired::pod;

/// Annotation of the pod: authorities of the endpoint's certificate, from where they are a file.
pub(super) const ANNOTATION_CA: &str = "covey.dev/backup-ca-bundle";
/// Where a claim is mounted.
pub(super) const DIRECTORY: &str = "/backups";
/// Volume of a claim.
pub(super) const CLAIM: &str = "backups";
const CREDENTIALS: &str = "credentials";
const CA: &str = "ca";
const FOLDER: &str = "/run/covey";

/// What a pod has of a target.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    pub(super) args: Vec<String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) volumes: Vec<Volume>,
    pub(super) mounts: Vec<VolumeMount>,
}

impl Place {
    /// `credentials` is the Secret beside the pod that has those of the bucket. The volume of a claim is the
    /// caller's to add.
    pub(super) fn of(target: &BackupTargetSpec, credentials: &str) -> Self {
        match &target.s3 {
            Some(s3) => Self::bucket(s3, credentials),
            None => Self {
                args: vec![format!("--directory={DIRECTORY}")],
                mounts: vec![pod::mount(CLAIM, DIRECTORY, false)],
                ..Self::default()
            },
        }
    }

    fn bucket(s3: &S3, credentials: &str) -> Self {
        let mut place = Self {
            args: vec![
                format!("--s3-bucket={}", s3.bucket),
                format!("--s3-region={}", s3.region),
                format!("--s3-credentials={FOLDER}/{CREDENTIALS}"),
            ],
            ..Self::default()
        };
        if let Some(endpoint) = &s3.endpoint {
            place.args.push(format!("--s3-endpoint={endpoint}"));
        }
        if let Some(prefix) = &s3.prefix {
            place.args.push(format!("--prefix={prefix}"));
        }
        place.mount(secret(CREDENTIALS, credentials), CREDENTIALS);
        if let Some(bundle) = &s3.ca_bundle {
            place.args.push(format!("--s3-ca={FOLDER}/{CA}/ca.crt"));
            let annotation = (ANNOTATION_CA.to_owned(), bundle.clone());
            place.annotations.extend([annotation]);
            place.mount(authorities(), CA);
        }
        place
    }

    /// Adds a volume whose files are in a folder of its name; gives that folder.
    pub(super) fn mount(&mut self, volume: Volume, name: &str) -> String {
        let folder = format!("{FOLDER}/{name}");
        self.volumes.push(volume);
        self.mounts.push(pod::mount(name, &folder, true));
        folder
    }
}

/// A Secret as a volume, which is empty where there is none.
pub(super) fn secret(volume: &str, name: &str) -> Volume {
    Volume {
        name: volume.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(name.to_owned()),
            default_mode: Some(0o440),
            optional: Some(true),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}

fn authorities() -> Volume {
    Volume {
        name: CA.to_owned(),
        downward_api: Some(DownwardAPIVolumeSource {
            items: Some(vec![DownwardAPIVolumeFile {
                path: "ca.crt".to_owned(),
                field_ref: Some(ObjectFieldSelector {
                    field_path: format!("metadata.annotations['{ANNOTATION_CA}']"),
                    ..ObjectFieldSelector::default()
                }),
                ..DownwardAPIVolumeFile::default()
            }]),
            ..DownwardAPIVolumeSource::default()
        }),
        ..Volume::default()
    }
}
