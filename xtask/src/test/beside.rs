//! What T2 needs is built beside T1, by a process of its own that can be ended.
//!
//! Invariant: nothing of it is left when the value is gone: it is either waited for, or ended with all
//! that it started.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// The builds.
pub(crate) struct Beside {
    child: Option<Child>,
}

impl Beside {
    /// Starts `program` (a copy of this one, which cargo does not replace) with `args`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start(program: &Path, args: &[&str], checkout: &Path) -> Result<Self> {
        let child = Command::new(program)
            .args(args)
            .current_dir(checkout)
            .stdin(Stdio::null())
            .spawn()
            .context("the builds for T2 cannot be started")?;
        Ok(Self { child: Some(child) })
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When a build failed; it said so itself.
    pub(crate) fn finish(mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        let status = child.wait().context("the builds for T2 are lost")?;
        if !status.success() {
            bail!("the builds for T2 failed, see above")
        }
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        // Whoever starts others stands still first, so that nobody is missed.
        let mut next = i32::try_from(child.id())
            .ok()
            .into_iter()
            .collect::<Vec<_>>();
        while let Some(pid) = next.pop() {
            if let Some(pid) = Pid::from_raw(pid) {
                // One that is gone has nobody left.
                let _ = kill_process(pid, Signal::STOP);
            }
            next.extend(children_of(pid));
            lab::procfs::kill(pid);
        }
        let _ = child.wait();
    }
}

/// proc_pid_task(5); a process that ended has none.
fn children_of(pid: i32) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| numbers(&text))
        .collect()
}

fn numbers(text: &str) -> Vec<i32> {
    text.split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _};

    use super::*;

    #[test]
    fn builds_are_ended_with_all_that_they_started() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 1000 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let sleeper: i32 = line.trim().parse().unwrap();
        assert!(lab::procfs::ProcessId::of(sleeper).is_some());
        drop(Beside { child: Some(child) });
        // It ends when nobody is left who could write to it.
        stdout.read_to_string(&mut line).unwrap();
    }

    #[test]
    fn a_failed_build_is_an_error() {
        let here = Path::new("/");
        let finish = |program: &str| Beside::start(Path::new(program), &[], here)?.finish();
        assert!(finish("/bin/true").is_ok());
        assert!(finish("/bin/false").is_err());
    }
}
