//! Servers for tests that run each in a process of its own: `test-servers --dir DIR [--alone N]`.
//!
//! Says `ready` on standard output when all of them answer; tests find them by `COVEY_TEST_SERVERS=DIR`.
//! Invariant: everything ends with standard input, on SIGTERM, and when this process is killed.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use testkit::apiserver::Kept;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// So many servers are lent to one test at a time.
const ALONE: usize = 3;

struct Args {
    dir: PathBuf,
    alone: usize,
}

impl Args {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self> {
        const USAGE: &str = "usage: test-servers --dir DIR [--alone N]";
        let (mut dir, mut alone) = (None, ALONE);
        while let Some(flag) = args.next() {
            let value = args.next().context(USAGE)?;
            match flag.as_str() {
                "--dir" => dir = Some(std::path::absolute(value).context("not a path")?),
                "--alone" => alone = value.parse().context("--alone is a number")?,
                _ => bail!("{flag} is not known; {USAGE}"),
            }
        }
        let dir = dir.context(USAGE)?;
        Ok(Self { dir, alone })
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse(std::env::args().skip(1))?;
    let mut terminated = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let closed = closed();
    let work = async {
        let _kept = Kept::start(&args.dir, args.alone).await?;
        let mut out = std::io::stdout();
        writeln!(out, "ready")
            .and_then(|()| out.flush())
            .context("cannot say so")?;
        std::future::pending::<()>().await;
        Ok(())
    };
    tokio::select! {
        done = work => done,
        _ = terminated.recv() => Ok(()),
        _ = closed => Ok(()),
    }
}

/// Told when standard input ends. By a thread, because nothing can end a read of it.
fn closed() -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let mut some = [0; 64];
        while std::io::stdin().read(&mut some).is_ok_and(|read| read > 0) {}
        let _ = sender.send(());
    });
    receiver
}
