//! Mapping between snapshots of CSI and VolumeSnapshots: from a request to a VolumeSnapshot of the
//! management cluster, an answer, or a status that refuses.
//!
//! Invariant: pure; a snapshot has the class of its volume, or there is none.

use api::names::{LABEL_COMPONENT, LABEL_MANAGED_BY, LABEL_TENANT_UID, MANAGED_BY};
use proto::csi::CreateSnapshotRequest;
use serde_json::{Value, json};

use super::LONGEST;
use crate::cache::objects::{Snapshot, Volume};
use crate::names;
use crate::settings::Settings;
use crate::status::Status;

/// A snapshot that is to be there.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Its identifier, and the name of the VolumeSnapshot.
    pub id: String,
    /// Under which name the tenant cluster asks.
    pub name: String,
    /// The volume that it is of.
    pub volume: String,
    /// The VolumeSnapshot.
    pub object: Value,
}

/// Whether a request can be about a snapshot at all.
///
/// # Errors
/// INVALID_ARGUMENT when it says not of what, or not how it is called.
pub fn check(request: &CreateSnapshotRequest) -> Result<(), Status> {
    if request.name.is_empty() {
        return Err(Status::invalid_argument("a snapshot needs a name"));
    }
    if request.name.len() > LONGEST {
        return Err(Status::invalid_argument(format!(
            "a snapshot's name has at most {LONGEST} bytes, and this one {}",
            request.name.len()
        )));
    }
    if request.source_volume_id.is_empty() {
        return Err(Status::invalid_argument(
            "say of which volume: source_volume_id",
        ));
    }
    let known = |key: &&String| key.starts_with(names::PARAMETER_PREFIX);
    if let Some(key) = request.parameters.keys().find(|key| !known(key)) {
        return Err(Status::invalid_argument(format!(
            "the VolumeSnapshotClass has a parameter {key}, which means nothing here; remove it"
        )));
    }
    Ok(())
}

/// The snapshot of this volume that a request asks for.
///
/// # Errors
/// When the request is wrong, or the volume's class has no snapshots.
pub fn create(
    request: &CreateSnapshotRequest,
    settings: &Settings,
    volume: &Volume,
) -> Result<Wanted, Status> {
    check(request)?;
    let class = volume.class_in(&settings.offer);
    let Some(snapshots) = class.and_then(|class| class.snapshot_class.as_ref()) else {
        return Err(Status::invalid_argument(format!(
            "storage of class {} has no snapshots; copy what is in volume {}",
            volume.class_name(class),
            volume.id
        )));
    };
    let id = names::snapshot(&request.name);
    let object = json!({
        "apiVersion": format!("{}/v1", names::SNAPSHOT_GROUP),
        "kind": names::SNAPSHOT_KIND,
        "metadata": {
            "name": id,
            "namespace": settings.namespace,
            "labels": {
                LABEL_TENANT_UID: settings.cluster_uid,
                LABEL_COMPONENT: names::SNAPSHOT_COMPONENT,
                LABEL_MANAGED_BY: MANAGED_BY,
            },
            "annotations": {
                names::ANNOTATION_NAME: request.name,
                names::ANNOTATION_STORAGE_CLASS: volume.storage_class,
            },
        },
        "spec": {
            "volumeSnapshotClassName": snapshots,
            "source": { "persistentVolumeClaimName": volume.id },
        },
    });
    Ok(Wanted {
        id,
        name: request.name.clone(),
        volume: volume.id.clone(),
        object,
    })
}

/// Whether the snapshot that is there is the one that is asked for.
///
/// # Errors
/// ALREADY_EXISTS naming the difference; ABORTED while it is being deleted.
pub fn same(snapshot: &Snapshot, name: &str, volume: &str) -> Result<(), Status> {
    if snapshot.deleting {
        return Err(Status::aborted(format!(
            "the snapshot named {name} that was there before is not gone yet; try again"
        )));
    }
    if snapshot.name != name || snapshot.volume != volume {
        return Err(Status::already_exists(format!(
            "a snapshot named {name} is there already, and is of volume {}; use another name",
            snapshot.volume
        )));
    }
    Ok(())
}

/// A snapshot as the tenant cluster is told of it; none until it is cut.
#[must_use]
pub fn answer(snapshot: &Snapshot) -> Option<proto::csi::Snapshot> {
    let created = snapshot.created?;
    Some(proto::csi::Snapshot {
        size_bytes: snapshot.size,
        snapshot_id: snapshot.id.clone(),
        source_volume_id: snapshot.volume.clone(),
        creation_time: Some(proto::Timestamp {
            seconds: created.as_second(),
            nanos: created.subsec_nanosecond(),
        }),
        ready_to_use: snapshot.ready,
        group_snapshot_id: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use kube::api::DynamicObject;
    use tonic::Code;

    use super::*;
    use crate::settings::{Class, MOST_VOLUMES, Offer, PATIENCE};

    fn settings(snapshot_class: Option<&str>) -> Settings {
        let class = Class {
            name: "fast".to_owned(),
            storage_class: "ceph".to_owned(),
            snapshot_class: snapshot_class.map(str::to_owned),
            ..Class::default()
        };
        Settings {
            namespace: "ns".to_owned(),
            cluster_uid: "uid".to_owned(),
            offer: Offer {
                classes: vec![class],
                ..Offer::default()
            },
            patience: PATIENCE,
            most_volumes: MOST_VOLUMES,
        }
    }

    fn request() -> CreateSnapshotRequest {
        CreateSnapshotRequest {
            name: "s-1".to_owned(),
            source_volume_id: "vol-1".to_owned(),
            ..Default::default()
        }
    }

    fn volume() -> Volume {
        Volume {
            id: "vol-1".to_owned(),
            storage_class: "ceph".to_owned(),
            ..Volume::default()
        }
    }

    #[test]
    fn snapshot_is_made_of_its_volume_and_read_again() {
        let wanted = create(&request(), &settings(Some("snaps")), &volume()).unwrap();
        assert_eq!(
            wanted.object["spec"],
            json!({
                "volumeSnapshotClassName": "snaps", "source": { "persistentVolumeClaimName": "vol-1" },
            })
        );
        let read = |object: &Value| {
            let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
            Snapshot::read(&object, "uid")
        };
        let fresh = read(&wanted.object).unwrap();
        assert_eq!(
            (fresh.id.as_str(), fresh.storage_class.as_str()),
            ("snap-s-1", "ceph")
        );
        assert_eq!(answer(&fresh), None, "it is not cut yet");
        let mut cut = wanted.object.clone();
        cut["status"] = json!({
            "creationTime": "1970-01-01T00:00:07Z", "restoreSize": "1Gi", "readyToUse": true,
        });
        let told = answer(&read(&cut).unwrap()).unwrap();
        assert_eq!(
            (told.size_bytes, told.creation_time.unwrap().seconds),
            (1 << 30, 7)
        );
        assert!(told.ready_to_use);
        let mut theirs = wanted.object;
        theirs["metadata"]["labels"] = json!({});
        assert_eq!(read(&theirs), None);
    }

    #[test]
    fn what_cannot_be_made_is_refused_with_code_and_sentence() {
        let with = |change: fn(&mut CreateSnapshotRequest)| {
            let mut request = request();
            change(&mut request);
            request
        };
        let cases = [
            (with(|r| r.name.clear()), Some("snaps"), "needs a name"),
            (
                with(|r| r.name = "n".repeat(129)),
                Some("snaps"),
                "at most 128",
            ),
            (
                with(|r| r.source_volume_id.clear()),
                Some("snaps"),
                "of which volume",
            ),
            (
                with(|r| drop(r.parameters.insert("a".to_owned(), String::new()))),
                Some("snaps"),
                "parameter a",
            ),
            (request(), None, "has no snapshots"),
        ];
        for (request, class, sentence) in cases {
            let refusal = create(&request, &settings(class), &volume()).unwrap_err();
            assert_eq!(refusal.code, Code::InvalidArgument, "{refusal}");
            assert!(refusal.sentence.contains(sentence), "{refusal}");
        }
    }

    #[test]
    fn same_name_of_another_volume_is_refused() {
        let there = Snapshot {
            name: "s-1".to_owned(),
            volume: "vol-1".to_owned(),
            ..Snapshot::default()
        };
        assert_eq!(same(&there, "s-1", "vol-1"), Ok(()));
        assert_eq!(
            same(&there, "s-1", "vol-2").unwrap_err().code,
            Code::AlreadyExists
        );
        let going = Snapshot {
            deleting: true,
            ..there
        };
        assert_eq!(
            same(&going, "s-1", "vol-1").unwrap_err().code,
            Code::Aborted
        );
    }
}
