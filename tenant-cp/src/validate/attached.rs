//! Validation of the disks and networks that machines have besides their own.
//!
//! Invariant: a path that is let in is no directory that a machine cannot start without, and has nothing
//! in it that a shell would take for more than a word.

use api::Reason;
use api::node_pool::{Disk, KubeVirt};

use crate::problem::Problem;
use crate::settings::providers::MachinePolicy;
use crate::text;
use crate::validate::quantity;
use crate::validate::refusal::not_allowed;

const FIELD: &str = "spec.provider.kubevirt";
/// A file system has room in it.
const LEAST_SIZE: &str = "1Gi";
/// Characters of a serial number that the guest sees (virtio-blk, `VIRTIO_BLK_ID_BYTES`).
const LONGEST_NAME: usize = 20;
/// Where what is mounted hides nothing that the machine starts with.
const PARENTS: [&str; 4] = ["/var/", "/mnt/", "/srv/", "/opt/"];
/// What the machine has there when it joins is needed afterwards, as is all below the last two.
const KEPT: [&str; 2] = ["/var/lib", "/var/log"];
const KEPT_BELOW: [&str; 2] = ["/var/lib/cloud", "/var/run"];

/// What is wrong with them whoever asks.
pub(super) fn check(kubevirt: &KubeVirt, problems: &mut Vec<Problem>) {
    for (number, disk) in kubevirt.disks.iter().enumerate() {
        let before = &kubevirt.disks[..number];
        let mut add = |field: &str, reason: Reason, message: String| {
            let field = format!("{FIELD}.disks[{number}].{field}");
            problems.push(Problem::new(field, reason, message));
        };
        if !text::is_label(&disk.name) || disk.name.len() > LONGEST_NAME {
            let message = format!(
                "\"{}\" cannot be the name of a disk: use up to {LONGEST_NAME} lower-case letters, \
                 digits and -",
                disk.name
            );
            add("name", Reason::DiskMalformed, message);
        } else if before.iter().any(|other| other.name == disk.name) {
            let message = format!("{} is named twice: choose another name", disk.name);
            add("name", Reason::DiskTwice, message);
        }
        if let Some(message) = size(disk) {
            add("size", Reason::DiskMalformed, message);
        }
        let Some(path) = &disk.mount_path else {
            continue;
        };
        let within = |other: &Disk| {
            let other = other.mount_path.as_deref();
            other.is_some_and(|other| lies_within(path, other) || lies_within(other, path))
        };
        if let Err(hint) = mount_path(path) {
            add(
                "mountPath",
                Reason::PathMalformed,
                format!("\"{path}\" {hint}"),
            );
        } else if before.iter().any(within) {
            let message =
                format!("{path} and another disk's path lie in each other: choose another");
            add("mountPath", Reason::PathTwice, message);
        }
    }
    for (number, network) in kubevirt.networks.iter().enumerate() {
        let name = &network.name;
        let twice = kubevirt.networks[..number].contains(network);
        let message = if !is_network(name) {
            format!(
                "\"{name}\" is not a network: write namespace and name of a \
                 NetworkAttachmentDefinition, such as networks/storage"
            )
        } else if twice {
            format!("{name} is named twice: remove one of them")
        } else {
            continue;
        };
        let field = format!("{FIELD}.networks[{number}].name");
        problems.push(Problem::new(field, Reason::NetworkMalformed, message));
    }
}

/// What the platform does not give.
pub(super) fn check_policy(
    kubevirt: &KubeVirt,
    allowed: &MachinePolicy,
    problems: &mut Vec<Problem>,
) {
    const SETTING: &str = "providers.kubevirt.allowed";
    let sizes = kubevirt.disks.iter();
    let all: i128 = sizes.filter_map(|disk| quantity::nanos(&disk.size.0)).sum();
    let most = allowed.disks.as_ref();
    let room = most.and_then(|most| quantity::nanos(&most.0));
    if all > room.unwrap_or_default() {
        let message = match most {
            None => not_allowed("disks", &[], &format!("{SETTING}.disks")),
            Some(most) => format!(
                "they are more than {} together, which is the most here: ask for less, or have whoever \
                 runs the management cluster allow it (config.{SETTING}.disks of the chart)",
                most.0
            ),
        };
        let field = format!("{FIELD}.disks");
        problems.push(Problem::new(field, Reason::DiskNotAllowed, message));
    }
    for (number, network) in kubevirt.networks.iter().enumerate() {
        let name = &network.name;
        if is_network(name) && !allowed.networks.contains(name) {
            let message = not_allowed(name, &allowed.networks, &format!("{SETTING}.networks"));
            let field = format!("{FIELD}.networks[{number}].name");
            problems.push(Problem::new(field, Reason::NetworkNotAllowed, message));
        }
    }
}

/// Namespace and name.
pub(super) fn is_network(name: &str) -> bool {
    let parts = name.split_once('/');
    parts.is_some_and(|(namespace, name)| text::is_label(namespace) && text::is_subdomain(name))
}

fn size(disk: &Disk) -> Option<String> {
    let size = disk.size.0.as_str();
    match (quantity::nanos(size), quantity::nanos(LEAST_SIZE)) {
        (None, _) => Some(quantity::malformed(size)),
        (amount, least) if amount < least => Some(format!(
            "{size} is less than {LEAST_SIZE}: write gibibytes as Gi, as in 20Gi"
        )),
        _ => None,
    }
}

fn mount_path(path: &str) -> Result<(), String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let part = |part: &str| !part.is_empty() && part.bytes().all(plain) && !part.starts_with('.');
    let is_path = path
        .strip_prefix('/')
        .is_some_and(|rest| rest.split('/').all(part));
    if !is_path || !PARENTS.iter().any(|parent| path.starts_with(parent)) {
        return Err(
            "is no place for a disk: choose a path below /var, /mnt, /srv or /opt, of letters, digits, \
             ., _ and -"
                .to_owned(),
        );
    }
    let below = |kept: &&str| lies_within(path, kept);
    match KEPT.contains(&path) || KEPT_BELOW.iter().any(below) {
        true => Err("has what the machine starts with: choose a path beside it".to_owned()),
        false => Ok(()),
    }
}

fn lies_within(path: &str, parent: &str) -> bool {
    let rest = path.strip_prefix(parent);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
