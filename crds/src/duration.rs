//! A length of time as Go and Kubernetes write it (`30s`, `5m`, `1h30m`).
//!
//! Invariant: what is stored is the text as given, so that nobody's object changes when it is read
//! and written again.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Length of time in hours, minutes and seconds (Go `time.ParseDuration`, without fractions, signs
/// and units below a second).
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Duration(pub String);

/// What a duration looks like; the same pattern stands in the CRD.
pub const PATTERN: &str = r"^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$";

impl Duration {
    /// The time; none when the text is none, which the CRD's pattern keeps out.
    #[must_use]
    pub fn get(&self) -> Option<std::time::Duration> {
        let parsed: kube::core::Duration = self.0.parse().ok()?;
        (!parsed.is_negative()).then(|| parsed.into())
    }
}

impl From<&str> for Duration {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl JsonSchema for Duration {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 2, "maxLength": 21, "pattern": PATTERN })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_minutes_and_seconds_are_read() {
        let seconds = |text: &str| Duration::from(text).get().map(|d| d.as_secs());
        assert_eq!(seconds("5m"), Some(300));
        assert_eq!(seconds("1h30m5s"), Some(5405));
        assert_eq!(seconds("0s"), Some(0));
        for text in ["5", "-5m", "five", "5d"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
