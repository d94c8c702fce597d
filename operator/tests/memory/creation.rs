//! The operator dies after its k-th write, for every k of a creation, and before every third; another one, which
//! knows nothing, brings the same end about. With `COVEY_ALL=1` it dies before every one, too, and writes inside
//! the tenant cluster count.
//!
//! Invariant: no k is left out: lives go on until one outlives its death. One that dies before a write leaves what
//! one leaves that died after the write before, but where writes are under way side by side ([`Deaths`]). T1 has
//! the same test on a real server (`t1/crash.rs`), with fewer deaths.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use api::TenantCluster;
use kit_objects::kinds;
use serde_json::{Value, json};
use tenant_cp::names::{AUTHORITIES, ENCRYPTION, SERVICE_ACCOUNT};
use testkit::FaultPlan;
use testkit::faults::{Deaths, Ledger};
use testkit::memory::recording::Recording;

use crate::Site;
use crate::operator::Operator;
use crate::site::{is_settled, tenant_namespace};
use crate::state::{State, differences};

const NAME: &str = "demo";
/// Lives at the same time: each waits most of its time for pauses of the operator.
const LANES: usize = 16;
/// Before one write in so many it dies, besides after each.
const BEFORE: u64 = 3;

/// The operator's work until it dies or has ended, then another one's. Gives whether it died, and what
/// there is in the end.
pub(crate) async fn life(site: &Site, plan: &FaultPlan) -> Result<(bool, State)> {
    let operator = Operator::start(site, plan)?;
    let cluster = site.create(NAME).await?;
    let died = operator
        .dies(Box::pin(operator.comes_up(site, NAME)))
        .await?;
    drop(operator);
    let was = identity(site, &cluster).await?;
    let operator = Operator::start(site, &FaultPlan::none())?;
    operator
        .comes_up(site, NAME)
        .await
        .context("the second operator")?;
    for (name, data) in identity(site, &cluster).await? {
        let before = was.get(&name);
        ensure!(
            before.is_none_or(|before| *before == data),
            "Secret {name} was made anew"
        );
    }
    let namespaces = site.tenant_namespaces().await?;
    ensure!(
        namespaces == [tenant_namespace(&cluster)],
        "not one namespace: {namespaces:?}"
    );
    // On a machine where everything takes long, the operator may have taken this tenant's API for silent
    // since it was up, and asks again by itself.
    let mut state = loop {
        site.wait_ready(NAME).await?;
        let state = site.state(NAME).await?;
        let now = site.clusters().get(NAME).await?;
        if is_settled(&now) {
            break state;
        }
    };
    state.insert("inside".to_owned(), site.inside(&cluster));
    Ok((died, state))
}

/// What must never change once it is there: the data of the Secrets that are created once.
async fn identity(site: &Site, cluster: &TenantCluster) -> Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    let secrets = site.objects(kinds::SECRET, &tenant_namespace(cluster));
    for name in AUTHORITIES.into_iter().chain([SERVICE_ACCOUNT, ENCRYPTION]) {
        if let Some(secret) = secrets.get_opt(name).await? {
            found.insert(name.to_owned(), secret.data["data"].clone());
        }
    }
    Ok(found)
}

/// One life in memory, which asks nothing that was never recorded.
async fn in_memory(recording: &Recording, plan: &FaultPlan) -> Result<(bool, State)> {
    let site = Site::in_memory(recording).await?;
    // The operator would ask again until nobody waits for it any more.
    let result = tokio::select! {
        biased;
        () = site.refuses() => Err(anyhow::anyhow!("record it anew (docs/testing.md)")),
        result = Box::pin(life(&site, plan)) => result,
    };
    let refused = site.refused();
    ensure!(
        refused.is_empty(),
        "these requests were never recorded: {refused:#?}"
    );
    result
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_creation_ends_the_same_before_whichever_write_the_operator_dies() -> Result<()> {
    ends_the_same(Deaths::asked_for_before(BEFORE)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_creation_ends_the_same_after_whichever_write_the_operator_dies() -> Result<()> {
    ends_the_same(Deaths::After).await
}

async fn ends_the_same(deaths: Deaths) -> Result<()> {
    let recording = Arc::new(crate::real::recording()?);
    let whole = FaultPlan::none();
    let (died, expected) = Box::pin(in_memory(&recording, &whole)).await?;
    ensure!(!died, "it died without faults");
    let expected = Arc::new(expected);
    // Of the first operator, until it rested.
    let counted = whole.writes();
    let ledger = Arc::new(Ledger::new(deaths).expecting(counted));
    let lanes = (0..LANES).map(|_| {
        let (ledger, recording, expected) = (
            Arc::clone(&ledger),
            Arc::clone(&recording),
            Arc::clone(&expected),
        );
        tokio::spawn(async move {
            while let Some(crash) = ledger.next() {
                let plan = FaultPlan::none();
                plan.arm(crash);
                let what = || format!("died at the write {crash:?}");
                let (died, state) = Box::pin(in_memory(&recording, &plan))
                    .await
                    .with_context(what)?;
                let different = differences(&expected, &state);
                ensure!(
                    different.is_empty(),
                    "{}: not the same end:\n{}",
                    what(),
                    different.join("\n")
                );
                ledger.ended(crash, died);
            }
            anyhow::Ok(())
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await??;
    }
    // One side only; the other is 0.
    let outlived = ledger.outlived().into_iter().max().unwrap_or_default();
    eprintln!("{deaths:?}: {counted} writes, outlived the death at write {outlived}");
    // 29 objects, the finalizer, and the address ranges in the status, as in T1.
    let inside = expected["inside"].as_array().map_or(0, Vec::len) as u64;
    ensure!(
        inside > 0,
        "nothing was written inside: {}",
        json!(*expected)
    );
    let all = Deaths::asked_for() == Deaths::BothSides;
    let least = 31 + if all { inside } else { 0 };
    ensure!(
        counted >= least && outlived > least,
        "a creation has fewer writes than it must have: {counted}, outlived {outlived}, and not {least}"
    );
    Ok(())
}
