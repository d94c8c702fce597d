//! A virtual machine that a host plays: what the operator tells a machine of KubeVirt makes it a node, by real programs.
//!
//! The pod around it, whose network it has, is played by another host; `lab-agent`, which would start it, by the test.
//! Invariant: nothing of it is left but what it said.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use lab::host::Host;
use lab::machines::plan::{Guest, Size, id};
use lab::machines::{self, Settings};
use lab::programs::KubernetesVersion;
use lab::progress::Progress;
use lab::{Layout, run};
use testkit::programs::or_skip;

use crate::checkout::Lab;
use crate::control_plane::{ControlPlane, until};
use crate::support;

const NAME: &str = "workers-a";
const UID: &str = "0a1b2c3d-0000-4000-8000-000000000001";
/// Less than any machine has that runs this, and what has to be free.
const MEMORY: u64 = 1 << 30;
/// What an addon for the network puts there, without its programs.
const NETWORK: &str = "mkdir -p /etc/cni/net.d && \
    echo '{\"cniVersion\":\"1.0.0\",\"name\":\"test\",\"plugins\":[{\"type\":\"loopback\"}]}' > /etc/cni/net.d/10-test.conflist";

/// What a machine starts first; none where it was not built, after saying so.
fn init() -> Result<Option<PathBuf>> {
    let init = Layout::at(&support::root()).worker_init();
    let built = match init.is_file() {
        true => Ok(init),
        false => Err(anyhow::anyhow!(
            "worker-init is not built: `cargo xtask test --only t1` does it"
        )),
    };
    or_skip(built)
}

fn inside(host: &Host, script: &str) -> Result<String> {
    run::output(&mut host.inside("sh", ["-c", script]))
}

#[tokio::test]
async fn a_played_machine_joins_by_what_a_virtual_machine_is_told() -> Result<()> {
    let Some(init) = init()? else { return Ok(()) };
    let Some(lab) = Lab::begin("played")? else {
        return Ok(());
    };
    let control_plane = ControlPlane::start(&lab).await?;
    let pod = lab.add("pod", &["--bare"])?;
    let layout = lab.layout();
    fs::copy(init, layout.worker_init())?;
    let state = lab.state()?;
    let version = KubernetesVersion::default();
    let trees = machines::trees(version, &Progress::new())?;
    let settings = Settings {
        checkout: layout.checkout().to_path_buf(),
        slot: state.slot,
        trees: BTreeMap::from([(version.to_string(), trees)]),
    };
    let (told, secret) = control_plane.user_data(NAME, UID)?;
    let guest = Guest {
        id: id(NAME, UID),
        name: NAME.to_owned(),
        namespace: "covey-demo-1".to_owned(),
        version: version.to_string(),
        user_data: Some(told),
        name_servers: Vec::new(),
        size: Size {
            cores: 1,
            memory: MEMORY,
        },
    };
    let network = format!("/proc/{}/ns/net", state.ssh_hosts["pod"].host.init.pid);
    let host = machines::start(&settings, &guest, Path::new(&network))?;
    let lived = live(&host, &control_plane, pod.0["address"].as_str().unwrap()).await;
    let lived = match lived {
        Ok(()) => is_told_nothing_more(&host, &secret).await,
        failed => failed,
    };
    let said = inside(
        &host,
        "tail -n 60 /var/log/machine.log /var/log/kubelet.log",
    );
    // What another lab-agent finds, and then the end.
    let found = machines::adopt(&settings)?;
    machines::end(&settings, &guest.id, Some(&host))?;
    // What was wrong comes first: a long log is cut at its end where it is shown.
    lived.map_err(|wrong| {
        let said = said.unwrap_or_default();
        anyhow::anyhow!("{wrong:#}\n{said}\n{}", control_plane.logs())
    })?;
    assert_eq!(found, BTreeMap::from([(guest.id.clone(), host.clone())]));
    assert!(!host.is_alive() && !host.keeper.is_alive());
    assert!(!layout.machines().join(&guest.id).exists());
    let kept = layout.logs().join("machines").join(&guest.id);
    let kept = fs::read_to_string(kept.join("machine.log"))?;
    assert!(kept.contains("This node has joined the cluster"), "{kept}");
    assert_eq!(machines::adopt(&settings)?, BTreeMap::new());
    drop(control_plane);
    lab.xtask(&["down"])?;
    Ok(())
}

/// It becomes a node at the address of its pod, of the version and the size that were asked for.
async fn live(host: &Host, control_plane: &ControlPlane, address: &str) -> Result<()> {
    let get = |path: &str| {
        let said = control_plane.kubectl(&["get", "node", NAME, "-o", &format!("jsonpath={path}")]);
        said.unwrap_or_default()
    };
    until("it joins", || !get("{.metadata.uid}").is_empty()).await?;
    inside(host, NETWORK)?;
    let ready = "{.status.conditions[?(@.type==\"Ready\")].status}";
    let took = until("the node is Ready", || get(ready) == "True").await?;
    eprintln!("Ready {took:.1?} after it joined");
    ensure!(get("{.spec.providerID}") == format!("kubevirt://{NAME}"));
    let version = format!("v{}", KubernetesVersion::default());
    ensure!(get("{.status.nodeInfo.kubeletVersion}") == version);
    let at = get("{.status.addresses[?(@.type==\"InternalIP\")].address}");
    ensure!(at == address, "the node is at {at}, its pod at {address}");
    // For pods there is what was asked for, without what is evicted at.
    let cpu = get("{.status.allocatable.cpu}");
    ensure!(cpu == "1", "{cpu} processors for pods");
    let memory = get("{.status.allocatable.memory}");
    let bytes = tenant_cp::validate::bytes(&memory);
    let bytes = bytes.with_context(|| format!("{memory:?} of memory for pods"))?;
    ensure!(bytes <= MEMORY && bytes > MEMORY / 2, "{memory} for pods");
    ensure!(inside(host, "hostname")?.trim() == NAME);
    Ok(())
}

/// The join takes its own copies of the token away. What the machine was told stays, as a disk of KubeVirt does.
///
/// kubeadm asks once a second whether the kubelet has its certificate, and removes what that began with only then: a
/// node may be Ready before.
async fn is_told_nothing_more(host: &Host, secret: &str) -> Result<()> {
    let search = format!("grep -rlsF -D skip -- {secret} /etc /var /run /root /tmp || true");
    let found = || inside(host, &search).unwrap_or_else(|e| format!("{e:#}"));
    let told = |found: &str| found.trim() == "/var/lib/cloud/seed/nocloud/user-data";
    let gone = until("the token is only where it was told", || told(&found())).await;
    gone.with_context(|| format!("the token is in {}", found()))?;
    Ok(())
}
