//! Uses of volumes: as a device or with a filesystem, by one machine or several, and whether a class, or
//! a volume that is there, can be used so.
//!
//! Invariant: pure; what cannot work is refused before there is a volume, with what to do instead.

use api::storage::{Class, Offer};
use proto::csi::VolumeCapability;
use proto::csi::volume_capability::access_mode::Mode;
use proto::csi::volume_capability::{AccessType, MountVolume};

use crate::cache::objects::Volume;
use crate::status::Status;

/// Filesystems that nodes can make.
const FILESYSTEMS: [&str; 2] = ["ext4", "xfs"];

/// Whether a volume with these capabilities is shared by machines.
///
/// # Errors
/// INVALID_ARGUMENT when there are none, or the class cannot offer one of them.
pub fn capabilities(all: &[VolumeCapability], class: &Class) -> Result<bool, Status> {
    if all.is_empty() {
        return Err(Status::invalid_argument(
            "say how the volume is to be used: volume_capabilities",
        ));
    }
    let mut shared = false;
    for one in all {
        shared |= capability(one, class)?;
    }
    Ok(shared)
}

fn capability(capability: &VolumeCapability, class: &Class) -> Result<bool, Status> {
    let mode = capability
        .access_mode
        .as_ref()
        .map(proto::csi::volume_capability::AccessMode::mode);
    let shared = match mode {
        None | Some(Mode::Unknown) => {
            return Err(Status::invalid_argument(
                "say who is to use the volume: access_mode",
            ));
        }
        Some(
            Mode::SingleNodeWriter
            | Mode::SingleNodeReaderOnly
            | Mode::SingleNodeSingleWriter
            | Mode::SingleNodeMultiWriter,
        ) => false,
        Some(
            Mode::MultiNodeReaderOnly | Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter,
        ) => true,
    };
    let Some(access) = &capability.access_type else {
        return Err(Status::invalid_argument(
            "say how the volume is to be used: block or mount",
        ));
    };
    if let AccessType::Mount(MountVolume { fs_type, .. }) = access {
        if !fs_type.is_empty() && !FILESYSTEMS.contains(&fs_type.as_str()) {
            return Err(Status::invalid_argument(format!(
                "nodes cannot make a filesystem {fs_type}; set csi.storage.k8s.io/fstype to one of: \
                 {}",
                FILESYSTEMS.join(", ")
            )));
        }
        // For several readers, too: what a snapshot of a volume in use shows was never unmounted, and
        // both filesystems write to their disk before they show that (ext4 and XFS, log recovery).
        if mode == Some(Mode::MultiNodeReaderOnly) {
            return Err(Status::invalid_argument(
                "a filesystem cannot be mounted on several nodes at once, for reading neither \
                 (ReadOnlyMany); use a copy for each node with ReadWriteOnce, which pods may mount \
                 with readOnly",
            ));
        }
        if shared {
            return Err(Status::invalid_argument(
                "a filesystem cannot be mounted on several nodes at once (ReadWriteMany); use \
                 ReadWriteOnce, volumeMode Block with software that shares a device, or a file \
                 server in the cluster",
            ));
        }
    }
    if shared && !class.shared {
        return Err(Status::invalid_argument(format!(
            "volumes of class {} are for one node at a time; use ReadWriteOnce",
            class.name
        )));
    }
    Ok(shared)
}

/// Whether a volume that is there is shared by machines, used like this.
///
/// # Errors
/// INVALID_ARGUMENT when it cannot be used so.
pub fn usable(volume: &Volume, all: &[VolumeCapability], offer: &Offer) -> Result<bool, Status> {
    let class = Class {
        shared: volume.shared,
        name: volume.class_name(volume.class_in(offer)).to_owned(),
        ..Class::default()
    };
    capabilities(all, &class)
}
