//! Node pools at clouds: fakes of their APIs, a real kube-apiserver, and the operator between them. What is the same for
//! each cloud, and what takes two of them.
//!
//! Invariant: how many machines there ever were is read from the journal of a fake; their time passes only by rounds, in each
//! of which everything is looked at once.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use api::{ConditionType, Machine, ProviderConfig};
use fake_clouds::aws::FakeAws;
use fake_clouds::azure::FakeAzure;
use fake_clouds::clock::VirtualClock;
use fake_clouds::faults::{Fault, Script};
use fake_clouds::gcp::FakeGcp;
use fake_clouds::hetzner::FakeHetzner;
use fake_clouds::journal::Journal;
use jiff::Timestamp;
use kube::Api;
use operator::controllers::{machine, node_pool};
use providers::clock::Clock;
use serde_json::{Value, json};
use tenant_cp::settings::AwsWebIdentity;
use testkit::FaultPlan;
use testkit::faults::Deaths;
use testkit::fixtures::wait_for;
use tokio::sync::watch;

use self::which::{ACCOUNTS, OTHER, PROJECTS, SUBSCRIPTIONS, TENANT, TOKEN, Which};
use crate::crash::{Hand, Writes, dies, for_deaths};
use crate::support::site::apply;
use crate::support::{Launch, Operator, PATIENCE, Site};

mod outage;
mod refused;
pub(crate) mod which;

/// How much time passes in a round: as much as the operator waits between two looks.
pub(crate) const ROUND: Duration = Duration::from_secs(10);
/// Rounds before something counts as never coming.
const ROUNDS: usize = 60;
/// What the pool is called.
pub(crate) const POOL: &str = "workers";

/// The time of the fakes, as the operator is told it.
#[derive(Clone)]
pub(crate) struct Played {
    pub(crate) clock: VirtualClock,
    /// How many wait for it: each call does, until it is answered.
    waiting: Arc<watch::Sender<usize>>,
}

impl Played {
    /// Lets time pass once no call is on its way. However slow this machine is, two rounds in one call would make it
    /// one without an answer, and nobody knows for minutes what became of that.
    pub(crate) async fn pass(&self, time: Duration) -> Result<()> {
        let mut waiting = self.waiting.subscribe();
        let answered = tokio::time::timeout(PATIENCE, waiting.wait_for(|waiting| *waiting == 0));
        answered.await.context("a call is not answered")??;
        self.clock.advance(time);
        Ok(())
    }
}

/// Somebody waits, until this is dropped.
struct Waiting(Arc<watch::Sender<usize>>);

impl Waiting {
    fn begin(of: &Arc<watch::Sender<usize>>) -> Self {
        of.send_modify(|waiting| *waiting += 1);
        Self(Arc::clone(of))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

impl Clock for Played {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn wait(&self, time: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        let (passes, waiting) = (self.clock.wait(time), Waiting::begin(&self.waiting));
        Box::pin(async move {
            passes.await;
            drop(waiting);
        })
    }
}

/// An installation with a tenant cluster, and a project in each cloud.
pub(crate) struct World {
    pub(crate) site: Site,
    pub(crate) hetzner: FakeHetzner,
    pub(crate) gcp: FakeGcp,
    pub(crate) azure: FakeAzure,
    pub(crate) aws: FakeAws,
    pub(crate) time: Played,
    pub(crate) configs: Api<ProviderConfig>,
    /// Where machines are made; pools are at the first one.
    clouds: Vec<Which>,
}

impl World {
    /// One whose ProviderConfigs are Ready, and its operator.
    pub(crate) async fn new(prefix: &str, clouds: &[Which]) -> Result<Option<(Self, Operator)>> {
        Self::with(prefix, clouds, &FaultPlan::none()).await
    }

    /// The same, whose operator has faults.
    async fn with(
        prefix: &str,
        clouds: &[Which],
        plan: &FaultPlan,
    ) -> Result<Option<(Self, Operator)>> {
        let Some(site) = Site::new(prefix).await? else {
            return Ok(None);
        };
        // Machines are deleted by the API server's time.
        let clock = VirtualClock::new(Timestamp::now());
        let time = Played {
            clock: clock.clone(),
            waiting: Arc::default(),
        };
        let configs = Api::namespaced(site.admin.clone(), &site.users);
        let world = Self {
            hetzner: FakeHetzner::start(clock.clone(), &[TOKEN, OTHER]).await?,
            gcp: FakeGcp::start(clock.clone(), &PROJECTS).await?,
            azure: FakeAzure::start(clock.clone(), &SUBSCRIPTIONS.map(|id| (id, TENANT))).await?,
            aws: FakeAws::start(clock, &ACCOUNTS).await?,
            site,
            time,
            configs,
            clouds: clouds.to_vec(),
        };
        let operator = world.start(plan)?;
        world.site.create("demo").await?;
        world.site.wait_ready("demo").await?;
        for cloud in clouds {
            world.credentials(*cloud, &world.own(*cloud)).await?;
            let config = json!({
                "apiVersion": "covey.dev/v1alpha1", "kind": "ProviderConfig",
                "metadata": { "name": cloud.name(), "namespace": world.site.users },
                "spec": cloud.config(),
            });
            apply(&world.site.admin, &config).await?;
        }
        for cloud in clouds {
            let (ready, checked) = ("Ready", "ProviderChecked");
            world.wait_said(*cloud, ready, checked).await?;
        }
        operator.settle(&world.site, "demo").await?;
        Ok(Some((world, operator)))
    }

    pub(crate) fn start(&self, plan: &FaultPlan) -> Result<Operator> {
        let mut launch = Launch::new(&self.site)?.plan(plan);
        let settings = &mut launch.settings.providers;
        settings.hetzner.endpoint = self.hetzner.endpoint();
        settings.gcp.endpoint = self.gcp.endpoint();
        settings.gcp.token_endpoint = self.gcp.token_uri();
        settings.azure.endpoint = self.azure.endpoint();
        settings.azure.token_endpoint = self.azure.endpoint();
        settings.aws.endpoint = self.aws.endpoint();
        settings.aws.token_endpoint = self.aws.endpoint();
        settings.aws.web_identity = AwsWebIdentity {
            token_file: self.aws_token().display().to_string(),
            roles: [(self.site.users.clone(), vec![role(ACCOUNTS[0])])].into(),
        };
        // This machine's addresses are not among the management cluster's: some tests have hosts there.
        launch.settings.network.reserved = vec!["203.0.113.0/24".parse()?];
        launch.clock = Some(Arc::new(self.time.clone()));
        launch.start(&self.site)
    }

    /// The file with a token of the operator's own account.
    pub(crate) fn aws_token(&self) -> PathBuf {
        std::env::temp_dir().join(format!("covey-aws-{}", self.site.users))
    }

    /// The credentials that let in.
    pub(crate) fn own(&self, cloud: Which) -> String {
        match cloud {
            Which::Hetzner => TOKEN.to_owned(),
            Which::Gcp => self.gcp.key_file("covey@demo").to_string(),
            Which::Azure => FakeAzure::principal_file(SUBSCRIPTIONS[0], TENANT).to_string(),
            Which::Aws => FakeAws::key_file(ACCOUNTS[0]).to_string(),
        }
    }

    /// Puts credentials into the Secret.
    pub(crate) async fn credentials(&self, cloud: Which, credentials: &str) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": cloud.name(), "namespace": self.site.users },
            "stringData": { cloud.field(): credentials },
        });
        apply(&self.site.admin, &secret).await.map(drop)
    }

    /// Waits until a condition of the ProviderConfig has this reason; gives its message.
    pub(crate) async fn wait_said(
        &self,
        cloud: Which,
        type_: &str,
        reason: &str,
    ) -> Result<String> {
        let said = |config: &ProviderConfig| {
            let mut all = config.status.iter().flat_map(|s| &s.conditions);
            let found = all.find(|c| c.type_ == type_ && c.reason == reason);
            found.map(|found| found.message.clone())
        };
        let is = |config: Option<&ProviderConfig>| config.and_then(said).is_some();
        let found = wait_for(&self.configs, cloud.name(), is, PATIENCE).await?;
        found.as_ref().and_then(said).context("it was just said")
    }

    /// Makes the pool at the first cloud, or changes how many machines it has.
    pub(crate) async fn scale(&self, replicas: i32) -> Result<()> {
        let provider = self.clouds.first().context("no cloud")?.provider();
        self.pool(replicas, &json!({ "provider": provider })).await
    }

    /// The same over locations: clouds, and their weights.
    async fn spread(&self, replicas: i32, weights: &[(Which, i32)]) -> Result<()> {
        let location = |(cloud, weight): &(Which, i32)| json!({ "name": cloud.name(), "weight": weight, "provider": cloud.provider() });
        let locations: Vec<_> = weights.iter().map(location).collect();
        self.pool(replicas, &json!({ "locations": locations }))
            .await
    }

    async fn pool(&self, replicas: i32, of: &Value) -> Result<()> {
        let mut pool = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
            "metadata": { "name": POOL, "namespace": self.site.users },
            "spec": of,
        });
        pool["spec"]["clusterName"] = json!("demo");
        pool["spec"]["replicas"] = json!(replicas);
        apply(&self.site.admin, &pool).await.map(drop)
    }

    pub(crate) async fn machines(&self) -> Result<Vec<Machine>> {
        self.site.machines_of(POOL).await
    }

    /// Time passes, and everything is looked at. What fails is tried again in the next one.
    pub(crate) async fn round(&self, operator: &Operator) -> Result<()> {
        self.time.pass(ROUND).await?;
        let context = || Arc::clone(&operator.context);
        let pool = Arc::new(self.site.pools().get(POOL).await?);
        let _ = Box::pin(node_pool::reconcile(pool, context())).await;
        for machine in self.machines().await? {
            let _ = Box::pin(machine::reconcile(Arc::new(machine), context())).await;
        }
        Ok(())
    }

    pub(crate) async fn until(
        &self,
        operator: &Operator,
        what: &str,
        is: impl Fn(&[Machine]) -> bool,
    ) -> Result<()> {
        for _ in 0..ROUNDS {
            if is(&self.machines().await?) {
                return Ok(());
            }
            self.round(operator).await?;
        }
        let seen: Vec<_> = self
            .machines()
            .await?
            .into_iter()
            .map(|m| m.status)
            .collect();
        bail!("{what}: not within {ROUNDS} rounds: {seen:?}")
    }

    /// The pool has so many machines that run.
    pub(crate) async fn comes_up(&self, operator: &Operator, replicas: i32) -> Result<()> {
        self.scale(replicas).await?;
        let wanted = usize::try_from(replicas)?;
        let is = |machines: &[Machine]| machines.len() == wanted && machines.iter().all(runs);
        self.until(operator, "machines run", is).await
    }

    /// The pool has none any more.
    pub(crate) async fn goes_down(&self, operator: &Operator) -> Result<()> {
        self.scale(0).await?;
        self.until(operator, "machines are gone", <[Machine]>::is_empty)
            .await
    }

    /// No Machine ever had two at once, and nothing is left of any.
    pub(crate) fn is_clean(&self) -> Result<()> {
        self.time.clock.advance(ROUND);
        for cloud in &self.clouds {
            let (journal, (kind, label)) = (self.journal(*cloud), cloud.thing());
            let most = journal.most_at_once(kind, label);
            ensure!(most <= 1, "{most} of one Machine at once: {cloud:?}");
            ensure!(journal.came_without(label) == 0, "of nobody: {cloud:?}");
            ensure!(journal.left().is_empty(), "left: {:?}", journal.left());
        }
        Ok(())
    }

    pub(crate) fn journal(&self, cloud: Which) -> Journal {
        match cloud {
            Which::Hetzner => self.hetzner.journal(),
            Which::Gcp => self.gcp.journal(),
            Which::Azure => self.azure.journal(),
            Which::Aws => self.aws.journal(),
        }
    }
}

/// The role of an account at AWS.
pub(crate) fn role(account: &str) -> String {
    format!("arn:aws:iam::{account}:role/covey")
}

/// It was made, and runs.
fn runs(machine: &Machine) -> bool {
    let status = machine.status.clone().unwrap_or_default();
    let type_ = ConditionType::VirtualMachineReady;
    status.provider_id.is_some()
        && status.creation_pending_since.is_none()
        && api::condition::is_true(&status.conditions, type_)
}

/// As it is seen by users.
pub(crate) fn shown(objects: &impl serde::Serialize) -> Result<String> {
    Ok(serde_json::to_value(objects)?.to_string())
}

/// Credentials that do not let in, or into another account, are told with `code` and the field to change, and nothing is
/// deleted because of them. `secret`: what of them must not be seen.
pub(crate) async fn wrong_credentials(
    world: &World,
    operator: &Operator,
    cloud: Which,
    credentials: &str,
    (code, field, secret): (&str, &str, &str),
) -> Result<()> {
    let before = world.journal(cloud).left();
    world.credentials(cloud, credentials).await?;
    let has = |config: Option<&ProviderConfig>| {
        let mut all = config
            .iter()
            .flat_map(|c| &c.status)
            .flat_map(|s| &s.conditions);
        all.any(|c| c.reason == "CredentialsRefused" && c.message.contains(code))
    };
    let config = wait_for(&world.configs, cloud.name(), has, PATIENCE).await?;
    let seen = shown(&config)?;
    ensure!(seen.contains(field) && !seen.contains(secret), "{seen}");
    world.scale(0).await?;
    for _ in 0..8 {
        world.round(operator).await?;
    }
    ensure!(world.journal(cloud).left() == before, "it was deleted");
    ensure!(world.machines().await?.len() == 1, "the Machine is gone");
    Ok(())
}

/// The operator dies at every other write of a machine's life, which has `writes` at least, and another one ends it.
/// In the worlds of T0 it dies at each (`operator/src/controllers/machine/tests`), and each provider at each of its calls.
pub(crate) async fn dies_at_any_write(prefix: &str, cloud: Which, writes: u64) -> Result<()> {
    let deaths = Deaths::asked_for_beside_the_model(2);
    dies_wherever(prefix, cloud, deaths, writes, FaultPlan::none).await
}

async fn dies_wherever(
    prefix: &str,
    cloud: Which,
    deaths: Deaths,
    writes: u64,
    plan: impl Fn() -> FaultPlan,
) -> Result<()> {
    let Some((world, operator)) = World::with(prefix, &[cloud], &plan()).await? else {
        return Ok(());
    };
    let stage = (world, Hand::new(operator));
    let (stages, writes) = (vec![stage], Writes::at_least(writes));
    for_deaths(
        deaths,
        prefix,
        stages,
        writes,
        async |(world, hand), crash| {
            let operator = hand.take().await?;
            operator.plan.arm(crash);
            let died = Box::pin(dies(&operator, world.comes_up(&operator, 1))).await?;
            drop(operator);
            let operator = world.start(&plan())?;
            operator.settle(&world.site, "demo").await?;
            world.comes_up(&operator, 1).await?;
            world.goes_down(&operator).await?;
            world.is_clean()?;
            hand.give(operator).await;
            Ok(died)
        },
    )
    .await
}

/// An API that answers nothing.
fn down() -> Script {
    let mut down = Script::default();
    for method in ["GET", "POST", "DELETE"] {
        down = down.each(method, "", "", Fault::LostRequest);
    }
    down
}

/// Who says where machines are made is whoever sets the weights; no node joins here, so nobody is silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cloud_that_does_not_answer_loses_no_machine_while_the_other_one_makes_more() -> Result<()>
{
    let (hetzner, gcp) = (Which::Hetzner, Which::Gcp);
    let Some((world, operator)) = World::new("clouds-down", &[hetzner, gcp]).await? else {
        return Ok(());
    };
    let at = |machines: &[Machine], cloud: Which| {
        let of = machines.iter().filter(|m| {
            let named = m.spec.provider.config_name() == Some(cloud.name());
            named && m.metadata.deletion_timestamp.is_none()
        });
        let of: Vec<_> = of.cloned().collect();
        (of.len(), of.iter().all(runs))
    };
    world.spread(2, &[(hetzner, 1), (gcp, 1)]).await?;
    let both =
        |machines: &[Machine]| at(machines, hetzner) == (1, true) && at(machines, gcp) == (1, true);
    world.until(&operator, "one at each runs", both).await?;

    world.gcp.contents().script = down();
    world.spread(3, &[(hetzner, 1), (gcp, 0)]).await?;
    let more = |machines: &[Machine]| at(machines, hetzner) == (2, true);
    world.until(&operator, "the other has two", more).await?;
    for _ in 0..8 {
        world.round(&operator).await?;
    }
    let machines = world.machines().await?;
    ensure!(at(&machines, gcp).0 == 1, "it is replaced: {machines:?}");
    ensure!(machines.len() == 3, "{machines:?}");
    ensure!(world.journal(gcp).left().len() == 2, "it and its disk");

    // Its deletion waits for an answer, and nobody forgets it until then.
    world.spread(0, &[(hetzner, 1), (gcp, 0)]).await?;
    let one = |machines: &[Machine]| machines.len() == 1;
    world.until(&operator, "it alone is there", one).await?;
    for _ in 0..8 {
        world.round(&operator).await?;
    }
    ensure!(world.machines().await?.len() == 1, "it was forgotten");
    world.gcp.contents().script = Script::default();
    world
        .until(&operator, "machines are gone", <[Machine]>::is_empty)
        .await?;
    world.is_clean()?;
    ensure!(world.journal(hetzner).made("server") == 2);
    ensure!(world.journal(gcp).made("instance") == 1);
    operator.stop().await
}
