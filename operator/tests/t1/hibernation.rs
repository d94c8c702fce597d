//! A tenant cluster sleeps and wakes, on a real API server: by its spec, and by the Lease of the activator.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use api::TenantCluster;
use api::activator::Sleeper;
use api::names::{
    COMPONENT_ACTIVATOR, LABEL_COMPONENT, LABEL_TENANT_NAMESPACE, LABEL_TENANT_UID, SLEEPERS,
    wake_lease,
};
use api::tenant_cluster::HibernationPhase;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kit_objects::kinds::{self, Kind};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tenant_cp::names;
use testkit::waiting::{wait_for, wait_gone};

use crate::support::site::tenant_namespace;
use crate::support::{PATIENCE, Site, settled};

const DEPLOYMENTS: [&str; 2] = ["control-plane", "controllers"];

fn phase(cluster: &TenantCluster) -> Option<HibernationPhase> {
    let status = cluster.status.as_ref()?.hibernation.as_ref()?;
    Some(status.phase)
}

fn reason(cluster: &TenantCluster, type_: &str) -> Option<(String, String)> {
    let mut conditions = cluster.status.as_ref()?.conditions.iter();
    let found = conditions.find(|condition| condition.type_ == type_)?;
    Some((found.status.clone(), found.reason.clone()))
}

fn is_ready(cluster: &TenantCluster) -> bool {
    reason(cluster, "Ready").is_some_and(|(status, _)| status == "True")
}

/// Replicas that are wanted of etcd, and of the Deployments.
async fn replicas(site: &Site, namespace: &str) -> Result<Vec<i64>> {
    let mut all = Vec::new();
    let deployments = DEPLOYMENTS.map(|name| (kinds::DEPLOYMENT, name));
    for (kind, name) in [(kinds::STATEFUL_SET, "etcd")]
        .into_iter()
        .chain(deployments)
    {
        let live = site.objects(kind, namespace).get(name).await?;
        let wanted = live.data["spec"]["replicas"].as_i64();
        all.push(wanted.with_context(|| format!("{name} has no replicas"))?);
    }
    Ok(all)
}

/// UIDs of everything of these kinds.
async fn uids(site: &Site, namespace: &str) -> Result<Vec<(Kind, String, Option<String>)>> {
    let mut all = Vec::new();
    for kind in [
        kinds::SECRET,
        kinds::SERVICE,
        kinds::PERSISTENT_VOLUME_CLAIM,
    ] {
        let list = site
            .objects(kind, namespace)
            .list(&ListParams::default())
            .await?;
        let found = list.items.iter();
        all.extend(found.map(|object| (kind, object.name_any(), object.uid())));
    }
    all.sort_by(|a, b| (a.0.kind, &a.1).cmp(&(b.0.kind, &b.1)));
    Ok(all)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_cluster_sleeps_with_all_that_it_has_and_wakes_by_spec_and_by_request()
-> Result<()> {
    let Some((site, operator, cluster)) = settled("sleep").await? else {
        return Ok(());
    };
    let namespace = tenant_namespace(&cluster);
    let before = uids(&site, &namespace).await?;
    let running = replicas(&site, &namespace).await?;
    ensure!(running.iter().all(|replicas| *replicas > 0), "{running:?}");

    site.change(
        "demo",
        &json!({ "spec": { "hibernation": { "enabled": true } } }),
    )
    .await?;
    let is_asleep = |cluster: &TenantCluster| phase(cluster) == Some(HibernationPhase::Asleep);
    let asleep = site.wait("demo", is_asleep).await?;
    assert_eq!(replicas(&site, &namespace).await?, [0, 0, 0]);
    assert_eq!(
        uids(&site, &namespace).await?,
        before,
        "data, keys and addresses stay"
    );
    let said = |type_| reason(&asleep, type_).unwrap_or_default();
    assert_eq!(said("Ready"), ("False".to_owned(), "Hibernated".to_owned()));
    assert_eq!(said("Degraded").0, "False");
    // At rest nothing is written, and nobody asks its API.
    operator.settle(&site, "demo").await?;
    let window = site.api.audit().window()?;
    let asked = site.tenants.calls(&namespace).len();
    for _ in 0..5 {
        operator.reconcile(&site, "demo").await?;
    }
    window.assert_no_writes(&site.user())?;
    assert_eq!(
        site.tenants.calls(&namespace).len(),
        asked,
        "it is left alone"
    );

    let uid = cluster.uid().context("no UID")?;
    let lease: Lease = serde_json::from_value(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": wake_lease(&uid), "labels": {
            // The second one only because tests share an API (`support::scope`).
            LABEL_TENANT_UID: uid, LABEL_TENANT_NAMESPACE: site.users,
        } },
        "spec": { "holderIdentity": "192.0.2.7", "renewTime": format!("{:.6}", Timestamp::now()) },
    }))?;
    let leases = Api::<Lease>::namespaced(site.admin.clone(), &site.system);
    leases.create(&PostParams::default(), &lease).await?;
    let is_woken = |cluster: &TenantCluster| {
        phase(cluster) == Some(HibernationPhase::Awake) && is_ready(cluster)
    };
    site.wait("demo", is_woken).await?;
    assert_eq!(replicas(&site, &namespace).await?, running);

    site.change(
        "demo",
        &json!({ "spec": { "hibernation": { "enabled": false } } }),
    )
    .await?;
    site.wait("demo", |cluster| phase(cluster).is_none())
        .await?;
    site.change(
        "demo",
        &json!({ "spec": { "hibernation": { "enabled": true } } }),
    )
    .await?;
    site.wait("demo", is_asleep).await?;
    site.change("demo", &json!({ "spec": { "hibernation": null } }))
        .await?;
    let is_awake = |cluster: &TenantCluster| phase(cluster).is_none() && is_ready(cluster);
    site.wait("demo", is_awake).await?;
    assert_eq!(replicas(&site, &namespace).await?, running);
    assert_eq!(uids(&site, &namespace).await?, before);
    Ok(())
}

/// A moment of each day, as a schedule names it.
fn daily(moment: Timestamp) -> String {
    let time = TimeZone::UTC.to_datetime(moment);
    format!("{} {} * * *", time.minute(), time.hour())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_cluster_sleeps_and_wakes_by_schedule_without_anybody() -> Result<()> {
    let Some((site, _operator, cluster)) = settled("schedule").await? else {
        return Ok(());
    };
    let namespace = tenant_namespace(&cluster);
    let running = replicas(&site, &namespace).await?;
    // It was to sleep already; and wakes when the clock says so, at a full minute.
    let now = Timestamp::now();
    let schedule = json!({
        "sleep": daily(now - SignedDuration::from_secs(120)),
        "wake": daily(now + SignedDuration::from_secs(120)),
    });
    site.change(
        "demo",
        &json!({ "spec": { "hibernation": { "schedules": [schedule] } } }),
    )
    .await?;
    let is_asleep = |cluster: &TenantCluster| phase(cluster) == Some(HibernationPhase::Asleep);
    site.wait("demo", is_asleep).await?;
    assert_eq!(replicas(&site, &namespace).await?, [0, 0, 0]);
    let is_awake = |cluster: Option<&TenantCluster>| {
        cluster.is_some_and(|cluster| phase(cluster).is_none() && is_ready(cluster))
    };
    wait_for(&site.clusters(), "demo", is_awake, 3 * PATIENCE).await?;
    assert_eq!(replicas(&site, &namespace).await?, running);
    Ok(())
}

/// A pod of the activator that is ready, as far as the API knows.
async fn activator(site: &Site, address: &str) -> Result<()> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "activator-0", "labels": { LABEL_COMPONENT: COMPONENT_ACTIVATOR } },
        "spec": {
            "serviceAccountName": "activator", "automountServiceAccountToken": false,
            "containers": [{ "name": "activator", "image": "example.com/activator" }],
        },
    });
    let params = PatchParams::apply("test").force();
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "activator" },
    });
    let accounts = Api::<ServiceAccount>::namespaced(site.admin.clone(), &site.system);
    accounts
        .patch("activator", &params, &Patch::Apply(account))
        .await?;
    let pods = Api::<Pod>::namespaced(site.admin.clone(), &site.system);
    pods.patch("activator-0", &params, &Patch::Apply(pod))
        .await?;
    let status = json!({ "status": { "podIP": address, "podIPs": [{ "ip": address }], "conditions": [
        { "type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T12:00:00Z" }] } });
    let params = PatchParams::default();
    pods.patch_status("activator-0", &params, &Patch::Merge(status))
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_one_that_sleeps_are_led_to_the_activator_also_when_it_moves() -> Result<()> {
    let Some((site, _operator, cluster)) = settled("place").await? else {
        return Ok(());
    };
    let namespace = tenant_namespace(&cluster);
    activator(&site, "10.0.9.1").await?;
    site.change(
        "demo",
        &json!({ "spec": { "hibernation": { "enabled": true } } }),
    )
    .await?;
    let is_asleep = |cluster: &TenantCluster| phase(cluster) == Some(HibernationPhase::Asleep);
    site.wait("demo", is_asleep).await?;
    let maps = Api::<ConfigMap>::namespaced(site.admin.clone(), &site.system);
    let data = maps.get(SLEEPERS).await?.data.unwrap_or_default();
    let (port, text) = data.first_key_value().context("no port")?;
    let sleeper: Sleeper = serde_json::from_str(text)?;
    assert_eq!((Some(sleeper.uid), sleeper.server), (cluster.uid(), None));
    let port: i32 = port.parse()?;
    let slices = Api::<EndpointSlice>::namespaced(site.admin.clone(), &namespace);
    let leads = |slice: &EndpointSlice, address: &str| {
        let mut ports = slice.ports.iter().flatten();
        let all: Vec<_> = slice.endpoints.iter().flat_map(|e| &e.addresses).collect();
        ports.any(|found| found.port == Some(port)) && all == [address]
    };
    let name = names::ACTIVATOR_SLICE;
    let first = |slice: Option<&EndpointSlice>| slice.is_some_and(|s| leads(s, "10.0.9.1"));
    wait_for(&slices, name, first, PATIENCE).await?;
    activator(&site, "10.0.9.2").await?;
    let moved = |slice: Option<&EndpointSlice>| slice.is_some_and(|s| leads(s, "10.0.9.2"));
    wait_for(&slices, name, moved, PATIENCE).await?;

    site.change(
        "demo",
        &json!({ "spec": { "hibernation": { "enabled": false } } }),
    )
    .await?;
    site.wait("demo", is_ready).await?;
    wait_gone(&slices, name, PATIENCE).await?;
    let is_free = |map: Option<&ConfigMap>| {
        map.is_some_and(|map| map.data.as_ref().is_none_or(BTreeMap::is_empty))
    };
    wait_for(&maps, SLEEPERS, is_free, PATIENCE).await?;
    site.wait("demo", |cluster| phase(cluster).is_none())
        .await?;
    Ok(())
}
