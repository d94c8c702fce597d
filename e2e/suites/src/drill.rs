//! An accident in a tenant cluster, and the way back to the moment before it: what `cargo xtask drill restore` shows and
//! the suites prove.
//!
//! Invariant: each write is judged by name and UID; of those that were acknowledged so near to the moment that clocks and
//! the way to the backup decide, nothing is said.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use api::{ConditionType, Reason, Restore};
use futures::StreamExt as _;
use jiff::{RoundMode, SignedDuration, Timestamp, TimestampRound, Unit};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{
    DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::interval;

use crate::cluster::tenant::Tenant;
use crate::cluster::wait::wait_for;
use crate::scenario::{PATIENCE, Scenario};

/// Time between two writes.
const PERIOD: Duration = Duration::from_millis(100);
/// Of writes this near to the moment nothing is said.
const NEAR: SignedDuration = SignedDuration::from_secs(2);
/// How long the whole way back may take.
const RESTORED: Duration = Duration::from_secs(600);
/// Name of the TenantCluster and of its Restore.
const NAME: &str = "drill";

/// A ConfigMap that was acknowledged.
struct Marker {
    name: String,
    uid: String,
    at: Timestamp,
}

/// Makes a tenant cluster with so many members of etcd, has the accident in it and brings it back; tells of each step, and
/// how long after the Restore was made it was over. Before there is one, that is none.
///
/// # Errors
/// With what is not as it was at the moment.
pub async fn restore(
    s: &Scenario,
    members: i32,
    tell: &mut (dyn FnMut(Option<Duration>, &str) + Send),
) -> Result<()> {
    let target = s.backup_target().await?;
    let backup = json!({ "target": target, "delta": "1s" });
    let backup = serde_json::from_value(backup)?;
    let tenant = s
        .tenant(NAME, |spec| {
            spec.etcd.replicas = members;
            spec.backup = Some(backup);
        })
        .await?;
    let admin = tenant.usable(PATIENCE).await?.client;
    tell(None, "the tenant cluster takes writes");
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), "default");
    let mut markers = Vec::new();
    let backed_up = async {
        let ready = tenant.condition(ConditionType::BackupReady, true, RESTORED);
        ready.await.map(drop)
    };
    write(&maps, &mut markers, backed_up).await?;
    tell(None, "its backup was read again and is whole");
    write_until(&maps, &mut markers, Timestamp::now() + 2 * NEAR).await?;

    let to_the_second = TimestampRound::new()
        .smallest(Unit::Second)
        .mode(RoundMode::Trunc);
    let moment = Timestamp::now().round(to_the_second)?;
    write_until(&maps, &mut markers, moment + 2 * NEAR).await?;
    let system = system_uid(&admin).await?;
    let everything = ListParams::default();
    let background = DeleteParams::background();
    maps.delete_collection(&background, &everything).await?;
    let told = maps.list(&ListParams::default().limit(1)).await?;
    let told = told.metadata.resource_version.unwrap_or_default();
    let writes = markers.len();
    tell(
        None,
        &format!("accident: all of {writes} writes are deleted"),
    );

    let begun = Instant::now();
    way_back(s, moment, begun, tell).await?;
    let admin = usable(&tenant, &admin).await?;
    tell(Some(begun.elapsed()), "it takes writes");
    as_it_was(&maps, &markers, moment).await?;
    ensure!(
        system_uid(&admin).await? == system,
        "it is another cluster: kube-system has another UID"
    );
    expired(&maps, &told).await?;
    tenant.settled(RESTORED).await?;
    tell(
        Some(begun.elapsed()),
        "everything of before the moment is there, and nothing of after it",
    );
    confirm(s, &tenant).await?;
    tell(
        Some(begun.elapsed()),
        "confirmed, and what etcd had before is removed",
    );
    tenant.settled(RESTORED).await?;
    Ok(())
}

/// Writes one after another until `over` is.
async fn write(
    maps: &Api<ConfigMap>,
    markers: &mut Vec<Marker>,
    over: impl Future<Output = Result<()>>,
) -> Result<()> {
    let mut over = pin!(over);
    let mut ticks = interval(PERIOD);
    loop {
        tokio::select! {
            over = &mut over => return over,
            _ = ticks.tick() => {}
        }
        mark(maps, markers).await?;
    }
}

async fn write_until(
    maps: &Api<ConfigMap>,
    markers: &mut Vec<Marker>,
    time: Timestamp,
) -> Result<()> {
    let mut ticks = interval(PERIOD);
    while Timestamp::now() < time {
        ticks.tick().await;
        mark(maps, markers).await?;
    }
    Ok(())
}

async fn mark(maps: &Api<ConfigMap>, markers: &mut Vec<Marker>) -> Result<()> {
    let name = format!("marker-{}", markers.len());
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        ..ObjectMeta::default()
    };
    let map = ConfigMap {
        metadata,
        ..ConfigMap::default()
    };
    let made = maps.create(&PostParams::default(), &map).await?;
    markers.push(Marker {
        name,
        uid: made.metadata.uid.unwrap_or_default(),
        at: Timestamp::now(),
    });
    Ok(())
}

async fn system_uid(admin: &Client) -> Result<String> {
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    let system = namespaces.get("kube-system").await?;
    system.metadata.uid.context("it has no UID")
}

/// Makes the Restore, and waits until it says that it is over.
async fn way_back(
    s: &Scenario,
    moment: Timestamp,
    begun: Instant,
    tell: &mut (dyn FnMut(Option<Duration>, &str) + Send),
) -> Result<()> {
    let restores: Api<Restore> = Api::namespaced(s.client().clone(), &s.namespace);
    let restore = serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Restore",
        "metadata": { "name": NAME },
        "spec": { "clusterName": NAME, "at": { "time": moment.to_string() } },
    }))?;
    restores.create(&PostParams::default(), &restore).await?;
    let mut said = String::new();
    let ended = wait_for(&restores, NAME, "is over", RESTORED, |restore| {
        let conditions = &restore.status.as_ref()?.conditions;
        let last = ["Restored", "Possible"].iter().find_map(|type_| {
            let mut conditions = conditions.iter();
            conditions.find(|condition| condition.type_ == *type_)
        })?;
        let now = format!("{}: {}", last.reason, last.message);
        if now != said {
            tell(Some(begun.elapsed()), &now);
            said = now;
        }
        let over = [
            Reason::Restored,
            Reason::RestoreGivenUp,
            Reason::RestoreImpossible,
        ];
        over.into_iter().find(|reason| last.reason == *reason)
    });
    match ended.await? {
        Reason::Restored => Ok(()),
        _ => bail!("it was not restored: {said}"),
    }
}

/// Waits until a write is taken through the kubeconfig of before.
async fn usable(tenant: &Tenant, admin: &Client) -> Result<Client> {
    let again = tenant.usable(PATIENCE).await?.client;
    system_uid(admin).await.context("by the client of before")?;
    Ok(again)
}

/// Every marker that was acknowledged before is there, as the object that it was, and none that came later.
async fn as_it_was(maps: &Api<ConfigMap>, markers: &[Marker], moment: Timestamp) -> Result<()> {
    let there = maps.list_metadata(&ListParams::default()).await?;
    let there: BTreeMap<_, _> = there
        .items
        .into_iter()
        .filter_map(|map| Some((map.metadata.name?, map.metadata.uid?)))
        .collect();
    let (mut before, mut after) = (0, 0);
    for marker in markers {
        let uid = there.get(&marker.name);
        if marker.at < moment - NEAR {
            before += 1;
            let kept = uid == Some(&marker.uid);
            ensure!(kept, "{} of {} is lost", marker.name, marker.at);
        } else if marker.at > moment + NEAR {
            after += 1;
            let (name, at) = (&marker.name, marker.at);
            ensure!(
                uid.is_none(),
                "{name} of {at} is there, which came after {moment}"
            );
        }
    }
    ensure!(
        before > 0 && after > 0,
        "{before} writes before, {after} after"
    );
    Ok(())
}

/// Who watched before has to list anew: revisions of then mean nothing now.
async fn expired(maps: &Api<ConfigMap>, told: &str) -> Result<()> {
    let params = WatchParams::default().timeout(60);
    let events = match maps.watch(&params, told).await {
        Err(kube::Error::Api(status)) if status.code == 410 => return Ok(()),
        events => events?,
    };
    match pin!(events).next().await {
        Some(Ok(WatchEvent::Error(status))) if status.code == 410 => Ok(()),
        Some(Err(kube::Error::Api(status))) if status.code == 410 => Ok(()),
        other => bail!("a watch from revision {told} goes on: {other:?}"),
    }
}

async fn confirm(s: &Scenario, tenant: &Tenant) -> Result<()> {
    let restores: Api<Restore> = Api::namespaced(s.client().clone(), &s.namespace);
    let confirmed = Patch::Merge(json!({ "spec": { "confirmed": true } }));
    let params = PatchParams::default();
    restores.patch(NAME, &params, &confirmed).await?;
    let what = "what etcd had before is removed";
    wait_for(&tenant.api(), NAME, what, RESTORED, |cluster| {
        let status = cluster.status.as_ref()?;
        status.restore.is_none().then_some(())
    })
    .await
}
