//! The dashboard as a process of its own, with people in it.
//!
//! Invariant: memory is the process's own, as the kernel tells it; a page is weighed as it is after it was unpacked, with
//! everything that it names.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kit::metrics::usage_in;
use serde_json::{Value, json};
use testkit::fixtures::{PATIENCE, ask_until};
use testkit::process::Process;

use crate::commands::Commands;
use crate::figure::one;
use crate::visitor::{Stream, Visitor};
use crate::world::{JANE, PEOPLE, World};

const GOAL_IDLE_MIB: f64 = 20.0;
const GOAL_SESSION_MIB: f64 = 1.5;
const GOAL_PAGE_KB: f64 = 300.0;
/// The list that is weighed, and that people have open.
pub(crate) const LIST: &str = "/clusters";
const LIVE: &str = "/live?kinds=clusters";

pub(crate) struct Pages<'a> {
    pub(crate) address: String,
    certificate: String,
    folder: PathBuf,
    world: &'a World,
    _process: Process,
}

impl<'a> Pages<'a> {
    /// Starts the program, and waits until it serves.
    pub(crate) async fn start(program: &Path, world: &'a World) -> Result<Self> {
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let certificate = key.cert.pem();
        let dir = &world.dir;
        // Both are free a moment before.
        let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0"));
        let [listen, admin] = ports;
        let (listen, admin) = (listen?.local_addr()?, admin?.local_addr()?);
        let file =
            |name: &str, text: &str| dir.write(name, text).map(|path| path.display().to_string());
        let args = [
            format!("--listen={listen}"),
            format!("--admin-address={admin}"),
            format!("--tls-cert-file={}", file("tls.crt", &certificate)?),
            format!(
                "--tls-key-file={}",
                file("tls.key", &key.signing_key.serialize_pem())?
            ),
            format!("--server={}", world.api.url()),
            format!("--server-ca-file={}", file("ca.crt", &world.api.ca())?),
            "--sessions=1000".to_owned(),
        ];
        let log = dir.path().join("dashboard.log");
        let process = Process::spawn("covey-dashboard", program, &args, &log)?;
        let pages = Self {
            address: format!("https://localhost:{}", listen.port()),
            certificate,
            folder: Path::new("/proc").join(process.pid().to_string()),
            world,
            _process: process,
        };
        ask_until("the dashboard serves", PATIENCE, || async {
            let reached = tokio::net::TcpStream::connect(listen).await;
            Ok(reached.map(drop).map_err(|error| error.to_string()))
        })
        .await?;
        Ok(pages)
    }

    /// Logs somebody in.
    pub(crate) async fn visitor(&self, token: &str) -> Result<Visitor> {
        Visitor::log_in(&self.address, &self.certificate, token).await
    }

    fn resident_mib(&self) -> Result<f64> {
        let usage = usage_in(&self.folder).context("the dashboard has ended")?;
        Ok(usage.rss_mib())
    }

    /// People who have the list open and follow it.
    async fn readers(&self, tokens: &[String]) -> Result<Vec<(Visitor, Stream)>> {
        let mut readers = Vec::new();
        for token in tokens {
            let visitor = self.visitor(token).await?;
            visitor.get(LIST).await?;
            let stream = visitor.listen(LIVE).await?;
            readers.push((visitor, stream));
        }
        Ok(readers)
    }

    /// Its memory with nobody there, and how much more each session with an open page takes.
    pub(crate) async fn memory(&self, sessions: usize) -> Result<Value> {
        eprintln!("{sessions} people look at the dashboard");
        let idle = self.resident_mib()?;
        let tokens = self.world.people("memory", sessions + 1).await?;
        let (first, others) = tokens.split_first().context("there is one more")?;
        // What the first one touches is not per session.
        let first = self.readers(std::slice::from_ref(first)).await?;
        let before = self.resident_mib()?;
        let readers = self.readers(others).await?;
        let after = self.resident_mib()?;
        drop((first, readers));
        let each = (after - before) / sessions.max(1) as f64;
        Ok(json!({ "idle": one(idle, GOAL_IDLE_MIB), "per_session": one(each, GOAL_SESSION_MIB) }))
    }

    /// What a list of so many rows weighs, with everything that it names, in thousands of bytes.
    pub(crate) async fn weight(&self, rows: usize) -> Result<Value> {
        let tokens = self.world.people("weight", 1).await?;
        let visitor = self
            .visitor(tokens.first().context("there is one")?)
            .await?;
        let page = visitor.get(LIST).await?;
        let shown = page.matches("<tr").count();
        // One more is the heading.
        ensure!(
            shown == rows + 1,
            "{shown} rows are shown instead of {rows} and a heading"
        );
        let mut bytes = page.len();
        for part in parts(&page) {
            bytes += visitor.get(part).await?.len();
        }
        Ok(one(bytes as f64 / 1e3, GOAL_PAGE_KB))
    }

    /// Writes of the command line and of everybody in the dashboard, while both follow and nothing happens.
    pub(crate) async fn rest(
        &self,
        commands: &Commands<'_>,
        sessions: usize,
        rest: Duration,
    ) -> Result<Value> {
        let tokens = self.world.people("rest", sessions).await?;
        let readers = self.readers(&tokens).await?;
        let follow = [commands.follow("get -A -w")?, commands.follow("events -f")?];
        let window = self.world.api.audit().window()?;
        tokio::time::sleep(rest).await;
        let mut entries = window.entries()?;
        drop((readers, follow));
        entries.retain(|entry| entry.user == JANE || entry.user.starts_with(PEOPLE));
        ensure!(
            entries.iter().any(|entry| entry.user == JANE),
            "the audit log has nothing of who follows by the command line"
        );
        let writes = entries
            .iter()
            .filter(|entry| entry.is_write() && !entry.is_lease());
        Ok(one(writes.count() as f64, 0.0))
    }
}

/// Addresses of what a page names of ours.
fn parts(page: &str) -> impl Iterator<Item = &str> {
    let named = page.split('"').filter(|text| text.starts_with("/assets/"));
    named.collect::<std::collections::BTreeSet<_>>().into_iter()
}
