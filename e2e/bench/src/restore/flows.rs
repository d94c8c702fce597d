//! What a steady client has of what is done with members of etcd on purpose: all of them are rolled, and their number
//! changes.
//!
//! Invariant: what was acknowledged meanwhile is looked for afterwards with all the rest.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};
use suites::cluster::Tenant;
use suites::scenario::steady::Steady;

use super::figures::Ack;
use super::load::Load;
use super::options::{BESIDE, Options, ready};
use crate::round;

/// What the client had of one of them (60 requests a second, none tried again).
#[derive(Clone, Debug, Default, Serialize)]
pub struct Flow {
    /// Requests that failed.
    pub failed: u64,
    /// Those that were answered.
    pub answered: u64,
    /// Longest time without an answer of one kind, seconds.
    pub gap_s: f64,
    /// How long it took, seconds.
    pub took_s: f64,
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
    tenant: &Tenant,
    kubeconfig: &str,
    load: &Load,
    options: &Options,
) -> Result<Measured> {
    let mut measured = Measured::default();
    for (name, change, members) in [
        ("rolling", json!({ "quotaBackendBytes": "768Mi" }), 3),
        ("three_to_one", json!({ "replicas": 1 }), 1),
        ("one_to_three", json!({ "replicas": 3 }), 3),
    ] {
        let steady = Steady::start(kubeconfig).await?;
        let goes = goes(tenant, &change, members, options);
        let (time, written) = load.write_during(BESIDE, goes).await?;
        let outcome = steady.finish().await?;
        measured.acks.extend(written.acks);
        let words = outcome.failures().into_iter();
        measured
            .notes
            .extend(words.map(|words| format!("{name}: {words}")));
        let flow = Flow {
            failed: outcome.failed(),
            answered: outcome.answered(),
            gap_s: round(outcome.gap().as_secs_f64()),
            took_s: round(time.as_secs_f64()),
        };
        measured.flows.insert(name, flow);
    }
    Ok(measured)
}

/// Changes etcd of the tenant cluster, and waits until that is done.
async fn goes(
    tenant: &Tenant,
    change: &Value,
    members: i32,
    options: &Options,
) -> Result<std::time::Duration> {
    let begun = std::time::Instant::now();
    tenant.change(&json!({ "etcd": change })).await?;
    tenant.settled(options.patience).await?;
    ready(tenant, members, options).await?;
    Ok(begun.elapsed())
}
