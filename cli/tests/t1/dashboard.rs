//! `covey dashboard`: what it says, and that it ends as it should; nobody forwards anything here.
//!
//! Invariant: no test sleeps.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Pod, Service, ServiceAccount};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use testkit::apiserver::ManagementApi;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::{MASTERS, Shell};

#[tokio::test]
async fn the_dashboard_is_led_to_until_a_signal_ends_that() -> Result<()> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let namespace = api.namespace("cli").await?;
    let (shell, client) = (Shell::new(api, &namespace, &[MASTERS])?, api.admin()?);
    let line = format!("dashboard --operator-namespace {namespace}");
    let none = shell.run(&line).await?;
    none.expect(5, &[], &["there is no dashboard", "dashboard.enabled"]);

    let create = PostParams::default();
    let service = json!({"metadata": {"name": "covey-dashboard"}, "spec": {"selector": {"app": "dashboard"},
        "ports": [{"name": "https", "port": 443, "targetPort": "https"}]}});
    let services: Api<Service> = Api::namespaced(client.clone(), &namespace);
    services
        .create(&create, &serde_json::from_value(service)?)
        .await?;
    let account = serde_json::from_value(json!({"metadata": {"name": "default"}}))?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
    accounts.create(&create, &account).await?;
    let ports = json!([{"name": "https", "containerPort": 8443}]);
    let pod = json!({"metadata": {"name": "dashboard-1", "labels": {"app": "dashboard"}},
        "spec": {"automountServiceAccountToken": false, "containers": [{"name": "dashboard", "image": "x", "ports": ports}]}});
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    pods.create(&create, &serde_json::from_value(pod)?).await?;
    let unready = shell.run(&line).await?;
    unready.expect(
        1,
        &[],
        &["no pod of the dashboard is ready", "app=dashboard"],
    );
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let params = PatchParams::default();
    pods.patch_status("dashboard-1", &params, &Patch::Merge(&status))
        .await?;
    // The user of this kubeconfig has a certificate.
    let no_token = shell.run(&format!("{line} --token")).await?;
    no_token.expect(1, &[], &["has no token", "kubectl create token"]);

    let mut running = shell.command(&line).spawn()?;
    let mut out = BufReader::new(running.stdout.take().context("no output")?).lines();
    let address = out.next_line().await?.context("no line")?;
    assert!(
        address.starts_with("https://127.0.0.1:") && address.ends_with('/'),
        "{address}"
    );
    let port = address.trim_start_matches("https://127.0.0.1:");
    let port: u16 = port.trim_end_matches('/').parse()?;
    // Taken, by the command.
    let taken = shell.run(&format!("{line} --port {port}")).await?;
    let taken = taken.expect(1, &[], &["cannot listen", "--port"]);
    assert_eq!(taken.out, "");
    let id = running.id().context("it has ended")?.to_string();
    Command::new("kill").args(["-TERM", &id]).status().await?;
    assert_eq!(running.wait().await?.code(), Some(0));
    assert_eq!(out.next_line().await?, None);
    Ok(())
}
