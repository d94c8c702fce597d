//! Says what was decided: on the standard error, and where the kubelet reads what becomes part of the
//! pod's status.
//!
//! Invariant: one line, the reason's word first, and never longer than the kubelet takes.

use std::io::{self, Write as _};
use std::path::Path;

use super::plan::Start;
use super::refusal::Refusal;
use crate::ids::MemberIds;
use crate::termination_log;

/// Below the kubelet's 4096 bytes, of which all containers of a pod share 12 KiB.
const MOST_BYTES: usize = 1024;

/// With what etcd starts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Begun {
    /// As it was decided.
    As(Start),
    /// For the first time, with the data of this golden file.
    Golden(String, MemberIds),
    /// For the first time, without data, although it should have had a golden file's: why.
    WithoutGolden(String),
}

/// What was decided, as one line.
pub(crate) fn line(member: &str, decision: &Result<Begun, Refusal>) -> String {
    let line = match decision {
        Ok(Begun::As(Start::First)) => {
            format!("Start: {member} starts for the first time, without data")
        }
        // The operator reads the word and the name behind it.
        Ok(Begun::Golden(file, ids)) => format!(
            "GoldenStart: {file}: {member} starts for the first time with what all of its version have: cluster {}, \
             member {}",
            ids.cluster, ids.member
        ),
        Ok(Begun::WithoutGolden(why)) => {
            format!("Start: {member} starts for the first time, without data: {why}")
        }
        Ok(Begun::As(Start::Joining)) => format!("Start: {member} joins its cluster without data"),
        Ok(Begun::As(Start::Again(ids))) => format!(
            "Start: {member} has its data: cluster {}, member {}",
            ids.cluster, ids.member
        ),
        Ok(Begun::As(Start::Restored(ids))) => format!(
            "Start: {member} takes over what was restored: cluster {}, member {}",
            ids.cluster, ids.member
        ),
        Err(refusal) => format!("{}: {refusal}", refusal.reason()),
    };
    termination_log::one_line(&line, MOST_BYTES)
}

/// Writes the line to both places. That the pod's status has none is no reason to decide otherwise.
pub(crate) fn publish(line: &str, path: &Path) {
    let mut errors = io::stderr().lock();
    let _ = writeln!(errors, "{line}");
    if let Err(error) = termination_log::write(path, line.as_bytes()) {
        let _ = writeln!(errors, "{} was not written: {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_and_short_whatever_is_in_it() {
        let problem = "ü\n".repeat(4000);
        let line = line("etcd-0", &Err(Refusal::Damaged { problem }));
        assert!(line.starts_with("Damaged: ü "), "{line}");
        assert!(line.len() <= MOST_BYTES && line.len() > MOST_BYTES - 4);
        assert_eq!(line.lines().count(), 1);
    }

    #[test]
    fn the_termination_log_is_filled_and_never_made() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("log");
        publish("a", &file);
        assert!(!file.exists());
        std::fs::write(&file, "what was there before").unwrap();
        publish("VolumeLost: …", &file);
        assert_eq!(std::fs::read_to_string(file).unwrap(), "VolumeLost: …");
    }
}
