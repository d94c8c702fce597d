//! What the start gate decides, for volumes that nobody else wrote to (`etcd-agent gate` decides more).
//!
//! Invariant: a member starts without data only where the operator says that it may.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use etcd_agent::args::{ClusterState, GateArgs};
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

/// What the very gate says of a volume on which something may have been built for a restore.
pub(super) fn takes_over(name: &str, identity: &[u8], pod: &Path, volume: &Path) -> Result<bool> {
    let file = pod.join("identity.json");
    std::fs::write(&file, identity)?;
    let code = etcd_agent::gate::run(GateArgs {
        data_dir: volume.join("data"),
        member: name.to_owned(),
        initial_cluster_state: ClusterState::Existing,
        identity: file,
        termination_log: pod.join("none"),
        deadline: 60,
    });
    Ok(code == ExitCode::SUCCESS)
}
