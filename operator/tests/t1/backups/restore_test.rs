//! A restore is tested: the Job's containers run here, with their own arguments, against the very bucket and etcd.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use api::{Reason, TenantCluster};
use k8s_openapi::api::batch::v1::Job;
use kube::api::ListParams;
use kube::{Api, Resource as _};
use lab::programs::Program;
use serde_json::{Value, json};
use testkit::ports::unused;
use testkit::process::Process;
use testkit::programs::reference_or_skip;
use testkit::waiting::ask_until;

use super::{Etcd, reconciled, until};
use crate::support::checks::volumes;
use crate::support::job_pods::{self, etcd_agent_backup, restore_snapshot};
use crate::support::restores::give_account;
use crate::support::{Operator, PATIENCE, Site};

/// When the one before was.
const LONG_AGO: &str = "2026-01-01T00:00:00Z";

/// A test is due, has a Job, and the status says what came of it; then none is due.
pub(super) async fn is_carried_out(
    site: &Site,
    operator: &Operator,
    etcd: &Etcd,
    (ns, folder): (&str, &Path),
) -> Result<()> {
    let etcd_program = reference_or_skip(Program::ETCD, "etcd")?;
    let etcdutl = reference_or_skip(Program::ETCD, "etcdutl")?;
    let (Some(etcd_program), Some(etcdutl)) = (etcd_program, etcdutl) else {
        return Ok(());
    };
    give_account(site, ns).await?;
    // Of fields alone: who merges has the object around them, too, and it stays, empty, when the operator's are gone.
    let before = json!({
        "apiVersion": TenantCluster::api_version(&()), "kind": TenantCluster::kind(&()),
        "metadata": { "name": "demo", "namespace": site.users },
        "status": { "backup": { "restoreTest": {
            "at": LONG_AGO, "passed": LONG_AGO, "revision": 1 } } },
    });
    kit_client::write::apply_status(&site.admin, &before, "t1", true).await?;
    let jobs: Api<Job> = Api::namespaced(site.admin.clone(), ns);
    let labels = ListParams::default().labels("app.kubernetes.io/component=restore-test");
    let job = ask_until("a Job that tests a restore", PATIENCE, || async {
        reconciled(site, operator).await?;
        let job = jobs.list(&labels).await?.items.pop();
        Ok(job.ok_or_else(|| "there is none".to_owned()))
    })
    .await?;
    let template = serde_json::to_value(&job)?["spec"]["template"].clone();
    let pod = job_pods::make(&site.admin, &job, &template).await?;

    let place = folder.join("restore-test");
    let paths = volumes(&site.admin, ns, &pod, &place).await?;
    let (port, report) = (unused()?, place.join("report"));
    std::fs::write(&report, "")?;
    let here = |container: &Value| -> Vec<String> {
        let args = container["args"].as_array().into_iter().flatten();
        let here = |arg: &str| {
            let mut arg = arg
                .replace(
                    "https://etcd-0:2379",
                    &format!("https://127.0.0.1:{}", etcd.port),
                )
                .replace("http://127.0.0.1:2379", &format!("http://127.0.0.1:{port}"))
                .replace("/dev/termination-log", &report.display().to_string());
            for (inside, outside) in &paths {
                arg = arg.replace(inside.as_str(), &outside.display().to_string());
            }
            arg
        };
        args.filter_map(Value::as_str).map(here).collect()
    };
    let container = |field: &str, number: usize| template["spec"][field][number].clone();
    etcd_agent_backup(here(&container("initContainers", 0))).await?;
    restore_snapshot(&etcdutl, &here(&container("initContainers", 1)))?;
    let beside = here(&container("initContainers", 2));
    let _served = Process::spawn("copy", &etcd_program, &beside, &place.join("etcd.log"))?;
    let compare = container("containers", 0);
    etcd_agent_backup(here(&compare)).await?;
    let said = std::fs::read_to_string(&report)?;
    job_pods::end(&site.admin, &job, &pod, &compare, &said).await?;

    let told = ask_until("what came of it", PATIENCE, || async {
        let now = until(site, operator, "True", Reason::BackedUp).await?;
        let test = now["status"]["backup"]["restoreTest"].clone();
        Ok(match test["at"] == LONG_AGO {
            true => Err(test.to_string()),
            false => Ok(test),
        })
    })
    .await?;
    let compared: Value = serde_json::from_str(&said).context(said)?;
    ensure!(
        told["passed"] == told["at"] && told["problem"].is_null(),
        "{told}"
    );
    ensure!(
        told["revision"] == compared["revision"],
        "{told}, {compared}"
    );
    ensure!(compared["keys"].as_u64() > Some(0), "{compared}");
    reconciled(site, operator).await?;
    let there = jobs.list(&labels).await?.items.len();
    ensure!(there == 1, "{there} Jobs for one test");
    Ok(())
}
