//! Back to a revision and to a time, on the same data as then.

use std::sync::Arc;

use anyhow::Result;
use backup::etcd::Etcd;
use backup::restore;
use backup::restore::choose::At;
use backup::restore::outcome::NotFound;
use backup::store::directory::Directory;

use super::support::{BUMP, Running, World, put, quick};

#[tokio::test(flavor = "multi_thread")]
async fn any_revision_that_was_backed_up_comes_back_as_it_was() -> Result<()> {
    let Some(mut world) = World::new().await? else {
        return Ok(());
    };
    let store = Arc::new(Directory::new(&world.folder));
    let mut running = Running::start(store.clone(), &world.etcd, world.options(quick(), "a"));
    running.until(|progress| progress.full.is_some()).await?;
    world.write_many(40).await?;
    // As Kubernetes has it for Events.
    world.etcd.grant(4711, 3600).await?;
    let on_lease = world
        .write(vec![put("/registry/events/a", b"x", 4711)])
        .await?;
    world.write_many(20).await?;
    running.durable(world.last()).await?;
    let middle_ms = running.progress.borrow().durable_ms;
    let middle = world.last();
    // A later millisecond, so that the two are told apart.
    testkit::waiting::ask_until("a later time", testkit::waiting::PATIENCE, || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let later = now.is_ok_and(|now| now.as_millis() > u128::from(middle_ms) + 5);
        std::future::ready(Ok(later
            .then_some(())
            .ok_or_else(|| "the same time".to_owned())))
    })
    .await?;
    world.write_many(20).await?;
    running.durable(world.last()).await?;
    running.stop().await?;

    let (revision, restored, member) = world
        .restore(&*store, At::Revision(on_lease), "revision")
        .await?;
    assert_eq!(revision, on_lease);
    assert!(restored == world.history[&on_lease]);
    let etcd = Etcd::new(member.url(), None)?;
    assert_eq!(etcd.granted(4711).await?, Some(3600));
    // Nobody resumes a watch on revisions that mean something else now.
    assert!(etcd.status().await?.revision >= on_lease + BUMP);
    let mut old = etcd.watch(world.last() + 1).await?;
    let created = old.message().await?.unwrap();
    let refused = match created.compact_revision {
        0 => old.message().await?.unwrap().compact_revision,
        compacted => compacted,
    };
    assert!(refused > 0, "a watch from before goes on");

    let (revision, restored, _member) = world.restore(&*store, At::Time(middle_ms), "time").await?;
    assert_eq!(revision, middle);
    assert!(restored == world.history[&middle]);

    let reader = world.reader(&*store);
    let future = restore::find(&reader, At::Revision(world.last() + 1))
        .await
        .unwrap_err();
    let said = future.to_string();
    assert!(
        said.contains(&format!(
            "nearest that can be had is revision {}",
            world.last()
        )),
        "{said}"
    );
    let past = restore::find(&reader, At::Time(1)).await.unwrap_err();
    assert!(matches!(past, NotFound::TooOld), "{past}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_that_does_not_change_is_in_its_snapshot_and_comes_back() -> Result<()> {
    let Some(mut world) = World::new().await? else {
        return Ok(());
    };
    world.write_many(20).await?;
    let store = Arc::new(Directory::new(&world.folder));
    let mut running = Running::start(store.clone(), &world.etcd, world.options(quick(), "a"));
    let progress = running
        .until(|progress| progress.verified.is_some())
        .await?;
    assert_eq!(progress.last_revision(), world.last());
    running.stop().await?;
    // As for one that only looks.
    let mut running = Running::start(store.clone(), &world.etcd, world.options(quick(), "b"));
    let progress = running.until(|progress| progress.looked).await?;
    assert_eq!(progress.last_revision(), world.last());
    running.stop().await?;

    let last = world.last();
    let (revision, restored, _member) = world.restore(&*store, At::Revision(last), "quiet").await?;
    assert_eq!(revision, last);
    assert!(restored == world.history[&last]);
    Ok(())
}
