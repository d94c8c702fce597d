//! What an API server keeps of what it is told, for worlds of tests.
//!
//! Invariant: what an object loses on its way through JSON, it loses here: of a time the parts of a second.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Serialize, de::DeserializeOwned};

/// `value`, written and read again.
pub(super) fn stored<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let text = serde_json::to_value(value).expect("what has a schema has JSON");
    serde_json::from_value(text).expect("what was written can be read")
}

/// A condition changes its time only with its status: else a status is written at every reconcile.
pub(super) fn keep_their_times<'a>(
    before: Option<&Vec<Condition>>,
    after: impl IntoIterator<Item = &'a Condition>,
) {
    for told in after {
        let mut before = before.into_iter().flatten();
        let stayed = before.find(|c| c.type_ == told.type_ && c.status == told.status);
        if let Some(stayed) = stayed {
            assert_eq!(
                stayed.last_transition_time, told.last_transition_time,
                "{} stays {} and has another time",
                told.type_, told.status
            );
        }
    }
}
