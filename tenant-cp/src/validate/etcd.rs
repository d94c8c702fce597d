//! Validation of the settings of etcd.
//!
//! Invariant: what is let through leaves a member room for its log beside its database.

use api::Reason;
use api::tenant_cluster::Etcd;

use crate::problem::Problem;
use crate::text;
use crate::validate::quantity;

const LEAST_STORAGE: &str = "1Gi";
const LEAST_QUOTA: &str = "512Mi";
/// etcd's own advice (https://etcd.io/docs/v3.6/dev-guide/limit/).
const MOST_QUOTA: &str = "8Gi";
/// The write-ahead log and snapshots.
const SPARE: &str = "512Mi";

pub(super) fn check(etcd: &Etcd, problems: &mut Vec<Problem>) {
    if !matches!(etcd.replicas, 1 | 3) {
        problems.push(Problem::new(
            "spec.etcd.replicas",
            Reason::ReplicasRange,
            format!("{} members cannot be had: choose 1 or 3", etcd.replicas),
        ));
    }
    size("spec.etcd.storage.size", &etcd.storage.size.0, problems);
    if let Some(events) = &etcd.events {
        size("spec.etcd.events.size", &events.size.0, problems);
        quantity::check_resources("spec.etcd.events.resources", &events.resources, problems);
    }
    if let Some(class) = &etcd.storage.storage_class_name
        && !text::is_subdomain(class)
    {
        problems.push(Problem::new(
            "spec.etcd.storage.storageClassName",
            Reason::StorageClassMalformed,
            format!(
                "\"{class}\" is not the name of a StorageClass: name one of the management \
                 cluster's, or remove the field for its default"
            ),
        ));
    }
    quantity::check_resources("spec.etcd.resources", &etcd.resources, problems);
    quota(etcd, problems);
}

fn size(field: &str, size: &str, problems: &mut Vec<Problem>) {
    let problem = match (quantity::nanos(size), quantity::nanos(LEAST_STORAGE)) {
        (None, _) => Some((Reason::QuantityMalformed, quantity::malformed(size))),
        (size_nanos, least) if size_nanos < least => Some((
            Reason::StorageTooSmall,
            format!("{size} is too small for etcd's data and log: use {LEAST_STORAGE} or more"),
        )),
        _ => None,
    };
    if let Some((reason, message)) = problem {
        problems.push(Problem::new(field, reason, message));
    }
}

fn quota(etcd: &Etcd, problems: &mut Vec<Problem>) {
    let Some(quota) = etcd.quota_backend_bytes.as_ref() else {
        return;
    };
    let (text, size) = (quota.0.as_str(), etcd.storage.size.0.as_str());
    let of = |text: &str| quantity::bytes(text).unwrap_or_default();
    let (least, most, spare) = (of(LEAST_QUOTA), of(MOST_QUOTA), of(SPARE));
    let problem = match quantity::bytes(text) {
        None => (Reason::QuantityMalformed, quantity::malformed(text)),
        Some(asked) if !(least..=most).contains(&asked) => (
            Reason::EtcdQuotaRange,
            format!(
                "{text} is not within {LEAST_QUOTA} and {MOST_QUOTA}: choose a size between them"
            ),
        ),
        // A size that is none is said where it stands.
        Some(asked) if quantity::bytes(size).is_some_and(|size| asked + spare > size) => (
            Reason::EtcdQuotaRange,
            format!(
                "{text} and {SPARE} for log and snapshots are more than a volume of {size} holds: \
                 choose less, or raise spec.etcd.storage.size"
            ),
        ),
        Some(_) => return,
    };
    problems.push(Problem::new(
        "spec.etcd.quotaBackendBytes",
        problem.0,
        problem.1,
    ));
}

/// What a full database cannot be helped out of.
pub(super) fn warning(etcd: &Etcd) -> Option<String> {
    let quota = etcd.quota_backend_bytes.as_ref()?;
    let (bytes, size) = (
        quantity::bytes(&quota.0)?,
        quantity::bytes(&etcd.storage.size.0)?,
    );
    (bytes > size / 2).then(|| {
        format!(
            "spec.etcd.quotaBackendBytes: {} is more than half of {}: a full database cannot be \
             defragmented there, which takes a second copy",
            quota.0, etcd.storage.size.0
        )
    })
}
