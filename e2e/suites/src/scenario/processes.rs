//! Signals to single processes of the lab's only host: pods' and its own.
//!
//! Invariant: a signal reaches exactly one process, or the test is told that it did not.

use anyhow::{Result, ensure};

use super::Scenario;

/// How one process is told from all others.
#[derive(Clone, Debug)]
pub struct Process {
    /// Files of `/proc/<pid>` and what each has to contain.
    marks: [(&'static str, String); 2],
}

impl Process {
    /// The one of the pod with this `uid` whose command line contains `word`.
    #[must_use]
    pub fn of_pod(uid: &str, word: &str) -> Self {
        Self {
            marks: [("cgroup", uid.to_owned()), ("cmdline", word.to_owned())],
        }
    }

    /// The sidecar of the lab's own storage, by its name.
    #[must_use]
    pub fn of_storage(name: &str) -> Self {
        Self {
            marks: [
                ("comm", name.to_owned()),
                ("cmdline", "lab-agent.kubeconfig".to_owned()),
            ],
        }
    }

    /// Sends it a signal, by its name: `KILL`, `STOP`, `CONT`.
    ///
    /// # Errors
    /// When there is no such process, or more than one.
    pub fn signal(&self, s: &Scenario, signal: &str) -> Result<()> {
        // The shell itself is told all these words, too.
        let mut script = r#"for p in /proc/[0-9]*; do [ "$p" != "/proc/$$" ]"#.to_owned();
        for (file, text) in &self.marks {
            script += &format!(" && grep -qsaF -- '{text}' $p/{file}");
        }
        script += &format!(" && kill -s {signal} ${{p#/proc/}} && echo $p; done; true");
        let found = s.on_host("sh", &["-c", &script])?;
        let count = found.lines().count();
        ensure!(count == 1, "{self:?}: {count} processes, not one: {found}");
        Ok(())
    }

    /// Has it stand still until what is returned is dropped.
    ///
    /// # Errors
    /// When there is no such process, or more than one.
    pub fn freeze<'a>(&self, s: &'a Scenario) -> Result<Frozen<'a>> {
        self.signal(s, "STOP")?;
        Ok(Frozen {
            process: Some(self.clone()),
            scenario: s,
        })
    }
}

/// A process that stands still.
#[must_use = "it goes on when this is dropped"]
pub struct Frozen<'a> {
    process: Option<Process>,
    scenario: &'a Scenario,
}

impl Frozen<'_> {
    /// Ends it, without a moment of going on.
    ///
    /// # Errors
    /// When it is not there any more.
    pub fn kill(mut self) -> Result<()> {
        let process = self.process.take();
        process.map_or(Ok(()), |process| process.signal(self.scenario, "KILL"))
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let Some(process) = &self.process else { return };
        if let Err(error) = process.signal(self.scenario, "CONT") {
            eprintln!("what was stopped does not go on: {error:#}");
        }
    }
}
