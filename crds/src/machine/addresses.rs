//! Addresses of a machine as the management cluster knows them. The operator writes them on the virtual
//! machine, because who needs them (the cloud controller manager) may read no pods.
//!
//! Invariant: nothing here was ever said by a guest: KubeVirt's report of interfaces is what the guest's
//! agent says of itself (`pkg/network/setup/netstat.go`), addresses of the pod around it are the cluster
//! network's own.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Annotation of a virtual machine with them, as JSON.
pub const ANNOTATION: &str = "covey.dev/addresses";

/// Addresses of one instance, where it runs now.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PublishedAddresses {
    /// UID of the instance that has them.
    pub instance: String,
    /// The management cluster's node that it runs on; elsewhere it has others.
    pub node: String,
    /// One for each family, the primary one first.
    pub addresses: Vec<IpAddr>,
}

impl PublishedAddresses {
    /// What annotations say; none where they say nothing that can be read.
    #[must_use]
    pub fn of(annotations: Option<&BTreeMap<String, String>>) -> Option<Self> {
        serde_json::from_str(annotations?.get(ANNOTATION)?).ok()
    }

    /// The annotation's value.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Whether these are of that instance on that node.
    #[must_use]
    pub fn are_of(&self, instance: &str, node: &str) -> bool {
        self.instance == instance && self.node == node && !self.addresses.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nonsense_is_nothing() {
        let published = PublishedAddresses {
            instance: "u".to_owned(),
            node: "n".to_owned(),
            addresses: vec!["10.0.0.7".parse().unwrap(), "fd00::7".parse().unwrap()],
        };
        let annotations = |text: String| BTreeMap::from([(ANNOTATION.to_owned(), text)]);
        let read = PublishedAddresses::of(Some(&annotations(published.to_text())));
        assert_eq!(read.as_ref(), Some(&published));
        assert!(published.are_of("u", "n"));
        assert!(!published.are_of("u", "m") && !published.are_of("v", "n"));
        for nonsense in [
            "",
            "{}",
            "10.0.0.7",
            r#"{"instance":"u","node":"n","addresses":["x"]}"#,
        ] {
            assert_eq!(
                PublishedAddresses::of(Some(&annotations(nonsense.to_owned()))),
                None
            );
        }
    }
}
