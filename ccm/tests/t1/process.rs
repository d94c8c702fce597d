//! The program itself: flags, kubeconfig files, Lease, SIGTERM.

use std::path::Path;

use anyhow::{Context as _, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;
use testkit::fixtures::wait_for;
use testkit::process::{Process, Workdir};

use crate::support::{Environment, PATIENCE};

fn start(environment: &Environment, dir: &Workdir, identity: &str) -> Result<Process> {
    let [tenant, management] = environment.kubeconfigs(dir)?;
    let flags = [
        ("tenant-kubeconfig", tenant.display().to_string()),
        ("management-kubeconfig", management.display().to_string()),
        ("namespace", environment.ns.clone()),
        ("cluster-uid", environment.uid.clone()),
        ("identity", identity.to_owned()),
        ("admin-address", "127.0.0.1:0".to_owned()),
    ];
    let flags = flags.map(|(name, value)| format!("--{name}={value}"));
    let log = dir.path().join(format!("{identity}.log"));
    Process::spawn(identity, Path::new(env!("CARGO_BIN_EXE_ccm")), &flags, &log)
}

fn holder(lease: Option<&Lease>) -> Option<&str> {
    let holder = lease?.spec.as_ref()?.holder_identity.as_deref();
    holder.filter(|holder| !holder.is_empty())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_process_goes_on_where_one_that_is_told_to_end_stops() -> Result<()> {
    let Some(environment) = Environment::new("process").await? else {
        return Ok(());
    };
    let dir = Workdir::new()?;
    let leases: Api<Lease> = Api::namespaced(environment.admin.clone(), &environment.ns);
    let mut first = start(&environment, &dir, "first")?;
    let leads = |lease: Option<&Lease>| holder(lease) == Some("first");
    wait_for(&leases, ccm::names::LEASE, leads, PATIENCE).await?;
    let _second = start(&environment, &dir, "second")?;
    let service = environment.service("web", &json!({})).await?;
    environment
        .mirror(&service, |_| true)
        .await
        .with_context(|| first.log_tail(20))?;
    let asked = std::time::Instant::now();
    first.signal(rustix::process::Signal::TERM)?;
    let leads = |lease: Option<&Lease>| holder(lease) == Some("second");
    wait_for(&leases, ccm::names::LEASE, leads, PATIENCE).await?;
    eprintln!("another one led {:.2?} after SIGTERM", asked.elapsed());
    let later = environment.service("later", &json!({})).await?;
    environment.mirror(&later, |_| true).await?;
    let status = first.ended(PATIENCE).await?;
    assert!(status.success(), "{status}: {}", first.log_tail(20));
    Ok(())
}
