//! The command line as a person's shell starts it: a process each time.
//!
//! Invariant: nothing of whoever runs the bench reaches it, neither variables nor files; a command that does not end well
//! ends the bench.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use api::AccessGrant;
use futures::StreamExt as _;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use testkit::figures::spread;
use testkit::process::Process;
use tokio::task::JoinHandle;

use crate::figure::{one, with};
use crate::once::{Took, measured, timed};
use crate::world::{DEMO, JANE, TEAM, World};

const GOAL_HELP_MS: f64 = 30.0;
const GOAL_CACHED_MS: f64 = 15.0;
const GOAL_GRANT_MS: f64 = 500.0;
const GOAL_DESCRIBE_MS: f64 = 300.0;
const GOAL_DESCRIBE_REQUESTS: f64 = 6.0;
const GOAL_LIST_MS: f64 = 700.0;
const GOAL_LIST_MIB: f64 = 60.0;

pub(crate) struct Commands<'a> {
    covey: PathBuf,
    world: &'a World,
    cache: PathBuf,
}

impl<'a> Commands<'a> {
    pub(crate) fn new(covey: &Path, world: &'a World) -> Result<Self> {
        let covey = std::fs::canonicalize(covey);
        let covey = covey.context("find the command line's program")?;
        Ok(Self {
            covey,
            world,
            cache: world.dir.path().join("cache"),
        })
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.covey);
        command
            .args(self.args(line))
            .env_clear()
            .env("HOME", self.world.dir.path())
            .env("XDG_CACHE_HOME", &self.cache)
            .env("LC_ALL", "C.UTF-8");
        command
    }

    fn args(&self, line: &str) -> Vec<String> {
        let kubeconfig = format!("--kubeconfig={}", self.world.kubeconfig.display());
        let mut args = vec![kubeconfig, format!("--namespace={TEAM}")];
        args.extend(line.split(' ').map(str::to_owned));
        args
    }

    /// `covey --help`, until its first byte.
    pub(crate) fn help(&self, spawns: usize) -> Result<Value> {
        eprintln!("covey --help, {spawns} times");
        let help = || {
            let mut command = Command::new(&self.covey);
            command.arg("--help").env_clear();
            timed(command)
        };
        let first_byte = |took: Took| took.first_byte_ms;
        Ok(with(&times(spawns, help, first_byte)?, GOAL_HELP_MS))
    }

    /// `kubectl version --client`, what everybody knows the speed of; none where there is no kubectl.
    pub(crate) fn anchor(&self, spawns: usize) -> Result<Option<Value>> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders = std::env::split_paths(&path).map(|folder| folder.join("kubectl"));
        let Some(kubectl) = folders.find(|file| file.is_file()) else {
            return Ok(None);
        };
        let version = || {
            let mut command = Command::new(&kubectl);
            command.args(["version", "--client"]).env_clear();
            command.env("HOME", self.world.dir.path());
            timed(command)
        };
        let took = times(spawns, version, |took| took.first_byte_ms)?;
        Ok(Some(spread(&took)))
    }

    /// `covey credential get` where a certificate is kept: nobody is asked for it.
    pub(crate) async fn credential_cached(&self, spawns: usize) -> Result<Value> {
        eprintln!("covey credential get, {spawns} times from the cache");
        let line = credential(&self.world.uid().await?);
        let _operator = Signs::start(&self.world.admin);
        // The first one asks.
        on_a_thread(|| timed(self.command(&line)))?;
        let window = self.world.api.audit().window()?;
        let took = on_a_thread(|| times(spawns, || timed(self.command(&line)), |took| took.ms))?;
        let asked: usize = window.counts(JANE)?.values().sum();
        ensure!(
            asked == 0,
            "{asked} requests although a certificate was kept"
        );
        Ok(with(&took, GOAL_CACHED_MS))
    }

    /// The same where none is kept. The bench answers in the operator's place, at once.
    pub(crate) async fn credential_with_grant(&self, rounds: usize) -> Result<Value> {
        eprintln!("covey credential get, {rounds} times with a grant");
        let line = credential(&self.world.uid().await?);
        let _operator = Signs::start(&self.world.admin);
        let took = on_a_thread(|| {
            let mut all = Vec::new();
            for round in 0..rounds {
                let mut command = self.command(&line);
                command.env("XDG_CACHE_HOME", self.cache.join(format!("of-{round}")));
                all.push(timed(command)?.ms);
            }
            Ok(all)
        })?;
        Ok(with(&took, GOAL_GRANT_MS))
    }

    /// `covey describe` of a tenant cluster with machines: its time, and the most requests that one of them made.
    pub(crate) fn describe(&self, rounds: usize) -> Result<(Value, Value)> {
        eprintln!("covey describe, {rounds} times");
        let (mut took, mut most) = (Vec::new(), 0);
        for _ in 0..rounds {
            let window = self.world.api.audit().window()?;
            took.push(timed(self.command(&format!("describe {DEMO}")))?.ms);
            let requests: usize = window.counts(JANE)?.values().sum();
            ensure!(requests > 0, "the audit log has nothing of covey describe");
            most = most.max(requests);
        }
        let requests = one(most as f64, GOAL_DESCRIBE_REQUESTS);
        Ok((with(&took, GOAL_DESCRIBE_MS), requests))
    }

    /// `covey get -A`: its time, and the most memory that one of them had.
    pub(crate) fn list_all(&self, rounds: usize) -> Result<(Value, Value)> {
        eprintln!("covey get -A, {rounds} times");
        let (mut took, mut peak) = (Vec::new(), 0.0_f64);
        for _ in 0..rounds {
            let one = measured(&self.command("get -A"))?;
            took.push(one.ms);
            peak = peak.max(one.peak_mib);
        }
        Ok((with(&took, GOAL_LIST_MS), one(peak, GOAL_LIST_MIB)))
    }

    /// One that goes on until it is dropped.
    pub(crate) fn follow(&self, line: &str) -> Result<Process> {
        let log = self.world.dir.path().join("follow.log");
        Process::spawn("covey", &self.covey, &self.args(line), &log)
    }
}

fn credential(uid: &str) -> String {
    format!("credential get --cluster {DEMO} --uid {uid} --profile view")
}

/// One after the other.
fn times(
    spawns: usize,
    mut run: impl FnMut() -> Result<Took>,
    figure: impl Fn(Took) -> f64,
) -> Result<Vec<f64>> {
    // What is on disk is in memory from the second one on, as it is at somebody who works with it.
    run()?;
    (0..spawns).map(|_| run().map(&figure)).collect()
}

/// Work that waits for processes, while what was spawned goes on.
fn on_a_thread<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    tokio::task::block_in_place(work)
}

/// Who answers each AccessGrant at once, in the operator's place; until it is dropped.
struct Signs(JoinHandle<()>);

impl Signs {
    fn start(client: &Client) -> Self {
        let grants: Api<AccessGrant> = Api::namespaced(client.clone(), TEAM);
        Self(tokio::spawn(async move {
            if let Err(error) = sign(grants).await {
                // Whoever waits for a certificate says that none came.
                eprintln!("no grant is answered any more: {error:#}");
            }
        }))
    }
}

impl Drop for Signs {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn sign(grants: Api<AccessGrant>) -> Result<()> {
    let mut events = watcher(grants.clone(), Config::default()).boxed();
    while let Some(event) = events.next().await {
        let (Event::Apply(grant) | Event::InitApply(grant)) = event? else {
            continue;
        };
        if grant.status.is_some() {
            continue;
        }
        let now = jiff::Timestamp::now();
        let until = now + jiff::SignedDuration::from_hours(1);
        let status = json!({ "status": {
            "certificate": "CERTIFICATE", "certificateAuthority": "AUTHORITY", "notAfter": until.to_string(),
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "GrantIssued", "message": "",
                "lastTransitionTime": now.to_string(),
            }],
        }});
        let (name, params) = (grant.name_any(), PatchParams::default());
        grants
            .patch_status(&name, &params, &Patch::Merge(&status))
            .await?;
    }
    Ok(())
}
