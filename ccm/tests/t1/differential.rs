//! The same scenarios for the controllers of k8s.io/cloud-provider and for ours: a tenant sees the
//! same, and their clouds are asked for the same load balancers, but for a table of differences.
//!
//! One test a file of scenarios, each with both sides, which have a real tenant API of their own. After
//! each step both are followed until nothing happens any more: a canary, a node and a Service of its
//! own, lives through everything that the controllers do, so what was queued before it is done, and
//! the effects before and after are equal.
//! Invariant: what ours does is never compared with something that a person wrote down.

mod balancers;
mod differences;
mod effects;
mod ours;
mod scenario;
mod stock;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Event, Node, Service};
use kit_client::untyped;
use kit_objects::kinds::{self, Kind};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use self::effects::{CANARY, Effects, View, of_interest};
use self::ours::Ours;
use self::scenario::{Cloud, Machine, Scenario, State, Step};
use self::stock::Stock;
use crate::support::{Environment, PATIENCE};
use ccm::names;

/// So many canaries may pass until nothing happens any more.
const CANARIES: usize = 8;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/t1/differential")
}

/// A file of this folder. Read at run time: a new scenario needs no compiler.
fn file(name: &str) -> Result<String> {
    std::fs::read_to_string(folder().join(name)).with_context(|| format!("read {name}"))
}

/// One test for each file of scenarios, whose heading says what it is about.
macro_rules! compare {
    ($(#[test] fn $test:ident() of $file:ident;)+) => {
        const FILES: &[&str] = &[$(stringify!($file)),+];

        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() -> Result<()> {
                compare_all(stringify!($file)).await
            }
        )+
    };
}

compare! {
    #[test]
    fn nodes_come_as_with_the_stock_controllers_but_for_the_listed_differences() of nodes;
    #[test]
    fn nodes_follow_machines_as_with_the_stock_controllers_but_for_the_listed_differences() of machines;
    #[test]
    fn services_come_and_go_as_with_the_stock_controllers_but_for_the_listed_differences() of services;
    #[test]
    fn changed_services_end_as_with_the_stock_controllers_but_for_the_listed_differences() of changes;
}

/// One of the two that are compared.
trait Side {
    const NAME: &'static str;

    /// The tenant's API, with every right.
    fn tenant(&self) -> &Client;

    /// Makes the cloud be so.
    async fn set(&mut self, cloud: &Cloud) -> Result<()>;

    /// A step begins.
    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    /// What its cloud has been asked for.
    async fn balancers(&mut self, step: &Step) -> Result<Effects>;
}

/// Plays all scenarios of a file, and judges the part of the table that is about them.
async fn compare_all(file: &str) -> Result<()> {
    let mut scenarios = scenario::of(file)?;
    scenarios.retain(scenario::is_wanted);
    if scenarios.is_empty() {
        return Ok(());
    }
    let Some(program) = stock::program()? else {
        return Ok(());
    };
    let Some([theirs, own]) = Environment::pair(["stock", "ours"]).await? else {
        return Ok(());
    };
    let table = differences::table()?;
    let mut found = BTreeMap::new();
    let mut failures = Vec::new();
    for scenario in scenarios {
        let begin = Instant::now();
        let result = compare(&program, &theirs, &own, &scenario, &table).await;
        match result.with_context(|| format!("scenario {}", scenario.name)) {
            Ok((differences, unlisted)) => {
                unlisted.iter().for_each(|line| eprintln!("{line}"));
                failures.extend(unlisted);
                found.insert(scenario.name.clone(), differences);
            }
            Err(error) => {
                eprintln!("{error:#}");
                failures.push(format!("{error:#}"));
            }
        }
        eprintln!(
            "{} took {:.1} s",
            scenario.name,
            begin.elapsed().as_secs_f32()
        );
    }
    let stale = differences::stale(&table, &found);
    assert!(
        failures.is_empty() && stale.is_empty(),
        "not in the table of differences:\n{}\nin the table, and did not happen:\n{}",
        failures.join("\n"),
        stale.join("\n"),
    );
    Ok(())
}

/// All differences of a scenario, and those that are not listed, for people.
async fn compare(
    program: &Path,
    theirs: &Environment,
    own: &Environment,
    scenario: &Scenario,
    table: &[differences::Difference],
) -> Result<(BTreeSet<String>, Vec<String>)> {
    tidy_up(theirs).await?;
    tidy_up(own).await?;
    let mut stock = Play::new(Stock::start(program, theirs).await?);
    let mut ours = Play::new(Ours::start(own)?);
    let mut all = BTreeSet::new();
    let mut unlisted = Vec::new();
    for (number, step) in scenario.steps.iter().enumerate() {
        let number = number + 1;
        let (expected, first) = tokio::try_join!(stock.step(step), ours.step(step))
            .with_context(|| format!("step {number}"))?;
        let differ = |expected: &Effects, effects: &Effects| {
            let differences = differences::between(expected, effects);
            let unlisted = differences::unlisted(table, &scenario.name, &differences);
            (differences, unlisted)
        };
        let (mut differences, mut left) = differ(&expected, &first);
        // What failed is tried again after a while, by either: a canary that came and went does not say
        // that the stock controllers' loop over the nodes has come to this one. One step that stays
        // otherwise says enough.
        let begin = Instant::now();
        while !left.is_empty() && unlisted.is_empty() && begin.elapsed() < PATIENCE {
            let (expected, now) = tokio::try_join!(stock.settle(step), ours.settle(step))
                .with_context(|| format!("step {number}"))?;
            (differences, left) = differ(&expected, &now);
        }
        let name = &scenario.name;
        unlisted.extend(
            left.iter()
                .map(|line| format!("{name}, step {number}: {line}")),
        );
        all.extend(differences);
    }
    Ok((all, unlisted))
}

/// One side while it is played to.
struct Play<S> {
    side: S,
    view: View,
    cloud: Cloud,
    canaries: usize,
    /// UIDs and resource versions by `<Kind> <name>`, at the beginning of the step.
    before: BTreeMap<String, (String, String)>,
    /// The first UIDs.
    first: BTreeMap<String, String>,
}

impl<S: Side> Play<S> {
    fn new(side: S) -> Self {
        Self {
            view: View::new(side.tenant()),
            side,
            cloud: Cloud::default(),
            canaries: 0,
            before: BTreeMap::new(),
            first: BTreeMap::new(),
        }
    }

    /// Plays a step, and gives the effects once nothing happens any more.
    async fn step(&mut self, step: &Step) -> Result<Effects> {
        self.before.clear();
        self.side.begin()?;
        effects::read(self.side.tenant(), &mut self.before).await?;
        self.cloud.change(step);
        self.side.set(&self.cloud).await?;
        act(self.side.tenant(), step).await?;
        if !step.until.is_empty() {
            let wanted = |now: &Effects| step.until.iter().all(|line| now.contains(line));
            let waited = self.until(wanted).await;
            waited.with_context(|| format!("{}: until {:?}", S::NAME, step.until))?;
        }
        self.settle(step).await
    }

    /// Waits until the effects are as wanted: those of now, and not those that a watch still tells of.
    async fn until(&mut self, wanted: impl Fn(&Effects) -> bool) -> Result<()> {
        loop {
            self.view.wait(PATIENCE, &wanted).await?;
            if wanted(&effects::read(self.side.tenant(), &mut BTreeMap::new()).await?) {
                return Ok(());
            }
            self.view.change(PATIENCE).await?;
        }
    }

    /// Waits until nothing happens any more.
    async fn settle(&mut self, step: &Step) -> Result<Effects> {
        let mut last = self.read(step).await?;
        for _ in 0..CANARIES {
            let canary = self.canary().await;
            canary.with_context(|| format!("{}: a canary", S::NAME))?;
            let now = self.read(step).await?;
            if now == last {
                return Ok(now);
            }
            last = now;
        }
        anyhow::bail!("{}: it does not come to rest", S::NAME)
    }

    async fn read(&mut self, step: &Step) -> Result<Effects> {
        let mut versions = BTreeMap::new();
        let mut effects = effects::read(self.side.tenant(), &mut versions).await?;
        effects.extend(self.side.balancers(step).await?);
        let mut effects = of_interest(effects);
        for (object, (uid, version)) in versions {
            if object.contains(CANARY) {
                continue;
            }
            if self
                .first
                .entry(object.clone())
                .or_insert_with(|| uid.clone())
                != &uid
            {
                effects.insert(format!("{object} is another one"));
            }
            let before = self.before.get(&object);
            if step.quiet && before.is_some_and(|(_, before)| *before != version) {
                effects.insert(format!("{object} was written"));
            }
        }
        Ok(effects)
    }

    /// A node and a Service that live through everything; returns once both are gone.
    async fn canary(&mut self) -> Result<()> {
        self.canaries += 1;
        let name = format!("{CANARY}-{}", self.canaries);
        let machine = Machine {
            state: State::Running,
            addresses: vec!["10.99.0.1".to_owned()],
            zone: String::new(),
            region: String::new(),
            size: String::new(),
        };
        self.cloud.machines.insert(name.clone(), machine);
        let address = vec![json!({ "ip": "192.0.2.250" })];
        self.cloud.balancers.insert(name.clone(), address);
        self.side.set(&self.cloud).await?;
        // Load balancers leave it out, so no other Service changes by it.
        let born = Step {
            nodes: BTreeMap::from([(
                name.clone(),
                json!({ "metadata": { "labels": { names::LABEL_EXCLUDE: "true" } } }),
            )]),
            services: BTreeMap::from([(name.clone(), json!({}))]),
            ..Step::default()
        };
        let client = self.side.tenant().clone();
        act(&client, &born).await?;
        let lives = [
            format!("Node {name} address 1 InternalIP 10.99.0.1"),
            format!("Event Node {name} Normal Synced"),
            format!("Service {name} ingress 1 192.0.2.250 VIP"),
            format!("Event Service {name} Normal EnsuredLoadBalancer"),
        ];
        // Each canary has a name of its own, so what was heard of it stays true.
        let alive = |now: &Effects| lives.iter().all(|line| now.contains(line));
        self.view.wait(PATIENCE, alive).await?;

        self.cloud.machines.remove(&name);
        self.side.set(&self.cloud).await?;
        let dies = Step {
            ready: BTreeMap::from([(name.clone(), "Unknown".to_owned())]),
            delete: vec![name.clone()],
            ..Step::default()
        };
        act(&client, &dies).await?;
        let gone = [
            format!("Event Node {name} Normal DeletingNode"),
            format!("Event Service {name} Normal DeletedLoadBalancer"),
        ];
        let there = [format!("Node {name}"), format!("Service {name}")];
        let is_gone = |now: &Effects| {
            gone.iter().all(|line| now.contains(line))
                && !there.iter().any(|line| now.contains(line))
        };
        self.view.wait(PATIENCE, is_gone).await?;
        self.cloud.balancers.remove(&name);
        Ok(())
    }
}

/// Does what a step says about the tenant's objects.
async fn act(client: &Client, step: &Step) -> Result<()> {
    let nodes = Api::<Node>::all(client.clone());
    let services = Api::<Service>::namespaced(client.clone(), "default");
    for (name, patch) in &step.nodes {
        let node = serde_json::from_value(scenario::node(name, patch))?;
        let made = nodes.create(&PostParams::default(), &node).await;
        made.with_context(|| format!("make the node {name}"))?;
    }
    for (name, patch) in &step.services {
        let service = serde_json::from_value(scenario::service(name, patch))?;
        let made = services.create(&PostParams::default(), &service).await;
        made.with_context(|| format!("make the Service {name}"))?;
    }
    let params = PatchParams::default();
    for (name, patch) in &step.change_nodes {
        nodes.patch(name, &params, &Patch::Merge(patch)).await?;
    }
    for (name, patch) in &step.change_services {
        services.patch(name, &params, &Patch::Merge(patch)).await?;
    }
    for (name, patch) in &step.change_status {
        let patch = json!({ "status": patch });
        services
            .patch_status(name, &params, &Patch::Merge(&patch))
            .await?;
    }
    for (name, ready) in &step.ready {
        let condition = json!({ "type": "Ready", "status": ready, "reason": "Test" });
        let patch = json!({ "status": { "conditions": [condition] } });
        nodes
            .patch_status(name, &params, &Patch::Merge(&patch))
            .await?;
    }
    for name in &step.delete {
        services.delete(name, &Default::default()).await?;
    }
    Ok(())
}

/// Leaves nothing of the scenario before; nobody runs at that time.
async fn tidy_up(environment: &Environment) -> Result<()> {
    for kind in [kinds::NODE, kinds::SERVICE] {
        remove(&environment.inside, kind, None).await?;
    }
    let events = Api::<Event>::namespaced(environment.inside.clone(), "default");
    let params = Default::default();
    events
        .delete_collection(&params, &Default::default())
        .await?;
    for kind in [
        kinds::SERVICE,
        kinds::ENDPOINT_SLICE,
        kinds::VIRTUAL_MACHINE,
        kinds::VIRTUAL_MACHINE_INSTANCE,
    ] {
        remove(&environment.admin, kind, Some(&environment.ns)).await?;
    }
    Ok(())
}

async fn remove(client: &Client, kind: Kind, namespace: Option<&str>) -> Result<()> {
    for object in untyped::of(kind, client, namespace)
        .list(&Default::default())
        .await?
    {
        let name = object.name_any();
        if name == "kubernetes" {
            continue;
        }
        let namespace = object.namespace();
        let objects = untyped::of(kind, client, namespace.as_deref());
        if !object.finalizers().is_empty() {
            let patch: Value = json!({ "metadata": { "finalizers": null } });
            let params = PatchParams::default();
            objects.patch(&name, &params, &Patch::Merge(&patch)).await?;
        }
        match objects.delete(&name, &Default::default()).await {
            Err(kube::Error::Api(answer)) if answer.code == 404 => {}
            other => drop(other?),
        }
    }
    Ok(())
}
