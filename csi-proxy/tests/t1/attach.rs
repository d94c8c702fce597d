//! Volumes go to machines and leave them.
//!
//! Invariant: attached is what the instance has, not what was asked for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use csi_proxy::names;
use futures::future::try_join_all;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{Patch, PatchParams};
use proto::csi::ListVolumesRequest;
use serde_json::json;
use testkit::FaultPlan;
use tonic::Code;

use crate::support::{Driver, Environment, Fakes, Mode};

/// How long a driver waits that is to wait in vain. What has to succeed is asked of another one.
const HASTE: Duration = Duration::from_millis(800);

async fn published(driver: &Driver) -> Result<Vec<Vec<String>>> {
    let listed = driver
        .controller()
        .list_volumes(ListVolumesRequest::default())
        .await?;
    let entries = listed.into_inner().entries.into_iter();
    Ok(entries
        .map(|entry| entry.status.unwrap().published_node_ids)
        .collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volume_is_on_one_machine_at_a_time_and_found_by_its_serial() -> Result<()> {
    let Some(environment) = Environment::new("attach").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    let driver = Driver::start(&environment).await?;
    environment.machine("a").await?;
    environment.machine("b").await?;
    let id = driver.create("pvc-1").await?;
    let serial = driver.publish(&id, "a").await?;
    assert_eq!(serial.len(), 20);
    let vm = environment.vm("a", |machine| machine.has(&id)).await?;
    let disks = vm.spec.template.spec.unwrap().domain.devices.disks.unwrap();
    let disk = disks.iter().find(|disk| disk.name == id).unwrap();
    assert_eq!(disk.serial.as_ref(), Some(&serial));
    environment
        .instance("a", |instance| instance.is_ready(&id))
        .await?;
    assert_eq!(published(&driver).await?, [["a"]]);
    assert_eq!(
        driver.publish(&id, "a").await?,
        serial,
        "it is there already"
    );

    let second = driver.publish(&id, "b").await.unwrap_err();
    assert_eq!(second.code(), Code::FailedPrecondition, "{second:?}");
    assert!(second.message().contains("machine a"), "{second:?}");
    let deleted = driver.delete(&id).await.unwrap_err();
    assert_eq!(deleted.code(), Code::FailedPrecondition, "{deleted:?}");
    let nowhere = driver.publish(&id, "c").await.unwrap_err();
    assert_eq!(nowhere.code(), Code::NotFound, "{nowhere:?}");

    driver.unpublish(&id, "a").await?;
    environment
        .instance("a", |instance| !instance.has(&id))
        .await?;
    driver.unpublish(&id, "a").await?;
    assert_eq!(driver.publish(&id, "b").await?, serial);
    driver.unpublish(&id, "").await?;
    driver.delete(&id).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_volumes_of_one_machine_take_at_most_ten_writes() -> Result<()> {
    let Some(environment) = Environment::new("fifty").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    let driver = Arc::new(Driver::start(&environment).await?);
    environment.machine("a").await?;
    let names = (0..50).map(|number| format!("n{number}"));
    let ids = try_join_all(names.map(|name| {
        let driver = Arc::clone(&driver);
        async move { driver.create(&name).await }
    }));
    let ids = ids.await?;
    let before = environment
        .vms()
        .get("a")
        .await?
        .metadata
        .generation
        .unwrap();
    let began = Instant::now();
    // Ten at a time, as the stock attacher does.
    let calls = futures::stream::iter(&ids)
        .map(|id| driver.publish(id, "a"))
        .buffer_unordered(10);
    let serials: Vec<_> = calls.try_collect().await?;
    let after = environment
        .vms()
        .get("a")
        .await?
        .metadata
        .generation
        .unwrap();
    eprintln!(
        "50 volumes were attached in {:.2?} by {} writes",
        began.elapsed(),
        after - before
    );
    assert!(after - before <= 10, "{} writes", after - before);
    assert_eq!(
        serials
            .iter()
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        50
    );
    environment
        .instance("a", |instance| ids.iter().all(|id| instance.is_ready(id)))
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attached_is_said_when_the_instance_is_ready_and_not_before() -> Result<()> {
    let Some(environment) = Environment::new("stuck").await? else {
        return Ok(());
    };
    let fakes = Fakes::start(&environment);
    let driver = Driver::start(&environment).await?;
    environment.machine("a").await?;
    let id = driver.create("pvc-1").await?;
    drop(driver);
    fakes.set(Mode::Stuck);
    let hasty = Driver::hasty(&environment, HASTE).await?;
    let call = async || hasty.publish(&id, "a").await;
    hasty
        .told_in_vain("KubeVirt calls it AttachedToNode; it goes on", call)
        .await?;
    assert_eq!(published(&hasty).await?, [[""; 0]]);
    drop(hasty);
    let driver = Driver::start(&environment).await?;
    fakes.set(Mode::Works);
    driver.publish(&id, "a").await?;
    assert_eq!(published(&driver).await?, [["a"]]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instance_that_outlives_its_virtual_machine_keeps_its_volumes() -> Result<()> {
    let Some(environment) = Environment::new("outlives").await? else {
        return Ok(());
    };
    let fakes = Fakes::start(&environment);
    let driver = Driver::start(&environment).await?;
    environment.machine("a").await?;
    environment.machine("b").await?;
    let id = driver.create("pvc-1").await?;
    driver.publish(&id, "a").await?;
    drop(driver);
    fakes.set(Mode::Clings);
    environment.vms().delete("a", &Default::default()).await?;
    let hasty = Driver::hasty(&environment, HASTE).await?;
    let call = async || hasty.unpublish(&id, "a").await;
    hasty.told_in_vain("may still write", call).await?;
    let moved = hasty.publish(&id, "b").await.unwrap_err();
    assert_eq!(moved.code(), Code::FailedPrecondition, "{moved:?}");
    assert!(moved.message().contains("machine a"), "{moved:?}");
    drop(hasty);
    let driver = Driver::start(&environment).await?;
    environment.vmis().delete("a", &Default::default()).await?;
    driver.unpublish(&id, "a").await?;
    driver.publish(&id, "b").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_that_is_taken_away_comes_back_and_an_orphan_goes() -> Result<()> {
    let Some(environment) = Environment::new("drift").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    let driver = Driver::start(&environment).await?;
    environment.machine("a").await?;
    let id = driver.create("pvc-1").await?;
    let serial = driver.publish(&id, "a").await?;
    let orphan = driver.create("orphan").await?;
    let source = json!({ "claimName": orphan, "hotpluggable": true });
    let patch = json!({ "spec": { "template": { "spec": {
        "volumes": [
            { "name": "root", "containerDisk": { "image": "root" } },
            { "name": orphan, "persistentVolumeClaim": source },
        ],
        "domain": { "devices": { "disks": [
            { "name": "root", "disk": { "bus": "virtio" } },
            { "name": orphan, "disk": { "bus": "scsi" } },
        ] } },
    } } } });
    environment
        .vms()
        .patch("a", &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    let mended = |machine: &csi_proxy::cache::objects::Machine| {
        machine.disk(&id).is_some_and(|disk| disk.serial == serial)
            && !machine.has(&orphan)
            && machine.slots().any(|slot| slot.name == "root")
    };
    environment.vm("a", mended).await?;
    environment
        .instance("a", |instance| {
            instance.is_ready(&id) && !instance.has(&orphan)
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volume_that_is_read_only_is_so_in_the_template() -> Result<()> {
    let Some(environment) = Environment::new("readonly").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    let driver = Driver::start(&environment).await?;
    environment.machine("a").await?;
    let id = driver.create("pvc-1").await?;
    let mut request = proto::csi::ControllerPublishVolumeRequest {
        volume_id: id.clone(),
        node_id: "a".to_owned(),
        volume_capability: Some(crate::support::driver::mount()),
        readonly: true,
        ..Default::default()
    };
    driver
        .controller()
        .controller_publish_volume(request.clone())
        .await?;
    environment
        .vm("a", |machine| {
            machine.disk(&id).is_some_and(|disk| disk.read_only)
        })
        .await?;
    request.readonly = false;
    let refusal = driver
        .controller()
        .controller_publish_volume(request)
        .await
        .unwrap_err();
    assert_eq!(refusal.code(), Code::AlreadyExists, "{refusal:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_begins_anew_writes_nothing_when_all_is_as_it_should_be() -> Result<()> {
    let Some(environment) = Environment::new("quiet").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    let first = Driver::start(&environment).await?;
    environment.machine("a").await?;
    let id = first.create("pvc-1").await?;
    first.publish(&id, "a").await?;
    drop(first);
    let second = Driver::with(&environment, environment.settings(), &FaultPlan::none()).await?;
    second.publish(&id, "a").await?;
    second.create("pvc-1").await?;
    assert_eq!(second.plan.writes(), 0);
    let claim = environment.claims().get(&id).await?;
    assert_eq!(
        claim.metadata.annotations.unwrap()[names::ANNOTATION_HELD],
        "a"
    );
    Ok(())
}
