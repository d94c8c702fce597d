//! What the start gate before each member of etcd and etcd itself are told of the cluster: two keys of
//! the Secret `etcd` (docs/etcd.md).
//!
//! Invariant: it is written before the first pod of etcd is asked for, and only ever forbids more.

use serde::Serialize;

use crate::names;

/// What is known of a tenant cluster's etcd.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EtcdIdentity {
    /// Whether the cluster is to be made.
    pub state: InitialClusterState,
    /// The cluster, hexadecimal, once a member said it.
    pub cluster_id: Option<String>,
    /// UID of the Restore whose data members are to take over; none where there is none to take over.
    pub restore: Option<String>,
    /// What a cluster that never ran begins with; none where it begins without data, or ran.
    pub golden: Option<EtcdGolden>,
    /// Every member that is to run.
    pub members: Vec<EtcdMember>,
}

/// A golden file, and what the only member of a new cluster makes of it ([`crate::golden_start`]).
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdGolden {
    /// Its name in the image of etcd-agent.
    pub file: String,
    /// Its SHA-256, hexadecimal.
    pub sha256: String,
    /// etcd's flag `--initial-cluster-token`.
    pub token: String,
    /// etcd's flag `--initial-advertise-peer-urls`.
    #[serde(rename = "peerURL")]
    pub peer_url: String,
}

/// etcd's flag `--initial-cluster-state`, which counts for a member without data: `new` makes a cluster,
/// `existing` only ever joins one, so a member of `existing` that lost its data does not start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InitialClusterState {
    /// It never had a leader.
    New,
    /// It had a leader once.
    Existing,
}

/// One member.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdMember {
    /// Name of the pod, which is etcd's `--name`.
    pub name: String,
    /// UID of the PersistentVolumeClaim that the member was given.
    #[serde(rename = "claimUID")]
    pub claim_uid: String,
    /// Its identifier in the cluster, hexadecimal, once it said so.
    #[serde(rename = "memberID", skip_serializing_if = "Option::is_none")]
    pub member_id: Option<String>,
    /// Whether there need be no data on the volume: the member never ran.
    #[serde(skip_serializing_if = "is_false")]
    pub may_start_empty: bool,
    /// The newest entry of etcd's log that the member is known to have had; none where none is noted. Its gate refuses a
    /// volume that ends before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_index: Option<i64>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands fields over by reference"
)]
fn is_false(value: &bool) -> bool {
    !*value
}

impl InitialClusterState {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Existing => "existing",
        }
    }
}

impl EtcdIdentity {
    /// etcd's flag `--initial-cluster`: the members and where their peers reach them. It counts for one without data,
    /// which has to name exactly those that there are.
    #[must_use]
    pub fn initial_cluster(&self) -> String {
        let each = self.members.iter().map(|member| {
            let (name, port) = (&member.name, names::ETCD_PEER_PORT);
            format!("{name}=https://{name}:{port}")
        });
        each.collect::<Vec<_>>().join(",")
    }

    /// The gate's file: the key [`crate::names::ETCD_IDENTITY`] of the Secret `etcd`.
    #[must_use]
    pub fn file(&self) -> String {
        let mut file = serde_json::json!({ "members": self.members });
        if let Some(cluster) = &self.cluster_id {
            file["clusterID"] = serde_json::json!(cluster);
        }
        if let Some(restore) = &self.restore {
            file["restore"] = serde_json::json!(restore);
        }
        if let Some(golden) = &self.golden {
            file["golden"] = serde_json::json!(golden);
        }
        file.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gates_file_says_only_what_may_be() {
        let member = |number: u8, may_start_empty: bool| EtcdMember {
            name: format!("etcd-{number}"),
            claim_uid: format!("c{number}"),
            member_id: (!may_start_empty).then(|| "8e9e".to_owned()),
            may_start_empty,
            last_index: (!may_start_empty).then_some(5678),
        };
        let identity = EtcdIdentity {
            state: InitialClusterState::Existing,
            cluster_id: Some("cdf8".to_owned()),
            restore: None,
            golden: None,
            members: vec![member(0, false), member(1, true)],
        };
        assert_eq!(
            identity.file(),
            r#"{"clusterID":"cdf8","members":[{"claimUID":"c0","lastIndex":5678,"memberID":"8e9e","#
                .to_owned()
                + r#""name":"etcd-0"},{"claimUID":"c1","mayStartEmpty":true,"name":"etcd-1"}]}"#
        );
        let restoring = EtcdIdentity {
            restore: Some("5a1c".to_owned()),
            members: Vec::new(),
            ..identity
        };
        let file = r#"{"clusterID":"cdf8","members":[],"restore":"5a1c"}"#;
        assert_eq!(restoring.file(), file);
        let new = EtcdIdentity {
            cluster_id: None,
            restore: None,
            golden: Some(EtcdGolden {
                file: "a.db".to_owned(),
                sha256: "00".to_owned(),
                token: "0a1b".to_owned(),
                peer_url: "https://etcd-0:2380".to_owned(),
            }),
            ..restoring
        };
        let file = r#"{"golden":{"file":"a.db","peerURL":"https://etcd-0:2380","sha256":"00","token":"0a1b"},"members":[]}"#;
        assert_eq!(new.file(), file);
    }
}
