//! What one tenant cluster may have in the management cluster, and what a flood in it may cost.

use std::sync::Arc;

use anyhow::Result;
use csi_proxy::settings::{Offer, Settings};
use kit_client::args::ClientArgs;
use kube::api::ListParams;
use proto::csi::{CreateSnapshotRequest, DeleteSnapshotRequest};
use testkit::FaultPlan;
use testkit::fixtures::ask_until;
use tonic::Code;

use crate::support::{Driver, Environment, Fakes, PATIENCE};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volumes_and_snapshots_over_the_limit_are_refused_and_repeats_are_not() -> Result<()> {
    let Some(environment) = Environment::new("limits").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    let settings = environment.settings();
    let offer = Offer {
        max_volumes: Some(3),
        max_snapshots: Some(1),
        ..settings.offer.clone()
    };
    let settings = Settings { offer, ..settings };
    let driver = Driver::with(&environment, settings, &FaultPlan::none()).await?;
    // Of calls at the same time as many succeed as there are places.
    let all = (0..6).map(|number| {
        let driver = &driver;
        async move { driver.create(&format!("v{number}")).await }
    });
    let answers = futures::future::join_all(all).await;
    let (made, over): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((made.len(), over.len()), (3, 3), "{over:?}");
    for refusal in over.into_iter().filter_map(Result::err) {
        assert_eq!(refusal.code(), Code::ResourceExhausted, "{refusal:?}");
        let told = refusal.message();
        assert!(
            told.contains("as many volumes as it may have (3)"),
            "{told}"
        );
        assert!(!told.contains(&environment.ns), "{told}");
    }
    let claims = environment.claims().list(&ListParams::default()).await?;
    assert_eq!(claims.items.len(), 3);
    let ids: Vec<_> = made.into_iter().filter_map(Result::ok).collect();
    for id in &ids {
        let name = id.strip_prefix("vol-").unwrap_or(id);
        assert_eq!(driver.create(name).await?, *id, "a repeat needs no place");
    }

    let mut controller = driver.controller();
    let snapshot = |name: &str| CreateSnapshotRequest {
        source_volume_id: ids[0].clone(),
        name: name.to_owned(),
        ..Default::default()
    };
    let made = controller.create_snapshot(snapshot("s-1")).await?;
    controller.create_snapshot(snapshot("s-1")).await?;
    let over = controller.create_snapshot(snapshot("s-2")).await;
    let over = over.unwrap_err();
    assert_eq!(over.code(), Code::ResourceExhausted, "{over:?}");
    assert!(
        over.message()
            .contains("as many snapshots as it may have (1)")
    );
    let snapshot_id = made.into_inner().snapshot.unwrap().snapshot_id;
    controller
        .delete_snapshot(DeleteSnapshotRequest {
            snapshot_id,
            ..Default::default()
        })
        .await?;
    controller.create_snapshot(snapshot("s-2")).await?;

    driver.delete(&ids[1]).await?;
    driver.create("after").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flood_of_claims_does_not_keep_a_volume_on_a_machine() -> Result<()> {
    const FLOOD: usize = 120;
    let Some(environment) = Environment::new("flood").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    environment.machine("a").await?;
    // So slow that the flood is not done with while the test runs.
    let slow = ClientArgs {
        qps: 0.2,
        burst: 60,
        ..ClientArgs::default()
    };
    let driver = Arc::new(Driver::limited(&environment, &slow).await?);
    let id = driver.create("first").await?;
    driver.publish(&id, "a").await?;
    let flood: Vec<_> = (0..FLOOD)
        .map(|number| {
            let driver = Arc::clone(&driver);
            tokio::spawn(async move { driver.create(&format!("flood-{number}")).await })
        })
        .collect();
    let claims = environment.claims();
    ask_until("the flood has begun", PATIENCE, || async {
        let there = claims.list(&ListParams::default()).await?.items.len();
        Ok(match there > 20 {
            true => Ok(()),
            false => Err(format!("{there} claims")),
        })
    })
    .await?;
    driver.unpublish(&id, "a").await?;
    environment.vm("a", |machine| !machine.has(&id)).await?;
    // Judged by what was done before it, not by how long it took.
    let there = claims.list(&ListParams::default()).await?.items.len();
    assert!(there < FLOOD, "{there} claims: the flood was over");
    flood.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(())
}
