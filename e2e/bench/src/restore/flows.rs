//! What steady clients have of what is done with members of etcd on purpose: all of them are rolled, their number changes,
//! their files are written anew, and they move to another StorageClass.
//!
//! Two clients ask beside each other: one over HTTP/2 that tries nothing again, and one over HTTP/1.1 that tries again what
//! the stock client does. Invariant: what was acknowledged meanwhile is looked for afterwards with all the rest.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt as _};
use lab::SECOND_CLASS;
use serde::Serialize;
use serde_json::{Value, json};
use suites::cluster::Tenant;
use suites::scenario::steady::{Outcome, Steady, Wire};

use super::figures::Ack;
use super::load::{Load, drain, fill};
use super::options::{BESIDE, Options, ready};
use crate::round;

/// MiB that are written and deleted before files are written anew: more than a start gives back at least
/// (`--bootstrap-defrag-threshold-megabytes`), and less than the quota.
const FREE_MIB: usize = 160;
/// After so long a kube-apiserver has had etcd drop what was deleted before: it does so every five minutes, with what is as
/// old (`--etcd-compaction-interval`).
const COMPACTED: Duration = Duration::from_secs(11 * 60);
/// Says of a StorageClass that it is the default one.
const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// The same of both clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Over<T> {
    /// Of the one over HTTP/2; nothing is tried again.
    pub http2: T,
    /// Of the one over HTTP/1.1, with what the stock client tries again.
    pub http1: T,
}

impl<T: Display> Over<T> {
    /// For people.
    pub(super) fn told(&self) -> String {
        format!("{} / {}", self.http2, self.http1)
    }
}

/// What the clients had of one of them (60 requests a second each).
#[derive(Clone, Copy, Debug, Default)]
pub struct Flow {
    /// Requests that failed.
    pub failed: Over<u64>,
    /// Those that were answered.
    pub answered: Over<u64>,
    /// Longest time without an answer of one kind, seconds.
    pub gap_s: Over<f64>,
    /// How long it took, seconds.
    pub took_s: f64,
}

impl Flow {
    /// Takes in the same, done once more.
    pub(super) fn add(&mut self, other: &Self) {
        let sum = |one: Over<u64>, other: Over<u64>| Over {
            http2: one.http2 + other.http2,
            http1: one.http1 + other.http1,
        };
        self.failed = sum(self.failed, other.failed);
        self.answered = sum(self.answered, other.answered);
        self.gap_s = Over {
            http2: self.gap_s.http2.max(other.gap_s.http2),
            http1: self.gap_s.http1.max(other.gap_s.http1),
        };
        self.took_s = round(self.took_s + other.took_s);
    }
}

/// Both clients at work.
pub(super) struct Both {
    http2: Steady,
    http1: Steady,
}

impl Both {
    pub(super) async fn start(kubeconfig: &str) -> Result<Self> {
        Ok(Self {
            http2: Steady::start_over(kubeconfig, Wire::Http2).await?,
            http1: Steady::start_over(kubeconfig, Wire::Http1WithRetry).await?,
        })
    }

    /// What they had, and their failures in words.
    pub(super) async fn finish(self, took: Duration) -> Result<(Flow, Vec<String>)> {
        let (http2, http1) = (self.http2.finish().await?, self.http1.finish().await?);
        let of = |what: fn(&Outcome) -> u64| Over {
            http2: what(&http2),
            http1: what(&http1),
        };
        let gap = |outcome: &Outcome| round(outcome.gap().as_secs_f64());
        let flow = Flow {
            failed: of(Outcome::failed),
            answered: of(Outcome::answered),
            gap_s: Over {
                http2: gap(&http2),
                http1: gap(&http1),
            },
            took_s: round(took.as_secs_f64()),
        };
        let words = |wire: &'static str, outcome: &Outcome| {
            let failures = outcome.failures().into_iter();
            failures.map(move |words| format!("{wire}: {words}"))
        };
        let notes = words("HTTP/2", &http2).chain(words("HTTP/1.1", &http1));
        Ok((flow, notes.collect()))
    }
}

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
) -> Result<Measured> {
    let mut measured = Measured::default();
    let second = json!({ "storage": { "storageClassName": SECOND_CLASS } });
    for (name, change, members) in [
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
    ] {
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
        measured.flows.insert(name, flow);
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
    tenant.settled(options.patience).await?;
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
