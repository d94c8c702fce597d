//! What the operator knows of a tenant cluster's etcd: the file that it mounts into every member's pod.
//!
//! Invariant: what it does not say is unknown and forbids; a file that contradicts itself says nothing.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::ids::Id;

/// The file. It is read by pods that are older than the operator that wrote it, so fields that are not
/// known are passed over.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// The cluster, once a leader was seen. From then on it was bootstrapped.
    #[serde(rename = "clusterID", default)]
    pub cluster: Option<Id>,
    /// UID of the Restore whose data members are to take over, where they have not.
    #[serde(default)]
    pub restore: Option<String>,
    /// What a cluster that never ran begins with in place of nothing; none where it begins without data.
    #[serde(default)]
    pub golden: Option<Golden>,
    /// Every member that is to run.
    pub members: Vec<Member>,
}

/// A golden file (docs/adr/0023-golden-start.md), and what the only member of a new cluster makes of it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Golden {
    /// Its name among those of the agent's image. Example: `kubernetes-1.36.3-etcd-3.6-0a1b2c3d4e5f.db`.
    pub file: String,
    /// SHA-256 of all of it, hexadecimal. One with any other is not used.
    pub sha256: String,
    /// etcd's flag `--initial-cluster-token`: the cluster's identifier is computed of it.
    pub token: String,
    /// etcd's flag `--initial-advertise-peer-urls`.
    #[serde(rename = "peerURL")]
    pub peer_url: String,
}

/// One member.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// The pod's name, which is etcd's `--name`.
    pub name: String,
    /// UID of the PersistentVolumeClaim that the member was given. Another one under the same name is
    /// another volume.
    #[serde(rename = "claimUID")]
    pub claim: String,
    /// Its identifier in the cluster, once that is known.
    #[serde(rename = "memberID", default)]
    pub id: Option<Id>,
    /// Whether there need be no data: it never ran, or was added to the cluster anew.
    #[serde(default)]
    pub may_start_empty: bool,
    /// Index of the newest entry of etcd's log that the member once said was in its database: what was agreed upon and is
    /// on its volume, unless that was set back. None where the operator has not noted any, or people accept what is there.
    #[serde(default)]
    pub last_index: Option<u64>,
}

/// Why a file says nothing.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unusable {
    /// Not the JSON that it should be.
    #[error("it is not what the operator writes: {0}")]
    Malformed(String),
    /// A value that two members have, or none should.
    #[error("{field} {value:?} is given to two members or is empty")]
    Ambiguous {
        /// Which field.
        field: &'static str,
        /// Its value.
        value: String,
    },
}

impl Identity {
    /// Reads the file's text.
    ///
    /// # Errors
    /// When it is not a file of this kind, or contradicts itself.
    pub fn parse(text: &[u8]) -> Result<Self, Unusable> {
        let identity: Self =
            serde_json::from_slice(text).map_err(|error| Unusable::Malformed(error.to_string()))?;
        let of = |value: fn(&Member) -> Option<String>| identity.members.iter().filter_map(value);
        distinct("name", of(|member| Some(member.name.clone())))?;
        distinct("claimUID", of(|member| Some(member.claim.clone())))?;
        distinct("memberID", of(|member| member.id.map(String::from)))?;
        Ok(identity)
    }

    /// The member of this name.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }

    /// Whether somebody else than `member` has the data of the cluster.
    #[must_use]
    pub fn has_others(&self, member: &Member) -> bool {
        let mut others = self
            .members
            .iter()
            .filter(|other| other.name != member.name);
        others.any(|other| !other.may_start_empty)
    }
}

fn distinct(field: &'static str, values: impl Iterator<Item = String>) -> Result<(), Unusable> {
    let mut seen = BTreeSet::new();
    for value in values {
        if value.is_empty() || seen.contains(&value) {
            return Err(Unusable::Ambiguous { field, value });
        }
        seen.insert(value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_unknown_and_what_is_new_is_passed_over() {
        let text =
            br#"{"members": [{"name": "etcd-0", "claimUID": "c0", "later": 1}], "more": {}}"#;
        let identity = Identity::parse(text).unwrap();
        assert_eq!(identity.cluster, None);
        let member = identity.member("etcd-0").unwrap();
        assert_eq!((member.id, member.may_start_empty), (None, false));
        assert_eq!(identity.member("etcd-1"), None);
    }

    #[test]
    fn a_whole_file_is_read() {
        let text = br#"{"clusterID": "cdf818194e3a8c32", "members": [
            {"name": "etcd-0", "claimUID": "c0", "memberID": "8e9e05c52164694d", "lastIndex": 5678},
            {"name": "etcd-1", "claimUID": "c1", "mayStartEmpty": true}]}"#;
        let identity = Identity::parse(text).unwrap();
        assert_eq!(identity.cluster, Id::new(0xcdf8_1819_4e3a_8c32));
        let [first, second] = [0, 1].map(|at| &identity.members[at]);
        assert_eq!(first.id, Id::new(0x8e9e_05c5_2164_694d));
        assert!(second.may_start_empty);
        assert_eq!((first.last_index, second.last_index), (Some(5678), None));
        assert!(identity.has_others(second) && !identity.has_others(first));
    }

    #[test]
    fn what_it_begins_with_is_read_whole_or_the_file_is_refused() {
        let file = |golden: &str| {
            let text = format!(r#"{{"golden": {golden}, "members": []}}"#);
            Identity::parse(text.as_bytes())
        };
        let whole = r#"{"file": "a.db", "sha256": "00", "token": "t", "peerURL": "https://etcd-0:2380", "later": 1}"#;
        let golden = file(whole).unwrap().golden.unwrap();
        assert_eq!((golden.file.as_str(), golden.token.as_str()), ("a.db", "t"));
        assert_eq!(file("null").unwrap().golden, None);
        for broken in [
            r#"{"file": "a.db", "sha256": "00", "token": "t"}"#,
            "{}",
            "[]",
        ] {
            assert!(file(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_file_that_contradicts_itself_is_refused() {
        let two = |first: &str, second: &str| {
            let text = format!("{{\"members\": [{{{first}}}, {{{second}}}]}}");
            Identity::parse(text.as_bytes())
        };
        let [a, b] = [
            r#""name": "a", "claimUID": "c0""#,
            r#""name": "b", "claimUID": "c1""#,
        ];
        assert!(two(a, b).is_ok());
        for (first, second) in [
            (a, a),
            (a, r#""name": "b", "claimUID": "c0""#),
            (a, r#""name": "", "claimUID": "c1""#),
            (a, r#""name": "b", "claimUID": """#),
            (
                r#""name": "a", "claimUID": "c0", "memberID": "1""#,
                r#""name": "b", "claimUID": "c1", "memberID": "01""#,
            ),
        ] {
            let found = two(first, second);
            assert!(
                matches!(found, Err(Unusable::Ambiguous { .. })),
                "{first} {second}"
            );
        }
        for text in ["", "{}", "[]", r#"{"clusterID": "0", "members": []}"#] {
            let found = Identity::parse(text.as_bytes());
            assert!(matches!(found, Err(Unusable::Malformed(_))), "{text}");
        }
    }
}
