//! Needs: operator
//!
//! A tenant cluster of each version answers what kubectl asks, and says that it is that version. The
//! lab of a default run has two neighbouring ones, that of `--all` every one.

use anyhow::{Result, ensure};
use suites::scenario::{self, PATIENCE, Scenario, versions::lab_has};

#[tokio::test]
async fn a_tenant_on_1_34_answers_kubectl_and_reports_its_version() {
    scenario::run("answers-134", async |s| {
        Box::pin(answers(s, "1.34.4")).await
    })
    .await;
}

#[tokio::test]
async fn a_tenant_on_1_35_answers_kubectl_and_reports_its_version() {
    scenario::run("answers-135", async |s| {
        Box::pin(answers(s, "1.35.4")).await
    })
    .await;
}

#[tokio::test]
async fn a_tenant_on_1_36_answers_kubectl_and_reports_its_version() {
    scenario::run("answers-136", async |s| {
        Box::pin(answers(s, "1.36.3")).await
    })
    .await;
}

async fn answers(s: &Scenario, version: &str) -> Result<()> {
    let what = format!("a tenant on {version}");
    if !lab_has(&s.management.layout, &what, &[version])? {
        return Ok(());
    }
    let tenant = s
        .tenant("demo", |spec| spec.version = version.to_owned())
        .await?;
    let usable = tenant.usable(PATIENCE).await?;
    let served = usable.client.apiserver_version().await?.git_version;
    ensure!(
        served == format!("v{version}"),
        "asked for {version}, got {served}"
    );

    let cluster = tenant.settled(PATIENCE).await?;
    let status = cluster.status.unwrap_or_default();
    ensure!(
        status.version.as_deref() == Some(version),
        "status says {:?}",
        status.version
    );

    let path = s.file("kubeconfig", &tenant.kubeconfig(PATIENCE).await?)?;
    let namespaces = s
        .kubectl(&path, &["get", "namespaces", "-o", "name"])
        .await?;
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        ensure!(
            namespaces.contains(&format!("namespace/{name}\n")),
            "{name} is not in {namespaces}"
        );
    }
    s.kubectl(&path, &["create", "deployment", "web", "--image=web"])
        .await?;
    let rolled = [
        "wait",
        "--for=create",
        "replicaset",
        "-l",
        "app=web",
        "--timeout=60s",
    ];
    s.kubectl(&path, &rolled).await?;
    let who = s
        .kubectl(
            &path,
            &["auth", "whoami", "-o", "jsonpath={.status.userInfo}"],
        )
        .await?;
    ensure!(
        who.contains("kubernetes-admin") && !who.contains("system:masters"),
        "{who}"
    );
    let explained = s
        .kubectl(&path, &["explain", "deployment.spec.replicas"])
        .await?;
    ensure!(explained.contains("replicas"), "{explained}");
    Ok(())
}
