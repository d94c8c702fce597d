//! Marker of a volume: which claim and which member it was first given to, and whose data it has got.
//!
//! It lies beside the data directory, so whoever loses the data alone still finds it, and whoever copies
//! or moves the volume takes it along.
//! Invariant: each of its facts is written once; none is ever changed.

use serde::{Deserialize, Serialize};

use crate::ids::MemberIds;

/// The file's name.
pub const NAME: &str = "covey-etcd-member.json";
/// More than it takes.
pub const MOST_BYTES: usize = 4096;

/// What it says.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Marker {
    /// UID of the claim.
    #[serde(rename = "claimUID")]
    pub claim: String,
    /// The member's name.
    pub name: String,
    /// Whose data was found first, once there was any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<MemberIds>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_read_as_it_was_written_and_nothing_in_it_is_guessed() {
        for data in [
            "",
            r#","data":{"clusterID":"cdf818194e3a8c32","memberID":"8e9e05c52164694d"}"#,
        ] {
            let text = format!(r#"{{"claimUID":"c0","name":"etcd-0"{data}}}"#);
            let marker: Marker = serde_json::from_str(&text).unwrap();
            assert_eq!(marker.data.is_some(), !data.is_empty());
            assert_eq!(serde_json::to_string(&marker).unwrap(), text);
        }
        for data in [
            "{}",
            r#"{"clusterID":"0","memberID":"1"}"#,
            r#"{"clusterID":"1"}"#,
        ] {
            let text = format!(r#"{{"claimUID":"c0","name":"etcd-0","data":{data}}}"#);
            assert!(serde_json::from_str::<Marker>(&text).is_err(), "{data}");
        }
    }
}
