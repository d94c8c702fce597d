//! Names of the driver, of volumes, and of what is written on claims.
//!
//! Invariant: a volume's identifier is the name of its claim, so nothing has to be looked up, and
//! every claim of ours begins with [`PREFIX`].

use sha2::{Digest as _, Sha256};

/// The driver's name in the tenant cluster.
pub const DRIVER: &str = "csi.covey.dev";
/// Field manager of everything that is written in the management cluster.
pub const FIELD_MANAGER: &str = "covey-csi-proxy";
/// API group of VolumeSnapshots.
pub const SNAPSHOT_GROUP: &str = "snapshot.storage.k8s.io";
/// Their kind.
pub const SNAPSHOT_KIND: &str = "VolumeSnapshot";
/// What names of claims begin with.
pub const PREFIX: &str = api::names::VOLUME_PREFIX;
/// What names of snapshots begin with.
pub const SNAPSHOT_PREFIX: &str = api::names::SNAPSHOT_PREFIX;
/// Value of `app.kubernetes.io/component` on claims of ours.
pub const COMPONENT: &str = api::names::COMPONENT_VOLUME;
/// Value of the same on snapshots of ours.
pub const SNAPSHOT_COMPONENT: &str = api::names::COMPONENT_SNAPSHOT;
/// Annotation on a snapshot: StorageClass of the volume that it is of.
pub const ANNOTATION_STORAGE_CLASS: &str = "covey.dev/storage-class";
/// Annotation on a claim or a snapshot: the name under which the tenant cluster asked for it.
pub const ANNOTATION_NAME: &str = api::names::ANNOTATION_VOLUME_NAME;
/// On a claim: name of the class that it was made of; several classes may have one StorageClass.
pub const ANNOTATION_CLASS: &str = "covey.dev/class";
/// Annotation on a claim: namespace and name of the tenant's claim, for people.
pub const ANNOTATION_TENANT_CLAIM: &str = api::names::ANNOTATION_TENANT_CLAIM;
/// Annotation on a claim: the machines that are to have it, separated by commas.
pub const ANNOTATION_WANTED: &str = api::names::ANNOTATION_ATTACH_TO;
/// Annotation on a claim: the machines that may have it, separated by commas. It is written before
/// the first of them can, and a machine leaves it when it has been seen without.
pub const ANNOTATION_HELD: &str = api::names::ANNOTATION_ATTACHED_TO;
/// Annotation on a claim, `true`: it is attached so that it can only be read.
pub const ANNOTATION_READ_ONLY: &str = "covey.dev/attach-read-only";
/// Annotation on a PersistentVolume of the tenant cluster: the driver that the volume was of before it was
/// adopted.
pub const ANNOTATION_ADOPTED_FROM: &str = "covey.dev/adopted-from";
/// Annotation on a PersistentVolume of the management cluster: namespace and name of the claim that is to
/// have it. Only whoever checked that the volume is this tenant's writes it, so it is what later steps
/// trust.
pub const ANNOTATION_ADOPTED_AS: &str = "covey.dev/adopted-as";
/// Annotation on a PersistentVolume that is being adopted: the reclaim policy that it gets at the end.
pub const ANNOTATION_ADOPT_POLICY: &str = "covey.dev/adopt-reclaim-policy";
/// Annotation on a PersistentVolume of the tenant cluster that is being adopted: the claim that is made
/// anew, as JSON.
pub const ANNOTATION_ADOPT_CLAIM: &str = "covey.dev/adopt-claim";
/// Key of the publish context: the serial number by which a node finds the disk.
pub const SERIAL: &str = "serial";
/// Parameter of a StorageClass of the tenant cluster: which offered class is meant.
pub const PARAMETER_CLASS: &str = "class";
/// What the stock provisioner adds to the parameters begins with this (`--extra-create-metadata`).
pub const PARAMETER_PREFIX: &str = "csi.storage.k8s.io/";

/// Longest label of a DNS name (RFC 1035), and so the longest name of a disk of KubeVirt.
const LABEL: usize = 63;
/// Characters of a serial number that virtio-blk shows (virtio 1.3, section 5.2.6.1,
/// `VIRTIO_BLK_T_GET_ID`).
const SERIAL_LENGTH: usize = 20;

/// The identifier of the volume that was asked for under this name, which is the name of its claim.
#[must_use]
pub fn volume(name: &str) -> String {
    named(PREFIX, name)
}

/// The identifier of the snapshot that was asked for under this name, which is the name of the
/// VolumeSnapshot.
#[must_use]
pub fn snapshot(name: &str) -> String {
    named(SNAPSHOT_PREFIX, name)
}

fn named(prefix: &str, name: &str) -> String {
    if name.len() + prefix.len() <= LABEL && is_plain(name) {
        return format!("{prefix}{name}");
    }
    format!("{prefix}{}", digest(name, 40))
}

/// Whether a claim of ours could be called so.
#[must_use]
pub fn is_volume(id: &str) -> bool {
    id.len() <= LABEL && id.strip_prefix(PREFIX).is_some_and(is_plain)
}

/// Whether a machine could be called so. What is asked for comes from the tenant cluster, and goes
/// into paths of requests.
#[must_use]
pub fn is_machine(name: &str) -> bool {
    name.len() <= LABEL && is_plain(name)
}

fn is_plain(name: &str) -> bool {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    !name.is_empty() && !name.ends_with('-') && name.bytes().all(plain)
}

/// Whether a snapshot of ours could be called so.
#[must_use]
pub fn is_snapshot(id: &str) -> bool {
    id.len() <= LABEL && id.strip_prefix(SNAPSHOT_PREFIX).is_some_and(is_plain)
}

/// The serial number of the disk with this claim. It is made of the UID, so that a claim of the same
/// name, made again, is never taken for the one before.
#[must_use]
pub fn serial(uid: &str) -> String {
    digest(uid, SERIAL_LENGTH)
}

/// Whether this is the serial number of a volume of ours, as far as can be seen.
#[must_use]
pub fn is_serial(text: &str) -> bool {
    let hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    text.len() == SERIAL_LENGTH && text.bytes().all(hex)
}

fn digest(text: &str, length: usize) -> String {
    let mut hash = hex::encode(Sha256::digest(text.as_bytes()));
    hash.truncate(length);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_stock_provisioner_stay_readable() {
        let name = "pvc-0a1b2c3d-0000-4000-8000-000000000000";
        assert_eq!(volume(name), format!("vol-{name}"));
    }

    #[test]
    fn any_name_becomes_a_name_of_a_claim() {
        let long = "n".repeat(128);
        let names = ["A b/c", "", "ends-", "ünï", &long, &"n".repeat(60)];
        let ids: std::collections::BTreeSet<_> = names.iter().map(|n| volume(n)).collect();
        assert_eq!(ids.len(), names.len());
        for id in ids {
            assert!(is_volume(&id), "{id}");
            assert!(id.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-'));
        }
        assert_eq!(volume(&"n".repeat(59)).len(), 63);
    }

    #[test]
    fn claims_of_others_are_no_volumes() {
        for id in [
            "data-etcd-0",
            "vol-",
            "",
            "invalid-token",
            &"vol-n".repeat(20),
            "vol-../secrets",
            "vol-A",
        ] {
            assert!(!is_volume(id), "{id}");
        }
    }

    #[test]
    fn names_that_are_paths_are_of_no_machine() {
        assert!(is_machine("demo-workers-x7k2p"));
        for name in ["", "../pods/a", "a/addvolume", "A", "a-", &"n".repeat(64)] {
            assert!(!is_machine(name), "{name}");
        }
    }

    #[test]
    fn serial_numbers_have_twenty_characters_and_follow_the_uid() {
        assert_eq!(serial("a").len(), 20);
        assert!(is_serial(&serial("a")));
        for other in ["", "0123", "root-disk-of-a-node-", "0123456789ABCDEF0123"] {
            assert!(!is_serial(other), "{other}");
        }
        assert_ne!(serial("a"), serial("b"));
    }
}
