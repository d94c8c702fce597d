//! The lab's kubectl against a tenant cluster, as its users run it.
//!
//! Invariant: no call lasts longer than it was given, and what was started ends with its handle.

use std::{
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use lab::Layout;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdout, Command},
};

use super::Scenario;
use crate::cluster::Tenant;

/// How long one call may take unless it says otherwise.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two tries of [`Kubectl::until`].
const AGAIN: Duration = Duration::from_millis(500);

/// kubectl with the administrator's kubeconfig of one tenant cluster.
#[derive(Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    namespace: Option<String>,
}

impl Kubectl {
    /// With the kubeconfig that the tenant cluster's Secret holds.
    ///
    /// # Errors
    /// When there is none in time.
    pub async fn of(s: &Scenario, tenant: &Tenant) -> Result<Self> {
        let text = tenant.kubeconfig(super::PATIENCE).await?;
        let kubeconfig = s.file(&format!("{}.kubeconfig", tenant.name), &text)?;
        Ok(Self::with(&s.management.layout, kubeconfig))
    }

    /// With any kubeconfig.
    #[must_use]
    pub fn with(layout: &Layout, kubeconfig: PathBuf) -> Self {
        let program = layout.tool("kubectl");
        Self {
            program,
            kubeconfig,
            namespace: None,
        }
    }

    /// The same in another namespace than the kubeconfig's.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(
                self.namespace
                    .iter()
                    .flat_map(|ns| ["--namespace", ns.as_str()]),
            )
            .args(args)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs it and returns what it printed.
    ///
    /// # Errors
    /// With what it said when it failed.
    pub async fn run(&self, args: &[&str]) -> Result<String> {
        self.run_within(PATIENCE, args).await
    }

    /// The same with another limit.
    ///
    /// # Errors
    /// With what it said when it failed or took longer.
    pub async fn run_within(&self, patience: Duration, args: &[&str]) -> Result<String> {
        let begun = Instant::now();
        let output = tokio::time::timeout(patience, self.command(args).output()).await;
        let what = || format!("kubectl {}", args.join(" "));
        let output = output
            .with_context(|| format!("{}: no end within {patience:?}", what()))?
            .context("kubectl cannot be run")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!(
                "{} (after {:.1?}): {}",
                what(),
                begun.elapsed(),
                said.trim()
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it again and again until it succeeds and `check` accepts what it printed.
    ///
    /// # Errors
    /// With the last failure when that takes longer than `patience`.
    pub async fn until(
        &self,
        patience: Duration,
        args: &[&str],
        check: impl Fn(&str) -> bool,
    ) -> Result<String> {
        let begun = Instant::now();
        loop {
            let left = patience.saturating_sub(begun.elapsed());
            let last = match self.run_within(left.min(PATIENCE), args).await {
                Ok(text) if check(&text) => return Ok(text),
                Ok(text) => anyhow::anyhow!("kubectl {} printed {text:?}", args.join(" ")),
                Err(error) => error,
            };
            if begun.elapsed() >= patience {
                return Err(last).with_context(|| format!("tried for {patience:?}"));
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Waits until CoreDNS is rolled out.
    ///
    /// # Errors
    /// When that takes longer.
    pub async fn dns_is_there(&self, patience: Duration) -> Result<()> {
        let (namespace, name) = ("kube-system", "deployment/coredns");
        let rolled = ["rollout", "status", "-n", namespace, name];
        self.run_within(patience, &rolled).await.map(drop)
    }

    /// `kubectl apply -f -`.
    ///
    /// # Errors
    /// With what it said when it failed.
    pub async fn apply(&self, manifest: &str) -> Result<String> {
        self.feed(&["apply", "-f", "-"], manifest).await
    }

    /// `kubectl create --dry-run=server -f -`: the API server judges it and keeps nothing.
    ///
    /// # Errors
    /// With what it said when it failed.
    pub async fn judge(&self, manifest: &str) -> Result<String> {
        let create = ["create", "--dry-run=server", "-f", "-"];
        self.feed(&create, manifest).await
    }

    async fn feed(&self, args: &[&str], manifest: &str) -> Result<String> {
        let mut command = self.command(args);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("kubectl cannot be run")?;
        let mut input = child.stdin.take().context("kubectl without input")?;
        input.write_all(manifest.as_bytes()).await?;
        drop(input);
        let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
        let what = || format!("kubectl {}", args.join(" "));
        let output = output.with_context(|| format!("{} does not end", what()))??;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{}: {}\n{manifest}", what(), said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// `kubectl port-forward` to a port of a pod or Service; answers with the local port, which is
    /// open as long as the handle lives.
    ///
    /// # Errors
    /// With what it said when it ended instead.
    pub async fn port_forward(&self, target: &str, port: u16) -> Result<Forward> {
        let remote = format!(":{port}");
        let args = ["port-forward", "--address=127.0.0.1", target, &remote];
        let mut child = self
            .command(&args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("kubectl cannot be run")?;
        let output = child.stdout.take().context("kubectl without output")?;
        let mut lines = BufReader::new(output).lines();
        let first = tokio::time::timeout(PATIENCE, lines.next_line()).await;
        let first = first.context("kubectl port-forward says nothing")??;
        // "Forwarding from 127.0.0.1:40123 -> 8080"
        let local = first.as_deref().and_then(|line| {
            let (_, rest) = line.split_once("127.0.0.1:")?;
            rest.split_whitespace().next()?.parse().ok()
        });
        let Some(local) = local else {
            let output = child.wait_with_output().await?;
            bail!(
                "kubectl port-forward {target} {port}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        };
        Ok(Forward {
            port: local,
            _output: lines.into_inner(),
            _child: child,
        })
    }
}

/// A forwarded port.
pub struct Forward {
    /// The port of this machine's loopback address.
    pub port: u16,
    /// kubectl names each connection there, and is killed where nobody can read it.
    _output: BufReader<ChildStdout>,
    _child: Child,
}
