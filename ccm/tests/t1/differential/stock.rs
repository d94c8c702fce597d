//! The controllers of k8s.io/cloud-provider on a tenant's API, with a cloud that they are told of.
//!
//! Invariant: the program ends with this value, and when this process does: its input ends.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use kube::Client;
use lab::programs::Program;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::Side;
use super::balancers::{self, Balancer};
use super::effects::Effects;
use super::scenario::{Cloud, State, Step};
use crate::support::Environment;

/// The program, if it was built.
pub(super) fn program() -> Result<Option<PathBuf>> {
    testkit::programs::reference_or_skip(Program::CLOUD_PROVIDER, "cloud-provider")
}

/// The controllers, running.
pub(super) struct Stock<'a> {
    environment: &'a Environment,
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    log: File,
}

impl<'a> Stock<'a> {
    pub(super) async fn start(program: &Path, environment: &'a Environment) -> Result<Self> {
        let log = tempfile::tempfile()?;
        let mut process = Command::new(program)
            .arg(environment.tenant.kubeconfig())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.try_clone()?)
            .kill_on_drop(true)
            .spawn()
            .context("start the stock controllers")?;
        let input = process.stdin.take().context("it has an input")?;
        let output = process.stdout.take().context("it has an output")?;
        let mut stock = Self {
            environment,
            _process: process,
            input,
            output: BufReader::new(output).lines(),
            log,
        };
        stock.tell(&Cloud::default(), "ready").await?;
        Ok(stock)
    }

    async fn tell(&mut self, cloud: &Cloud, expected: &str) -> Result<()> {
        let answer = self.ask(&state(cloud).to_string()).await?;
        if answer.as_deref() == Some(expected) {
            return Ok(());
        }
        let mut log = String::new();
        self.log.rewind()?;
        self.log.read_to_string(&mut log)?;
        bail!("the stock controllers answered {answer:?} and not {expected:?}:\n{log}")
    }

    /// Writes a line, and gives the one that answers.
    async fn ask(&mut self, line: &str) -> Result<Option<String>> {
        self.input.write_all(format!("{line}\n").as_bytes()).await?;
        Ok(self.output.next_line().await?)
    }
}

impl Side for Stock<'_> {
    const NAME: &'static str = "stock";

    fn tenant(&self) -> &Client {
        &self.environment.inside
    }

    async fn set(&mut self, cloud: &Cloud) -> Result<()> {
        self.tell(cloud, "ok").await
    }

    async fn balancers(&mut self, _step: &Step) -> Result<Effects> {
        let answer = self.ask("").await?.context("it ended")?;
        let made: BTreeMap<String, Balancer> = serde_json::from_str(&answer)?;
        let services = balancers::services(self.tenant()).await?;
        let mut lines = Effects::new();
        for (place, balancer) in &made {
            let name = place.trim_start_matches("default/");
            lines.extend(balancers::of(name, balancer, services.get(name)));
        }
        Ok(lines)
    }
}

/// What `state` of `e2e/lab/programs/cloud-provider` is.
fn state(cloud: &Cloud) -> Value {
    let machines = cloud.machines.iter().map(|(name, machine)| {
        let machine = json!({
            "shutdown": machine.state != State::Running,
            "addresses": machine.addresses,
            "zone": machine.zone,
            "region": machine.region,
            "type": machine.size,
        });
        (name.clone(), machine)
    });
    let balancers = cloud.balancers.iter();
    let balancers = balancers.map(|(name, ingress)| (format!("default/{name}"), json!(ingress)));
    json!({
        "machines": machines.collect::<serde_json::Map<_, _>>(),
        "balancers": balancers.collect::<serde_json::Map<_, _>>(),
    })
}
