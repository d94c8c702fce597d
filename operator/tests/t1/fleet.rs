//! A FleetPolicy: another operator changes tenant clusters in waves, and a failure halts it, on a real API server.
//!
//! Invariant: a policy is of the whole management cluster, so each carries the label of its site, and no other operator
//! sees it.

use anyhow::{Context as _, Result, ensure};
use api::{FleetPolicy, TenantCluster, names};
use kit_objects::kinds;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tenant_cp::Settings;
use testkit::FaultPlan;
use testkit::fakes::kubelet::Mode;
use testkit::faults::Crash;
use testkit::fixtures::wait_for;

use crate::crash::dies;
use crate::support::site::{apply, tenant_namespace};
use crate::support::{Launch, Operator, PATIENCE, Site};

/// Of the first wave, and of the second.
const ALL: [(&str, &str); 3] = [("first", "canary"), ("second", "canary"), ("third", "rest")];

/// The policy of a site.
struct Policy {
    api: Api<FleetPolicy>,
    name: String,
}

impl Policy {
    async fn lay(site: &Site, deadline: &str) -> Result<Self> {
        let name = format!("policy-of-{}", site.users);
        let canary =
            json!({ "name": "canary", "selector": { "matchLabels": { "wave": "canary" } } });
        let policy = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "FleetPolicy",
            "metadata": { "name": name, "labels": { names::LABEL_TENANT_NAMESPACE: site.users } },
            "spec": { "waves": [canary], "maxConcurrent": 1, "deadline": deadline },
        });
        apply(&site.admin, &policy).await?;
        let api = Api::all(site.admin.clone());
        Ok(Self { api, name })
    }

    /// Waits until it is as wanted.
    async fn wait(&self, is: impl Fn(&FleetPolicy) -> bool) -> Result<FleetPolicy> {
        let found = wait_for(&self.api, &self.name, |p| p.is_some_and(&is), PATIENCE);
        found.await?.context("invariant: it was just seen")
    }

    /// Waits until all is done with these templates.
    async fn wait_done(&self, templates: &str) -> Result<FleetPolicy> {
        let is_done = |policy: &FleetPolicy| {
            let status = policy.status.as_ref();
            let is_of = status.is_some_and(|s| s.templates.as_deref() == Some(templates));
            is_of && reason(policy, "Progressing") == "FleetRolledOut"
        };
        self.wait(is_done).await
    }

    async fn change(&self, spec: &Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let params = PatchParams::default();
        self.api.patch(&self.name, &params, &patch).await?;
        Ok(())
    }

    async fn remove(&self) -> Result<()> {
        self.api
            .delete(&self.name, &DeleteParams::default())
            .await?;
        Ok(())
    }
}

fn reason(policy: &FleetPolicy, type_: &str) -> String {
    let conditions = policy.status.iter().flat_map(|status| &status.conditions);
    let mut found = conditions.filter(|c| c.type_ == type_);
    found.next().map(|c| c.reason.clone()).unwrap_or_default()
}

/// Another operator: the control plane has another image.
fn other_image(site: &Site) -> Settings {
    let mut settings = site.settings();
    settings.images.konnectivity_server = "kas-network-proxy/proxy-server:v0.36.0".to_owned();
    settings
}

fn has_templates(cluster: &TenantCluster, templates: &str) -> bool {
    let rollout = cluster.status.as_ref().and_then(|s| s.rollout.as_ref());
    rollout.and_then(|rollout| rollout.templates.as_deref()) == Some(templates)
}

async fn create(site: &Site, name: &str, wave: &str) -> Result<()> {
    let mut cluster = testkit::fixtures::minimal(&site.users, name);
    cluster.metadata.labels = Some([("wave".to_owned(), wave.to_owned())].into());
    site.create_as(&cluster).await.map(drop)
}

/// The template of a control plane.
async fn template(site: &Site, name: &str) -> Result<Value> {
    let cluster = site.clusters().get(name).await?;
    let deployments = site.objects(kinds::DEPLOYMENT, &tenant_namespace(&cluster));
    let deployment = deployments.get("control-plane").await?;
    Ok(deployment.data["spec"]["template"].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_templates_halt_at_the_first_tenant_cluster_until_somebody_says_that_it_is_mended()
-> Result<()> {
    let Some(site) = Site::new("fleet-halt").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    for (name, wave) in ALL {
        create(&site, name, wave).await?;
    }
    let mut before = Vec::new();
    for (name, _) in ALL {
        site.wait_ready(name).await?;
        operator.settle(&site, name).await?;
        before.push(template(&site, name).await?);
    }
    operator.stop().await?;

    // Pods of the new templates never come: nobody plays them.
    site.kubelet.set(Mode::Paused);
    let policy = Policy::lay(&site, "10s").await?;
    let other = Launch {
        settings: other_image(&site),
        ..Launch::new(&site)?
    };
    let other = other.start(&site)?;
    let templates = other.context.templates.clone();
    let is_halted = |policy: &FleetPolicy| reason(policy, "Degraded") == "FleetHalted";
    let halted = policy.wait(is_halted).await?;
    let said = halted.status.and_then(|status| status.halted);
    let said = said.context("it does not say who failed")?;
    let mut changed = Vec::new();
    for ((name, _), before) in ALL.iter().zip(&before) {
        if template(&site, name).await? != *before {
            changed.push(format!("{}/{name}", site.users));
        }
    }
    ensure!(
        changed == [said.tenant_cluster.clone()],
        "{changed:?}, {said:?}"
    );
    ensure!(
        said.tenant_cluster != format!("{}/third", site.users),
        "of the second wave"
    );

    // It works after all, and the others stay until somebody says so, also of another leader.
    site.kubelet.set(Mode::Ready);
    let (_, failed) = said.tenant_cluster.split_once('/').unwrap_or_default();
    site.wait(failed, |cluster| has_templates(cluster, &templates))
        .await?;
    drop(other);
    let other = Launch {
        settings: other_image(&site),
        ..Launch::new(&site)?
    };
    let other = other.start(&site)?;
    for (name, _) in ALL {
        other.settle(&site, name).await?;
    }
    ensure!(template(&site, "third").await? == before[2], "it was begun");
    policy.change(&json!({ "retry": 1 })).await?;
    policy.wait_done(&templates).await?;
    for (name, _) in ALL {
        site.wait(name, |cluster| has_templates(cluster, &templates))
            .await?;
    }
    policy.remove().await?;
    other.stop().await
}

/// Of the writes of one rollout: the note that it begins, the Deployment, the statuses, and what is inside.
const DEATHS: u64 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollout_by_a_policy_ends_the_same_wherever_the_operator_dies() -> Result<()> {
    let Some(site) = Site::new("fleet-crash").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    create(&site, "demo", "canary").await?;
    site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    let policy = Policy::lay(&site, "5m").await?;
    let plain = template(&site, "demo").await?;
    operator.stop().await?;
    let mut other = None;
    for k in 1..=DEATHS {
        let launch = |plan: &FaultPlan| -> Result<Operator> {
            let settings = match k % 2 {
                1 => other_image(&site),
                _ => site.settings(),
            };
            let launch = Launch {
                settings,
                ..Launch::new(&site)?
            };
            launch.plan(plan).start(&site)
        };
        let plan = FaultPlan::none();
        plan.arm(Crash::After(k));
        let operator = launch(&plan)?;
        let templates = operator.context.templates.clone();
        let ends = async || policy.wait_done(&templates).await.map(drop);
        dies(&operator, Box::pin(ends())).await?;
        drop(operator);
        let operator = launch(&FaultPlan::none())?;
        let done = policy.wait_done(&templates).await?;
        operator.settle(&site, "demo").await?;
        let waves = done.status.map(|status| status.waves).unwrap_or_default();
        ensure!(
            waves
                .iter()
                .all(|wave| wave.failed == 0 && wave.waiting == 0),
            "{waves:?}"
        );
        let cluster = site.clusters().get("demo").await?;
        ensure!(has_templates(&cluster, &templates), "died at write {k}");
        let rollout = cluster
            .status
            .and_then(|status| status.rollout)
            .unwrap_or_default();
        ensure!(!rollout.held, "died at write {k}: it waits");
        let now = template(&site, "demo").await?;
        let wanted = match k % 2 {
            1 => other.get_or_insert_with(|| now.clone()).clone(),
            _ => plain.clone(),
        };
        ensure!(now == wanted, "died at write {k}: another template");
        operator.stop().await?;
    }
    ensure!(other != Some(plain), "the other operator changes nothing");
    policy.remove().await
}
