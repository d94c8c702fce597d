//! What the operator and the activator tell each other of tenant clusters that sleep.
//!
//! The operator keeps one ConfigMap ([`crate::names::SLEEPERS`]): a key for each port on which the activator waits in
//! the place of a control plane, and as its value a [`Sleeper`] in JSON. The activator answers by a Lease
//! ([`crate::names::wake_lease`]) whose holder is the address of the client that wants the API.
//!
//! Invariant: a port belongs to one UID, and whoever reads an entry compares the UID; an entry that is not understood
//! belongs to nobody.

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Who is waited for at a port.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sleeper {
    /// UID of the TenantCluster.
    pub uid: String,
    /// When it was sent to sleep: a Lease renewed later than that has woken it, one renewed earlier is of a sleep before.
    pub since: Timestamp,
    /// Address and port of a pod of its control plane that is ready, once there is one. Example: `10.0.3.17:6443`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Ranges of clients that may wake it; empty: all. Set only where the address of a client reaches the activator as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_ranges: Vec<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_what_is_read_and_what_is_not_needed_is_left_out() {
        let sleeper = Sleeper {
            uid: "0a1b2c3d".to_owned(),
            since: Timestamp::UNIX_EPOCH,
            server: None,
            source_ranges: Vec::new(),
        };
        let written = serde_json::to_value(&sleeper).unwrap();
        assert_eq!(
            written,
            json!({"uid": "0a1b2c3d", "since": "1970-01-01T00:00:00Z"})
        );
        assert_eq!(serde_json::from_value::<Sleeper>(written).unwrap(), sleeper);
    }
}
