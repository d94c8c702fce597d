//! What the start gate decides, for volumes that nobody else wrote to (`etcd-agent gate` decides more).
//!
//! Invariant: a member starts without data only where the operator says that it may.

use std::path::Path;

use serde::Deserialize;

/// The operator's file.
#[derive(Debug, Deserialize)]
pub(super) struct Identity {
    members: Vec<Member>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    name: String,
    #[serde(rename = "claimUID")]
    claim: String,
    #[serde(default)]
    may_start_empty: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    Starts,
    Refused,
    /// The operator's file does not name the member.
    Unnamed,
}

pub(super) fn verdict(identity: &Identity, name: &str, claim: &str, volume: &Path) -> Verdict {
    let member = identity.members.iter().find(|member| member.name == name);
    let Some(member) = member else {
        return Verdict::Unnamed;
    };
    let has_data = volume.join("data/member/wal").exists();
    match member.claim == claim && (has_data || member.may_start_empty) {
        true => Verdict::Starts,
        false => Verdict::Refused,
    }
}
