//! Needs: operator
//!
//! When nothing changes, nothing is written: an idle minute costs the management API no write by
//! the operator, its Lease aside.

use std::time::Duration;

use anyhow::{Result, ensure};
use suites::scenario::{self, PATIENCE, Scenario};

#[tokio::test]
async fn an_idle_minute_has_no_write_by_the_operator() {
    scenario::run_alone("idle", idle).await;
}

async fn idle(s: &Scenario) -> Result<()> {
    let (one, two) = (
        s.tenant("one", |_| {}).await?,
        s.tenant("two", |_| {}).await?,
    );
    one.settled(PATIENCE).await?;
    two.settled(PATIENCE).await?;
    let log = s.management.audit_log();
    // Whatever still comes after the last status belongs to the creation.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mark = log.mark()?;
    // The minute is the test: nobody waits here for anything to happen.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let requests = log.since(mark)?;
    let writes: Vec<_> = requests
        .iter()
        .filter(|r| r.is_operators() && r.is_write())
        .collect();
    ensure!(writes.is_empty(), "{} writes: {writes:?}", writes.len());
    // The log does see the operator: its Lease is renewed.
    ensure!(
        requests.iter().any(|r| r.is_operators()),
        "the audit log does not know the operator"
    );
    Ok(())
}
