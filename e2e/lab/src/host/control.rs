//! How `lab up` talks to a host's supervisor: orders as JSON lines through a FIFO, answers as one
//! state file per program. No sockets: their paths are limited to 108 bytes, a checkout's is not.
//!
//! Invariant: a state file is replaced whole, never written in place.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// A program of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its name in `status` and `logs`.
    pub name: String,
    /// Path and arguments.
    pub argv: Vec<String>,
    /// Added to PATH and HOME, which every program has.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Standard output and error go here.
    pub log: PathBuf,
}

/// What the supervisor is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Start it; a program of that name that runs already is left alone.
    Start(Program),
    /// Ask it to end (SIGTERM).
    Stop(String),
    /// End the host: etcd gets the chance to close its files, all else is killed.
    Shutdown,
}

/// The last known state of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramState {
    /// Its name.
    pub name: String,
    /// Process number inside the host.
    pub pid: i32,
    /// How it ended (`exit status 1`, `signal 9`), when it did. Nothing is started again.
    pub ended: Option<String>,
}

pub(super) fn fifo(folder: &Path) -> PathBuf {
    folder.join("orders")
}

pub(super) fn write_state(folder: &Path, state: &ProgramState) -> io::Result<()> {
    let file = folder.join("programs").join(format!("{}.json", state.name));
    replace(&file, &serde_json::to_vec(state)?)
}

pub(super) fn read_states(folder: &Path) -> Vec<ProgramState> {
    let Ok(entries) = fs::read_dir(folder.join("programs")) else {
        return Vec::new();
    };
    let mut states: Vec<ProgramState> = entries
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|ext| ext == "json"))
        .filter_map(|entry| serde_json::from_slice(&fs::read(entry.path()).ok()?).ok())
        .collect();
    states.sort_by(|a, b| a.name.cmp(&b.name));
    states
}

/// Writes beside the file and renames, so a reader sees the old or the new text.
pub(super) fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_back_by_name_without_half_written_ones() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("programs")).unwrap();
        for (name, ended) in [("kubelet", None), ("etcd", Some("signal 9".to_owned()))] {
            let state = ProgramState {
                name: name.into(),
                pid: 7,
                ended,
            };
            write_state(folder.path(), &state).unwrap();
        }
        fs::write(folder.path().join("programs/half.new"), "{").unwrap();
        let names: Vec<_> = read_states(folder.path())
            .into_iter()
            .map(|s| s.name)
            .collect();
        assert_eq!(names, ["etcd", "kubelet"]);
    }
}
