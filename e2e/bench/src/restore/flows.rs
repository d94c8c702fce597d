//! What steady clients have of what is done with members of etcd on purpose: all of them are rolled, their number changes,
//! their files are written anew, and they move to another StorageClass.
//!
//! Two clients ask beside each other. Invariant: what was acknowledged meanwhile is looked for afterwards with all the rest.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt as _};
use lab::SECOND_CLASS;
use serde_json::{Value, json};
use suites::cluster::Tenant;

use super::figures::Ack;
use super::load::{Load, drain, fill};
use super::options::{BESIDE, BETWEEN, Options, ready};
use crate::clients::{Both, Flow};

/// MiB that are written and deleted before files are written anew: more than a start gives back at least
/// (`--bootstrap-defrag-threshold-megabytes`), and less than the quota.
const FREE_MIB: usize = 160;
/// After so long a kube-apiserver has had etcd drop what was deleted before: it does so every five minutes, with what is as
/// old (`--etcd-compaction-interval`).
const COMPACTED: Duration = Duration::from_secs(11 * 60);
/// Says of a StorageClass that it is the default one.
const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// All of them, in their order.
pub const FLOWS: [&str; 5] = [
    "rolling",
    "three_to_one",
    "one_to_three",
    "defragmentation",
    "storage_class",
];

/// What was measured of all of them.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) flows: BTreeMap<&'static str, Flow>,
    pub(super) acks: Vec<Ack>,
    pub(super) notes: Vec<String>,
}

/// Has each of them go its way, one after another, in a tenant cluster of three members; it has three again afterwards.
pub(super) async fn measure(
    management: &Client,
    tenant: &Tenant,
    kubeconfig: &str,
    load: &Load,
    options: &Options,
    say: &(dyn Fn(String) + Sync),
) -> Result<Measured> {
    let mut measured = Measured::default();
    let is_asked_for = |name: &str| options.flows.iter().any(|flow| flow == name);
    let second = json!({ "storage": { "storageClassName": SECOND_CLASS } });
    let flows = [
        ("rolling", json!({ "quotaBackendBytes": "768Mi" }), 3),
        ("three_to_one", json!({ "replicas": 1 }), 1),
        ("one_to_three", json!({ "replicas": 3 }), 3),
        // With room in their files members write them anew before they serve, as where the operator has them do so.
        (
            "defragmentation",
            json!({ "quotaBackendBytes": "800Mi" }),
            3,
        ),
        ("storage_class", second, 3),
    ];
    for (name, change, members) in flows.into_iter().filter(|(name, ..)| is_asked_for(name)) {
        match name {
            "defragmentation" => make_room(tenant, options).await?,
            "storage_class" => make_class(management).await?,
            _ => {}
        }
        let clients = Both::start(kubeconfig).await?;
        let goes = goes(tenant, &change, members, options);
        let (time, written) = load.write_during(BESIDE, goes).await?;
        let (flow, words) = clients.finish(time).await?;
        measured.acks.extend(written.acks);
        let words = words.into_iter();
        measured
            .notes
            .extend(words.map(|words| format!("{name}: {words}")));
        say(format!(
            "{name}: {:.1} s, {:?} requests failed, longest gap {:?} s",
            flow.took_s, flow.failed, flow.gap_s
        ));
        measured.flows.insert(name, flow);
    }
    if !is_asked_for("storage_class") {
        return Ok(measured);
    }
    // Volumes that are there do not need it any more.
    let classes: Api<StorageClass> = Api::all(management.clone());
    classes
        .delete(SECOND_CLASS, &DeleteParams::default())
        .await?;
    Ok(measured)
}

/// Changes etcd of the tenant cluster, and waits until that is done.
async fn goes(
    tenant: &Tenant,
    change: &Value,
    members: i32,
    options: &Options,
) -> Result<Duration> {
    let begun = Instant::now();
    tenant.change(&json!({ "etcd": change })).await?;
    // Two members wait for the one before them.
    tenant.settled(options.patience + 2 * BETWEEN).await?;
    ready(tenant, members, options).await?;
    Ok(begun.elapsed())
}

/// Has the files of all members be mostly free.
async fn make_room(tenant: &Tenant, options: &Options) -> Result<()> {
    let admin = tenant.admin(options.patience).await?;
    let maps: Api<ConfigMap> = Api::namespaced(admin, "kube-public");
    fill(&maps, FREE_MIB).await?;
    drain(&maps, FREE_MIB).await?;
    tokio::time::sleep(COMPACTED).await;
    Ok(())
}

/// Makes a second StorageClass of the default one's storage, so that one is enough in the lab.
async fn make_class(management: &Client) -> Result<()> {
    let classes: Api<StorageClass> = Api::all(management.clone());
    let all = classes.list(&ListParams::default()).await?;
    let is_default = |class: &StorageClass| {
        let says = class.annotations().get(DEFAULT);
        says.is_some_and(|says| says == "true")
    };
    let first = all.into_iter().find(is_default);
    let second = StorageClass {
        metadata: ObjectMeta {
            name: Some(SECOND_CLASS.to_owned()),
            ..ObjectMeta::default()
        },
        ..first.context("the lab has no default StorageClass")?
    };
    match classes.create(&PostParams::default(), &second).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        made => Ok(made.map(drop)?),
    }
}
