//! The program itself: flags, files, and that a Cluster Autoscaler notices nothing of its death
//! between any two calls but an answer that does not come.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use autoscaler_client::protocol::Options;
use autoscaler_client::{Generation, Protocol};
use serde_json::json;
use testkit::process::{Process, Workdir};
use tonic::Status;

use crate::support::certs::SERVER;
use crate::support::site::{CLUSTER, TENANT_USER};
use crate::support::{PATIENCE, Player, Site};

/// The program, which can be started again at the same port.
struct Program {
    flags: Vec<String>,
    dir: Workdir,
    process: Option<Process>,
}

impl Program {
    fn new(site: &Site, port: u16) -> Result<Self> {
        let dir = Workdir::new()?;
        let file =
            |name: &str, text: &str| anyhow::Ok(dir.write(name, text)?.display().to_string());
        let (chain, key) = &site.authority.server;
        let tenant = site.tenant.kubeconfig_as(TENANT_USER, &[])?;
        let management = site.management.kubeconfig_as(&site.user(), &[])?;
        let flags = [
            ("tenant-kubeconfig", file("tenant.kubeconfig", &tenant)?),
            (
                "management-kubeconfig",
                file("management.kubeconfig", &management)?,
            ),
            ("namespace", "covey-demo-12345".to_owned()),
            ("user-namespace", site.ns.clone()),
            ("cluster-name", CLUSTER.to_owned()),
            ("cluster-uid", site.uid.clone()),
            ("listen", format!("127.0.0.1:{port}")),
            ("grpc-certificate", file("tls.crt", chain)?),
            ("grpc-key", file("tls.key", key)?),
            ("grpc-client-ca", file("ca.crt", &site.authority.pem())?),
            ("admin-address", "127.0.0.1:0".to_owned()),
            ("patience", "2m".to_owned()),
        ];
        let flags = flags.map(|(name, value)| format!("--{name}={value}"));
        Ok(Self {
            flags: flags.into(),
            dir,
            process: None,
        })
    }

    /// Kills what runs, and starts it anew.
    fn restart(&mut self) -> Result<()> {
        self.process = None;
        let log = self.dir.path().join("autoscaler.log");
        let program = Path::new(env!("CARGO_BIN_EXE_autoscaler"));
        self.process = Some(Process::spawn("autoscaler", program, &self.flags, &log)?);
        Ok(())
    }

    fn log(&self) -> String {
        let process = self.process.as_ref();
        process.map(|p| p.log_tail(20)).unwrap_or_default()
    }
}

/// Begins a loop as often as it takes: the stock client begins one every ten seconds.
async fn begin(client: &mut Protocol, program: &Program) -> Result<()> {
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    let begun = tokio::time::timeout(PATIENCE, async {
        loop {
            ticks.tick().await;
            if client.refresh().await.is_ok() {
                return;
            }
        }
    });
    begun.await.with_context(|| program.log())
}

/// The calls of a loop that are about one pool, each by its number.
async fn call(client: &mut Protocol, number: usize, id: &str) -> Result<bool, Status> {
    match number {
        0 => client.node_groups().await.map(drop)?,
        1 => client.target_size(id).await.map(drop)?,
        2 => client.nodes(id).await.map(drop)?,
        3 => client.template(id).await.map(drop)?,
        4 => client.options(id, &Options::default()).await.map(drop)?,
        5 => client.gpu_label().await.map(drop)?,
        6 => client.gpu_types().await.map(drop)?,
        7 => client.increase(id, 1).await?,
        8 => client.decrease(id, -1).await?,
        _ => return Ok(false),
    }
    Ok(true)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_death_between_any_two_calls_costs_a_loop_and_nothing_else() -> Result<()> {
    let Some(site) = Site::new("process").await? else {
        return Ok(());
    };
    let _player = Player::start(&site);
    let name = site
        .pool("process", 1, &json!({ "min": 1, "max": 30 }))
        .await?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut program = Program::new(&site, port)?;
    program.restart()?;
    let shown = site.authority.client()?;
    let address = format!("127.0.0.1:{port}");
    let mut client = Protocol::new(&address, SERVER, &shown, Generation::New)?;
    begin(&mut client, &program).await?;
    let groups = client.node_groups().await?;
    let id = groups.first().context("there is no group")?.id.clone();
    for number in 0.. {
        let size = site.pools().get(&name).await?.spec.replicas;
        program.restart()?;
        // It may be answered already, or not yet: either way the next loop finds what there is.
        let early = call(&mut client, number, &id).await;
        begin(&mut client, &program).await?;
        if !call(&mut client, number, &id).await? {
            break;
        }
        let told = client.target_size(&id).await?;
        let is = site.pools().get(&name).await?.spec.replicas;
        ensure!(told == is, "call {number}: {told} is told and {is} is so");
        let grown = if number == 7 {
            1 + i32::from(early.is_ok())
        } else {
            0
        };
        ensure!(is <= size + grown, "call {number}: {size} became {is}");
        let groups = client.node_groups().await?;
        ensure!(
            groups.first().is_some_and(|group| group.id == id),
            "{groups:?}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_it_in_good_order() -> Result<()> {
    let Some(site) = Site::new("signal").await? else {
        return Ok(());
    };
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut program = Program::new(&site, port)?;
    program.restart()?;
    let shown = site.authority.client()?;
    let address = format!("127.0.0.1:{port}");
    let mut client = Protocol::new(&address, SERVER, &shown, Generation::Legacy)?;
    begin(&mut client, &program).await?;
    client.cleanup().await?;
    let process = program.process.as_mut().context("it was started")?;
    process.signal(rustix::process::Signal::TERM)?;
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    let ended = tokio::time::timeout(PATIENCE, async {
        loop {
            ticks.tick().await;
            if let Some(status) = process.exited() {
                return status;
            }
        }
    });
    let status = ended.await.context("it does not end")?;
    ensure!(status.success(), "{status}: {}", program.log());
    Ok(())
}
