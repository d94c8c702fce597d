//! The program itself: flags, kubeconfig files, Lease, SIGTERM.

use anyhow::{Context as _, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;
use testkit::fixtures::wait_for;

use crate::support::{Environment, PATIENCE, Program};

fn holder(lease: Option<&Lease>) -> Option<&str> {
    let holder = lease?.spec.as_ref()?.holder_identity.as_deref();
    holder.filter(|holder| !holder.is_empty())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_process_goes_on_where_one_that_is_told_to_end_stops() -> Result<()> {
    let Some(environment) = Environment::new("process").await? else {
        return Ok(());
    };
    let leases: Api<Lease> = Api::namespaced(environment.admin.clone(), &environment.ns);
    let mut first = Program::start(&environment, "first", &[])?;
    let leads = |lease: Option<&Lease>| holder(lease) == Some("first");
    wait_for(&leases, ccm::names::LEASE, leads, PATIENCE).await?;
    let _second = Program::start(&environment, "second", &[])?;
    let service = environment.service("web", &json!({})).await?;
    environment
        .mirror(&service, |_| true)
        .await
        .with_context(|| first.process.log_tail(20))?;
    let asked = std::time::Instant::now();
    first.process.signal(rustix::process::Signal::TERM)?;
    let leads = |lease: Option<&Lease>| holder(lease) == Some("second");
    wait_for(&leases, ccm::names::LEASE, leads, PATIENCE).await?;
    eprintln!("another one led {:.2?} after SIGTERM", asked.elapsed());
    let later = environment.service("later", &json!({})).await?;
    environment.mirror(&later, |_| true).await?;
    let status = first.process.ended(PATIENCE).await?;
    assert!(status.success(), "{status}: {}", first.process.log_tail(20));
    Ok(())
}
