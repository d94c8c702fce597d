//! What a panic does to a process, shown on one.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};

use kit::panics::{abort_unless_contained, contained};

/// Which life a process of this test has; none in the test itself.
const LIFE: &str = "COVEY_TEST_LIFE";

fn life(which: &str) -> ExitStatus {
    let this = std::env::current_exe().expect("a program knows where it is");
    let mut command = Command::new(this);
    command.args(["--exact", "process", "--nocapture"]);
    let ended = command.env(LIFE, which).output();
    ended.expect("a program starts again").status
}

#[test]
fn panic_ends_contained_work_or_else_the_process() {
    assert!(life("contained").success());
    let aborted = life("task");
    assert_eq!(aborted.signal(), Some(6), "{aborted}");
}

/// A process of the test above.
#[test]
fn process() {
    let Ok(which) = std::env::var(LIFE) else {
        return;
    };
    abort_unless_contained();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(async {
        let work = async { panic!("now") };
        match which.as_str() {
            "contained" => assert!(contained(work).await.is_err()),
            _ => drop(tokio::spawn(work).await),
        }
    });
}
