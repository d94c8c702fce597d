//! Volumes of the etcd members, made ahead of the StatefulSet.
//!
//! So they are bound when the pods come, and they can grow: a StatefulSet's templates are immutable,
//! a PersistentVolumeClaim's size is not. The StatefulSet takes claims of the right name as its own.
//! Invariant: the name is the one that the StatefulSet would give (`data-etcd-0`).

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use kit_objects::object::Object;

use crate::meta::meta;
use crate::names;
use crate::validate::validated::Validated;

pub(crate) fn volumes(v: &Validated) -> Vec<Object> {
    (0..v.etcd.replicas)
        .map(|member| {
            Object::new(&PersistentVolumeClaim {
                metadata: meta(v, &names::etcd_volume(member), names::ETCD),
                spec: Some(spec(v, &v.etcd.storage_size)),
                ..PersistentVolumeClaim::default()
            })
        })
        .collect()
}

pub(crate) fn spec(v: &Validated, size: &str) -> PersistentVolumeClaimSpec {
    PersistentVolumeClaimSpec {
        access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
        resources: Some(VolumeResourceRequirements {
            requests: Some(BTreeMap::from([(
                "storage".to_owned(),
                Quantity(size.to_owned()),
            )])),
            ..VolumeResourceRequirements::default()
        }),
        storage_class_name: v.etcd.storage_class_name.clone(),
        volume_mode: Some("Filesystem".to_owned()),
        ..PersistentVolumeClaimSpec::default()
    }
}
