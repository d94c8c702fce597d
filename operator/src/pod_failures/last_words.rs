//! The last words of an etcd that did not start: the end of its log, which its pod's status has.
//!
//! Invariant: only what etcd itself says last counts: an entry of its log by itself, whose level is the last one.

use serde::Deserialize;

/// An entry of etcd's log.
#[derive(Debug, Deserialize)]
pub(super) struct LastWords {
    level: String,
    #[serde(default)]
    msg: String,
    #[serde(default)]
    error: String,
}

/// Why it ended, where it says so at the end of its log.
pub(super) fn last_words(log: &str) -> Option<LastWords> {
    let lines = log.lines().rev();
    let mut entries = lines.filter_map(|line| serde_json::from_str(line.trim()).ok());
    entries.find(|entry: &LastWords| entry.level == "fatal")
}

impl LastWords {
    /// For people; without the time.
    pub(super) fn text(&self) -> String {
        match self.error.as_str() {
            "" => self.msg.clone(),
            error => format!("{}: {error}", self.msg),
        }
    }

    /// Whether its data is damaged, or others that run have other data (`server/etcdserver/corrupt.go`,
    /// `server/storage/wal/`).
    pub(super) fn is_of_data(&self) -> bool {
        let is_other = self.error.ends_with(" found data inconsistency with peers");
        is_other || self.error.contains("crc mismatch")
    }
}
