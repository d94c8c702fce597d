//! The life of a volume that is never attached.
//!
//! Invariant: what is answered is compared with what the management cluster has.

use anyhow::{Context as _, Result};
use csi_proxy::mapping::topology::zone;
use proto::csi::controller_service_capability::Type as Capability;
use proto::csi::plugin_capability::service::Type as Part;
use proto::csi::plugin_capability::{Service, Type as PluginType};
use proto::csi::volume_content_source::{SnapshotSource, Type as Source};
use proto::csi::{
    CapacityRange, ControllerExpandVolumeRequest, ControllerGetCapabilitiesRequest,
    ControllerGetVolumeRequest, ControllerModifyVolumeRequest, CreateSnapshotRequest,
    DeleteSnapshotRequest, GetCapacityRequest, GetPluginCapabilitiesRequest, GetPluginInfoRequest,
    GetSnapshotRequest, ListSnapshotsRequest, ListVolumesRequest, ProbeRequest,
    TopologyRequirement, ValidateVolumeCapabilitiesRequest, VolumeContentSource,
};
use testkit::FaultPlan;
use testkit::fixtures::wait_gone;
use tonic::Code;

use crate::support::driver::{create, mount};
use crate::support::{Driver, Environment, Fakes, PATIENCE};

const GIB: i64 = 1 << 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volume_is_made_found_again_grows_and_goes() -> Result<()> {
    let Some(environment) = Environment::new("life").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    let driver = Driver::start(&environment).await?;
    let mut controller = driver.controller();
    // One byte more than storage counts in: the real size is answered, not the one asked for.
    let request = create("pvc-1", GIB + 1);
    let made = controller
        .create_volume(request.clone())
        .await?
        .into_inner()
        .volume
        .unwrap();
    assert_eq!(
        (made.volume_id.as_str(), made.capacity_bytes),
        ("vol-pvc-1", 2 * GIB)
    );
    let again = controller
        .create_volume(request)
        .await?
        .into_inner()
        .volume
        .unwrap();
    assert_eq!(again, made);
    let other = controller
        .create_volume(create("pvc-1", 5 * GIB))
        .await
        .unwrap_err();
    assert_eq!(other.code(), Code::AlreadyExists, "{other:?}");

    let validate = ValidateVolumeCapabilitiesRequest {
        volume_id: made.volume_id.clone(),
        volume_capabilities: vec![mount()],
        ..Default::default()
    };
    let valid = controller
        .validate_volume_capabilities(validate)
        .await?
        .into_inner();
    assert_eq!(valid.confirmed.unwrap().volume_capabilities, [mount()]);
    let get = ControllerGetVolumeRequest {
        volume_id: made.volume_id.clone(),
    };
    let got = controller
        .controller_get_volume(get.clone())
        .await?
        .into_inner();
    assert_eq!(got.volume.as_ref(), Some(&made));
    assert!(got.status.unwrap().published_node_ids.is_empty());

    let expand = |required_bytes| ControllerExpandVolumeRequest {
        volume_id: made.volume_id.clone(),
        capacity_range: Some(CapacityRange {
            required_bytes,
            limit_bytes: 0,
        }),
        volume_capability: Some(mount()),
        ..Default::default()
    };
    let grown = controller
        .controller_expand_volume(expand(3 * GIB))
        .await?
        .into_inner();
    assert_eq!(
        (grown.capacity_bytes, grown.node_expansion_required),
        (3 * GIB, true)
    );
    let same = controller
        .controller_expand_volume(expand(GIB))
        .await?
        .into_inner();
    assert_eq!(same.capacity_bytes, 3 * GIB, "a volume never shrinks");

    driver.delete(&made.volume_id).await?;
    wait_gone(&environment.claims(), &made.volume_id, PATIENCE).await?;
    driver.delete(&made.volume_id).await?;
    let gone = controller.controller_get_volume(get).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attributes_of_a_volume_are_changed_and_answered_when_storage_has_done_it() -> Result<()> {
    let Some(environment) = Environment::new("attributes").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    let mut settings = environment.settings();
    let gold = ("gold".to_owned(), "iops-9000".to_owned());
    settings.offer.classes[0].attributes = [gold].into();
    let driver = Driver::with(&environment, settings, &FaultPlan::none()).await?;
    let id = driver.create("pvc-1").await?;
    let modify = |word: &str| ControllerModifyVolumeRequest {
        volume_id: id.clone(),
        mutable_parameters: [("class".to_owned(), word.to_owned())].into(),
        ..Default::default()
    };
    let mut controller = driver.controller();
    let refusal = controller
        .controller_modify_volume(modify("iops-9000"))
        .await;
    let refusal = refusal.unwrap_err();
    assert_eq!(refusal.code(), Code::InvalidArgument, "{refusal:?}");
    assert!(refusal.message().contains("there are: gold"), "{refusal:?}");
    controller.controller_modify_volume(modify("gold")).await?;
    let claim = environment.claims().get(&id).await?;
    let spec = claim.spec.context("it has a specification")?;
    let name = spec.volume_attributes_class_name;
    assert_eq!(name.as_deref(), Some("iops-9000"));
    let has = claim
        .status
        .and_then(|status| status.current_volume_attributes_class_name);
    assert_eq!(has, name, "storage has not done it yet");
    let before = environment
        .claims()
        .get(&id)
        .await?
        .metadata
        .resource_version;
    controller.controller_modify_volume(modify("gold")).await?;
    let after = environment
        .claims()
        .get(&id)
        .await?
        .metadata
        .resource_version;
    assert_eq!(before, after, "nothing is written where nothing changes");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_shows_every_volume_page_by_page() -> Result<()> {
    let Some(environment) = Environment::new("list").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    let driver = Driver::start(&environment).await?;
    for name in ["a", "b", "c"] {
        driver.create(name).await?;
    }
    let (mut token, mut seen) = (String::new(), Vec::new());
    loop {
        let request = ListVolumesRequest {
            max_entries: 2,
            starting_token: token,
        };
        let page = driver
            .controller()
            .list_volumes(request)
            .await?
            .into_inner();
        seen.extend(
            page.entries
                .into_iter()
                .map(|entry| entry.volume.unwrap().volume_id),
        );
        token = page.next_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, ["vol-a", "vol-b", "vol-c"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_is_cut_restored_and_goes() -> Result<()> {
    let Some(environment) = Environment::new("snapshot").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    let driver = Driver::start(&environment).await?;
    let mut controller = driver.controller();
    let snapshot = |name: &str, volume: &str| CreateSnapshotRequest {
        name: name.to_owned(),
        source_volume_id: volume.to_owned(),
        ..Default::default()
    };
    let nothing = controller
        .create_snapshot(snapshot("s-1", "vol-first"))
        .await;
    assert_eq!(nothing.unwrap_err().code(), Code::NotFound);
    let (first, other) = (driver.create("first").await?, driver.create("other").await?);
    let made = controller.create_snapshot(snapshot("s-1", &first)).await?;
    let made = made.into_inner().snapshot.unwrap();
    assert_eq!((made.size_bytes, made.ready_to_use), (GIB, true));
    let again = controller.create_snapshot(snapshot("s-1", &first)).await?;
    assert_eq!(again.into_inner().snapshot.as_ref(), Some(&made));
    let taken = controller.create_snapshot(snapshot("s-1", &other)).await;
    assert_eq!(taken.unwrap_err().code(), Code::AlreadyExists);

    let get = GetSnapshotRequest {
        snapshot_id: made.snapshot_id.clone(),
        ..Default::default()
    };
    let got = controller.get_snapshot(get.clone()).await?.into_inner();
    assert_eq!(got.snapshot.as_ref(), Some(&made));

    let list = |source_volume_id: &str| ListSnapshotsRequest {
        source_volume_id: source_volume_id.to_owned(),
        ..Default::default()
    };
    let listed = controller.list_snapshots(list(&first)).await?.into_inner();
    assert_eq!(listed.entries.len(), 1);
    let none = controller.list_snapshots(list(&other)).await?.into_inner();
    assert!(none.entries.is_empty());

    let mut copy = create("copy", 0);
    let snapshot_id = made.snapshot_id.clone();
    copy.volume_content_source = Some(VolumeContentSource {
        r#type: Some(Source::Snapshot(SnapshotSource { snapshot_id })),
    });
    let restored = controller.create_volume(copy.clone()).await?.into_inner();
    let restored = restored.volume.unwrap();
    assert_eq!(restored.content_source, copy.volume_content_source);
    let claim = environment.claims().get(&restored.volume_id).await?;
    let source = claim.spec.unwrap().data_source.unwrap();
    assert_eq!(
        (source.kind.as_str(), source.name),
        ("VolumeSnapshot", made.snapshot_id.clone())
    );

    let delete = DeleteSnapshotRequest {
        snapshot_id: made.snapshot_id.clone(),
        ..Default::default()
    };
    controller.delete_snapshot(delete.clone()).await?;
    wait_gone(&environment.snapshots(), &made.snapshot_id, PATIENCE).await?;
    let gone = controller.get_snapshot(get).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound, "{gone:?}");
    controller.delete_snapshot(delete).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn driver_says_who_it_is_and_answers_unimplemented_to_what_it_does_not_advertise()
-> Result<()> {
    let Some(environment) = Environment::new("identity").await? else {
        return Ok(());
    };
    let driver = Driver::start(&environment).await?;
    let info = driver
        .identity()
        .get_plugin_info(GetPluginInfoRequest {})
        .await?
        .into_inner();
    assert_eq!(info.name, "csi.covey.dev");
    let ready = driver
        .identity()
        .probe(ProbeRequest {})
        .await?
        .into_inner()
        .ready;
    assert_eq!(ready, Some(true));
    let mut controller = driver.controller();
    let all = controller
        .controller_get_capabilities(ControllerGetCapabilitiesRequest {})
        .await?;
    let types = all.into_inner().capabilities.into_iter().map(|capability| {
        let Some(Capability::Rpc(rpc)) = capability.r#type else {
            panic!("a capability without a type")
        };
        rpc.r#type()
    });
    assert_eq!(
        types.collect::<Vec<_>>(),
        csi_proxy::server::controller::capabilities(&environment.settings().offer)
    );
    let all = controller
        .get_capacity(GetCapacityRequest::default())
        .await?;
    assert_eq!(all.into_inner().available_capacity, i64::MAX);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volume_says_the_zones_of_its_class_and_is_not_made_elsewhere() -> Result<()> {
    let Some(environment) = Environment::new("zones").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    let mut settings = environment.settings();
    settings.offer.classes[0].zones = vec!["east".to_owned(), "west".to_owned()];
    let driver = Driver::with(&environment, settings, &FaultPlan::none()).await?;
    let request = GetPluginCapabilitiesRequest {};
    let able = driver.identity().get_plugin_capabilities(request).await?;
    let topology = PluginType::Service(Service {
        r#type: Part::VolumeAccessibilityConstraints.into(),
    });
    let all = able.into_inner().capabilities.into_iter();
    assert!(
        all.filter_map(|able| able.r#type)
            .any(|able| able == topology)
    );

    let mut controller = driver.controller();
    let asked = |place: &str| {
        let mut request = create(place, GIB);
        request.accessibility_requirements = Some(TopologyRequirement {
            requisite: vec![zone(place)],
            preferred: vec![zone(place)],
        });
        request
    };
    let made = controller.create_volume(asked("west")).await?.into_inner();
    let zones = [zone("east"), zone("west")];
    assert_eq!(made.volume.unwrap().accessible_topology, zones);
    let refusal = controller.create_volume(asked("north")).await.unwrap_err();
    assert_eq!(refusal.code(), Code::ResourceExhausted, "{refusal:?}");
    let listed = controller
        .list_volumes(ListVolumesRequest::default())
        .await?;
    let [only] = &listed.into_inner().entries[..] else {
        panic!("there is another volume")
    };
    let listed = only.volume.as_ref().unwrap();
    assert_eq!(listed.accessible_topology, zones);
    for (place, some) in [("east", true), ("north", false)] {
        let request = GetCapacityRequest {
            accessible_topology: Some(zone(place)),
            ..Default::default()
        };
        let capacity = controller.get_capacity(request).await?.into_inner();
        assert_eq!(capacity.available_capacity > 0, some, "{place}");
    }
    Ok(())
}
