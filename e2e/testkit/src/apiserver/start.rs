//! Starting etcd and the kube-apiserver on ports that are free, and knowing when they answer.
//!
//! Invariant: a server that ends or stays silent is an error with the last lines of its log.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::{Options, flags};
use crate::etcd::Etcd;
use crate::ports;
use crate::process::{Process, Workdir};
use crate::programs::Programs;

/// How long a server may take to start: far more than it needs, for machines under load.
const START_TIMEOUT: Duration = Duration::from_secs(120);

pub(super) async fn start_etcd(programs: &Programs, dir: &Workdir) -> Result<(Process, Etcd)> {
    retry_ports(|| async {
        let (client, peer) = (ports::unused()?, ports::unused()?);
        let args = flags::etcd(dir.path(), client, peer);
        let log = dir.path().join("etcd.log");
        let mut process = Process::spawn_shared("etcd", &programs.etcd, &args, &log)?;
        let url = format!("http://127.0.0.1:{client}");
        wait_http(&mut process, &format!("{url}/readyz"), "").await?;
        Ok((process, Etcd::new(&url)))
    })
    .await
}

pub(super) async fn start_apiserver(
    programs: &Programs,
    dir: &Workdir,
    etcd: &Etcd,
    options: &Options,
) -> Result<(Process, u16)> {
    retry_ports(|| async {
        let port = ports::unused()?;
        let args = flags::apiserver(dir.path(), etcd.url(), port, options);
        let log = dir.path().join("kube-apiserver.log");
        let mut process =
            Process::spawn_shared("kube-apiserver", &programs.kube_apiserver, &args, &log)?;
        let ca =
            std::fs::read_to_string(dir.path().join("ca.crt")).context("cannot read ca.crt")?;
        wait_http(
            &mut process,
            &format!("https://127.0.0.1:{port}/readyz"),
            &ca,
        )
        .await?;
        Ok((process, port))
    })
    .await
}

/// Somebody else may take a port before the program binds it: three attempts.
pub(super) async fn retry_ports<T, F: Future<Output = Result<T>>>(
    mut start: impl FnMut() -> F,
) -> Result<T> {
    let mut last = None;
    for _ in 0..3 {
        match start().await {
            Ok(started) => return Ok(started),
            Err(error) if format!("{error:#}").contains("address already in use") => {
                last = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(last.context("invariant: three attempts leave an error")?)
}

/// Asks until the answer is 200; gives up when the process has ended or time is up.
pub(super) async fn wait_http(process: &mut Process, url: &str, ca: &str) -> Result<()> {
    let get = crate::tls::Get::new(url, ca)?;
    let deadline = Instant::now() + START_TIMEOUT;
    let mut ticks = tokio::time::interval(Duration::from_millis(25));
    loop {
        ticks.tick().await;
        if get.is_ok().await {
            return Ok(());
        }
        let name = process.name().to_owned();
        if let Some(status) = process.exited() {
            bail!("{name} ended with {status}:\n{}", process.log_tail(15));
        }
        if Instant::now() > deadline {
            bail!(
                "{name} did not answer {url} within {START_TIMEOUT:?}:\n{}",
                process.log_tail(15)
            );
        }
    }
}
