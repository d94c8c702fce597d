//! A tenant's administrator who means harm, or whose API is slow, takes a bounded part of the operator:
//! memory and time; and another tenant cluster is made meanwhile.
//!
//! Invariant: no time is compared. Memory is judged by what the tenant's stand-in could send, time by how
//! many of its slow answers one reconcile waited for.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::ByteString;
use kube::ResourceExt;
use serde_json::json;
use testkit::certs;
use testkit::fakes::tenant_api::Mode;

use crate::support::kubevirt::KubeVirt;
use crate::support::site::tenant_namespace;
use crate::support::{Operator, PATIENCE, Site, settled};

/// What the operator takes of one answer, and of one line of a watch.
const ANSWER: u64 = 4 << 20;
const LINE: u64 = 2 << 20;
/// What is under way when the reader stops: windows of HTTP/2 and buffers of sockets.
const UNDER_WAY: u64 = 8 << 20;

/// A tenant cluster that is ready, of whom everybody has forgotten what is inside.
async fn ready(prefix: &str, mode: Mode) -> Result<Option<(Site, Operator, String)>> {
    let Some((site, operator, cluster)) = settled(prefix).await? else {
        return Ok(None);
    };
    drop(operator);
    let ns = tenant_namespace(&cluster);
    assert!(site.tenants.set(&ns, mode));
    let operator = Operator::start(&site)?;
    Ok(Some((site, operator, ns)))
}

/// Another tenant cluster comes up.
async fn innocent_comes_up(site: &Site) -> Result<()> {
    site.create("innocent").await?;
    let ready = site.wait_ready("innocent").await;
    ready.map(drop).context("another tenant is held up")
}

/// No answer was taken beyond what is read of one.
fn is_bounded(site: &Site, ns: &str, most: u64) -> Result<()> {
    let played = site.tenants.played(ns);
    ensure!(!played.is_empty(), "nothing of it was asked for");
    let largest = played.iter().copied().max().unwrap_or_default();
    ensure!(
        largest <= most + UNDER_WAY,
        "{largest} bytes of one answer were sent"
    );
    Ok(())
}

/// The condition Ready says this.
async fn wait_told(site: &Site, words: &str) -> Result<()> {
    let told = site.wait("demo", |cluster| {
        let status = cluster.status.iter();
        let mut conditions = status.flat_map(|s| &s.conditions);
        conditions.any(|c| c.type_ == "Ready" && c.message.contains(words))
    });
    told.await.map(drop).context("nobody is told")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flood_of_large_objects_with_our_label_costs_their_metadata_only() -> Result<()> {
    let flood = Mode::Flood {
        objects: 400,
        bytes: 1_000_000,
    };
    let Some((site, operator, ns)) = ready("flood", flood).await? else {
        return Ok(());
    };
    innocent_comes_up(&site).await?;
    operator.reconcile(&site, "demo").await?;
    let played = site.tenants.played(&ns);
    let sum: u64 = played.iter().sum();
    ensure!(played.len() >= 8, "it was not listed: {played:?}");
    // Some 300 bytes each, however often it is listed.
    ensure!(sum <= ANSWER, "{sum} bytes were sent: {played:?}");
    site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_objects_with_our_label_than_are_looked_at_are_told() -> Result<()> {
    let flood = Mode::Flood {
        objects: 100_000,
        bytes: 1_000,
    };
    let Some((site, _operator, ns)) = ready("flood-many", flood).await? else {
        return Ok(());
    };
    wait_told(&site, "objects of the kind ConfigMap with the label").await?;
    innocent_comes_up(&site).await?;
    is_bounded(&site, &ns, ANSWER)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_body_is_cut_and_told() -> Result<()> {
    let Some((site, _operator, ns)) = ready("endless-body", Mode::EndlessBody).await? else {
        return Ok(());
    };
    site.tenants.wait_played(&ns, 2, PATIENCE).await?;
    // One answer, or all of those that were tried.
    wait_told(&site, " bytes").await?;
    innocent_comes_up(&site).await?;
    is_bounded(&site, &ns, ANSWER)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_line_of_a_watch_is_cut() -> Result<()> {
    let Some((site, _operator, ns)) = ready("endless-line", Mode::EndlessLine).await? else {
        return Ok(());
    };
    // More than there are watches: so some were given up, and came back.
    site.tenants.wait_played(&ns, 12, PATIENCE).await?;
    innocent_comes_up(&site).await?;
    is_bounded(&site, &ns, LINE)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_that_answers_slowly_is_not_waited_for_beyond_one_answer() -> Result<()> {
    let slow = Mode::Slow(Duration::from_millis(4900));
    let Some((site, _operator, ns)) = ready("slow", slow).await? else {
        return Ok(());
    };
    let before = site.tenants.calls(&ns).len();
    wait_told(&site, "within the 5 s that one reconcile waits").await?;
    innocent_comes_up(&site).await?;
    // After the version there is no time for a list: none of them was waited for to its end.
    let calls = site.tenants.calls(&ns).split_off(before);
    let lists: Vec<_> = calls.iter().filter(|call| call.verb == "list").collect();
    ensure!(lists.is_empty(), "{lists:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flood_of_requests_for_certificates_that_are_decided_slowly_holds_no_place() -> Result<()> {
    const FLOOD: usize = 1500;
    /// Two in the reconcile of the test and two in the operator's own, and as many again.
    const MOST: usize = 8;
    let Some(site) = Site::new("csr-flood").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    let _kubevirt = KubeVirt::start(&site);
    site.create("demo").await?;
    let ns = tenant_namespace(&site.wait_ready("demo").await?);
    site.create_pool("workers", 1).await?;
    site.wait_pool_ready("workers").await?;
    operator.settle_pool(&site, "demo", "workers").await?;
    let machine = site.machines_of("workers").await?.remove(0).name_any();
    let slow = Mode::SlowApprovals(Duration::from_secs(4));
    assert!(site.tenants.set(&ns, slow));
    let user = format!("system:node:{machine}");
    let pem = certs::request(&user, "system:nodes", &["another"])?;
    for number in 0..FLOOD {
        let path =
            format!("/apis/certificates.k8s.io/v1/certificatesigningrequests/flood-{number}");
        let request = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": { "name": format!("flood-{number}") },
            "spec": {
                "signerName": "kubernetes.io/kubelet-serving", "username": user,
                "groups": ["system:nodes", "system:authenticated"],
                "usages": ["digital signature", "server auth"],
                "request": ByteString(pem.clone().into_bytes()),
            },
        });
        assert!(site.tenants.put(&ns, &path, &request));
    }
    // Each of them is to be denied, and takes 4 s: of which the second is cut off already.
    site.tenants.wait_played(&ns, 1, PATIENCE).await?;
    tokio::select! {
        done = operator.reconcile_pool(&site, "workers") => done?,
        over = site.tenants.wait_played(&ns, MOST + 1, PATIENCE * 2) => {
            over?;
            anyhow::bail!("one reconcile waits for more than {MOST} slow answers");
        }
    }
    innocent_comes_up(&site).await
}
