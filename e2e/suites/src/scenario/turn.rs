//! Whose turn it is: tests run side by side, each in a process of its own, and one that changes what
//! they share runs alone.
//!
//! Two files of the lab's folder are locked. Whoever comes passes the gate first; who wants to be alone
//! stays in it until the others have ended. Invariant: so nobody who came later overtakes one that
//! waits to be alone, and a lock goes with the process that held it, however it ended.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// How a test runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Turn {
    SideBySide,
    Alone,
}

/// Held while a test runs.
#[derive(Debug)]
pub(super) struct Held {
    _gate: Option<File>,
    _tests: File,
}

impl Turn {
    /// Waits for it. `folder` is where the lab keeps what belongs to tests.
    pub(super) async fn wait(self, folder: PathBuf) -> Result<Held> {
        let waited = tokio::task::spawn_blocking(move || self.take(&folder)).await;
        waited.context("the wait for other tests panicked")?
    }

    fn take(self, folder: &Path) -> Result<Held> {
        fs::create_dir_all(folder)
            .with_context(|| format!("{} cannot be made", folder.display()))?;
        let gate = open(&folder.join(GATE))?;
        gate.lock().context("the gate cannot be locked")?;
        let tests = open(&folder.join(TESTS))?;
        let locked = match self {
            Self::SideBySide => tests.lock_shared(),
            Self::Alone => tests.lock(),
        };
        locked.context("the tests' lock cannot be taken")?;
        Ok(Held {
            _gate: (self == Self::Alone).then_some(gate),
            _tests: tests,
        })
    }
}

const GATE: &str = "gate.lock";
const TESTS: &str = "tests.lock";

fn open(path: &Path) -> Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    options
        .open(path)
        .with_context(|| format!("{} cannot be opened", path.display()))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread;

    use super::*;

    #[test]
    fn tests_run_side_by_side() {
        let folder = tempfile::tempdir().unwrap();
        let one = Turn::SideBySide.take(folder.path()).unwrap();
        let other = Turn::SideBySide.take(folder.path()).unwrap();
        drop((one, other));
        drop(Turn::Alone.take(folder.path()).unwrap());
    }

    #[test]
    fn one_that_waits_to_be_alone_is_not_overtaken() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let order = Mutex::new(Vec::new());
        let note = |who: &'static str| order.lock().unwrap().push(who);
        let running = Turn::SideBySide.take(folder).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let _held = Turn::Alone.take(folder).unwrap();
                note("alone");
            });
            let gate = open(&folder.join(GATE)).unwrap();
            while gate.try_lock().is_ok() {
                // It is not in the gate yet.
                gate.unlock().unwrap();
                thread::park_timeout(std::time::Duration::from_millis(20));
            }
            scope.spawn(|| {
                let _held = Turn::SideBySide.take(folder).unwrap();
                note("later");
            });
            note("first");
            drop(running);
        });
        assert_eq!(*order.lock().unwrap(), ["first", "alone", "later"]);
    }
}
