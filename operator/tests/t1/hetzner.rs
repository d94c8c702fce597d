//! Node pools at Hetzner: a fake of its API, a real kube-apiserver, and the operator between them.
//!
//! Invariant: how many servers there ever were is read from the fake's journal; its time passes only by rounds, in each
//! of which everything is looked at once.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use api::{ConditionType, Machine, ProviderConfig, names};
use fake_clouds::clock::VirtualClock;
use fake_clouds::hetzner::FakeHetzner;
use fake_clouds::hetzner::project::Server;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kit_objects::kinds;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use operator::controllers::{machine, node_pool, provider_config};
use providers::clock::Clock;
use providers::identity::{INSTALLATION, MACHINE_UID};
use serde_json::{Value, json};
use testkit::FaultPlan;
use testkit::fixtures::{wait_for, wait_gone};
use tokio::sync::watch;

use crate::crash::{Hand, Writes, dies, for_every_k};
use crate::support::site::apply;
use crate::support::{Launch, Operator, PATIENCE, Site};

mod restored;

const TOKEN: &str = "token-of-the-project";
const OTHER: &str = "token-of-another-project";
/// How much time passes in a round: as much as the operator waits between two looks.
const ROUND: Duration = Duration::from_secs(10);
/// Rounds before something counts as never coming.
const ROUNDS: usize = 60;
/// What the ProviderConfig, its Secret and the pool are called.
const NAME: &str = "hetzner";
const POOL: &str = "workers";

/// The fake's time, as the operator is told it.
#[derive(Clone)]
struct Played {
    clock: VirtualClock,
    /// How many wait for it: each call does, until it is answered.
    waiting: Arc<watch::Sender<usize>>,
}

impl Played {
    /// Lets time pass once no call is on its way. However slow this machine is, two rounds in one call would make it
    /// one without an answer, and nobody knows for minutes what became of that.
    async fn pass(&self, time: Duration) -> Result<()> {
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

/// An installation with a tenant cluster, and a project.
struct World {
    site: Site,
    fake: FakeHetzner,
    time: Played,
    configs: Api<ProviderConfig>,
}

impl World {
    /// One whose ProviderConfig is Ready, and its operator.
    async fn new(prefix: &str) -> Result<Option<(Self, Operator)>> {
        let Some(site) = Site::new(prefix).await? else {
            return Ok(None);
        };
        // Machines are deleted by the API server's time.
        let clock = VirtualClock::new(Timestamp::now());
        let time = Played {
            clock: clock.clone(),
            waiting: Arc::default(),
        };
        let fake = FakeHetzner::start(clock, &[TOKEN, OTHER]).await?;
        let configs = Api::namespaced(site.admin.clone(), &site.users);
        let world = Self {
            site,
            fake,
            time,
            configs,
        };
        let operator = world.start(&FaultPlan::none())?;
        world.site.create("demo").await?;
        world.site.wait_ready("demo").await?;
        world.token(TOKEN).await?;
        let config = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "ProviderConfig",
            "metadata": { "name": NAME, "namespace": world.site.users },
            "spec": { "hetzner": {
                "tokenSecretName": NAME, "location": "fsn1", "sshKeys": ["covey"], "network": "workers",
                "firewalls": ["closed"], "images": { "1.35": "worker-1.35.4" },
            } },
        });
        apply(&world.site.admin, &config).await?;
        world.wait_said("Ready", "ProviderChecked").await?;
        operator.settle(&world.site, "demo").await?;
        Ok(Some((world, operator)))
    }

    fn start(&self, plan: &FaultPlan) -> Result<Operator> {
        let mut launch = Launch::new(&self.site)?.plan(plan);
        launch.settings.providers.hetzner.endpoint = self.fake.endpoint();
        launch.clock = Some(Arc::new(self.time.clone()));
        launch.start(&self.site)
    }

    /// Puts a token into the Secret.
    async fn token(&self, token: &str) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": NAME, "namespace": self.site.users },
            "stringData": { "token": token },
        });
        apply(&self.site.admin, &secret).await.map(drop)
    }

    /// Waits until a condition of the ProviderConfig has this reason; gives its message.
    async fn wait_said(&self, type_: &str, reason: &str) -> Result<String> {
        let said = |config: &ProviderConfig| {
            let mut all = config.status.iter().flat_map(|s| &s.conditions);
            let found = all.find(|c| c.type_ == type_ && c.reason == reason);
            found.map(|found| found.message.clone())
        };
        let is = |config: Option<&ProviderConfig>| config.and_then(said).is_some();
        let found = wait_for(&self.configs, NAME, is, PATIENCE).await?;
        found.as_ref().and_then(said).context("it was just said")
    }

    /// Makes the pool, or changes how many machines it has.
    async fn scale(&self, replicas: i32) -> Result<()> {
        let pool = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
            "metadata": { "name": POOL, "namespace": self.site.users },
            "spec": { "clusterName": "demo", "replicas": replicas, "provider": { "hetzner": {
                "configName": NAME, "types": ["cx22", "cx32"],
            } } },
        });
        apply(&self.site.admin, &pool).await.map(drop)
    }

    async fn machines(&self) -> Result<Vec<Machine>> {
        self.site.machines_of(POOL).await
    }

    /// Time passes, and everything is looked at. What fails is tried again in the next one.
    async fn round(&self, operator: &Operator) -> Result<()> {
        self.time.pass(ROUND).await?;
        let context = || Arc::clone(&operator.context);
        let pool = Arc::new(self.site.pools().get(POOL).await?);
        let _ = Box::pin(node_pool::reconcile(pool, context())).await;
        for machine in self.machines().await? {
            let _ = Box::pin(machine::reconcile(Arc::new(machine), context())).await;
        }
        Ok(())
    }

    async fn until(
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
    async fn comes_up(&self, operator: &Operator, replicas: i32) -> Result<()> {
        self.scale(replicas).await?;
        let wanted = usize::try_from(replicas)?;
        let runs = |machine: &Machine| {
            let status = machine.status.clone().unwrap_or_default();
            let type_ = ConditionType::VirtualMachineReady;
            status.provider_id.is_some()
                && status.creation_pending_since.is_none()
                && api::condition::is_true(&status.conditions, type_)
        };
        let is = |machines: &[Machine]| machines.len() == wanted && machines.iter().all(runs);
        self.until(operator, "servers run", is).await
    }

    /// The pool has none any more.
    async fn goes_down(&self, operator: &Operator) -> Result<()> {
        self.scale(0).await?;
        self.until(operator, "machines are gone", <[Machine]>::is_empty)
            .await
    }

    /// No Machine ever had two servers, and nothing is left of any.
    fn is_clean(&self) -> Result<()> {
        self.fake.clock.advance(ROUND);
        let journal = self.fake.journal();
        let most = journal.most_at_once("server", MACHINE_UID);
        ensure!(most <= 1, "{most} servers of one Machine at once");
        ensure!(journal.came_without(MACHINE_UID) == 0, "of nobody");
        ensure!(journal.left().is_empty(), "left: {:?}", journal.left());
        Ok(())
    }

    fn servers(&self) -> Vec<Server> {
        // What time brought.
        let _ = self.fake.journal();
        let contents = self.fake.contents();
        let project = contents.projects.get(TOKEN);
        project
            .iter()
            .flat_map(|p| p.servers.values())
            .cloned()
            .collect()
    }
}

/// As it is seen by users.
fn shown(objects: &impl serde::Serialize) -> Result<Value> {
    Ok(serde_json::to_value(objects)?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_of_two_makes_two_servers_and_scaled_to_none_it_leaves_nothing() -> Result<()> {
    let Some((world, operator)) = World::new("hetzner-pool").await? else {
        return Ok(());
    };
    world.comes_up(&operator, 2).await?;
    let servers = world.servers();
    ensure!(servers.len() == 2, "{servers:?}");
    let machines = world.machines().await?;
    for server in &servers {
        let uid = server.labels.get(MACHINE_UID);
        let machine = machines.iter().find(|m| m.uid().as_ref() == uid);
        let status = machine
            .and_then(|m| m.status.clone())
            .context("of nobody")?;
        let id = format!("hcloud://{}", server.id);
        ensure!(status.provider_id == Some(id), "{status:?}");
        let request = status.request.context("no request")?;
        ensure!(request.type_.as_deref() == Some("cx22"), "{request:?}");
        ensure!(request.image == "worker-1.35.4" && request.account.is_some());
        ensure!(server.user_data.starts_with("#cloud-config"));
        ensure!(!server.user_data.contains("PRIVATE KEY") && !server.user_data.contains(TOKEN));
    }
    let config = world.configs.get(NAME).await?;
    let seen = shown(&(&config, &machines))?.to_string();
    ensure!(!seen.contains(TOKEN), "{seen}");

    // What is of no Machine goes, once that was seen twice, and nothing else does. What is older than the ProviderConfig may
    // be of a state that is not remembered: a person says that it is not.
    let namespaces = Api::<Namespace>::all(world.site.admin.clone());
    let installation = namespaces
        .get("kube-system")
        .await?
        .uid()
        .unwrap_or_default();
    let stray = Server {
        id: 1,
        name: "stray".to_owned(),
        created: world
            .fake
            .clock
            .now()
            .checked_sub(SignedDuration::from_mins(20))?,
        labels: [(INSTALLATION, installation.as_str()), (MACHINE_UID, "gone")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..servers[0].clone()
    };
    if let Some(project) = world.fake.contents().projects.get_mut(TOKEN) {
        project.servers.insert(stray.id, stray);
    }
    let look = async || -> Result<()> {
        world.fake.clock.advance(Duration::from_secs(180));
        let config = Arc::new(world.configs.get(NAME).await?);
        provider_config::reconcile(config, Arc::clone(&operator.context)).await?;
        Ok(())
    };
    look().await?;
    let told = world.wait_said("Leaks", "LeaksHeld").await?;
    ensure!(told.contains("server stray (1)"), "{told}");
    look().await?;
    ensure!(world.servers().len() == 3, "it was deleted");
    let said = told.rsplit('=').next().context("no command")?;
    let annotations = json!({ names::ANNOTATION_DELETE_UNKNOWN: said });
    let annotations = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    let params = PatchParams::default();
    world.configs.patch(NAME, &params, &annotations).await?;
    world.wait_said("Leaks", "LeaksFound").await?;
    look().await?;
    world.fake.clock.advance(ROUND);
    let mut left: Vec<_> = world.servers().into_iter().map(|s| s.id).collect();
    left.sort_unstable();
    let mut own: Vec<_> = servers.iter().map(|s| s.id).collect();
    own.sort_unstable();
    ensure!(left == own, "{left:?}");

    world.goes_down(&operator).await?;
    world.is_clean()?;
    ensure!(world.fake.journal().made("server") == 2);
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_namespace_that_is_deleted_takes_along_waits_for_the_last_server() -> Result<()> {
    let Some((world, operator)) = World::new("hetzner-goes").await? else {
        return Ok(());
    };
    world.comes_up(&operator, 1).await?;
    let told = world.wait_said("InUse", "NeededByMachines").await?;
    ensure!(told.contains(POOL), "{told}");
    // As the namespace controller does it: all at once, and what servers are deleted with before the Machines.
    for (kind, name) in [
        (kinds::ROLE_BINDING, names::OPERATOR_BINDING),
        (kinds::SECRET, NAME),
        (kinds::PROVIDER_CONFIG, NAME),
    ] {
        let objects = world.site.objects(kind, &world.site.users);
        objects.delete(name, &DeleteParams::background()).await?;
    }
    let told = world.wait_said("InUse", "Deleting").await?;
    let machine = world.machines().await?.remove(0).name_any();
    ensure!(told.contains(&machine), "{told}");
    ensure!(world.servers().len() == 1, "{:?}", world.servers());
    world.goes_down(&operator).await?;
    world.is_clean()?;
    let secrets = Api::<Secret>::namespaced(world.site.admin.clone(), &world.site.users);
    wait_gone(&secrets, NAME, PATIENCE).await?;
    wait_gone(&world.configs, NAME, PATIENCE).await?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_that_are_wrong_are_told_and_delete_nothing() -> Result<()> {
    let Some((world, operator)) = World::new("hetzner-token").await? else {
        return Ok(());
    };
    world.comes_up(&operator, 1).await?;
    let before = world.fake.journal().left();
    // Of nobody, and of another project, in which the server is not found.
    for (token, code) in [
        ("no-token-of-anybody", "unauthorized"),
        (OTHER, "other_project"),
    ] {
        world.token(token).await?;
        let has = |config: Option<&ProviderConfig>| {
            let mut all = config
                .iter()
                .flat_map(|c| &c.status)
                .flat_map(|s| &s.conditions);
            all.any(|c| c.reason == "CredentialsRefused" && c.message.contains(code))
        };
        let config = wait_for(&world.configs, NAME, has, PATIENCE).await?;
        let seen = shown(&config)?.to_string();
        ensure!(
            seen.contains("spec.hetzner.tokenSecretName") && !seen.contains(token),
            "{seen}"
        );
        world.scale(0).await?;
        for _ in 0..8 {
            world.round(&operator).await?;
        }
        ensure!(world.fake.journal().left() == before, "it was deleted");
        ensure!(world.machines().await?.len() == 1, "the Machine is gone");
    }
    world.token(TOKEN).await?;
    world.wait_said("Ready", "ProviderChecked").await?;
    world.goes_down(&operator).await?;
    world.is_clean()?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_that_dies_at_any_write_makes_no_server_twice_and_leaves_none() -> Result<()> {
    let Some((world, operator)) = World::new("hetzner-dies").await? else {
        return Ok(());
    };
    let stage = (world, Hand::new(operator));
    // The Machine, what is asked for, user data, the token, and what came of it.
    let (stages, writes) = (vec![stage], Writes::at_least(4));
    for_every_k("a server", stages, writes, async |(world, hand), crash| {
        let operator = hand.take().await?;
        operator.plan.arm(crash);
        let died = Box::pin(dies(&operator, world.comes_up(&operator, 1))).await?;
        drop(operator);
        let operator = world.start(&FaultPlan::none())?;
        operator.settle(&world.site, "demo").await?;
        world.comes_up(&operator, 1).await?;
        world.goes_down(&operator).await?;
        world.is_clean()?;
        hand.give(operator).await;
        Ok(died)
    })
    .await
}
