//! A join that finds no tenant cluster, and its reset: with a real kubeadm, kubelet, containerd and OpenRC.
//!
//! Invariant: the machine is clean at the end, and may be claimed by the next one.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use api::{Host, Machine};
use provider_static::errands::{Order, run};
use provider_static::join::{self, Settings};
use provider_static::life::{Errand, Outcome};
use provider_static::plan::cleanliness::Cleanliness;
use provider_static::plan::progress::Progress;
use provider_static::session::Session;
use serde_json::json;

use crate::checkout::Lab;
use crate::{facts, owner, run as run_script};

const TOKEN: &str = "abcdef.0123456789abcdef";
/// Whether the kubelet comes with the next boot.
const SWITCHED: &str = "if [ -e /etc/runlevels/default/kubelet ]; then result=on; else result=off; fi\n\
                            printf '{\"result\":\"%s\"}\\n' \"$result\"\n";

/// What the operator asks for; nobody listens at the endpoint.
fn order(errand: Errand, cgroup2: bool, version: &str) -> Result<Order> {
    let host: Host = serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Host", "metadata": {"name": "edge", "namespace": "team-a"},
        "spec": {"address": "192.0.2.10", "user": "root", "sshKeySecretName": "ssh", "hostKeys": ["x"]},
        "status": {"facts": {"machineID": "one", "hostKey": "x", "architecture": "amd64", "cpu": 8,
            "memory": "16000Mi", "os": "debian 12", "kernel": "6.1.0", "cgroup2": cgroup2, "tun": true}},
    }))?;
    let machine: Machine = serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Machine", "metadata": {"name": "w-1", "namespace": "team-a"},
        "spec": {"clusterName": "demo", "clusterUID": "tc", "poolName": "w", "version": version,
            "provider": {"static": {}}},
    }))?;
    let data = json!({ "configuration": {
        "apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration",
        "discovery": {"bootstrapToken": {"apiServerEndpoint": "127.0.0.1:1", "token": TOKEN,
            "caCertHashes": [format!("sha256:{}", "0".repeat(64))]}},
        "nodeRegistration": {"name": "w-1", "criSocket": "unix:///run/containerd/containerd.sock"},
        "timeouts": {"discovery": "3s"},
    }});
    let settings = Settings {
        allows_cgroup1: true,
        ..Settings::default()
    };
    Ok(Order {
        errand,
        owner: owner(),
        made_at: "2026-01-01T00:00:00Z".to_owned(),
        ca: "ab12".to_owned(),
        join: join::parameters(&host, &machine, (&data.to_string(), "ab12"), &settings),
        ..Order::inspect(Vec::new())
    })
}

/// Asks until it has ended.
async fn to_its_end(session: &Session, order: &Order) -> Result<Outcome> {
    let mut looks = tokio::time::interval(Duration::from_millis(500));
    let asked = async {
        loop {
            looks.tick().await;
            match run(session, order).await? {
                Outcome::Join(Progress::Working(_) | Progress::Start) => {}
                Outcome::Reset {
                    progress: Progress::Working(_) | Progress::Start,
                    ..
                } => {}
                over => return Ok::<_, anyhow::Error>(over),
            }
        }
    };
    let asked = tokio::time::timeout(Duration::from_secs(300), asked).await;
    asked.context("it does not end")?
}

#[tokio::test]
async fn a_join_without_a_tenant_cluster_fails_in_words_and_is_undone() -> Result<()> {
    let Some(lab) = Lab::begin()? else {
        return Ok(());
    };
    let host = lab.add("edge", &[])?;
    let session = host.enter().await?;
    let facts = facts(&session).await?;
    let version = facts.kubelet.clone().context("no kubelet")?;
    let order = |errand| order(errand, facts.cgroup2, &version);
    let claimed = run(&session, &order(Errand::Claim)?).await?;
    let Outcome::Claim(provider_static::plan::claim::Claim::Ours) = claimed else {
        bail!("{claimed:?}");
    };
    let joined = to_its_end(&session, &order(Errand::Join)?).await?;
    let Outcome::Join(Progress::Failed(words)) = &joined else {
        bail!("{joined:?}");
    };
    assert!(words.contains("kubeadm join failed"), "{words}");
    // It got as far as to look for the endpoint, with cgroup v1, too.
    assert!(!words.contains("SystemVerification"), "{words}");
    assert!(!words.contains("0123456789abcdef"), "{words}");
    let switched = run_script(&session, SWITCHED).await?;
    assert_eq!(switched.get("result"), "on");
    let undone = to_its_end(&session, &order(Errand::Reset)?).await?;
    let clean = Outcome::Reset {
        progress: Progress::Undone,
        clean: Cleanliness::Clean,
    };
    assert_eq!(undone, clean);
    let switched = run_script(&session, SWITCHED).await?;
    assert_eq!(switched.get("result"), "off");
    drop(session);
    lab.xtask(&["down"])?;
    Ok(())
}
