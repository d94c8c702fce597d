//! What the management cluster refuses, or does not do, reaches the caller with the code that the
//! sidecars need and a sentence.
//!
//! Invariant: nothing that is not the driver's is changed.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::api::{Patch, PatchParams};
use proto::csi::volume_content_source::{Type as Source, VolumeSource};
use proto::csi::{
    CapacityRange, ControllerExpandVolumeRequest, GetCapacityRequest, VolumeContentSource,
};
use serde_json::json;
use testkit::FaultPlan;
use tonic::Code;

use crate::support::driver::{create, mount};
use crate::support::{Driver, Environment, Fakes, Mode};

/// How long a driver waits that is to wait in vain. What has to succeed is asked of another one.
const HASTE: Duration = Duration::from_millis(800);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn used_up_quota_and_full_storage_are_told_apart() -> Result<()> {
    let Some(environment) = Environment::new("quota").await? else {
        return Ok(());
    };
    let fakes = Fakes::start(&environment);
    let hasty = Driver::hasty(&environment, HASTE).await?;
    fakes.set(Mode::Full);
    let full = hasty.told_in_vain("the platform has no room", async || {
        hasty.create("full").await
    });
    full.await?;
    drop(hasty);
    let driver = Driver::start(&environment).await?;
    fakes.set(Mode::Works);
    assert_eq!(driver.create("full").await?, "vol-full");

    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": "volumes", "namespace": environment.ns },
        "spec": { "hard": { "persistentvolumeclaims": "1" } },
    });
    environment.apply(&quota).await?;
    // No controller counts here.
    let quotas: kube::Api<k8s_openapi::api::core::v1::ResourceQuota> =
        kube::Api::namespaced(environment.admin.clone(), &environment.ns);
    let count = json!({ "persistentvolumeclaims": "1" });
    let status = Patch::Merge(json!({ "status": { "hard": count, "used": count } }));
    quotas
        .patch_status("volumes", &PatchParams::default(), &status)
        .await?;
    // The API server's admission may not have seen the quota yet.
    let seen = async {
        let mut calls = tokio::time::interval(Duration::from_millis(50));
        loop {
            calls.tick().await;
            match driver.create("over").await {
                Err(refusal) => return anyhow::Ok(refusal),
                Ok(id) => driver.delete(&id).await?,
            }
        }
    };
    let over = tokio::time::timeout(crate::support::PATIENCE, seen).await;
    let over = over.context("the quota counts nothing")??;
    assert_eq!(over.code(), Code::ResourceExhausted, "{over:?}");
    assert!(over.message().contains("have the quota"), "{over:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storage_that_nobody_calls_zeroed_gives_no_volume_and_leaves_no_claim() -> Result<()> {
    let Some(environment) = Environment::new("zeroed").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    let mut settings = environment.settings();
    settings.offer.classes[0].zeroed = false;
    let driver = Driver::with(&environment, settings, &FaultPlan::none()).await?;
    let refusal = driver.create("fresh").await.unwrap_err();
    assert_eq!(refusal.code(), Code::FailedPrecondition, "{refusal:?}");
    assert!(refusal.message().contains("set `zeroed`"), "{refusal:?}");
    let claims = environment.claims().list(&Default::default()).await?;
    assert!(claims.items.is_empty(), "{claims:?}");
    // There is no reason for a pod to wait for room: what is wrong is told to the claim.
    let mut controller = driver.controller();
    let any = GetCapacityRequest::default();
    let capacity = controller.get_capacity(any).await?.into_inner();
    assert_eq!(capacity.available_capacity, i64::MAX);
    let unknown = GetCapacityRequest {
        parameters: [("class".to_owned(), "of-nobody".to_owned())].into(),
        ..Default::default()
    };
    let capacity = controller.get_capacity(unknown).await?.into_inner();
    assert_eq!(capacity.available_capacity, i64::MAX);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clone_is_asked_of_storage_and_of_what_is_not_there_refused() -> Result<()> {
    let Some(environment) = Environment::new("clone").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    let driver = Driver::start(&environment).await?;
    let mut request = create("copy", 0);
    let source = |id: &str| VolumeContentSource {
        r#type: Some(Source::Volume(VolumeSource {
            volume_id: id.to_owned(),
        })),
    };
    request.volume_content_source = Some(source("vol-first"));
    let refusal = driver.controller().create_volume(request.clone()).await;
    assert_eq!(refusal.unwrap_err().code(), Code::NotFound);
    driver.create("first").await?;
    let made = driver.controller().create_volume(request).await?;
    let made = made.into_inner().volume.unwrap();
    assert_eq!(made.content_source, Some(source("vol-first")));
    let claim = environment.claims().get(&made.volume_id).await?;
    let named = claim.spec.unwrap().data_source.map(|source| source.name);
    assert_eq!(named.as_deref(), Some("vol-first"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_others_are_neither_used_nor_deleted() -> Result<()> {
    let Some(environment) = Environment::new("foreign").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    let driver = Driver::start(&environment).await?;
    environment.machine("a").await?;
    for name in ["data-etcd-0", "vol-theirs"] {
        environment
            .apply(&json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": { "name": name, "namespace": environment.ns },
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "ceph",
                    "resources": { "requests": { "storage": "1Gi" } },
                },
            }))
            .await?;
        driver.delete(name).await?;
        let claim = environment.claims().get(name).await?;
        assert_eq!(
            claim.metadata.deletion_timestamp, None,
            "{name} is not ours"
        );
        let refusal = driver.publish(name, "a").await.unwrap_err();
        assert_eq!(refusal.code(), Code::NotFound, "{refusal:?}");
    }
    let taken = driver.create("theirs").await.unwrap_err();
    assert_eq!(taken.code(), Code::AlreadyExists, "{taken:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expansion_that_cannot_be_had_is_told_and_taken_back() -> Result<()> {
    const GIB: i64 = 1 << 30;
    let Some(environment) = Environment::new("infeasible").await? else {
        return Ok(());
    };
    let fakes = Fakes::start(&environment);
    let driver = Driver::start(&environment).await?;
    let id = driver.create("pvc-1").await?;
    drop(fakes);
    let expand = |required_bytes| ControllerExpandVolumeRequest {
        volume_id: id.clone(),
        capacity_range: Some(CapacityRange {
            required_bytes,
            limit_bytes: 0,
        }),
        volume_capability: Some(mount()),
        ..Default::default()
    };
    let hasty = Driver::hasty(&environment, HASTE).await?;
    let mut controller = hasty.controller();
    let vain = controller.controller_expand_volume(expand(800 * GIB)).await;
    assert_eq!(vain.unwrap_err().code(), Code::DeadlineExceeded);
    // As the resizer of the management cluster writes it.
    let status = json!({ "status": {
        "allocatedResources": { "storage": (800 * GIB).to_string() },
        "allocatedResourceStatuses": { "storage": "ControllerResizeInfeasible" },
    } });
    environment
        .claims()
        .patch_status(&id, &PatchParams::default(), &Patch::Merge(status))
        .await?;
    // The driver may not have seen it yet.
    let told = async {
        loop {
            let vain = controller.controller_expand_volume(expand(800 * GIB)).await;
            let status = vain.unwrap_err();
            if status.code() != Code::DeadlineExceeded {
                return status;
            }
        }
    };
    let told = tokio::time::timeout(crate::support::PATIENCE, told).await?;
    assert_eq!(told.code(), Code::OutOfRange, "{told:?}");
    assert!(told.message().contains("lower the request"), "{told:?}");
    let lowered = controller.controller_expand_volume(expand(2 * GIB)).await;
    assert_eq!(
        lowered.unwrap_err().code(),
        Code::DeadlineExceeded,
        "it is under way"
    );
    let claim = environment.claims().get(&id).await?;
    let requests = claim.spec.unwrap().resources.unwrap().requests.unwrap();
    let asked = kit_objects::quantity::bytes(&requests["storage"].0);
    assert_eq!(asked, Some(2 * GIB));
    let _fakes = Fakes::start(&environment);
    let grown = driver
        .controller()
        .controller_expand_volume(expand(2 * GIB))
        .await?;
    assert_eq!(grown.into_inner().capacity_bytes, 2 * GIB);
    Ok(())
}
