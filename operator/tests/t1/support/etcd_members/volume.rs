//! What the start gate decides, for volumes that nobody else wrote to (`etcd-agent gate` decides more).
//!
//! Invariant: a member starts without data only where the operator says that it may.

use std::path::Path;

use serde::Deserialize;

/// The operator's file.
#[derive(Debug, Deserialize)]
pub(super) struct Identity {
    #[serde(default)]
    pub(super) restore: Option<String>,
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
}

pub(super) fn verdict(identity: &Identity, name: &str, claim: &str, volume: &Path) -> Verdict {
    let member = identity.members.iter().find(|member| member.name == name);
    let has_data = volume.join("data/member/wal").exists();
    let starts = member.is_some_and(|m| m.claim == claim && (has_data || m.may_start_empty));
    match starts {
        true => Verdict::Starts,
        false => Verdict::Refused,
    }
}
