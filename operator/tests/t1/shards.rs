//! Two operators that share the work: a tenant cluster is of one of them, and goes on with the other one when that cannot
//! say any more that it works.
//!
//! Invariant: writes are counted below the operator's client, so also one that the API server would have refused counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kit::lease::{Candidate, Election, Timing};
use kit::metrics::ShareMetrics;
use kit_objects::kinds;
use operator::membership::Membership;
use operator::shards::plan::INSTALLATION;
use serde_json::{Value, json};
use tenant_cp::Settings;
use testkit::fakes::kubelet::Mode;
use testkit::faults::Answer;
use testkit::fixtures::{ask_until, tenant_namespace};
use testkit::{FaultPlan, Window};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::support::{Launch, Operator, PATIENCE, Site};

const TENANTS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// Those that are under way when an operator is killed.
const FLOWS: [&str; 5] = ["a", "b", "c", "d", "e"];
/// The one by which it is seen what a flow writes that nobody disturbs.
const UNDISTURBED: &str = "f";

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
            settings: Settings {
                // Half of them for each of both: as many as there are flows at a time.
                max_concurrent_starts: 2 * FLOWS.len(),
                ..site.settings()
            },
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

    /// What it is at, for whoever asks why nothing happens.
    fn is_at(&self, site: &Site) -> String {
        let context = &self.operator.context;
        format!(
            "leads: {}, members: {}, has the user's namespace: {}, knows {} TenantClusters, wrote {}",
            context.leadership.is_leader(),
            context.shards.members(),
            self.owns(&site.users),
            context.stores.clusters.len(),
            self.operator.plan.writes(),
        )
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.sharing.abort();
    }
}

/// The one that has the tenant clusters of the site, and the other one.
async fn two(site: &Site) -> Result<(Replica, Replica)> {
    let replicas = [
        Replica::start(site, "operator-1")?,
        Replica::start(site, "operator-2")?,
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
    Ok(match first.owns(&site.users) {
        true => (first, second),
        false => (second, first),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_tenant_cluster_is_of_one_operator_and_goes_on_with_the_other_when_that_falls_silent()
-> Result<()> {
    let Some(site) = Site::new("shards").await? else {
        return Ok(());
    };
    let (mut mine, other) = two(&site).await?;
    let before = other.operator.plan.writes();
    for name in TENANTS {
        site.create(name).await?;
    }
    for name in TENANTS {
        site.wait_ready(name).await.with_context(|| {
            let [mine, other] = [&mine, &other].map(|replica| replica.is_at(&site));
            format!("whose it is: {mine}; the other one: {other}")
        })?;
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

/// Its user changes how its API server is run, and nobody plays the new pods: the rollout is in its middle once the
/// template is another one.
async fn begins(site: &Site, name: &str) -> Result<()> {
    let before = template(site, name).await?;
    let args = json!({ "apiServer": { "extraArgs": { "event-ttl": "2h" } } });
    site.change(name, &json!({ "spec": { "controlPlane": args } }))
        .await?;
    ask_until("it is being changed", PATIENCE, || async {
        Ok(match template(site, name).await? == before {
            true => Err(format!("{name} has its old template")),
            false => Ok(()),
        })
    })
    .await
}

/// The template of a control plane.
async fn template(site: &Site, name: &str) -> Result<Value> {
    let cluster = site.clusters().get(name).await?;
    let deployments = site.objects(kinds::DEPLOYMENT, &tenant_namespace(&cluster));
    let deployment = deployments.get("control-plane").await?;
    Ok(deployment.data["spec"]["template"].clone())
}

/// How often which object of its tenant namespace was written, and its own spec or finalizers. What is only said of it
/// (Events, its status) is left out: how often depends on how often somebody looks.
async fn written(site: &Site, window: &Window, name: &str) -> Result<BTreeMap<String, usize>> {
    let cluster = site.clusters().get(name).await?;
    let namespace = tenant_namespace(&cluster);
    let mut written = BTreeMap::new();
    for entry in window.writes_of(&site.user())? {
        let is_its = entry.namespace.as_deref() == Some(&namespace)
            || (entry.kind == "covey.dev/tenantclusters" && entry.name.as_deref() == Some(name));
        let is_said = entry.kind.ends_with("events");
        let is_done = entry.code.is_none_or(|code| code < 300);
        if is_its && !is_said && is_done {
            let object = entry.name.unwrap_or_default();
            let key = format!("{} {} {object}", entry.verb, entry.kind);
            *written.entry(key).or_default() += 1;
        }
    }
    Ok(written)
}

/// G2 of the faults of a fleet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flows_of_an_operator_that_is_killed_are_gone_on_with_and_nothing_is_written_twice()
-> Result<()> {
    let Some(site) = Site::new("shard-kill").await? else {
        return Ok(());
    };
    let (mine, other) = two(&site).await?;
    for name in TENANTS {
        site.create(name).await?;
    }
    for name in TENANTS {
        site.wait_ready(name).await?;
        mine.operator.settle(&site, name).await?;
    }
    let window = site.api.audit().window()?;
    site.kubelet.set(Mode::Paused);
    begins(&site, UNDISTURBED).await?;
    site.kubelet.set(Mode::Ready);
    site.wait_ready(UNDISTURBED).await?;
    mine.operator.settle(&site, UNDISTURBED).await?;
    let expected = written(&site, &window, UNDISTURBED).await?;
    ensure!(!expected.is_empty(), "what does a flow write?");

    let window = site.api.audit().window()?;
    site.kubelet.set(Mode::Paused);
    for name in FLOWS {
        begins(&site, name).await?;
    }
    // A crash: none of its tasks goes on, and its Lease runs out.
    let writes = mine.operator.plan.clone();
    drop(mine);
    let (since, before) = (Instant::now(), writes.writes());
    ask_until("the other one has them", PATIENCE, || async {
        Ok(match other.owns(&site.users) && other.owns(INSTALLATION) {
            true => Ok(()),
            false => Err("it does not".to_owned()),
        })
    })
    .await?;
    // How long at most is a law of `operator/src/shards/tests.rs`.
    eprintln!("nobody worked for {:.1?}", since.elapsed());
    site.kubelet.set(Mode::Ready);
    for name in FLOWS {
        let settled = site.wait_ready(name).await;
        settled.with_context(|| format!("{name} was in its middle"))?;
        other.operator.settle(&site, name).await?;
    }
    ensure!(writes.writes() == before, "the dead one wrote");
    for name in FLOWS {
        let found = written(&site, &window, name).await?;
        ensure!(found == expected, "{name}: {found:#?}, not {expected:#?}");
    }
    Ok(())
}
