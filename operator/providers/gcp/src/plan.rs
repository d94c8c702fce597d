//! The next call of a creation. Pure: no I/O, no clock, no chance.
//!
//! An instance is asked for under its Machine's own `requestId`, which gives the same operation for a day, and under its
//! own name, of which there is one in the zone. An operation that failed has made nothing; once that is told for a while it
//! is asked for under a `requestId` that follows from the failed one, since the first would answer with the failure.
//!
//! Invariant: nothing is asked for while an operation runs, after one that made an instance, or while one bears the name;
//! planning again after a call gives the next one, or none, and never the same thing twice.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use providers::absence::SETTLE;
use providers::identity::{Owner, is_uuid, ours};
use ring::digest::{SHA256, digest};

use crate::labels;
use crate::refusal::CAPACITY;
use crate::schema::{
    CreateAccess, CreateDisk, CreateInstance, CreateInterface, InitializeParams, Instance,
    Metadata, MetadataItem, Operation, Scheduling, Tags,
};
use crate::settings::{Project, USER_DATA_LIMIT, Wanted};

/// What there is of one Machine.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Seen {
    /// The instance that bears its name or its labels.
    pub instance: Option<Instance>,
    /// Creations of an instance of its name.
    pub insertions: Vec<Operation>,
}

/// The next step of a creation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Creation {
    /// Ask for it.
    Insert {
        /// The `requestId`.
        request: String,
        /// What is sent.
        body: Box<CreateInstance>,
    },
    /// It is there.
    There(Box<Instance>),
    /// It is being made, or was a moment ago.
    Wait,
    /// It was asked for, and nothing was made.
    Failed(Box<Operation>),
    /// It was made and has ended.
    Ended,
    /// The name is somebody else's.
    Taken,
    /// It cannot be made as it is.
    Impossible(String),
}

/// Whether an instance is a Machine's: by its labels, or where somebody took them off by the ID that it was known to have.
#[must_use]
pub fn is_its(owner: &Owner, known: Option<u64>, instance: &Instance) -> bool {
    let labels = labels::read(&instance.labels);
    owner.has(&labels)
        || (known.is_some() && instance.id.parse().ok() == known && ours(&labels).is_empty())
}

/// The next step towards an instance, after what was seen. `now`: by Google's clock.
#[must_use]
pub fn creation(wanted: &Wanted, project: &Project, seen: &Seen, now: Timestamp) -> Creation {
    let owner = &wanted.owner;
    if let Some(instance) = &seen.instance {
        return match is_its(owner, None, instance) {
            true => Creation::There(Box::new(instance.clone())),
            false => Creation::Taken,
        };
    }
    if let Some(why) = impossible(wanted, project) {
        return Creation::Impossible(why);
    }
    if seen.insertions.iter().any(|o| o.status != "DONE") {
        return Creation::Wait;
    }
    let last = seen
        .insertions
        .iter()
        .max_by_key(|o| (time(o.insert_time.as_deref()), o.id.clone()));
    let Some(last) = last else {
        return insert(wanted, project, None);
    };
    let since = time(last.end_time.as_deref()).map(|end| now.duration_since(end));
    let is_young = |age: SignedDuration| since.is_none_or(|since| since < age);
    match &last.error {
        Some(_) if is_young(capacity()) => Creation::Failed(Box::new(last.clone())),
        Some(_) => insert(wanted, project, Some(&last.id)),
        None if is_young(SETTLE) => Creation::Wait,
        None => Creation::Ended,
    }
}

fn capacity() -> SignedDuration {
    SignedDuration::try_from(CAPACITY).unwrap_or(SETTLE)
}

fn time(text: Option<&str>) -> Option<Timestamp> {
    text.and_then(|text| text.parse().ok())
}

fn insert(wanted: &Wanted, project: &Project, after: Option<&str>) -> Creation {
    Creation::Insert {
        request: request(&wanted.owner.uid, after),
        body: Box::new(body(wanted, project)),
    }
}

/// The `requestId` of a Machine's creation: its UID, and after an operation that failed a UUID that follows from both.
#[must_use]
pub fn request(uid: &str, after: Option<&str>) -> String {
    if after.is_none() && is_uuid(uid) {
        return uid.to_owned();
    }
    let text = format!("{uid}/{}", after.unwrap_or_default());
    let hash = digest(&SHA256, text.as_bytes());
    let mut hex = String::new();
    for byte in &hash.as_ref()[..16] {
        // Writing to a text cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    // Of one's own making (RFC 9562, 5.8).
    format!(
        "{}-{}-8{}-8{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..]
    )
}

/// Why it cannot be made, which would only be found out by asking; none where it can.
fn impossible(wanted: &Wanted, project: &Project) -> Option<String> {
    let size = wanted.user_data.len();
    if size > USER_DATA_LIMIT {
        return Some(format!(
            "its user data have {size} bytes and may have {USER_DATA_LIMIT}: give the node pool fewer labels, taints \
             and SSH keys"
        ));
    }
    if project.subnet.is_empty() {
        return Some(
            "no subnet is named, and it would be in the default network: name one as spec.gcp.subnet of the ProviderConfig".to_owned(),
        );
    }
    if !is_image(&wanted.image) {
        return Some(format!(
            "{} is no image: name one as projects/PROJECT/global/images/NAME, and no family, whose newest changes",
            wanted.image
        ));
    }
    labels::unusable(&wanted.owner)
}

/// `projects/PROJECT/global/images/NAME`.
#[must_use]
pub fn is_image(text: &str) -> bool {
    let parts: Vec<_> = text.split('/').collect();
    matches!(parts.as_slice(), ["projects", project, "global", "images", name]
        if !project.is_empty() && !name.is_empty())
}

/// What is sent. No account of a service, so the metadata server has no token for anybody.
fn body(wanted: &Wanted, project: &Project) -> CreateInstance {
    let item = |key, value: &str| MetadataItem {
        key,
        value: value.to_owned(),
    };
    let labels = labels::spelled(&wanted.owner);
    let access = CreateAccess {
        type_: "ONE_TO_ONE_NAT",
        name: "External NAT",
    };
    CreateInstance {
        name: wanted.owner.name(),
        machine_type: format!(
            "zones/{}/machineTypes/{}",
            project.zone, wanted.machine_type
        ),
        labels: labels.clone(),
        disks: vec![CreateDisk {
            boot: true,
            auto_delete: true,
            initialize_params: InitializeParams {
                source_image: wanted.image.clone(),
                disk_size_gb: wanted.disk.to_string(),
                labels,
            },
        }],
        network_interfaces: vec![CreateInterface {
            subnetwork: format!(
                "projects/{}/regions/{}/subnetworks/{}",
                project.project,
                project.region(),
                project.subnet
            ),
            access_configs: project.public_ipv4.then_some(access).into_iter().collect(),
        }],
        metadata: Metadata {
            items: vec![
                item("user-data", &wanted.user_data),
                item("block-project-ssh-keys", "true"),
                item("serial-port-enable", "false"),
            ],
        },
        tags: (!project.tags.is_empty()).then(|| Tags {
            items: project.tags.clone(),
        }),
        scheduling: scheduling(wanted.is_spot),
    }
}

fn scheduling(is_spot: bool) -> Scheduling {
    let text = |spot: &str, other: &str| if is_spot { spot } else { other }.to_owned();
    Scheduling {
        provisioning_model: text("SPOT", "STANDARD"),
        instance_termination_action: is_spot.then(|| "DELETE".to_owned()),
        automatic_restart: !is_spot,
        on_host_maintenance: text("TERMINATE", "MIGRATE"),
    }
}

#[cfg(test)]
mod tests;
