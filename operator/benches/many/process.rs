//! The operator as a process of its own, and what the kernel says of it.
//!
//! Invariant: memory and time are the process's own; a value that cannot be read is an error, not zero.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kit::metrics::usage_in;
use testkit::process::Process;

const MIB: f64 = 1024.0;
/// How long an end in good order may take.
const GRACE: Duration = Duration::from_secs(30);

/// What a process used so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) rss_mib: f64,
    /// The most resident memory at any time.
    pub(crate) peak_mib: f64,
    pub(crate) cpu_s: f64,
}

/// One that runs.
pub(crate) struct Operator {
    pub(crate) process: Process,
    admin: SocketAddr,
    folder: PathBuf,
}

/// How it is started.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) settings: PathBuf,
    pub(crate) namespace: String,
    pub(crate) log: PathBuf,
    /// Requests a second that it may make; none for what it takes by itself.
    pub(crate) rate: Option<u32>,
}

impl Launch {
    pub(crate) fn start(&self, identity: &str) -> Result<Operator> {
        let admin: SocketAddr = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut args = vec!["run".to_owned()];
        args.extend([
            format!("--kubeconfig={}", self.kubeconfig.display()),
            format!("--config={}", self.settings.display()),
            format!("--namespace={}", self.namespace),
            format!("--identity={identity}"),
            format!("--admin-address={admin}"),
        ]);
        if let Some(rate) = self.rate {
            args.extend([
                format!("--client-qps={rate}"),
                format!("--client-burst={}", rate.saturating_mul(2)),
            ]);
        }
        let process = Process::spawn("operator", &self.program, &args, &self.log)?;
        let folder = Path::new("/proc").join(process.pid().to_string());
        Ok(Operator {
            process,
            admin,
            folder,
        })
    }
}

impl Operator {
    pub(crate) fn used(&self) -> Result<Used> {
        let usage = usage_in(&self.folder).context("the operator has ended")?;
        let status = std::fs::read_to_string(self.folder.join("status"))?;
        Ok(Used {
            rss_mib: usage.rss_mib(),
            peak_mib: peak_kib(&status).context("no VmHWM")? / MIB,
            cpu_s: usage.cpu_seconds,
        })
    }

    /// What it shows to who scrapes it.
    pub(crate) fn metrics(&self) -> Result<String> {
        let mut stream = TcpStream::connect(self.admin).context("reach the admin port")?;
        stream.set_read_timeout(Some(GRACE))?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
        ensure!(head.contains(" 200 "), "{head}");
        Ok(body.to_owned())
    }

    /// Ends it in good order, so that the next one need not wait for the Lease to run out.
    pub(crate) async fn stop(mut self) -> Result<()> {
        let pid = self.process.pid().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status()?;
        ensure!(sent.success(), "the operator had ended before it was to");
        self.process.ended(GRACE).await.map(drop)
    }
}

/// `VmHWM` of proc(5), in KiB.
fn peak_kib(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
