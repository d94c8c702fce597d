//! A version changes, and the operator: who is rolled out when, on a real API server.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use api::tenant_cluster::UpgradePhase;
use api::{Snapshot, TenantCluster};
use kit_objects::kinds;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tenant_cp::Settings;
use testkit::audit::AuditEntry;
use testkit::fakes::kubelet::Mode;
use testkit::fakes::tenant_api;
use testkit::fixtures::wait_for;

use crate::support::site::tenant_namespace;
use crate::support::{Launch, Operator, PATIENCE, Site};

const ALL: [&str; 3] = ["first", "second", "third"];

/// Another operator: etcd, the control plane and CoreDNS have other images.
fn other_images(site: &Site) -> Settings {
    let mut settings = Settings {
        etcd_image: "etcd:3.6.17-0".to_owned(),
        max_concurrent_rollouts: 1,
        ..site.settings()
    };
    settings.images.konnectivity_server = "kas-network-proxy/proxy-server:v0.36.0".to_owned();
    settings.images.core_dns = "coredns/coredns:v9.9.9".to_owned();
    settings
}

/// What of a rollout a write belongs to.
fn step(write: &AuditEntry) -> Option<&'static str> {
    match (
        write.kind.as_str(),
        write.name.as_deref(),
        write.verb.as_str(),
    ) {
        ("apps/statefulsets", Some("etcd"), _) => Some("etcd"),
        ("pods", Some(_), "delete") => Some("members"),
        ("apps/deployments", Some("control-plane"), _) => Some("control plane"),
        ("apps/deployments", Some("controllers"), _) => Some("controllers"),
        _ => None,
    }
}

fn has_templates(cluster: &TenantCluster, templates: &str) -> bool {
    let rollout = cluster.status.as_ref().and_then(|s| s.rollout.as_ref());
    rollout.and_then(|rollout| rollout.templates.as_deref()) == Some(templates)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_operator_rolls_out_one_tenant_cluster_after_another() -> Result<()> {
    let Some(site) = Site::new("fleet").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    let mut names = BTreeMap::new();
    for name in ALL {
        site.create(name).await?;
    }
    for name in ALL {
        let cluster = site.wait_ready(name).await?;
        operator.settle(&site, name).await?;
        names.insert(tenant_namespace(&cluster), name);
    }
    operator.stop().await?;

    let window = site.api.audit().window()?;
    let other = Launch {
        settings: other_images(&site),
        ..Launch::new(&site)?
    };
    let other = other.start(&site)?;
    let templates = other.context.templates.clone();
    for name in ALL {
        site.wait(name, |cluster| has_templates(cluster, &templates))
            .await?;
    }
    let mut steps: Vec<(&str, &str)> = Vec::new();
    for write in window.writes_of(&site.user())? {
        let namespace = write.namespace.clone().unwrap_or_default();
        if let (Some(name), Some(step)) = (names.get(&namespace), step(&write)) {
            steps.push((*name, step));
        }
    }
    ensure!(steps.len() == 3 * ALL.len(), "{steps:?}");
    for one in steps.chunks(3) {
        let name = one[0].0;
        assert_eq!(
            one,
            [(name, "etcd"), (name, "members"), (name, "control plane")],
            "of all: {steps:?}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_of_a_running_tenant_cluster_changes_and_can_be_set_back() -> Result<()> {
    let Some(site) = Site::new("version").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    site.create("demo").await?;
    let cluster = site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    let namespace = tenant_namespace(&cluster);
    let image = async || -> Result<String> {
        let deployments = site.objects(kinds::DEPLOYMENT, &namespace);
        let deployment = deployments.get("control-plane").await?;
        let containers = &deployment.data["spec"]["template"]["spec"]["containers"];
        let images = containers.as_array().into_iter().flatten();
        let mut images = images.filter_map(|c| c["image"].as_str());
        let image = images.find(|image| image.contains("kube-apiserver:"));
        Ok(image.unwrap_or_default().to_owned())
    };
    // Nobody plays its etcd, and its API has no tables: what speaks against an upgrade is for `upgrades`.
    let version = |version: &str| -> Value {
        json!({ "spec": { "version": version, "upgrade": { "guard": "Warn" } } })
    };

    // Its pods never come: nobody plays them.
    site.kubelet.set(Mode::Paused);
    site.change("demo", &version("1.35.5")).await?;
    let is_stuck = |cluster: &TenantCluster| {
        let status = cluster.status.as_ref();
        let conditions = status.into_iter().flat_map(|s| &s.conditions);
        let mut rolling =
            conditions.filter(|c| c.type_ == "Progressing" && c.reason == "RollingOut");
        rolling.any(|c| c.observed_generation == cluster.metadata.generation)
    };
    let stuck = site.wait("demo", is_stuck).await?;
    ensure!(image().await?.ends_with(":v1.35.5"));
    ensure!(stuck.status.and_then(|s| s.version).as_deref() == Some("1.35.4"));

    site.change("demo", &version("1.35.4")).await?;
    site.kubelet.set(Mode::Ready);
    let back = site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    ensure!(image().await?.ends_with(":v1.35.4"));
    ensure!(back.name_any() == "demo");

    // Whoever asks a kube-apiserver follows it.
    let window = site.api.audit().window()?;
    site.change("demo", &version("1.35.5")).await?;
    site.wait_ready("demo").await?;
    operator.stop_and_settle(&site, "demo").await?;
    let writes = window.writes_of(&site.user())?;
    let steps: Vec<_> = writes.iter().filter_map(step).collect();
    ensure!(steps == ["control plane", "controllers"], "{steps:?}");
    Ok(())
}

/// Waits until the upgrade to 1.35.5 has begun, plays the API that its new pods serve, and waits until it is over. Played
/// before, it would be what pods of the version before seem to serve.
async fn ends_well(site: &Site, operator: &Operator) -> Result<()> {
    let begun = site.wait("demo", |cluster| is(cluster, UpgradePhase::Rolling));
    let namespace = tenant_namespace(&begun.await?);
    let serves = tenant_api::Mode::Claims("v1.35.5");
    ensure!(site.tenants.set(&namespace, serves), "it has no server");
    // Nobody tells the operator that another one answers, where all pods are new already.
    operator.settle(site, "demo").await?;
    let is_over = |cluster: &TenantCluster| {
        let status = cluster.status.as_ref();
        status.is_some_and(|s| s.version.as_deref() == Some("1.35.5") && s.upgrade.is_none())
    };
    site.wait("demo", is_over).await.map(drop)
}

fn is(cluster: &TenantCluster, phase: UpgradePhase) -> bool {
    let told = cluster.status.as_ref().and_then(|s| s.upgrade.as_ref());
    told.is_some_and(|told| told.phase == phase)
}

/// A pod of the newest template of the control plane, beside those that serve, that ended three times.
async fn crashing_pod(site: &Site, namespace: &str) -> Result<()> {
    let deployments = site.objects(kinds::DEPLOYMENT, namespace);
    let deployment = deployments.get("control-plane").await?;
    let template = &deployment.data["spec"]["template"];
    let pods = site.objects(kinds::POD, namespace);
    let mut pod = pods.get("control-plane-0").await?;
    let labels = template["metadata"]["labels"].clone();
    pod.metadata = ObjectMeta {
        name: Some(SURGE.to_owned()),
        labels: serde_json::from_value(labels)?,
        annotations: serde_json::from_value(template["metadata"]["annotations"].clone())?,
        ..ObjectMeta::default()
    };
    pods.create(&PostParams::default(), &pod).await?;
    let status = json!({ "status": {
        "conditions": [{ "type": "Ready", "status": "False" }],
        "containerStatuses": [{
            "name": "kube-apiserver", "image": "", "imageID": "", "ready": false, "restartCount": 3,
            "state": { "waiting": { "reason": "CrashLoopBackOff" } },
            "lastState": { "terminated": { "exitCode": 1, "reason": "Error",
                "message": "Error: unknown flag: --gone\n" } },
        }],
    } });
    let params = PatchParams::default();
    pods.patch_status(SURGE, &params, &Patch::Merge(status))
        .await?;
    Ok(())
}

const SURGE: &str = "control-plane-surge";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgrade_whose_new_pod_ends_again_and_again_is_taken_back_and_not_tried_again() -> Result<()>
{
    let Some(site) = Site::new("return").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    site.create("demo").await?;
    let cluster = site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    let namespace = tenant_namespace(&cluster);
    let template = async || -> Result<Value> {
        let deployments = site.objects(kinds::DEPLOYMENT, &namespace);
        let deployment = deployments.get("control-plane").await?;
        Ok(deployment.data["spec"]["template"].clone())
    };
    let before = template().await?;
    let upgrade = json!({ "guard": "Warn" });
    let asked = json!({ "spec": { "version": "1.35.5", "upgrade": upgrade } });

    // Old pods stay, and the new one does not work.
    site.kubelet.set(Mode::Paused);
    site.change("demo", &asked).await?;
    site.wait("demo", |cluster| is(cluster, UpgradePhase::Rolling))
        .await?;
    crashing_pod(&site, &namespace).await?;
    let back = site
        .wait("demo", |cluster| is(cluster, UpgradePhase::RollingBack))
        .await?;
    let failure = back.status.and_then(|s| s.upgrade?.failure);
    ensure!(
        failure
            .as_ref()
            .is_some_and(|failure| failure.message.ends_with(": unknown flag: --gone")),
        "{failure:?}"
    );
    let pods = site.objects(kinds::POD, &namespace);
    pods.delete(SURGE, &DeleteParams::default().grace_period(0))
        .await?;
    site.kubelet.set(Mode::Ready);
    let over = site
        .wait("demo", |cluster| is(cluster, UpgradePhase::RolledBack))
        .await?;
    ensure!(template().await? == before, "it is not as it was");
    let told = |cluster: &TenantCluster, type_: &str| {
        let conditions = cluster.status.iter().flat_map(|s| &s.conditions);
        let mut found = conditions.filter(|c| c.type_ == type_);
        found.next().map(|c| (c.status.clone(), c.reason.clone()))
    };
    let said = told(&over, "Progressing");
    ensure!(
        said == Some(("False".to_owned(), "RolledBack".to_owned())),
        "{said:?}"
    );
    let ready = told(&over, "Ready").map(|(value, _)| value);
    ensure!(ready.as_deref() == Some("True"), "{ready:?}");

    // Nothing that wakes it begins it again; its user does.
    operator.settle(&site, "demo").await?;
    ensure!(template().await? == before, "it was begun again");
    let again = json!({ "spec": { "upgrade": { "retry": 1 } } });
    site.change("demo", &again).await?;
    ends_well(&site, &operator).await?;
    operator.stop_and_settle(&site, "demo").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgrade_begins_once_the_snapshot_that_the_operator_makes_was_read_again() -> Result<()> {
    let Some(site) = Site::new("snapshot").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    let mut cluster = testkit::fixtures::minimal(&site.users, "demo");
    cluster.spec.backup = Some(serde_json::from_value(json!({ "target": "nowhere" }))?);
    site.create_as(&cluster).await?;
    let cluster = site.wait_ready("demo").await?;
    let asked = json!({ "spec": { "version": "1.35.5", "upgrade": { "guard": "Warn" } } });
    site.change("demo", &asked).await?;
    site.wait("demo", |cluster| is(cluster, UpgradePhase::Snapshotting))
        .await?;
    let name = "demo-1.35.4-1.35.5-0";
    let snapshots: Api<Snapshot> = Api::namespaced(site.admin.clone(), &site.users);
    // Its controller says first that nobody answers: written meanwhile, that would replace what is written here.
    let is_looked_at = |snapshot: &Snapshot| {
        let status = snapshot.status.as_ref();
        status.is_some_and(|status| !status.conditions.is_empty())
    };
    let made = wait_for(
        &snapshots,
        name,
        |found| found.is_some_and(is_looked_at),
        PATIENCE,
    )
    .await?;
    let made = made.context("invariant: it was just seen")?;
    let owner = made.metadata.owner_references.iter().flatten().next();
    ensure!(owner.map(|owner| &owner.uid) == cluster.metadata.uid.as_ref());
    ensure!(made.spec.keep_until.is_some() && made.spec.cluster_name == "demo");

    // Nobody backs it up here: what its process would say is written in its place.
    let now = jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    let condition = |type_: &str, reason: &str| {
        json!({ "type": type_, "status": "True", "reason": reason, "message": "",
                "lastTransitionTime": now })
    };
    let status = json!({ "status": {
        "name": "00000000000000001437-00000000000000000052-001795726800000", "taken": now,
        "conditions": [condition("Ready", "SnapshotTaken"), condition("Verified", "SnapshotWhole")],
    } });
    let params = PatchParams::default();
    snapshots
        .patch_status(name, &params, &Patch::Merge(status))
        .await?;
    ends_well(&site, &operator).await?;
    operator.stop_and_settle(&site, "demo").await
}

/// Windows that are closed for some hours from now on.
fn closed() -> Value {
    let hour = jiff::Timestamp::now()
        .to_zoned(jiff::tz::TimeZone::UTC)
        .hour();
    let at = |hours: i8| format!("0 {} * * *", (hour + hours) % 24);
    json!([{ "opens": at(5), "closes": at(9) }])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patch_waits_for_a_window_and_comes_without_a_change_of_the_version_that_is_asked_for()
-> Result<()> {
    let Some(site) = Site::new("patch").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    site.create("demo").await?;
    site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    operator.stop().await?;

    // The platform offers a newer one from now on.
    let offers = || Settings {
        patch_versions: vec!["1.35.5".to_owned()],
        ..site.settings()
    };
    let launch = Launch {
        settings: offers(),
        ..Launch::new(&site)?
    };
    let operator = launch.start(&site)?;
    let maintenance = json!({ "autoPatch": true, "windows": closed() });
    let asked = json!({ "spec": { "maintenance": maintenance, "upgrade": { "guard": "Warn" } } });
    site.change("demo", &asked).await?;
    let waits = |cluster: &TenantCluster| {
        let conditions = cluster.status.iter().flat_map(|s| &s.conditions);
        let mut found = conditions.filter(|c| c.type_ == "Progressing");
        found
            .any(|c| c.reason == "WaitingForWindow" && c.message.contains("the next one opens at "))
    };
    let cluster = site.wait("demo", waits).await?;
    operator.settle(&site, "demo").await?;
    let namespace = tenant_namespace(&cluster);
    let image = async || -> Result<String> {
        let deployments = site.objects(kinds::DEPLOYMENT, &namespace);
        let deployment = deployments.get("control-plane").await?;
        let containers = &deployment.data["spec"]["template"]["spec"]["containers"];
        let mut containers = containers.as_array().into_iter().flatten();
        let server = containers.find(|container| container["name"] == tenant_cp::names::API_SERVER);
        let image = server.and_then(|server| server["image"].as_str());
        Ok(image.unwrap_or_default().to_owned())
    };
    ensure!(image().await?.ends_with(":v1.35.4"), "{}", image().await?);

    // Another operator waits as this one does, and nothing is written at rest.
    operator.stop_and_settle(&site, "demo").await?;
    let launch = Launch {
        settings: offers(),
        ..Launch::new(&site)?
    };
    let operator = launch.start(&site)?;
    operator.settle(&site, "demo").await?;
    ensure!(image().await?.ends_with(":v1.35.4"), "{}", image().await?);

    let open = json!({ "spec": { "maintenance": { "windows": null } } });
    site.change("demo", &open).await?;
    ends_well(&site, &operator).await?;
    let over = site.clusters().get("demo").await?;
    ensure!(over.spec.version == "1.35.4", "{}", over.spec.version);
    let patch = over.status.and_then(|status| status.rollout?.patch);
    ensure!(
        patch.is_some_and(
            |patch| (patch.version.as_str(), patch.asked.as_str()) == ("1.35.5", "1.35.4")
        ),
        "it is not noted"
    );
    ensure!(image().await?.ends_with(":v1.35.5"), "{}", image().await?);
    operator.stop_and_settle(&site, "demo").await
}
