//! Needs: operator
//!
//! The tenant's API writes an audit log: who did what, never what was in it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::PostParams};
use serde_json::json;
use suites::scenario::{self, PATIENCE};

#[tokio::test]
async fn a_write_appears_in_the_tenants_audit_log_without_its_content() {
    scenario::run("audit", audit).await;
}

async fn audit(s: &scenario::Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    let admin = tenant.usable(PATIENCE).await?.client;
    let secret = json!({ "metadata": { "name": "audited" },
        "stringData": { "key": "never-in-the-log" } });
    let secrets: Api<Secret> = Api::namespaced(admin, "default");
    secrets
        .create(&PostParams::default(), &serde_json::from_value(secret)?)
        .await?;

    let pods = tenant.pods_of("control-plane").await?;
    let pod = pods.first().context("no control-plane pod")?;
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let path =
        format!("/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/audit/audit.log");
    // The line is written just after the answer was sent.
    let end = Instant::now() + Duration::from_secs(10);
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    let (log, line) = loop {
        ticks.tick().await;
        let log = s.on_host("cat", &[&path])?;
        let line = log
            .lines()
            .find(|line| line.contains(r#""name":"audited""#));
        if let Some(line) = line.map(str::to_owned) {
            break (log, line);
        }
        if Instant::now() > end {
            bail!("no line about the Secret among {}", log.lines().count());
        }
    };
    let event: serde_json::Value = serde_json::from_str(&line)?;
    ensure!(event["user"]["username"] == "kubernetes-admin", "{line}");
    ensure!(
        event["verb"] == "create" && event["level"] == "Metadata",
        "{line}"
    );
    ensure!(
        !log.contains("never-in-the-log"),
        "the log holds the Secret's content"
    );
    Ok(())
}
