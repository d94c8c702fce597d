//! Tenant clusters that are broken do not hold another one up.
//!
//! Invariant: no time is compared. What is shown is the order of what the operator does, and how many
//! looks and places the broken ones take.

use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use api::ConditionType;
use api::condition::is_true;
use kube::ResourceExt;
use serde_json::json;
use testkit::FaultPlan;
use testkit::faults::Answer;
use testkit::fixtures::{ask_until, minimal, wait_gone};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::{Launch, Operator, PATIENCE, Site};

/// More than may start at once.
const INVALID: usize = 5;

/// What the operator does, in its order.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Step {
    /// It sets out to visit the tenant's API that never answers: for many seconds, until it gives up.
    Visits,
    /// It asks there.
    Asks,
    /// It looks at the TenantCluster of this name.
    Looks(String),
}

/// Whether the operator looked at `name` in the middle of a visit: it asked there before and after.
fn looks_in_mid_visit(steps: &[Step], name: &str) -> bool {
    let look = Step::Looks(name.to_owned());
    let mut visits = steps.split(|step| *step == Step::Visits);
    visits.any(|visit| {
        let first = visit.iter().position(|step| *step == Step::Asks);
        let last = visit.iter().rposition(|step| *step == Step::Asks);
        let asks = first.zip(last).map(|(first, last)| &visit[first..last]);
        asks.is_some_and(|steps| steps.contains(&look))
    })
}

fn count(steps: &[Step], wanted: &Step) -> usize {
    steps.iter().filter(|step| *step == wanted).count()
}

/// Accepts and never answers, as a host that is cut off half.
struct Silent {
    address: SocketAddr,
    steps: watch::Sender<Vec<Step>>,
    task: JoinHandle<()>,
}

impl Silent {
    async fn new() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let steps = watch::Sender::new(Vec::new());
        let told = steps.clone();
        let task = tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok(connection) = listener.accept().await {
                open.push(connection);
                told.send_modify(|steps| steps.push(Step::Asks));
            }
        });
        Ok(Self {
            address,
            steps,
            task,
        })
    }

    /// An operator that finds it in the place of the tenant cluster `silent`.
    fn operator(&self, site: &Site) -> Result<Operator> {
        let (dial, nowhere, steps) = (site.dial(), self.address, self.steps.clone());
        let dial: operator::tenant_session::session::Dial =
            Arc::new(move |namespace: &str, address| {
                if !namespace.starts_with("covey-silent-") {
                    return dial(namespace, address);
                }
                steps.send_modify(|steps| steps.push(Step::Visits));
                nowhere
            });
        let steps = self.steps.clone();
        let looks = Answer::status(500).when(move |request| {
            if request.verb == "get" && request.resource == "tenantclusters" {
                let name = request.name.clone().unwrap_or_default();
                steps.send_modify(|steps| steps.push(Step::Looks(name)));
            }
            false
        });
        Launch {
            dial: Some(dial),
            ..Launch::new(site)?.plan(&FaultPlan::none().answering(looks))
        }
        .start(site)
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits until the broken ones have given back the places that they asked for: one, whose start is
/// under way, may keep its own.
async fn places_are_given_back(operator: &Operator) -> Result<()> {
    let given_back = || match operator.context.start_queue.counts() {
        (0 | 1, 0) => ready(Ok(Ok(()))),
        (starting, waiting) => ready(Ok(Err(format!("{starting} start and {waiting} wait")))),
    };
    ask_until("one starts and none waits", PATIENCE, given_back).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_tenant_cluster_does_not_hold_another_up() -> Result<()> {
    let Some(site) = Site::new("fair").await? else {
        return Ok(());
    };
    let silent = Silent::new().await?;
    let operator = silent.operator(&site)?;

    // One that never answers, and ones that cannot be built.
    site.create("silent").await?;
    let invalid: Vec<_> = (0..INVALID).map(|n| format!("invalid-{n}")).collect();
    for name in &invalid {
        let mut invalid = minimal(&site.users, name);
        invalid.spec.version = "1.20.0".to_owned();
        site.create_as(&invalid).await?;
    }
    let is = |cluster: &api::TenantCluster, type_| {
        let status = cluster.status.as_ref();
        status.is_some_and(|s| is_true(&s.conditions, type_))
    };
    site.wait("silent", |c| is(c, ConditionType::CertificatesReady))
        .await?;
    for name in &invalid {
        site.wait(name, |c| is(c, ConditionType::Degraded)).await?;
    }
    places_are_given_back(&operator).await?;
    let mut steps = silent.steps.subscribe();
    steps.wait_for(|steps| steps.contains(&Step::Asks)).await?;

    let begin = steps.borrow().len();
    site.create("beside").await?;
    site.wait_ready("beside").await?;
    places_are_given_back(&operator).await?;
    // It is not looked at between two visits only. Where none of its looks so far was made in the
    // middle of one, it is changed for another one.
    let mid_visit = async {
        for round in 0.. {
            let asks = count(&steps.borrow(), &Step::Asks);
            let more = steps.wait_for(|steps| count(steps, &Step::Asks) > asks);
            if looks_in_mid_visit(&more.await?, "beside") {
                break;
            }
            let label = json!({ "metadata": { "labels": { "round": round.to_string() } } });
            site.change("beside", &label).await?;
        }
        anyhow::Ok(())
    };
    let shown = tokio::time::timeout(PATIENCE, mid_visit).await;
    let said = || format!("it waits for the broken one: {:?}", silent.steps.borrow());
    shown.with_context(said)??;
    let steps = silent.steps.borrow()[begin..].to_vec();
    for name in &invalid {
        // What was on its way when the first look was over.
        let looks = count(&steps, &Step::Looks(name.clone()));
        ensure!(looks <= 2, "{name} is looked at again and again: {looks}");
    }

    for name in ["silent", "invalid-0"] {
        let cluster = site.clusters().get(name).await?;
        ensure!(
            !is(&cluster, ConditionType::Ready),
            "{name} is said to be ready"
        );
    }
    // Broken ones can be deleted, too.
    for cluster in site.clusters().list(&Default::default()).await? {
        site.delete(&cluster.name_any()).await?;
    }
    for cluster in site.clusters().list(&Default::default()).await? {
        wait_gone(&site.clusters(), &cluster.name_any(), PATIENCE).await?;
    }
    ensure!(site.tenant_namespaces().await?.is_empty(), "left behind");
    Ok(())
}

#[test]
fn only_a_look_between_two_questions_of_one_visit_shows_that_nothing_waits() {
    use Step::{Asks, Visits};
    let look = || Step::Looks("beside".to_owned());
    let shows = |steps: &[Step]| looks_in_mid_visit(steps, "beside");
    assert!(shows(&[Visits, Visits, Asks, look(), Asks]));
    assert!(!shows(&[Visits, Asks, Asks, look(), Visits, Asks]));
    assert!(!shows(&[look(), Visits, Asks, look()]));
    assert!(!looks_in_mid_visit(&[Visits, Asks, look(), Asks], "other"));
}
