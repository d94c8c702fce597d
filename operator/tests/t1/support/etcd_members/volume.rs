//! What the start gate decides, for volumes that nobody else wrote to (`etcd-agent gate` decides more); and bits that
//! flip on them.
//!
//! Invariant: a member starts without data only where the operator says that it may.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
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
    #[serde(default)]
    last_index: Option<u64>,
}

impl Identity {
    /// Whether it says of a member what it had.
    pub(super) fn says_what_it_had(&self, name: &str) -> bool {
        let mut members = self.members.iter();
        members.any(|member| member.name == name && member.last_index.is_some())
    }
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

/// What the very gate says of a volume on which something may have been built for a restore, or that was set back.
pub(super) fn lets_start(name: &str, identity: &[u8], pod: &Path, volume: &Path) -> Result<bool> {
    let file = pod.join("identity.json");
    std::fs::write(&file, identity)?;
    let code = etcd_agent::gate::run(GateArgs {
        data_dir: volume.join("data"),
        member: name.to_owned(),
        initial_cluster_state: ClusterState::Existing,
        identity: file,
        termination_log: pod.join("none"),
        golden_files: pod.join("none"),
        etcdutl: pod.join("none"),
        deadline: 60,
    });
    Ok(code == ExitCode::SUCCESS)
}

/// Flips a bit of each of these bytes, wherever they are in the files of a directory; says how often they were there.
pub(super) fn flip(directory: &Path, bytes: &[u8]) -> Result<usize> {
    let other: Vec<u8> = bytes.iter().map(|byte| byte ^ 1).collect();
    let mut flipped = 0;
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let content = std::fs::read(&path)?;
        let file = File::options().write(true).open(&path)?;
        let mut from = 0;
        let find = |from: usize| {
            content[from..]
                .windows(bytes.len())
                .position(|w| w == bytes)
        };
        while let Some(at) = find(from) {
            file.write_all_at(&other, u64::try_from(from + at)?)?;
            from += at + bytes.len();
            flipped += 1;
        }
        file.sync_all()?;
    }
    Ok(flipped)
}
