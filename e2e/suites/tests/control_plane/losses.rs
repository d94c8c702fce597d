//! Needs: operator
//!
//! What a tenant cluster depends on is lost while it runs: the volume of its etcd, the address of its
//! load balancer. Nothing empty takes the place of data, nothing inside is deleted, and it is told.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use api::{ConditionType, condition, tenant_cluster::EndpointType};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::{ConfigMap, Event, PersistentVolumeClaim, Pod, Service},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams},
    runtime::watcher::Config,
};
use serde_json::json;
use suites::{
    cluster::{
        Tenant, drift,
        parts::gate_refused,
        wait::{wait_for, wait_list},
    },
    scenario::{self, PATIENCE, Scenario},
};

/// Nobody's in the lab: the test plays the load balancers of the management cluster.
const CLASS: &str = "example.com/losses";
/// Exit code of the start gate (docs/etcd.md).
const VOLUME_LOST: i32 = 10;
/// The only member of etcd, and its pod.
const MEMBER: &str = "etcd-0";

#[tokio::test]
async fn no_empty_tenant_cluster_takes_the_place_of_one_whose_volume_is_lost() {
    scenario::run("volume-lost", volume).await;
}

async fn volume(s: &Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    let admin = tenant.usable(PATIENCE).await?.client;
    let known = |cluster: &api::TenantCluster| {
        let etcd = cluster.status.as_ref()?.etcd.as_ref()?;
        let member = etcd.members.first()?;
        // It said so itself.
        etcd.cluster_id.as_ref().zip(member.id.as_ref())?;
        member.started.then(|| member.volume_uid.clone())
    };
    let uid = wait_for(&tenant.api(), "demo", "knows its etcd", PATIENCE, known).await?;
    tenant.settled(PATIENCE).await?;
    let data: Api<ConfigMap> = Api::default_namespaced(admin);
    let kept = ConfigMap {
        metadata: ObjectMeta {
            name: Some("kept".to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    data.create(&PostParams::default(), &kept).await?;

    let claims: Api<PersistentVolumeClaim> = tenant.parts();
    let claim = claims.get("data-etcd-0").await?;
    ensure!(claim.uid() == Some(uid), "the status knows another claim");
    claims
        .delete("data-etcd-0", &DeleteParams::default())
        .await?;
    let pods: Api<Pod> = tenant.parts();
    let now = DeleteParams::default().grace_period(0);
    let before = pods.delete(MEMBER, &now).await?;
    let before = before.left().and_then(|pod| pod.metadata.uid);

    told(s, &tenant, "VolumeLost").await?;
    // The StatefulSet makes both anew; the gate does not let etcd make a cluster of what is empty.
    wait_for(&pods, MEMBER, "does not start", PATIENCE, |pod| {
        let again = pod.metadata.uid != before;
        (again && gate_refused(pod) == Some(VOLUME_LOST)).then_some(())
    })
    .await?;
    let cluster = tenant.get().await?;
    let conditions = cluster.status.unwrap_or_default().conditions;
    ensure!(
        !condition::is_true(&conditions, ConditionType::Ready)
            && condition::is_true(&conditions, ConditionType::Degraded),
        "{conditions:?}"
    );
    let answer = data.list(&ListParams::default()).await;
    ensure!(answer.is_err(), "an empty cluster answers: {answer:?}");
    Ok(())
}

#[tokio::test]
async fn nothing_inside_is_deleted_while_the_load_balancer_has_no_address() {
    scenario::run("address-lost", address).await;
}

async fn address(s: &Scenario) -> Result<()> {
    let tenant = s
        .tenant("demo", |spec| {
            let endpoint = &mut spec.control_plane.endpoint;
            endpoint.type_ = EndpointType::LoadBalancer;
            endpoint.load_balancer_class = Some(CLASS.to_owned());
        })
        .await?;
    let services: Api<Service> = tenant.parts();
    wait_for(
        &services,
        "control-plane",
        "is made",
        PATIENCE,
        |_| Some(()),
    )
    .await?;
    // An address that leads there: the Service's own.
    let service = services.get("control-plane").await?;
    let ip = service.spec.and_then(|spec| spec.cluster_ip);
    let ip = ip.context("no ClusterIP")?;
    tenant.balance(&json!([{ "ip": ip }])).await?;
    let admin = tenant.usable(PATIENCE).await?.client;
    tenant.settled(PATIENCE).await?;
    let before = addons(&admin).await?;
    ensure!(!before.is_empty(), "there are no addons");
    let kubeconfig = tenant.kubeconfig(PATIENCE).await?;

    tenant.balance(&json!(null)).await?;
    let type_ = ConditionType::EndpointReady;
    let cluster = tenant.condition(type_, false, PATIENCE).await?;
    let status = cluster.status.unwrap_or_default();
    let lost = status.conditions.iter().find(|c| c.type_ == type_.as_str());
    ensure!(
        lost.is_some_and(|c| c.reason == "AddressLost" && c.message.contains(&ip)),
        "{lost:?}"
    );
    let host = status.endpoint.map(|endpoint| endpoint.host);
    ensure!(host.as_ref() == Some(&ip), "the endpoint is {host:?}");
    // Whatever the operator looks at inside next: something is changed there that it puts right.
    drift::spoil_and_wait(&admin, PATIENCE).await?;
    let after = addons(&admin).await?;
    ensure!(after == before, "before {before:?}, after {after:?}");

    tenant.balance(&json!([{ "ip": ip }])).await?;
    tenant.condition(type_, true, PATIENCE).await?;
    ensure!(tenant.kubeconfig(PATIENCE).await? == kubeconfig);
    Ok(())
}

/// Every object of an addon inside the tenant cluster, as `kind name`.
async fn addons(admin: &Client) -> Result<BTreeSet<String>> {
    let of_addons = ListParams::default().labels(api::names::LABEL_ADDON);
    let mut all = BTreeSet::new();
    let deployments = Api::<Deployment>::all(admin.clone());
    for object in deployments.list(&of_addons).await? {
        all.insert(format!("Deployment {}", object.name_any()));
    }
    let sets = Api::<DaemonSet>::all(admin.clone());
    for object in sets.list(&of_addons).await? {
        all.insert(format!("DaemonSet {}", object.name_any()));
    }
    let maps = Api::<ConfigMap>::all(admin.clone());
    for object in maps.list(&of_addons).await? {
        all.insert(format!("ConfigMap {}", object.name_any()));
    }
    Ok(all)
}

/// In a condition, and in an Event in the user's namespace.
async fn told(s: &Scenario, tenant: &Tenant, reason: &str) -> Result<()> {
    let what = format!("says {reason}");
    wait_for(&tenant.api(), &tenant.name, &what, PATIENCE, |cluster| {
        let conditions = &cluster.status.as_ref()?.conditions;
        let mut degraded = conditions.iter().filter(|c| c.type_ == "Degraded");
        degraded
            .any(|c| c.status == "True" && c.reason == reason)
            .then_some(())
    })
    .await?;
    let events: Api<Event> = Api::namespaced(s.client().clone(), &s.namespace);
    wait_list(&events, Config::default(), &what, PATIENCE, |all| {
        let mut told = all.values().filter_map(|event| event.reason.as_deref());
        told.any(|told| told == reason).then_some(())
    })
    .await
}
