//! `etcd` and `etcdutl` as child processes. They are of the snapshot's own minor.
//!
//! Invariant: a child ends with us.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

use crate::etcd::Etcd;

/// How long an etcd on a copy may take to answer.
const START: Duration = Duration::from_secs(120);
/// Pause between two looks at it.
const LOOK: Duration = Duration::from_millis(50);

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `etcd`.
    pub etcd: PathBuf,
    /// `etcdutl`.
    pub etcdutl: PathBuf,
}

/// The member whose data directory is made. Every member of a cluster is made from the same backup, with
/// the same token, peers and bump.
#[derive(Clone, Debug)]
pub struct Member {
    /// The directory; it must not be there.
    pub data_dir: PathBuf,
    /// etcd's flag `--name`.
    pub name: String,
    /// Its own peer URL.
    pub peer_url: String,
    /// etcd's flag `--initial-cluster`.
    pub initial_cluster: String,
    /// etcd's flag `--initial-cluster-token`.
    pub token: String,
    /// How much revisions are raised.
    pub bump: u64,
}

/// A program that failed.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It cannot be started.
    #[error("{program} cannot be run: {problem}")]
    Start {
        /// Which.
        program: String,
        /// Why.
        problem: String,
    },
    /// It ended with an error.
    #[error("{program} failed: {said}")]
    Failed {
        /// Which.
        program: String,
        /// The end of what it said.
        said: String,
    },
    /// It does not answer.
    #[error("the etcd on the restored snapshot does not answer")]
    Silent,
}

/// An etcd that deltas are replayed on.
pub(super) struct Running {
    child: Child,
    pub(super) etcd: Etcd,
}

impl Programs {
    /// `etcdutl snapshot restore`.
    pub(super) async fn restore(
        &self,
        database: &Path,
        member: &Member,
    ) -> Result<(), ProgramError> {
        let mut command = Command::new(&self.etcdutl);
        command.args(["snapshot", "restore"]).arg(database);
        command.arg("--data-dir").arg(&member.data_dir);
        command.args(["--name", &member.name]);
        command.args(["--initial-advertise-peer-urls", &member.peer_url]);
        command.args(["--initial-cluster", &member.initial_cluster]);
        command.args(["--initial-cluster-token", &member.token]);
        if member.bump > 0 {
            command.args([
                "--bump-revision",
                &member.bump.to_string(),
                "--mark-compacted",
            ]);
        }
        let program = "etcdutl snapshot restore";
        let output = command
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await;
        let output = output.map_err(|error| start(program, &error))?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = [output.stdout, output.stderr].concat();
                Err(failed(program, &String::from_utf8_lossy(&said)))
            }
        }
    }

    /// Starts an etcd on a data directory that [`Self::restore`] made for [`local`].
    pub(super) async fn run(&self, local: &Member, log: &Path) -> Result<Running, ProgramError> {
        self.start(local, &[], log).await
    }

    /// Starts an etcd on a copy of a member's data directory, without the others of its cluster. Never on what others
    /// may come back to: it forgets them.
    pub(super) async fn serve_alone(
        &self,
        local: &Member,
        log: &Path,
    ) -> Result<Running, ProgramError> {
        self.start(local, &["--force-new-cluster"], log).await
    }

    async fn start(
        &self,
        local: &Member,
        more: &[&str],
        log: &Path,
    ) -> Result<Running, ProgramError> {
        let program = "etcd";
        let port = || {
            let listener = TcpListener::bind(("127.0.0.1", 0))?;
            Ok::<_, std::io::Error>(listener.local_addr()?.port())
        };
        let port = port().map_err(|error| start(program, &error))?;
        let url = format!("http://127.0.0.1:{port}");
        let said = std::fs::File::create(log).map_err(|error| start(program, &error))?;
        let mut command = Command::new(&self.etcd);
        command.arg("--data-dir").arg(&local.data_dir);
        command.args(["--name", &local.name]);
        command.args([
            "--listen-client-urls",
            &url,
            "--advertise-client-urls",
            &url,
        ]);
        command.args(["--listen-peer-urls", "http://127.0.0.1:0"]);
        command.args(["--initial-advertise-peer-urls", &local.peer_url]);
        command.args(["--initial-cluster", &local.initial_cluster]);
        command.args([
            "--initial-cluster-token",
            &local.token,
            "--log-level",
            "warn",
        ]);
        // It is thrown away: nothing is lost that is not in the store.
        command.args(["--unsafe-no-fsync", "--snapshot-count", "1000000"]);
        // What deleted many keys at once is one transaction of many.
        command.args([
            "--max-txn-ops",
            "10000000",
            "--max-request-bytes",
            "268435456",
        ]);
        command.args(["--quota-backend-bytes", "17179869184"]);
        command.args(more);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .kill_on_drop(true);
        let child = command.spawn().map_err(|error| start(program, &error))?;
        let etcd = Etcd::new(&url, None).map_err(|error| start(program, &error))?;
        let mut running = Running { child, etcd };
        let answers = async {
            loop {
                if let Ok(Some(_)) = running.child.try_wait() {
                    let said = std::fs::read_to_string(log).unwrap_or_default();
                    return Err(failed(program, &said));
                }
                if running.etcd.status().await.is_ok() {
                    return Ok(());
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        let answered = tokio::time::timeout(START, answers).await;
        answered.unwrap_or(Err(ProgramError::Silent))?;
        Ok(running)
    }
}

impl Running {
    pub(super) async fn end(mut self) {
        // Its data is in the snapshot that was taken of it.
        let _ = self.child.kill().await;
    }
}

/// The member that deltas are replayed on.
pub(super) fn local(data_dir: PathBuf) -> Member {
    let peer_url = "http://127.0.0.1:2380".to_owned();
    Member {
        data_dir,
        name: "replay".to_owned(),
        initial_cluster: format!("replay={peer_url}"),
        peer_url,
        token: "covey-replay".to_owned(),
        bump: 0,
    }
}

fn start(program: &str, error: &dyn std::fmt::Display) -> ProgramError {
    ProgramError::Start {
        program: program.to_owned(),
        problem: error.to_string(),
    }
}

fn failed(program: &str, said: &str) -> ProgramError {
    let said = said.trim();
    let from = said.len().saturating_sub(2000);
    let from = (from..said.len())
        .find(|at| said.is_char_boundary(*at))
        .unwrap_or_default();
    ProgramError::Failed {
        program: program.to_owned(),
        said: said[from..].to_owned(),
    }
}
