//! Does what the plan says, in the file system and at the API server.
//!
//! Invariant: a directory exists before its volume and outlives it never; doing an action a second
//! time, or after another agent did it, succeeds.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path};

use anyhow::Context;
use k8s_openapi::{
    api::{
        core::v1::{PersistentVolume, PersistentVolumeClaim},
        storage::v1::StorageClass,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::json;

use super::{
    CLASS, PROVISIONER,
    plan::{Action, Place, is_ours},
};

/// Field manager of everything the agent writes.
const MANAGER: &str = "lab-agent";

/// Writes the storage class, the cluster's default.
///
/// # Errors
/// When the API server is away or refuses it.
pub(super) async fn class(client: &Client) -> anyhow::Result<()> {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "volumeBindingMode": "Immediate",
        "reclaimPolicy": "Delete",
        "allowVolumeExpansion": true,
    });
    Api::<StorageClass>::all(client.clone())
        .patch(
            CLASS,
            &PatchParams::apply(MANAGER).force(),
            &Patch::Apply(&class),
        )
        .await
        .context("cannot write the storage class")?;
    Ok(())
}

/// Does one action.
///
/// # Errors
/// When the file system or the API server fails; the next plan has the action again.
pub(super) async fn apply(client: &Client, place: &Place, action: &Action) -> anyhow::Result<()> {
    let volumes = Api::<PersistentVolume>::all(client.clone());
    match action {
        Action::Provision { directory, volume } => {
            make(directory).with_context(|| format!("cannot make {}", directory.display()))?;
            match volumes.create(&PostParams::default(), volume).await {
                Ok(_) => Ok(()),
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    let name = volume.metadata.name.as_deref().unwrap_or_default();
                    let taken = volumes
                        .get_opt(name)
                        .await
                        .context("cannot read the volume")?;
                    // Another node's agent was quicker: our directory, still empty, is not needed.
                    if taken.is_some_and(|volume| !is_ours(place, &volume)) {
                        let _ = fs::remove_dir(directory);
                    }
                    Ok(())
                }
                Err(error) => Err(error).context("cannot write the volume"),
            }
        }
        Action::GrowVolume { volume, capacity } => {
            let patch = json!({"spec": {"capacity": {"storage": capacity}}});
            let done = volumes
                .patch(volume, &PatchParams::default(), &Patch::Merge(&patch))
                .await;
            unless_gone(done).context("cannot raise the volume's capacity")
        }
        Action::GrowClaim {
            namespace,
            claim,
            capacity,
        } => grow_claim(client, namespace, claim, capacity).await,
        Action::Remove {
            volume,
            uid,
            directory,
        } => {
            let doomed = directory.clone();
            // A volume may hold much: do not stop the rest meanwhile.
            tokio::task::spawn_blocking(move || absent_is_fine(fs::remove_dir_all(doomed)))
                .await
                .context("the removal was interrupted")?
                .with_context(|| format!("cannot remove {}", directory.display()))?;
            let parameters = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: uid.clone(),
                    resource_version: None,
                }),
                ..Default::default()
            };
            unless_gone(volumes.delete(volume, &parameters).await)
                .context("cannot delete the volume")
        }
    }
}

async fn grow_claim(
    client: &Client,
    namespace: &str,
    claim: &str,
    capacity: &Quantity,
) -> anyhow::Result<()> {
    let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
    let patch = json!({"status": {"capacity": {"storage": capacity}}});
    let done = claims
        .patch_status(claim, &PatchParams::default(), &Patch::Merge(&patch))
        .await;
    unless_gone(done).context("cannot raise the claim's capacity")
}

/// Writable for every user: pods run as any, and not all of them set an fsGroup.
fn make(directory: &Path) -> io::Result<()> {
    match fs::create_dir(directory) {
        // The umask took bits away.
        Ok(()) => fs::set_permissions(directory, fs::Permissions::from_mode(0o777)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn absent_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn unless_gone<T>(done: kube::Result<T>) -> kube::Result<()> {
    match done {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        done => done.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volume_directory_is_open_to_all_users_and_can_be_made_twice() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("pvc-1");
        make(&directory).unwrap();
        let mode = fs::metadata(&directory).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o777);
        // What the kubelet did to it for an fsGroup must survive a second provisioning.
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o2775)).unwrap();
        make(&directory).unwrap();
        let mode = fs::metadata(&directory).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o2775);
    }
}
