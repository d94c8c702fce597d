//! Needs: operator
//!
//! `kubectl get tc` answers the first questions: which version, does it answer, where.

use anyhow::{Result, ensure};
use suites::scenario::{self, PATIENCE};

#[tokio::test]
async fn kubectl_get_shows_version_readiness_and_endpoint() {
    scenario::run("columns", columns).await;
}

async fn columns(s: &scenario::Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    let status = tenant.settled(PATIENCE).await?.status.unwrap_or_default();
    let endpoint = status.endpoint.unwrap_or_default();
    let (titles, row) = table(&s.manage(&["get", "tc"]).await?)?;
    ensure!(
        titles
            == [
                "NAME", "VERSION", "READY", "REASON", "ENDPOINT", "PORT", "AGE"
            ],
        "{titles:?}"
    );
    let port = endpoint.port.to_string();
    let expected = [
        "demo",
        scenario::VERSION,
        "True",
        "Answering",
        &endpoint.host,
        &port,
    ];
    ensure!(row[..6] == expected, "{row:?}");

    let (titles, row) = table(&s.manage(&["get", "tenantclusters", "-o", "wide"]).await?)?;
    ensure!(
        titles[7..] == ["TENANT-NAMESPACE", "KUBECONFIG", "MESSAGE"],
        "{titles:?}"
    );
    ensure!(
        row[7..9] == [tenant.tenant_namespace(), "demo-kubeconfig".to_owned()],
        "{row:?}"
    );
    Ok(())
}

/// Titles, and the only row.
fn table(text: &str) -> Result<(Vec<String>, Vec<String>)> {
    let mut lines = text
        .lines()
        .map(|line| line.split_whitespace().map(str::to_owned).collect());
    match (lines.next(), lines.next(), lines.next()) {
        (Some(titles), Some(row), None) => Ok((titles, row)),
        _ => anyhow::bail!("not one row:\n{text}"),
    }
}
