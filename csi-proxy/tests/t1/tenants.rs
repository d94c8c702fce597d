//! A tenant's administrator who names volumes and machines of another tenant, or writes paths for names.
//!
//! Invariant: both tenants are in one management API, each driver with the account of its own namespace.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use kube::ResourceExt;
use kube::api::ListParams;
use proto::csi::volume_content_source::{Type as Source, VolumeSource};
use proto::csi::{
    CapacityRange, ControllerExpandVolumeRequest, CreateSnapshotRequest, VolumeContentSource,
};
use tonic::Status;

use crate::support::driver::{create, mount};
use crate::support::{Driver, Environment, Fakes};

const GIB: i64 = 1 << 30;

/// What is wanted of everything in a tenant namespace: claims with what is written on them, and how often
/// virtual machines were changed.
pub(crate) async fn wanted(environment: &Environment) -> Result<BTreeMap<String, String>> {
    let all = ListParams::default();
    let claims = environment.claims().list(&all).await?.items.into_iter();
    let claims = claims.map(|claim| {
        let (name, meta) = (claim.name_any(), &claim.metadata);
        let gone = &meta.deletion_timestamp;
        let says = format!("{:?} {gone:?} {:?}", meta.annotations, claim.spec);
        (name, says)
    });
    let vms = environment.vms().list(&all).await?.items.into_iter();
    let vms = vms.map(|vm| (vm.name_any(), format!("{:?}", vm.metadata.generation)));
    Ok(claims.chain(vms).collect())
}

/// Everything that can be asked with the name of a volume. What is not there may be detached and deleted as
/// often as one likes; all else is refused.
async fn ask(driver: &Driver, volume: &str, machine: &str) -> Result<()> {
    let refused = |what: &str, answer: Result<(), Status>| {
        ensure!(answer.is_err(), "{what} of {volume:?} is done");
        Ok(())
    };
    for node in [machine, "a", ""] {
        let _ = driver.unpublish(volume, node).await;
    }
    let published = driver.publish(volume, "a").await;
    refused("publication", published.map(drop))?;
    let mut controller = driver.controller();
    let grown = ControllerExpandVolumeRequest {
        volume_id: volume.to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: 2 * GIB,
            limit_bytes: 0,
        }),
        volume_capability: Some(mount()),
        ..Default::default()
    };
    let grown = controller.controller_expand_volume(grown).await;
    refused("expansion", grown.map(drop))?;
    let cut = CreateSnapshotRequest {
        source_volume_id: volume.to_owned(),
        name: "stolen".to_owned(),
        ..Default::default()
    };
    let cut = controller.create_snapshot(cut).await;
    refused("snapshot", cut.map(drop))?;
    let mut copy = create("copy", GIB);
    copy.volume_content_source = Some(VolumeContentSource {
        r#type: Some(Source::Volume(VolumeSource {
            volume_id: volume.to_owned(),
        })),
    });
    let copied = controller.create_volume(copy).await;
    refused("copy", copied.map(drop))?;
    let _ = driver.delete(volume).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volumes_and_machines_of_another_tenant_are_out_of_reach_by_whatever_name() -> Result<()> {
    let Some(hostile) = Environment::new("hostile").await? else {
        return Ok(());
    };
    let Some(victim) = Environment::new("victim").await? else {
        return Ok(());
    };
    let _fakes = [Fakes::start(&hostile), Fakes::start(&victim)];
    let (theirs, neighbour) = (
        Driver::start(&hostile).await?,
        Driver::start(&victim).await?,
    );
    hostile.machine("a").await?;
    victim.machine("v").await?;
    let precious = neighbour.create("precious").await?;
    neighbour.publish(&precious, "v").await?;
    let before = wanted(&victim).await?;
    let window = hostile.management.audit().window()?;

    // As static PersistentVolumes name them, which an administrator writes.
    let path = format!("../../{}/persistentvolumeclaims/{precious}", victim.ns);
    let query = format!("{precious}?dryRun=All");
    for volume in [
        precious.as_str(),
        path.as_str(),
        query.as_str(),
        "..",
        "vol-%2e%2e%2f",
    ] {
        ask(&theirs, volume, "v").await?;
    }
    // Their own volume into machines of others.
    let own = theirs.create("own").await?;
    let path = format!("../../{}/virtualmachines/v", victim.ns);
    for machine in ["v", path.as_str(), "?watch=1", ".."] {
        let published = theirs.publish(&own, machine).await;
        ensure!(published.is_err(), "{own} is in {machine:?}");
    }
    // A StorageClass of theirs with parameters of drivers that look at them.
    for (key, value) in [
        ("class", "somebody-elses"),
        ("infraStorageClassName", "local-ssd"),
        ("storageClassName", "local-ssd"),
        ("csi.storage.k8s.io/provisioner-secret-name", "admin"),
    ] {
        let mut request = create("parameters", GIB);
        request.parameters = [(key.to_owned(), value.to_owned())].into();
        let made = theirs.controller().create_volume(request).await;
        if let Some(volume) = made.ok().and_then(|made| made.into_inner().volume) {
            let claim = hostile.claims().get(&volume.volume_id).await?;
            let class = claim.spec.and_then(|spec| spec.storage_class_name);
            assert_eq!(class.as_deref(), Some("ceph"), "by {key}");
            theirs.delete(&volume.volume_id).await?;
        }
    }

    window.assert_stays_in(&hostile.user(), &hostile.ns)?;
    assert_eq!(wanted(&victim).await?, before);
    // What it does goes on.
    neighbour.unpublish(&precious, "v").await?;
    neighbour.delete(&precious).await?;
    Ok(())
}
