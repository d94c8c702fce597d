//! Needs: operator, ccm, node, lab-agent
//!
//! All workers of a pool are replaced while a client asks a load balancer twenty times a second: no
//! request is lost.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use api::{ConditionType, condition, names};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, runtime::watcher::Config};
use serde_json::json;
use suites::{
    cluster::{
        operator::{get, get_within},
        parts::selector,
        wait::{wait_for, wait_list},
    },
    scenario::{
        self, PATIENCE, Scenario,
        workers::{NODES, PODS, Workers},
        workload::{HTTP, Workload},
    },
};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::load_balancer::{address, in_default};

const NAME: &str = "public";
const WEB: Workload<'_> = Workload {
    name: "web",
    replicas: 2,
    config_map: None,
    stays: 10,
};
/// Time between two requests, each on a connection of its own.
const PERIOD: Duration = Duration::from_millis(50);
/// How long an answer may take: what clients commonly wait. A node whose processor is emulated, and
/// that starts another node's pods, takes all of a core and leaves its neighbour without one for
/// seconds; nothing is lost by that.
const ANSWER: Duration = Duration::from_secs(10);
/// Later answers are counted, and said.
const LATE: Duration = Duration::from_secs(1);
/// Answers in a row after which both nodes are taken to be reached.
const SURE: usize = 100;

#[tokio::test]
async fn requests_to_a_load_balancer_survive_the_replacement_of_all_workers() {
    scenario::run("rolling", rolling).await;
}

async fn rolling(s: &Scenario) -> Result<()> {
    let workers = s
        .workers(|cluster, nodes| {
            cluster.addons.cloud_controller.enabled = true;
            // Nothing of it is moved or asked here, and two processors are all that there are.
            cluster.addons.core_dns.enabled = false;
            nodes.replicas = 2;
            nodes.rollout.max_surge = 0.into();
            nodes.rollout.max_unavailable = 1.into();
            if let Some(kubevirt) = nodes.provider.as_mut().and_then(|p| p.kubevirt.as_mut()) {
                kubevirt.cpu = 1;
            }
        })
        .await?;
    let before: BTreeSet<_> = workers.pool.settled(2, NODES).await?.into_keys().collect();
    workers.tenant.settled(PODS).await?;
    WEB.deploy(&workers.kubectl, PODS).await?;
    guard(&workers).await?;
    let address = publish(&workers).await?;
    reached(&address).await?;

    let (end, ended) = watch::channel(false);
    let client = tokio::spawn(ask(address, ended));
    let template = json!({ "provider": { "kubevirt": { "memory": "1600Mi" } } });
    workers.pool.patch(template).await?;
    let rolled = workers
        .pool
        .machines_are("both were replaced", NODES * 2, |all| {
            let ready = all.values().all(|machine| {
                let conditions = machine.status.as_ref().map(|s| s.conditions.as_slice());
                condition::is_true(conditions.unwrap_or_default(), ConditionType::Ready)
            });
            let replaced = all.keys().all(|name| !before.contains(name));
            (all.len() == 2 && ready && replaced).then_some(())
        })
        .await;
    end.send_replace(true);
    let lost = client.await.context("the client ended")?;
    rolled?;
    eprintln!(
        "{} requests, {} lost: {:?}; {} answered after more than {LATE:?}, the last one after {:.1?}",
        lost.asked,
        lost.failures.len(),
        lost.failures,
        lost.late,
        lost.slowest
    );
    ensure!(lost.asked > 1000, "only {} requests were made", lost.asked);
    ensure!(
        lost.failures.is_empty(),
        "{} of {} requests were lost",
        lost.failures.len(),
        lost.asked
    );
    Ok(())
}

/// One of the two pods has to answer at any time, as users would say it.
async fn guard(workers: &Workers) -> Result<()> {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": WEB.name },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": WEB.name } } },
    });
    workers.kubectl.apply(&budget.to_string()).await.map(drop)
}

/// Makes the Service, and waits until it has an address that leads to both nodes.
async fn publish(workers: &Workers) -> Result<String> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": NAME },
        "spec": { "type": "LoadBalancer", "selector": { "app": WEB.name },
            "ports": [{ "port": 80, "targetPort": HTTP }] },
    });
    workers.kubectl.apply(&service.to_string()).await?;
    let services = in_default(workers).await?;
    let what = "has an address";
    let address = wait_for(&services, NAME, what, PATIENCE, address).await?;
    let slices: Api<EndpointSlice> = workers.tenant.parts();
    let config = Config::default().labels(&selector(names::COMPONENT_LOAD_BALANCER));
    wait_list(&slices, config, "both nodes get traffic", PODS, |all| {
        let ends = all.values().flat_map(|slice| &slice.endpoints);
        (ends.count() == 2).then_some(())
    })
    .await?;
    Ok(address)
}

/// Waits until [`SURE`] answers came in a row: the rules of kube-proxy take a moment on both sides.
async fn reached(address: &str) -> Result<()> {
    let (begun, mut tries, mut row) = (Instant::now(), interval(PERIOD), 0);
    while row < SURE {
        tries.tick().await;
        row = match get(address, 80, "/before").await {
            Ok(_) => row + 1,
            Err(error) if begun.elapsed() > PATIENCE => bail!("{error:#}"),
            Err(_) => 0,
        };
    }
    Ok(())
}

/// What became of the requests.
#[derive(Default)]
struct Lost {
    asked: usize,
    /// Seconds since the begin, and why.
    failures: Vec<String>,
    /// Answers later than [`LATE`].
    late: usize,
    /// The latest answer.
    slowest: Duration,
}

/// Asks until told to end; requests begin at their time whether or not earlier ones have been
/// answered. None is tried again.
async fn ask(address: String, mut ended: watch::Receiver<bool>) -> Lost {
    let (begun, mut tries, mut asked) = (Instant::now(), interval(PERIOD), JoinSet::new());
    tries.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut lost = Lost::default();
    loop {
        tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended) => break,
            Some(answer) = asked.join_next() => lost.count(answer),
            _ = tries.tick() => {
                let address = address.clone();
                asked.spawn(async move {
                    let at = begun.elapsed();
                    let answer = get_within(ANSWER, &address, 80, "/while-rolling").await;
                    let time = begun.elapsed() - at;
                    let why = |error| format!("{:.1} s: {error:#}", at.as_secs_f64());
                    answer.map(|_| time).map_err(why)
                });
            }
        }
    }
    while let Some(answer) = asked.join_next().await {
        lost.count(answer);
    }
    lost
}

impl Lost {
    fn count(&mut self, answer: Result<Result<Duration, String>, tokio::task::JoinError>) {
        self.asked += 1;
        match answer {
            Ok(Ok(time)) => {
                self.late += usize::from(time > LATE);
                self.slowest = self.slowest.max(time);
            }
            Ok(Err(why)) => self.failures.push(why),
            Err(error) => self.failures.push(error.to_string()),
        }
    }
}
