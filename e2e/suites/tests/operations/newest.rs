//! Needs: operator
//!
//! A tenant on the newest supported minor, where the lab has its images
//! (`lab up --tenant-versions 1.34,1.35,1.36`; each version is a build of five minutes).

use anyhow::{Result, ensure};
use suites::scenario::{self, PATIENCE, Scenario};

const NEWEST: &str = "1.36.3";

#[tokio::test]
async fn a_tenant_on_1_36_answers_where_the_lab_has_it() {
    scenario::run("answers-136", answers).await;
}

async fn answers(s: &Scenario) -> Result<()> {
    let state = lab::state::State::read(&s.management.layout);
    if !state.is_some_and(|state| {
        state
            .tenant_versions
            .iter()
            .any(|version| version == NEWEST)
    }) {
        eprintln!("SKIPPED answers-136: the lab was brought up without {NEWEST}");
        return Ok(());
    }
    let tenant = s
        .tenant("demo", |spec| spec.version = NEWEST.to_owned())
        .await?;
    let client = tenant.usable(PATIENCE).await?.client;
    let served = client.apiserver_version().await?.git_version;
    ensure!(served == format!("v{NEWEST}"), "got {served}");
    tenant.settled(PATIENCE).await.map(drop)
}
