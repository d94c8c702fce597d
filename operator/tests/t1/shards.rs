//! Two operators that share the work: a tenant cluster is of one of them, and goes on with the other one when that cannot
//! say any more that it works.
//!
//! Invariant: writes are counted below the operator's client, so also one that the API server would have refused counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use kit::lease::{Candidate, Election, Timing};
use kit::metrics::ShareMetrics;
use operator::membership::Membership;
use operator::shards::plan::INSTALLATION;
use serde_json::json;
use testkit::FaultPlan;
use testkit::faults::Answer;
use testkit::fixtures::ask_until;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::support::{Launch, Operator, PATIENCE, Site};

const TENANTS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

struct Replica {
    operator: Operator,
    _election: Election,
    sharing: JoinHandle<()>,
    /// Leases can be neither read nor written.
    cut_off: Arc<AtomicBool>,
}

impl Replica {
    fn start(site: &Site, name: &str) -> Result<Self> {
        let cut_off = Arc::new(AtomicBool::new(false));
        let is_cut_off = Arc::clone(&cut_off);
        let plan = FaultPlan::none().answering(Answer::status(500).when(move |request| {
            request.resource == "leases" && is_cut_off.load(Ordering::SeqCst)
        }));
        let (leadership, candidate) = Candidate::new();
        let launch = Launch {
            leadership,
            instance: name.to_owned(),
            is_shared: true,
            ..Launch::new(site)?.plan(&plan)
        };
        let client = launch.client(site)?;
        let membership = Membership {
            namespace: site.system.clone(),
            identity: name.to_owned(),
            seats: 2,
            // The spans of the binary, as in `leadership`.
            timing: Timing {
                retry: Duration::from_millis(500),
                ..Timing::default()
            },
        };
        let (election, seeker) = membership.seek(candidate, &client);
        let operator = launch.start(site)?;
        let context = Arc::clone(&operator.context);
        let sharing = seeker.run(context, client, ShareMetrics::default());
        Ok(Self {
            operator,
            _election: election,
            sharing: tokio::spawn(sharing),
            cut_off,
        })
    }

    fn owns(&self, key: &str) -> bool {
        self.operator.context.shards.owns(key)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.sharing.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_tenant_cluster_is_of_one_operator_and_goes_on_with_the_other_when_that_falls_silent()
-> Result<()> {
    let Some(site) = Site::new("shards").await? else {
        return Ok(());
    };
    let replicas = [
        Replica::start(&site, "operator-1")?,
        Replica::start(&site, "operator-2")?,
    ];
    // How many of them have the work of a key.
    let owners = |key: &str| replicas.iter().filter(|replica| replica.owns(key)).count();
    let members = |replica: &Replica| replica.operator.context.shards.members();
    ask_until("all is somebody's work", PATIENCE, || async {
        let all = replicas.iter().all(|replica| members(replica) == 2);
        let both = [owners(INSTALLATION), owners(&site.users)];
        Ok(match all && both == [1, 1] {
            true => Ok(()),
            false => Err(format!("owners: {both:?}")),
        })
    })
    .await?;
    let [first, second] = replicas;
    let (mut mine, other) = match first.owns(&site.users) {
        true => (first, second),
        false => (second, first),
    };
    let before = other.operator.plan.writes();
    for name in TENANTS {
        site.create(name).await?;
    }
    for name in TENANTS {
        site.wait_ready(name).await?;
    }
    ensure!(!other.owns(&site.users), "both have them");
    ensure!(
        other.operator.plan.writes() == before,
        "what was not its work wrote it, too"
    );
    ensure!(mine.operator.plan.writes() > 0, "who wrote?");

    // Everything but the Lease could still be written.
    mine.cut_off.store(true, Ordering::SeqCst);
    let since = Instant::now();
    let replicas = json!({ "spec": { "controlPlane": { "replicas": 2 } } });
    ask_until("the other one has them", PATIENCE, || async {
        ensure!(
            !(mine.owns(&site.users)
                && mine.operator.context.leadership.is_leader()
                && other.owns(&site.users)),
            "both have them"
        );
        Ok(match other.owns(&site.users) && other.owns(INSTALLATION) {
            true => Ok(()),
            false => Err("it does not".to_owned()),
        })
    })
    .await?;
    // How long at most is a law of `operator/src/shards/tests.rs`.
    eprintln!("nobody worked for {:.1?}", since.elapsed());
    ensure!(mine.operator.ended().await.is_err(), "it went on");
    let before = mine.operator.plan.writes();
    for name in TENANTS {
        site.change(name, &replicas).await?;
    }
    for name in TENANTS {
        site.wait_ready(name).await?;
    }
    // Not even when it is asked to.
    let replicas = json!({ "spec": { "controlPlane": { "replicas": 3 } } });
    site.change("a", &replicas).await?;
    let _ = mine.operator.reconcile(&site, "a").await;
    site.wait_ready("a").await?;
    ensure!(
        mine.operator.plan.writes() == before,
        "who fell silent wrote"
    );
    Ok(())
}
