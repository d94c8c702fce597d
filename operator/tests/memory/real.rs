//! The API in memory, checked against a real one: by a recording that is kept, at any time, and where the
//! programs are there, by one that is made anew.
//!
//! Invariant: a flow that is tried in memory is recorded here, by the same code.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use testkit::FaultPlan;
use testkit::fixtures::tenant_namespace;
use testkit::memory::Memory;
use testkit::memory::recording::Recording;
use testkit::memory::replay;

use crate::Site;
use crate::creation::life;

/// Where the kept recording is, and where `COVEY_RECORD=<folder>` puts a new one.
const FILE: &str = "creation.jsonl";

/// The kept one.
pub(crate) fn recording() -> Result<Recording> {
    Recording::parse(include_str!("recordings/creation.jsonl"))
}

async fn same(recording: &Recording) -> Result<()> {
    let found = replay::differences(recording, &Memory::new()).await?;
    ensure!(
        found.is_empty(),
        "the API in memory answers otherwise in {} places:\n{}",
        found.len(),
        found.join("\n")
    );
    Ok(())
}

#[tokio::test]
async fn the_model_answers_what_was_recorded_as_the_real_server_did() -> Result<()> {
    let recording = recording()?;
    ensure!(
        recording.exchanges.len() > 100,
        "only {} exchanges",
        recording.exchanges.len()
    );
    same(&recording).await
}

#[test]
fn the_recording_is_of_the_kubernetes_that_the_lab_has() {
    let recorded = recording().unwrap().kubernetes;
    assert_eq!(
        recorded,
        testkit::memory::recording::version(),
        "record it anew: COVEY_RECORD=operator/tests/memory/recordings cargo test -p operator --test memory real"
    );
}

/// Records with `COVEY_RECORD`, and compares either way: timing differs from life to life, and so does
/// what is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_answers_a_new_creation_as_the_real_server_does() -> Result<()> {
    let Some(site) = Site::real().await? else {
        return Ok(());
    };
    let (died, _) = Box::pin(life(&site, &FaultPlan::none())).await?;
    ensure!(!died, "it died without faults");
    replace_a_pod(&site).await?;
    let recording = site.recording();
    if let Some(folder) = std::env::var_os("COVEY_RECORD") {
        let file = Path::new(&folder).join(FILE);
        std::fs::write(&file, recording.render()).with_context(|| file.display().to_string())?;
    }
    same(&recording).await
}

/// A life that dies makes a certificate twice, and then pods are replaced that have just been made
/// ([`testkit::FakeKubelet`] does it so).
async fn replace_a_pod(site: &Site) -> Result<()> {
    let cluster = site.clusters().get("demo").await?;
    let pods: Api<Pod> = Api::namespaced(site.admin.clone(), &tenant_namespace(&cluster));
    let touched = json!({ "metadata": { "annotations": { "example.com/touched": "1" } } });
    let patch = Patch::Merge(touched);
    pods.patch("control-plane-0", &PatchParams::default(), &patch)
        .await?;
    Ok(())
}
