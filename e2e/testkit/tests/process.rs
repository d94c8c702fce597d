//! Children and folders of a test that is skipped, or killed.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use testkit::ManagementApi;
use testkit::process::{Process, Workdir};

/// This test program again, with one of its tests.
fn again(test: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["--exact", test, "--ignored"])
        .stdin(Stdio::null());
    Ok(command)
}

#[tokio::test]
#[ignore = "a part of missing_programs_are_skipped_loudly_unless_required"]
async fn needs_a_server() -> Result<()> {
    ManagementApi::start().await.map(drop)
}

#[test]
fn missing_programs_are_skipped_loudly_unless_required() -> Result<()> {
    let nothing = tempfile::tempdir()?;
    let mut command = again("needs_a_server")?;
    command
        .env("COVEY_TEST_PROGRAMS", nothing.path())
        .env_remove("COVEY_TEST_REQUIRE");
    let skipped = command.output()?;
    let said = String::from_utf8_lossy(&skipped.stderr).into_owned();
    assert!(skipped.status.success(), "{said}");
    // Although the test runner captures what tests print.
    assert!(
        said.contains("SKIPPED needs_a_server: etcd is in none of"),
        "{said}"
    );
    assert!(
        !command
            .env("COVEY_TEST_REQUIRE", "1")
            .output()?
            .status
            .success()
    );
    Ok(())
}

#[test]
#[ignore = "a part of killed_test_leaves_neither_children_nor_folders"]
fn waits_to_be_killed() -> Result<()> {
    let dir = Workdir::new()?;
    let args = ["1000".to_owned()];
    let child = Process::spawn("sleep", Path::new("sleep"), &args, &dir.path().join("log"))?;
    eprintln!("{} {}", child.pid(), dir.path().display());
    std::thread::park();
    Ok(())
}

#[test]
fn killed_test_leaves_neither_children_nor_folders() -> Result<()> {
    let mut test = again("waits_to_be_killed")?;
    let mut test = test
        .arg("--nocapture")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut said = BufReader::new(test.stderr.take().context("piped")?);
    let mut line = String::new();
    said.read_line(&mut line)?;
    let (pid, folder) = line.trim().split_once(' ').context("a pid and a folder")?;
    // A process that has ended but was not reaped yet has no program.
    let program = format!("/proc/{pid}/exe");
    let is_running = || std::fs::read_link(&program).is_ok();
    assert!(is_running() && Path::new(folder).exists(), "{line}");
    test.kill()?;
    test.wait()?;
    let deadline = Instant::now() + Duration::from_secs(30);
    while is_running() || Path::new(folder).exists() {
        // Others do the work; there is nothing to wait on.
        assert!(Instant::now() < deadline, "{line} is left");
        std::thread::yield_now();
    }
    Ok(())
}
