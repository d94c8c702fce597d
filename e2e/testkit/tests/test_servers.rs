//! Servers that a program keeps and lends to the processes of tests.
//!
//! The borrowers are this test program again, with one of its tests, so that one can be killed.
//! Invariant: the servers are this test's own, whatever `COVEY_TEST_SERVERS` says.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use testkit::ManagementApi;
use testkit::apiserver::VARIABLE;
use testkit::fixtures::{PATIENCE, ask_until};
use testkit::process::Workdir;
use testkit::programs::Programs;

/// A namespace that no borrower may find.
const LEFT: &str = "left-by-the-last-one";

/// A child that is killed with this value, and the lines that it says.
struct Talking {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Talking {
    fn start(mut command: Command) -> Result<Self> {
        let child = command.stdout(Stdio::piped()).spawn();
        let mut child = child.context("cannot start a child")?;
        let lines = BufReader::new(child.stdout.take().context("piped")?);
        Ok(Self { child, lines })
    }

    /// The first line that begins so, without its beginning.
    fn says(&mut self, beginning: &str) -> Result<String> {
        let mut line = String::new();
        while self.lines.read_line(&mut line)? > 0 {
            if let Some((_, rest)) = line.split_once(beginning) {
                return Ok(rest.trim().to_owned());
            }
            line.clear();
        }
        anyhow::bail!("it ended without saying {beginning}")
    }
}

impl Drop for Talking {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This test program again, with one of its tests, as a borrower.
fn borrower(dir: &Path, test: &str) -> Result<Talking> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(VARIABLE, dir)
        .stdin(Stdio::null());
    Talking::start(command)
}

#[tokio::test]
#[ignore = "a part of lent_servers_are_as_new_for_each_borrower_and_nothing_is_left"]
async fn borrows_and_waits_to_be_killed() -> Result<()> {
    let api = ManagementApi::alone().await?.context("there is one")?;
    let namespaces: Api<Namespace> = Api::all(api.admin()?);
    ensure!(
        namespaces.get_opt(LEFT).await?.is_none(),
        "what the last one left is there"
    );
    let mut left = Namespace::default();
    left.metadata.name = Some(LEFT.to_owned());
    namespaces.create(&Default::default(), &left).await?;
    // A kind that the next one must not find, too.
    api.install_crds().await?;
    let mut done = false;
    let work = async {
        done = true;
        Ok(())
    };
    api.once("work", "the same for each", work).await?;
    ensure!(done, "what was undone is not done again");
    ensure!(
        api.stop_apiserver().await.is_err(),
        "a lent server was stopped"
    );
    println!("borrowed {}", api.url());
    std::thread::park();
    Ok(())
}

fn below(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir)?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    paths
        .filter(|path| path.as_ref().is_ok_and(|path: &PathBuf| path.is_dir()))
        .collect()
}

#[tokio::test]
async fn lent_servers_are_as_new_for_each_borrower_and_nothing_is_left() -> Result<()> {
    if Programs::find_or_skip()?.is_none() {
        return Ok(());
    }
    let dir = Workdir::new()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_test-servers"));
    command
        .args(["--alone", "1", "--dir"])
        .arg(dir.path())
        .stdin(Stdio::piped());
    let mut servers = Talking::start(command)?;
    servers.says("ready")?;
    let folders = below(dir.path())?;
    assert_eq!(folders.len(), 3, "{folders:?}");
    let mut pids = Vec::new();
    for folder in &folders {
        let mode = folder.metadata()?.permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{}", folder.display());
        let card = std::fs::read_to_string(folder.join("server.json"))?;
        let card: serde_json::Value = serde_json::from_str(&card)?;
        let of_it = card["pids"].as_array().context("pids")?;
        pids.extend(of_it.iter().filter_map(serde_json::Value::as_u64));
    }
    assert_eq!(pids.len(), 7, "{pids:?}");

    let test = "borrows_and_waits_to_be_killed";
    let mut first = borrower(dir.path(), test)?;
    let url = first.says("borrowed ")?;
    // It waits for the only one, which the first gives back by its death.
    let mut second = borrower(dir.path(), test)?;
    drop(first);
    assert_eq!(second.says("borrowed ")?, url);
    drop(second);
    let mut third = borrower(dir.path(), test)?;
    assert_eq!(third.says("borrowed ")?, url);
    drop(third);

    drop(servers.child.stdin.take());
    let status = servers.child.wait()?;
    assert!(status.success(), "{status}");
    let is_there = |pid: &u64| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok();
    ask_until("nothing is left", PATIENCE, || {
        let left: Vec<_> = pids.iter().copied().filter(is_there).collect();
        let folders: Vec<_> = folders.iter().filter(|folder| folder.exists()).collect();
        std::future::ready(Ok(match (left.is_empty(), folders.is_empty()) {
            (true, true) => Ok(()),
            _ => Err(format!("{left:?} {folders:?}")),
        }))
    })
    .await
}

#[tokio::test]
async fn test_servers_without_programs_says_what_is_missing() -> Result<()> {
    let nothing = tempfile::tempdir()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_test-servers"));
    command
        .env("COVEY_TEST_PROGRAMS", nothing.path())
        .arg("--dir")
        .arg(nothing.path().join("servers"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    // Once nobody can write to it the program ends, and in order.
    let open = child.stdin.take();
    let output = child.wait_with_output()?;
    drop(open);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("etcd is in none of"), "{said}");
    Ok(())
}
