//! `cargo xtask demo`: from nothing to a tenant cluster that answers kubectl and runs a pod.
//!
//! Invariant: only what the example asks for is built and installed.

mod needs;

use std::{
    fs,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use lab::{
    Adapter, Build, Layout, Operator, UpOptions,
    progress::{Progress, seconds},
    run,
};
use serde_json::Value;

use crate::lab::say;
use needs::Needs;

/// The version of the operator's image: the workspace's.
const VERSION: &str = env!("CARGO_PKG_VERSION");
const EXAMPLE: &str = "deploy/examples/demo.yaml";
const NAME: &str = "demo";
/// The example's NodePool.
const POOL: &str = "demo-workers";
/// What the pod runs; workers of the lab have it already.
const IMAGE: &str = "ghcr.io/covey-dev/testserver:1";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Take the lab down at the end
    #[arg(long)]
    down: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let layout = Layout::discover()?;
    let progress = Progress::new();
    let example = layout.checkout().join(EXAMPLE);
    let example = fs::read_to_string(&example)
        .with_context(|| format!("{} cannot be read", example.display()))?;
    let needs = Needs::of(&example)?;
    let options = UpOptions {
        tenant_versions: needs.versions,
        storage: needs.adapters.contains(&Adapter::Csi),
        // With the operator's build it shares nearly all crates.
        build: Build::Release,
        ..UpOptions::default()
    };
    let operator = Operator {
        adapters: needs.adapters,
        ..Operator::as_released(VERSION)
    };
    lab::prepare(&layout, &options, &operator, &progress)?;
    lab::up(&layout, &options, &progress)?;
    lab::install_operator(&layout, &operator, &progress)?;

    let kubectl = Kubectl {
        layout: &layout,
        kubeconfig: layout.kubeconfig(),
    };
    kubectl.delete_example()?;
    let step = progress.step("waiting for the tenant cluster's API");
    let begun = Instant::now();
    let namespace = kubectl.apply_example()?;
    let tenant = kubectl.wait_for_tenant(&namespace, begun);
    let (tenant, answered) = step.finish(tenant)?;

    let step = progress.step("using the tenant cluster");
    let created = step.finish(use_tenant(&tenant))?;
    lab::kubevirt::wait(&layout, &progress)?;
    let step = progress.step("waiting for the tenant cluster's first node");
    let joined = kubectl.wait_for_node(&namespace, begun);
    let joined = step.finish(joined)?;
    let step = progress.step("running a pod");
    let ran = step.finish(run_a_pod(&tenant))?;
    // With a node pool, Ready says besides that what nodes need inside is up.
    let ready = ["wait", "--for=condition=Ready", "tenantcluster/demo"];
    kubectl.run(&[&ready[..], &["--timeout=120s", "-n", &namespace]].concat())?;
    let clusters = kubectl.run(&["get", "tc,np,machines", "-A"])?;

    progress.show_summary();
    say(&format!(
        "\nThe tenant cluster's API answered {} after it was created, and its first node was ready \
         after {}.\n\n{created}\n{ran}\n{clusters}\n\
         Use it:      {kubectl} --kubeconfig {tenant} get pods -A -o wide\n\
         Management:  {kubectl} --kubeconfig {management} get tc,np,machines -A\n",
        seconds(answered),
        seconds(joined),
        kubectl = layout.tool("kubectl").display(),
        tenant = tenant.kubeconfig.display(),
        management = layout.kubeconfig().display(),
    ))?;
    if args.down {
        return lab::down(&layout, false, &progress);
    }
    say("End it all:  cargo xtask lab down\n")
}

struct Kubectl<'a> {
    layout: &'a Layout,
    kubeconfig: PathBuf,
}

impl Kubectl<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.layout.tool("kubectl"));
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(args);
        command.current_dir(self.layout.checkout());
        command
    }

    fn run(&self, args: &[&str]) -> Result<String> {
        run::output(&mut self.command(args))
    }

    /// An earlier demo's tenant cluster goes first, so that the time shown is that of a creation.
    fn delete_example(&self) -> Result<()> {
        let delete = [
            "delete",
            "--ignore-not-found",
            "--wait",
            "--timeout=300s",
            "-f",
            EXAMPLE,
        ];
        self.run(&delete).map(drop)
    }

    /// Applies the example and returns the namespace of its TenantCluster.
    fn apply_example(&self) -> Result<String> {
        let applied = self.run(&["apply", "-o", "json", "-f", EXAMPLE])?;
        let applied: Value = serde_json::from_str(&applied).context("kubectl printed no JSON")?;
        let items = match &applied["items"] {
            Value::Array(items) => items.clone(),
            _ => vec![applied],
        };
        let found = items.iter().find(|item| item["kind"] == "TenantCluster");
        let namespace = found.and_then(|item| item["metadata"]["namespace"].as_str());
        namespace
            .map(str::to_owned)
            .with_context(|| format!("{EXAMPLE} has no TenantCluster"))
    }

    /// Waits for the kubeconfig Secret and an authenticated answer with it.
    fn wait_for_tenant(&self, namespace: &str, begun: Instant) -> Result<(Kubectl<'_>, Duration)> {
        let folder = self.layout.root().join("demo");
        fs::create_dir_all(&folder)?;
        let kubeconfig = folder.join("kubeconfig");
        let secret = format!("secret/{NAME}-kubeconfig");
        let end = begun + Duration::from_secs(300);
        while Instant::now() < end {
            let get = ["get", &secret, "-n", namespace, "-o"];
            let value = "go-template={{.data.value | base64decode}}";
            if let Ok(text) = self.run(&[&get[..], &[value]].concat()) {
                write_private(&kubeconfig, &text)?;
                let tenant = Kubectl {
                    layout: self.layout,
                    kubeconfig: kubeconfig.clone(),
                };
                if tenant
                    .run(&["get", "namespaces", "--request-timeout=2s"])
                    .is_ok()
                {
                    return Ok((tenant, begun.elapsed()));
                }
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let about = self
            .run(&["describe", "tc", NAME, "-n", namespace])
            .unwrap_or_default();
        bail!("the tenant cluster did not answer within 5 minutes:\n{about}")
    }

    /// Waits until the node pool is Ready; answers with the time since `begun`.
    fn wait_for_node(&self, namespace: &str, begun: Instant) -> Result<Duration> {
        let target = format!("nodepool/{POOL}");
        let wait = ["wait", "--for=condition=Ready", &target, "--timeout=600s"];
        let inside = ["-n", namespace];
        if let Err(error) = self.run(&[&wait[..], &inside].concat()) {
            let about = ["describe", "nodepools,machines"];
            let about = self.run(&[&about[..], &inside].concat());
            return Err(error.context(about.unwrap_or_default()));
        }
        Ok(begun.elapsed())
    }
}

/// A pod on the tenant's node, asked by `kubectl exec` and read by `kubectl logs`.
fn run_a_pod(tenant: &Kubectl<'_>) -> Result<String> {
    let image = format!("--image={IMAGE}");
    tenant.run(&["create", "deployment", "greeter", &image, "-n", "hello"])?;
    let wait = ["rollout", "status", "deployment/greeter", "-n", "hello"];
    tenant.run(&[&wait[..], &["--timeout=300s"]].concat())?;
    let pod = "deployment/greeter";
    let wget = ["wget", "-q", "-O", "-", "http://127.0.0.1:8080/greeting"];
    let exec = ["exec", pod, "-n", "hello", "--"];
    let said = tenant.run(&[&exec[..], &wget].concat())?;
    let logs = tenant.run(&["logs", pod, "-n", "hello", "--tail=1"])?;
    let pods = tenant.run(&["get", "nodes,pods", "-A"])?;
    Ok(format!(
        "{pods}\n$ kubectl exec deployment/greeter -- wget -q -O - http://127.0.0.1:8080/greeting\n\
         {said}$ kubectl logs deployment/greeter --tail=1\n{logs}"
    ))
}

/// Writes through the generated kubeconfig and reads back what was written.
fn use_tenant(tenant: &Kubectl<'_>) -> Result<String> {
    tenant.run(&["create", "namespace", "hello"])?;
    let literal = "--from-literal=greeting=hello from the tenant cluster";
    tenant.run(&["create", "configmap", "greeting", "-n", "hello", literal])?;
    let namespaces = tenant.run(&["get", "namespaces"])?;
    let path = "jsonpath={.data.greeting}";
    let greeting = tenant.run(&["get", "configmap", "greeting", "-n", "hello", "-o", path])?;
    Ok(format!(
        "{namespaces}\nConfigMap hello/greeting says: {greeting}\n"
    ))
}

fn write_private(path: &Path, text: &str) -> Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    Ok(())
}
