//! Statuses: what is waited for, the conditions of a failure, and how a status is written.
//!
//! Invariant: reasons are PascalCase and from a closed set, because conditions, Events and metrics
//! share them.

use api::{ConditionStatus, ConditionType, Reason, set_condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kit_client::errors::Class;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde_json::json;

use crate::FIELD_MANAGER;

/// What is waited for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Waiting {
    /// The condition's reason and the metric's label.
    pub reason: Reason,
    /// For people.
    pub message: String,
}

/// What somebody else said, as one line of at most so many bytes.
#[must_use]
pub fn one_line(text: &str, most: usize) -> String {
    let mut line = text.trim().replace(char::is_control, " ");
    line.truncate(line.floor_char_boundary(most));
    line
}

/// The reason of a reconcile that failed.
#[must_use]
pub fn reason_of(class: Class) -> Reason {
    match class {
        Class::Transient => Reason::TransientFailure,
        Class::Invalid => Reason::InvalidInput,
        Class::Conflict => Reason::Conflict,
        Class::Bug => Reason::InternalError,
    }
}

/// The conditions of something whose reconcile failed: Degraded and Progressing say why. None where
/// they say so already.
#[must_use]
pub fn failing(
    before: &[Condition],
    class: Class,
    message: &str,
    generation: Option<i64>,
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let told = before.iter().any(|c| {
        c.type_ == ConditionType::Degraded.as_str()
            && c.status == ConditionStatus::True.as_str()
            && c.reason == reason_of(class)
    });
    if told && matches!(class, Class::Transient | Class::Conflict) {
        // The words differ with the request that failed first. A write for each of them would wake
        // the reconcile again at once, whatever its backoff says.
        return None;
    }
    let mut conditions = before.to_vec();
    for type_ in [ConditionType::Degraded, ConditionType::Progressing] {
        let (list, value) = (&mut conditions, ConditionStatus::True);
        set_condition(
            list,
            type_,
            value,
            reason_of(class),
            message,
            generation,
            Time(now),
        );
    }
    (conditions != before).then_some(conditions)
}

/// Writes the status of an object of ours; gives its new resource version.
///
/// # Errors
/// When the API refuses, or is not reached.
pub async fn write_status<K: Resource<DynamicType = ()>>(
    client: &Client,
    object: &K,
    status: &impl Serialize,
) -> Result<Option<String>, kit_client::write::Error> {
    let object = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        // With the UID, so that a namesake made since we looked does not get this status.
        "metadata": {
            "name": object.name_any(), "namespace": object.namespace(), "uid": object.uid(),
        },
        "status": status,
    });
    let written = kit_client::write::apply_status(client, &object, FIELD_MANAGER, true).await?;
    Ok(written.metadata.resource_version)
}
