//! `bench rotation`: what steady clients have of each authority and key of a tenant cluster that is turned, and how long
//! that takes.
//!
//! Invariant: everything lives in the namespace of the run, which goes whatever happens.

use std::time::{Duration, Instant};

use anyhow::Result;
use api::TenantCluster;
use api::tenant_cluster::{RotationPhase, RotationStatus};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::{Value, json};
use suites::cluster::Tenant;
use suites::cluster::wait::wait_for;
use suites::scenario::{self, PATIENCE, Scenario};

use super::changes::Report;
use super::clients::Both;
use super::place::unless_interrupted;

/// What is turned, in this order, and what is said of it beside its generation.
const TURNED: [&str; 6] = [
    "kubeconfig",
    "encryptionKeys",
    "frontProxyCA",
    "clientCA",
    "serviceAccountKeys",
    USERS,
];
/// The authority by which the clients themselves are let in.
const USERS: &str = "usersCA";
/// The generation that each becomes.
const SECOND: u32 = 2;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Replicas of the control plane.
    pub replicas: i32,
    /// Kubernetes version of the tenant cluster.
    pub version: String,
    /// How long any one step may take.
    pub patience: Duration,
}

/// Measures. What it did is told to `say`.
///
/// # Errors
/// When the lab or the operator is missing, or an API fails.
pub async fn run(options: &Options, say: &(dyn Fn(String) + Sync)) -> Result<Report> {
    let mut report = Report::new(format!(
        "{}, {} replicas",
        options.version, options.replicas
    ));
    let measured = &mut report;
    scenario::command("bench-rotation", async |s| {
        unless_interrupted(measure(s, options, measured, say)).await
    })
    .await?;
    Ok(report)
}

async fn measure(
    s: &Scenario,
    options: &Options,
    report: &mut Report,
    say: &(dyn Fn(String) + Sync),
) -> Result<()> {
    let tenant = s
        .tenant("bench", |spec| {
            spec.version.clone_from(&options.version);
            spec.control_plane.replicas = options.replicas;
        })
        .await?;
    tenant.usable(options.patience).await?;
    tenant.settled(options.patience).await?;
    for name in TURNED {
        match name {
            // Whoever is let in by it has to read the kubeconfig again: while both are believed.
            USERS => {
                let wanted = json!({ "generation": SECOND });
                let before = tenant.kubeconfig(options.patience).await?;
                let switched = async {
                    signs(&tenant, options).await?;
                    let held = json!({ "rotation": { name: { "hold": true } } });
                    tenant.change(&held).await?;
                    another(&tenant, &before, options).await
                };
                turn(&tenant, ("usersCA_switch", name), &wanted, report, switched).await?;
                let released = json!({ "hold": false });
                let over = over(&tenant, name, options);
                turn(&tenant, ("usersCA_drop", name), &released, report, over).await?;
            }
            // Tokens of before are waited for, for a day.
            "serviceAccountKeys" => {
                let wanted = json!({ "generation": SECOND, "complete": SECOND });
                let over = over(&tenant, name, options);
                turn(&tenant, (name, name), &wanted, report, over).await?;
            }
            _ => {
                let wanted = json!({ "generation": SECOND });
                let over = over(&tenant, name, options);
                turn(&tenant, (name, name), &wanted, report, over).await?;
            }
        }
        say(format!("{name} is turned"));
    }
    tenant.delete().await?;
    tenant.gone(options.patience).await
}

fn of<'a>(cluster: &'a TenantCluster, name: &str) -> Option<&'a RotationStatus> {
    let all = &cluster.status.as_ref()?.rotation;
    all.iter().find(|now| now.name == name)
}

/// Waits until nothing of before is believed.
async fn over(tenant: &Tenant, name: &str, options: &Options) -> Result<()> {
    let is_over = |cluster: &TenantCluster| {
        let now = of(cluster, name)?;
        let idle = now.phase == RotationPhase::Idle && now.believed == [SECOND];
        (idle && now.signs == SECOND).then_some(())
    };
    wait_for(&tenant.api(), &tenant.name, name, options.patience, is_over).await
}

/// Waits until the new authority of users signs.
async fn signs(tenant: &Tenant, options: &Options) -> Result<()> {
    let what = "the new one signs";
    let signs = |cluster: &TenantCluster| (of(cluster, USERS)?.signs == SECOND).then_some(());
    wait_for(&tenant.api(), &tenant.name, what, options.patience, signs).await
}

/// Waits for another kubeconfig.
async fn another(tenant: &Tenant, before: &str, options: &Options) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(tenant.management.clone(), &tenant.namespace);
    let name = api::names::kubeconfig_secret(&tenant.name);
    let what = "another kubeconfig";
    wait_for(&secrets, &name, what, options.patience, |secret| {
        let text = &secret.data.as_ref()?.get("value")?.0;
        (text != before.as_bytes()).then_some(())
    })
    .await
}

/// Turns one under clients of the kubeconfig of this moment, until `done`.
async fn turn(
    tenant: &Tenant,
    (row, name): (&str, &str),
    wanted: &Value,
    report: &mut Report,
    done: impl Future<Output = Result<()>>,
) -> Result<()> {
    let kubeconfig = tenant.kubeconfig(PATIENCE).await?;
    let clients = Both::start(&kubeconfig).await?;
    let begun = Instant::now();
    tenant
        .change(&json!({ "rotation": { name: wanted } }))
        .await?;
    done.await?;
    let took = begun.elapsed();
    report.record(row, clients.finish(took).await?);
    Ok(())
}
