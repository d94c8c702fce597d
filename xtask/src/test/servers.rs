//! The shared API servers of T1: started before it, ended after it.
//!
//! Invariant: `test-servers` ends when its standard input closes, so it never outlives this process, and
//! who drops the value waits for its end.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

/// Says where servers can be asked for.
pub(crate) const FOLDER: &str = "COVEY_TEST_SERVERS";

/// Running servers.
pub(crate) struct Servers {
    child: Child,
    folder: TempDir,
    /// From the start of the program until it was ready.
    pub(crate) start: Duration,
}

impl Servers {
    /// Starts `program` and waits until it says that it is ready.
    ///
    /// # Errors
    /// When it ends before that.
    pub(crate) fn start(program: &Path) -> Result<Self> {
        let folder = tempfile::tempdir().context("no folder for the test servers")?;
        let begun = Instant::now();
        let mut child = Command::new(program)
            .arg("--dir")
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} cannot be run", program.display()))?;
        let stdout = child.stdout.take().context("no output of the servers")?;
        let ready = BufReader::new(stdout)
            .lines()
            .map_while(Result::ok)
            .any(|line| line.starts_with("ready"));
        let start = begun.elapsed();
        let mut servers = Self {
            child,
            folder,
            start,
        };
        if !ready {
            let status = servers.end();
            bail!("the test servers ended before they were ready: {status}");
        }
        Ok(servers)
    }

    /// The value of [`FOLDER`] for tests.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn end(&mut self) -> String {
        drop(self.child.stdin.take());
        self.child
            .wait()
            .map_or_else(|error| error.to_string(), |status| status.to_string())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.end();
    }
}
