//! What a kubelet says of the pod of a member that is played.
//!
//! Invariant: the same is said in the same words.

use jiff::Timestamp;
use serde_json::{Value, json};

/// What the gate says, and its exit code.
pub(super) type Refusal = (i32, &'static str);

pub(super) const LOST: Refusal = (10, "VolumeLost: there is no data");
pub(super) const OUTDATED: Refusal = (18, "OutdatedData: the volume was set back");
pub(super) const UNNAMED: Refusal = (
    15,
    "IdentityUnusable: the operator's file does not name this member",
);

/// What there is to be said.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    /// Whether etcd runs.
    pub(super) runs: bool,
    /// Whether it is ready.
    pub(super) ready: bool,
    /// What the gate says against its volume.
    pub(super) refused: Option<Refusal>,
    /// The exit code of etcd, and the end of its log, when it ended last.
    pub(super) last_words: Option<(i32, String)>,
}

impl Told {
    /// The patch; `since`: when it became ready, or was no more.
    pub(super) fn status(&self, since: Timestamp) -> Value {
        let ended = |(code, message): (i32, &str)| {
            json!({ "terminated": { "exitCode": code, "reason": "Error", "message": message,
                "startedAt": null, "finishedAt": null } })
        };
        let container = |name: &str, state: Value, last: Value| {
            json!([{ "name": name, "image": "", "imageID": "", "ready": self.ready,
                "restartCount": 0, "state": state, "lastState": last }])
        };
        let gate = self
            .refused
            .map(|refused| container("gate", ended(refused), json!({})));
        let state = match self.runs {
            true => json!({ "running": { "startedAt": null } }),
            false => json!({ "waiting": { "reason": "CrashLoopBackOff" } }),
        };
        let last = self.last_words.as_ref();
        let last = last.map(|(code, words)| ended((*code, words)));
        let etcd = last.map(|last| container("etcd", state, last));
        json!({ "status": {
            "conditions": [{ "type": "Ready", "status": if self.ready { "True" } else { "False" },
                "lastTransitionTime": since.to_string() }],
            "containerStatuses": etcd.unwrap_or_else(|| json!([])),
            "initContainerStatuses": gate.unwrap_or_else(|| json!([])),
        } })
    }
}
