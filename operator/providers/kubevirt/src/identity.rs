//! How what is made of a Machine is found again: by tenant namespace, name and UID.
//!
//! Invariant: a name alone proves nothing; only the UID says whose an object is.

use api::{Machine, names};
use kube::ResourceExt as _;
use kube::api::ObjectMeta;

/// Tenant namespace and name of everything of a machine.
pub(crate) fn place(machine: &Machine) -> (String, String) {
    (machine.tenant_namespace(), machine.name_any())
}

/// UID of the Machine that an object was made for.
pub(crate) fn machine_uid(metadata: &ObjectMeta) -> &str {
    let labels = metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get(names::LABEL_MACHINE_UID))
        .map_or("", String::as_str)
}

/// Whether an object was made for this very Machine.
pub(crate) fn is_of(metadata: &ObjectMeta, machine: &Machine) -> bool {
    let uid = machine.metadata.uid.as_deref().unwrap_or_default();
    !uid.is_empty() && machine_uid(metadata) == uid
}
