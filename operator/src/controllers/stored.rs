//! What an API server keeps of what it is told, for worlds of tests.
//!
//! Invariant: what an object loses on its way through JSON, it loses here: of a time the parts of a second.

use serde::{Serialize, de::DeserializeOwned};

/// `value`, written and read again.
pub(super) fn stored<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let text = serde_json::to_value(value).expect("what has a schema has JSON");
    serde_json::from_value(text).expect("what was written can be read")
}
