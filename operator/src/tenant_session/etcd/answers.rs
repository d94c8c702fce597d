//! What etcd answers, as we have it: identifiers hexadecimal, as etcd's own programs write them.
//!
//! Invariant: an answer that lacks what every answer has is none.

use api::Reason;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};

/// More members than any of our clusters has: an answer with more is not ours.
const MOST_MEMBERS: usize = 16;

/// An alarm of etcd: it stands until somebody takes it away.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Alarm {
    /// Members have different data.
    Corrupt,
    /// The database has its most bytes; only reads and deletions go on.
    NoSpace,
}

impl Alarm {
    /// The condition's reason.
    #[must_use]
    pub fn reason(self) -> Reason {
        match self {
            Self::Corrupt => Reason::Corrupt,
            Self::NoSpace => Reason::NoSpace,
        }
    }

    /// Its name in etcd.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Corrupt => "CORRUPT",
            Self::NoSpace => "NOSPACE",
        }
    }
}

/// What a member says of itself.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MemberStatus {
    /// Identifier of its cluster, hexadecimal, as etcd writes it.
    pub cluster_id: String,
    /// Its own, hexadecimal.
    pub member_id: String,
    /// What is wrong with the cluster, the worst first.
    pub alarms: Vec<Alarm>,
    /// Identifiers of the members that the alarm [`Alarm::Corrupt`] names.
    pub corrupt: Vec<String>,
    /// Identifiers of the members that raised the alarm [`Alarm::NoSpace`].
    pub no_space: Vec<String>,
    /// Identifier of the member that leads; none while it knows no leader.
    pub leader: Option<String>,
    /// Whether it has no vote.
    pub is_learner: bool,
    /// The newest entry of the log that is certain to it.
    pub index: u64,
    /// The newest entry that is in its database.
    pub applied: u64,
    /// Revision of its data.
    pub revision: i64,
    /// Bytes of its database's file.
    pub size: u64,
    /// Bytes of that which are in use.
    pub size_in_use: u64,
    /// Most bytes that it may have.
    pub quota: u64,
    /// Its version, e.g. `3.6.16`.
    pub version: String,
}

/// A member in etcd's own list.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ListedMember {
    /// Its identifier, hexadecimal.
    pub id: String,
    /// Its name; none before it has run.
    pub name: Option<String>,
    /// Where its peers reach it.
    pub peer_urls: Vec<String>,
    /// Whether it has no vote.
    pub is_learner: bool,
}

/// A hash of a member's data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DataHash {
    /// The hash.
    pub hash: u32,
    /// Before which revision nothing is left: only hashes with the same can be compared.
    pub compacted: i64,
    /// Up to which revision.
    pub revision: i64,
}

/// An object as it stands in etcd. It is not printed: it may be a Secret.
#[derive(Clone, Eq, PartialEq)]
pub struct Stored {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// Revision of its last change.
    pub changed_at: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    header: Header,
    #[serde(default)]
    version: String,
    #[serde(default, deserialize_with = "number")]
    db_size: u64,
    #[serde(default, deserialize_with = "number")]
    db_size_in_use: u64,
    #[serde(default, deserialize_with = "number")]
    db_size_quota: u64,
    #[serde(default, deserialize_with = "number")]
    leader: u64,
    #[serde(default, deserialize_with = "number")]
    raft_index: u64,
    #[serde(default, deserialize_with = "number")]
    raft_applied_index: u64,
    #[serde(default)]
    is_learner: bool,
    #[serde(default)]
    errors: Vec<String>,
}

#[derive(Deserialize)]
struct Header {
    #[serde(deserialize_with = "number")]
    cluster_id: u64,
    #[serde(deserialize_with = "number")]
    member_id: u64,
    #[serde(default, deserialize_with = "number")]
    revision: i64,
}

impl Status {
    pub(super) fn read(self) -> Result<MemberStatus, serde_json::Error> {
        let raised = |alarm: Alarm| self.errors.iter().filter_map(move |e| named(e, alarm));
        let whose = |alarm| raised(alarm).filter(|id| *id != 0).map(hex).collect();
        let alarms = [Alarm::Corrupt, Alarm::NoSpace].into_iter();
        Ok(MemberStatus {
            alarms: alarms
                .filter(|alarm| raised(*alarm).next().is_some())
                .collect(),
            corrupt: whose(Alarm::Corrupt),
            no_space: whose(Alarm::NoSpace),
            cluster_id: hex(id(self.header.cluster_id)?),
            member_id: hex(id(self.header.member_id)?),
            leader: (self.leader != 0).then(|| hex(self.leader)),
            is_learner: self.is_learner,
            index: self.raft_index,
            applied: self.raft_applied_index,
            revision: self.header.revision,
            size: self.db_size,
            size_in_use: self.db_size_in_use,
            quota: self.db_size_quota,
            version: self.version,
        })
    }
}

/// Whose alarm of this kind a text tells of (`memberID:123 alarm:NOSPACE`); 0 where it does not say.
fn named(error: &str, alarm: Alarm) -> Option<u64> {
    let mut words = error.split_whitespace();
    let raised = format!("alarm:{}", alarm.name());
    words.clone().find(|word| *word == raised)?;
    let id = words.find_map(|word| word.strip_prefix("memberID:"));
    Some(id.and_then(|id| id.parse().ok()).unwrap_or(0))
}

#[derive(Deserialize)]
pub(super) struct Members {
    members: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    #[serde(rename = "ID", deserialize_with = "number")]
    id: u64,
    #[serde(default)]
    name: String,
    #[serde(rename = "peerURLs", default)]
    peer_urls: Vec<String>,
    #[serde(rename = "isLearner", default)]
    is_learner: bool,
}

impl Members {
    pub(super) fn read(self) -> Result<Vec<ListedMember>, serde_json::Error> {
        if self.members.is_empty() || self.members.len() > MOST_MEMBERS {
            let wrong = format!("{} members are not ours", self.members.len());
            return Err(serde::de::Error::custom(wrong));
        }
        let one = |member: Member| {
            Ok(ListedMember {
                id: hex(id(member.id)?),
                name: (!member.name.is_empty()).then_some(member.name),
                peer_urls: member.peer_urls,
                is_learner: member.is_learner,
            })
        };
        self.members.into_iter().map(one).collect()
    }
}

#[derive(Deserialize)]
pub(super) struct Hash {
    #[serde(default)]
    hash: u32,
    #[serde(default, deserialize_with = "number")]
    compact_revision: i64,
    #[serde(default, deserialize_with = "number")]
    hash_revision: i64,
}

impl Hash {
    pub(super) fn read(self) -> Result<DataHash, serde_json::Error> {
        if self.hash == 0 || self.hash_revision == 0 {
            return Err(serde::de::Error::custom("it is no hash of data"));
        }
        Ok(DataHash {
            hash: self.hash,
            compacted: self.compact_revision,
            revision: self.hash_revision,
        })
    }
}

/// What is there from one key on and before another; a list without anything is left out.
#[derive(Deserialize)]
pub(super) struct Range {
    /// Every answer has it.
    #[serde(rename = "header")]
    _header: Header,
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct KeyValue {
    key: String,
    #[serde(default)]
    value: String,
    #[serde(deserialize_with = "number")]
    mod_revision: i64,
}

impl Range {
    pub(super) fn read(self) -> Result<Vec<Stored>, serde_json::Error> {
        let bytes = |text: String| STANDARD.decode(text).map_err(serde::de::Error::custom);
        let one = |found: KeyValue| {
            Ok(Stored {
                key: bytes(found.key)?,
                value: bytes(found.value)?,
                changed_at: found.mod_revision,
            })
        };
        self.kvs.into_iter().map(one).collect()
    }
}

/// Whether what was to be so was so, and all was written; left out where not.
#[derive(Deserialize)]
pub(super) struct Txn {
    #[serde(rename = "header")]
    _header: Header,
    #[serde(default)]
    pub(super) succeeded: bool,
}

/// Nobody has the identifier 0.
fn id(number: u64) -> Result<u64, serde_json::Error> {
    match number {
        0 => Err(serde::de::Error::custom("an identifier is missing")),
        number => Ok(number),
    }
}

fn hex(number: u64) -> String {
    format!("{number:x}")
}

fn number<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<MemberStatus, serde_json::Error> {
        serde_json::from_str::<Status>(text)?.read()
    }

    #[test]
    fn answer_of_a_member_is_read() {
        let text = r#"{"header":{"cluster_id":"14841639068965178418","member_id":"10276657743932975437",
            "revision":"2","raft_term":"2"},"version":"3.6.16","dbSize":"20480",
            "leader":"10276657743932975437","raftIndex":"47","raftTerm":"2","raftAppliedIndex":"46",
            "dbSizeInUse":"16384","dbSizeQuota":"2147483648"}"#;
        let member = read(text).unwrap();
        assert_eq!(member.cluster_id, "cdf818194e3a8c32");
        assert_eq!(member.member_id, "8e9e05c52164694d");
        assert!(member.alarms.is_empty());
        assert_eq!(member.leader.as_deref(), Some("8e9e05c52164694d"));
        assert_eq!((member.index, member.applied), (47, 46));
        assert_eq!((member.size, member.size_in_use), (20480, 16384));
        assert_eq!((member.quota, member.revision), (2 << 30, 2));
        assert!(!member.is_learner);
    }

    #[test]
    fn list_of_members_is_read_and_one_that_has_not_run_has_no_name() {
        let text = r#"{"header":{},"members":[{"ID":"10276657743932975437","name":"etcd-0",
            "peerURLs":["https://etcd-0:2380"],"clientURLs":["https://etcd-0:2379"]},
            {"ID":"17","peerURLs":["https://etcd-1:2380"],"isLearner":true}]}"#;
        let members = |text: &str| serde_json::from_str::<Members>(text)?.read();
        let listed = members(text).unwrap();
        assert_eq!(listed[0].id, "8e9e05c52164694d");
        assert_eq!(listed[0].name.as_deref(), Some("etcd-0"));
        assert!(!listed[0].is_learner && listed[1].is_learner);
        assert_eq!((listed[1].id.as_str(), &listed[1].name), ("11", &None));
        assert_eq!(listed[1].peer_urls, ["https://etcd-1:2380"]);
        let many = format!("[{}]", vec![r#"{"ID":"1"}"#; 17].join(","));
        for wrong in ["[]", r#"[{"ID":"0"}]"#, r#"[{"name":"a"}]"#, &many] {
            let text = format!(r#"{{"members":{wrong}}}"#);
            assert!(members(&text).is_err(), "{text}");
        }
        assert!(members("{}").is_err(), "no list is not an empty one");
    }

    #[test]
    fn hash_of_data_says_from_where_to_where() {
        let hash = |text: &str| serde_json::from_str::<Hash>(text)?.read();
        let text = r#"{"hash":1084519789,"compact_revision":"-1","hash_revision":"7"}"#;
        let wanted = DataHash {
            hash: 1_084_519_789,
            compacted: -1,
            revision: 7,
        };
        assert_eq!(hash(text).unwrap(), wanted);
        assert!(hash("{}").is_err());
    }

    #[test]
    fn objects_are_read_and_no_answer_is_not_an_empty_one() {
        let range = |text: &str| serde_json::from_str::<Range>(text)?.read();
        let header = r#""header":{"cluster_id":"1","member_id":"2"}"#;
        let text = format!(
            r#"{{{header},"kvs":[{{"key":"YQ==","value":"Yg==","mod_revision":"7","version":"1"}}],"count":"1"}}"#
        );
        let found = range(&text).unwrap();
        assert_eq!(
            (found[0].key.as_slice(), found[0].value.as_slice()),
            (&b"a"[..], &b"b"[..])
        );
        assert_eq!((found[0].changed_at, found.len()), (7, 1));
        assert_eq!(range(&format!("{{{header}}}")).unwrap().len(), 0);
        let wrong = text.replace("YQ==", "Y");
        assert!(range("{}").is_err() && range(&wrong).is_err());
        let done = |text: &str| serde_json::from_str::<Txn>(text).map(|txn| txn.succeeded);
        assert!(done(&format!(r#"{{{header},"succeeded":true}}"#)).unwrap());
        assert!(!done(&format!("{{{header}}}")).unwrap());
        assert!(done("{}").is_err());
    }

    #[test]
    fn alarms_are_found_among_errors() {
        let of = |errors: &str| {
            let header = r#""header":{"cluster_id":"1","member_id":"2"}"#;
            read(&format!("{{{header},\"errors\":{errors}}}"))
                .unwrap()
                .alarms
        };
        let space = r#"["memberID:10276657743932975437 alarm:NOSPACE "]"#;
        assert_eq!(of(space), [Alarm::NoSpace]);
        let both = r#"["memberID:1 alarm:NOSPACE ","memberID:1 alarm:CORRUPT "]"#;
        assert_eq!(of(both), [Alarm::Corrupt, Alarm::NoSpace]);
        let text = format!(r#"{{"header":{{"cluster_id":"1","member_id":"2"}},"errors":{both}}}"#);
        assert_eq!(read(&text).unwrap().corrupt, ["1"]);
        assert_eq!(read(&text).unwrap().no_space, ["1"]);
        assert_eq!(of(r#"["etcdserver: no leader"]"#), []);
    }

    #[test]
    fn what_is_no_answer_is_not_read() {
        for text in [
            "",
            "{}",
            r#"{"header":{"cluster_id":"x","member_id":"1"}}"#,
            r#"{"header":{"cluster_id":"1","member_id":"0"}}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
