//! Process of `csi-proxy adopt`: looks, plans, does a step of each volume, and looks again.
//!
//! Invariant: without `--apply` nothing is written; with it, a volume whose step is refused stays where it
//! is, and holds up no other.

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use kit_client::args::ClientArgs;
use kit_client::count::RequestCounter;

use crate::adopt::apply::{Clients, Outcome};
use crate::adopt::plan::{Line, Next, plan};
use crate::adopt::report::{self, Failures};
use crate::adopt::{Settings, observe};
use crate::args::{AdoptArgs, Output};

/// Between two looks while others have to do something. Nothing is watched: this is a command that ends.
const PAUSE: Duration = Duration::from_millis(500);

/// Runs to the end.
///
/// # Errors
/// When an API cannot be read, or with `--apply` a volume is not adopted at the end.
pub async fn run(args: AdoptArgs) -> anyhow::Result<()> {
    let _shutdown = kit::process::begin(&args.log, super::GRACE)?;
    let settings = args.settings()?;
    let client = async |kubeconfig: &std::path::Path| {
        let args = ClientArgs {
            kubeconfig: Some(kubeconfig.to_owned()),
            ..ClientArgs::default()
        };
        kit_client::connect::connect(&args, &RequestCounter::new()).await
    };
    let tenant = client(&args.tenant_kubeconfig).await;
    let management = client(&args.management_kubeconfig).await;
    let clients = Clients {
        tenant: tenant.context("use --tenant-kubeconfig")?,
        management: management.context("use --management-kubeconfig")?,
    };
    let wait = args.apply.then(|| Duration::from_secs(args.wait));
    let (lines, failures) = adopt(&clients, &settings, wait).await?;
    let text = match args.output {
        Output::Table => report::table(&lines, &failures),
        Output::Json => format!("{:#}\n", report::json(&lines, &failures)),
    };
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("write what was done")?;
    match report::left(&lines, &failures) {
        left if args.apply && left > 0 => bail!(
            "{left} of {} volumes are not adopted; do what is said of them, and run this again",
            lines.len()
        ),
        _ => Ok(()),
    }
}

/// Does what can be done, waiting so long for others since the last step; without a time, it only looks.
///
/// # Errors
/// When an API cannot be read.
pub async fn adopt(
    clients: &Clients,
    settings: &Settings,
    wait: Option<Duration>,
) -> anyhow::Result<(Vec<Line>, Failures)> {
    let mut failures = Failures::new();
    let mut last = Instant::now();
    loop {
        let observed = observe::both(&clients.tenant, &clients.management, settings).await?;
        let lines = plan(&observed, settings);
        let Some(wait) = wait else {
            return Ok((lines, failures));
        };
        let (mut done, mut waits) = (false, false);
        for line in &lines {
            match &line.next {
                Next::Write(what, write) if !failures.contains_key(&line.volume) => {
                    match clients.apply(write).await {
                        Ok(Outcome::Done) => {
                            tracing::info!(volume.name = %line.volume, "{what}");
                            done = true;
                        }
                        Ok(Outcome::Stale) => waits = true,
                        Err(error) => {
                            failures.insert(line.volume.clone(), format!("{what}: {error}"));
                        }
                    }
                }
                Next::Wait(_) => waits = true,
                _ => {}
            }
        }
        if done {
            last = Instant::now();
        } else if waits && last.elapsed() < wait {
            tokio::time::sleep(PAUSE).await;
        } else {
            return Ok((lines, failures));
        }
    }
}
