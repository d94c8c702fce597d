//! Needs: operator, node
//!
//! Everything that goes between a control plane, its nodes and their pods, on two nodes: while
//! nothing happens, while the control plane scales 1 → 3 → 1, and while one of its pods is killed
//! every ten seconds.
//!
//! While it scales, every single try must succeed. While pods are killed, requests that were on
//! their way are lost, so every kind must succeed again and again within a time.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, ResourceExt as _, api::DeleteParams, runtime::watcher::Config};
use serde_json::json;
use suites::{
    cluster::{
        Tenant,
        parts::selector,
        wait::{wait_for, wait_list},
    },
    scenario::{
        self, PATIENCE, Scenario,
        traffic::Traffic,
        workers::{NODES, PODS},
    },
};

/// Time between two kills.
const EVERY: Duration = Duration::from_secs(10);
/// How many pods are killed.
const KILLS: u64 = 6;
/// How long one kind of traffic may fail while pods are killed.
const RECOVERY: Duration = Duration::from_secs(90);

#[tokio::test]
async fn nodes_pods_and_control_plane_reach_each_other_while_it_scales_and_loses_pods() {
    scenario::run("traffic", traffic).await;
}

async fn traffic(s: &Scenario) -> Result<()> {
    let workers = s.workers(|_, nodes| nodes.replicas = 2).await?;
    workers.pool.settled(2, NODES).await?;
    let tenant = &workers.tenant;
    tenant.settled(PODS).await?;
    let traffic = Traffic::deploy(&workers.kubectl, PODS).await?;
    // Nothing happens: each kind works at the first try.
    traffic.all().await?;

    let rounds = while_it(&traffic, scaled(tenant, 3)).await?;
    eprintln!("{rounds} rounds without a failure while scaling to 3");
    while_pods_are_killed(tenant, &traffic).await?;
    ready(tenant, 3).await?;
    tenant.settled(PATIENCE).await?;
    traffic.all().await?;
    let rounds = while_it(&traffic, scaled(tenant, 1)).await?;
    eprintln!("{rounds} rounds without a failure while scaling to 1");
    traffic.all().await
}

/// Rounds of all checks until `change` is done, and one more; the first failure ends it.
async fn while_it(traffic: &Traffic<'_>, change: impl Future<Output = Result<()>>) -> Result<u32> {
    let mut change = Box::pin(change);
    let mut rounds = 0;
    let mut done = false;
    loop {
        let mut round = Box::pin(traffic.all());
        // The change goes on while a round is under way.
        loop {
            tokio::select! {
                result = &mut change, if !done => {
                    result?;
                    done = true;
                }
                result = &mut round => {
                    result?;
                    rounds += 1;
                    break;
                }
            }
        }
        if done {
            drop(round);
            traffic.all().await?;
            return Ok(rounds + 1);
        }
    }
}

async fn while_pods_are_killed(tenant: &Tenant, traffic: &Traffic<'_>) -> Result<()> {
    let kill = async {
        let mut ticks = tokio::time::interval(EVERY);
        for _ in 0..KILLS {
            ticks.tick().await;
            kill_oldest(tenant).await?;
        }
        anyhow::Ok(())
    };
    let mut kill = Box::pin(kill);
    let mut killed = false;
    while !killed {
        for (name, check) in traffic.checks() {
            let begun = Instant::now();
            let mut tries = 0;
            loop {
                tries += 1;
                let mut attempt = Box::pin(check());
                let result = loop {
                    tokio::select! {
                        result = &mut kill, if !killed => {
                            result?;
                            killed = true;
                        }
                        result = &mut attempt => break result,
                    }
                };
                match result {
                    Ok(()) => break,
                    Err(error) if begun.elapsed() > RECOVERY => {
                        bail!(
                            "{name} failed {tries} times, {:.0?}: {error:#}",
                            begun.elapsed()
                        )
                    }
                    Err(_) => {}
                }
            }
            if tries > 1 {
                eprintln!("{name}: {tries} tries, {:.1?}", begun.elapsed());
            }
        }
    }
    Ok(())
}

/// As a crash of its node would end it: no notice, no grace.
async fn kill_oldest(tenant: &Tenant) -> Result<()> {
    let pods: Api<Pod> = tenant.parts();
    let all = tenant.pods_of("control-plane").await?;
    let staying = all
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let Some(oldest) = staying.min_by_key(|pod| pod.creation_timestamp()) else {
        bail!("no control-plane pod is left to kill")
    };
    eprintln!("killing {}", oldest.name_any());
    let now = DeleteParams::default().grace_period(0);
    pods.delete(&oldest.name_any(), &now).await?;
    Ok(())
}

async fn scaled(tenant: &Tenant, replicas: i32) -> Result<()> {
    let spec = json!({ "controlPlane": { "replicas": replicas } });
    tenant.change(&spec).await?;
    ready(tenant, replicas).await?;
    tenant.settled(PATIENCE).await?;
    gone_but(tenant, replicas).await
}

async fn ready(tenant: &Tenant, replicas: i32) -> Result<()> {
    let deployments: Api<Deployment> = tenant.parts();
    let what = format!("{replicas} pods are ready");
    wait_for(&deployments, "control-plane", &what, PODS, |deployment| {
        let status = deployment.status.clone().unwrap_or_default();
        let wanted = deployment.spec.as_ref()?.replicas;
        let all = [wanted, status.replicas, status.ready_replicas];
        (all == [Some(replicas); 3]).then_some(())
    })
    .await
}

/// Pods that were scaled away have ended, too.
async fn gone_but(tenant: &Tenant, replicas: i32) -> Result<()> {
    let pods: Api<Pod> = tenant.parts();
    let config = Config::default().labels(&selector("control-plane"));
    let what = format!("{replicas} control-plane pods are there");
    let wanted = usize::try_from(replicas)?;
    wait_list(&pods, config, &what, PATIENCE, |all| {
        (all.len() == wanted).then_some(())
    })
    .await
}
