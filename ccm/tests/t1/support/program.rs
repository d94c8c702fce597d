//! The program itself, in a process of its own: flags, kubeconfig files, Lease, admin port.
//!
//! Invariant: it ends with the value, also when a test panics.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use serde_json::Value;
use testkit::fixtures::ask_until;
use testkit::process::{Process, Workdir};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Environment, PATIENCE};

/// One that runs.
pub(crate) struct Program {
    pub(crate) process: Process,
    identity: String,
    flags: Vec<String>,
    dir: Workdir,
}

/// The admin port of a program, wherever it is now.
pub(crate) struct Admin {
    log: PathBuf,
}

impl Program {
    /// Starts it with further flags, without their dashes.
    pub(crate) fn start(
        environment: &Environment,
        identity: &str,
        further: &[(&str, String)],
    ) -> Result<Self> {
        let dir = Workdir::new()?;
        let [tenant, management] = environment.kubeconfigs(&dir)?;
        let flags = [
            ("tenant-kubeconfig", tenant.display().to_string()),
            ("management-kubeconfig", management.display().to_string()),
            ("namespace", environment.ns.clone()),
            ("cluster-uid", environment.uid.clone()),
            ("identity", identity.to_owned()),
            ("admin-address", "127.0.0.1:0".to_owned()),
        ];
        let flags = flags.iter().chain(further);
        let flags: Vec<_> = flags
            .map(|(name, value)| format!("--{name}={value}"))
            .collect();
        Ok(Self {
            process: spawn(&dir, identity, &flags)?,
            identity: identity.to_owned(),
            flags,
            dir,
        })
    }

    /// Starts it again whenever it ends, as a kubelet does: one that gets no time on a crowded machine loses its
    /// Lease, and ends. Ends never.
    pub(crate) async fn keep(&mut self) -> Result<Infallible> {
        loop {
            self.process.ended(Duration::MAX).await?;
            self.process = spawn(&self.dir, &self.identity, &self.flags)?;
        }
    }

    /// Has it end, which gives the Lease to whoever comes next.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.process.signal(Signal::TERM)?;
        let status = self.process.ended(PATIENCE).await?;
        anyhow::ensure!(status.success(), "{status}: {}", self.process.log_tail(20));
        Ok(())
    }

    /// Returns once it leads, knows so many of the tenant's Services, and has nothing left to do for any.
    pub(crate) async fn rest(&self, services: usize, patience: Duration) -> Result<()> {
        let admin = self.admin();
        let rest = ask_until("it has looked at everything", patience, || async {
            let Ok(state) = admin.state().await else {
                return Ok(Err("no admin port".to_owned()));
            };
            let is = |key: &str, value: Value| state[key] == value;
            Ok(
                match is("leads", true.into())
                    && is("queued", 0.into())
                    && is("services", services.into())
                {
                    true => Ok(()),
                    false => Err(state.to_string()),
                },
            )
        });
        rest.await.with_context(|| self.process.log_tail(5))
    }

    /// Its admin port.
    pub(crate) fn admin(&self) -> Admin {
        let log = log_of(&self.dir, &self.identity);
        Admin { log }
    }
}

impl Admin {
    /// What it tells.
    pub(crate) async fn state(&self) -> Result<Value> {
        let mut stream = TcpStream::connect(self.address()?).await?;
        stream.write_all(b"GET /state HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (_, body) = answer.split_once("\r\n\r\n").context("not HTTP")?;
        let state: Value = serde_json::from_str(body).context("not JSON")?;
        Ok(state["ccm"].clone())
    }

    /// Where it is, as the log of the program says.
    fn address(&self) -> Result<String> {
        let log = std::fs::read_to_string(&self.log)?;
        let mut lines = log.lines().rev();
        let line = lines.find(|line| line.contains("admin port is open"));
        let line = line.context("it has none yet")?;
        let at = line.find("127.0.0.1:").context("no address")?;
        let is_of_it = |c: char| c.is_ascii_digit() || ".:".contains(c);
        Ok(line[at..].chars().take_while(|c| is_of_it(*c)).collect())
    }
}

fn log_of(dir: &Workdir, identity: &str) -> PathBuf {
    dir.path().join(format!("{identity}.log"))
}

fn spawn(dir: &Workdir, identity: &str, flags: &[String]) -> Result<Process> {
    let program = Path::new(env!("CARGO_BIN_EXE_ccm"));
    Process::spawn(identity, program, flags, &log_of(dir, identity))
}
