//! Damage and holes: an older snapshot takes over, and what cannot be had is named.

use std::sync::Arc;

use anyhow::Result;
use backup::plan::Settings;
use backup::restore;
use backup::restore::choose::At;
use backup::restore::outcome::NotFound;
use backup::store::Store as _;
use backup::store::directory::Directory;

use super::support::{Running, World, objects, quick};

/// A snapshot after this many revisions.
fn often() -> Settings {
    Settings {
        full_after_revisions: 40,
        ..quick()
    }
}

/// A backup with two snapshots at least and deltas before, between and after.
async fn two_snapshots(world: &mut World, store: &Arc<Directory>) -> Result<()> {
    let mut running = Running::start(store.clone(), &world.etcd, world.options(often(), "a"));
    running.until(|progress| progress.full.is_some()).await?;
    let first = running.progress.borrow().full;
    for _ in 0..6 {
        world.write_many(10).await?;
        running.durable(world.last()).await?;
    }
    running.until(|progress| progress.full != first).await?;
    world.write_many(10).await?;
    running.durable(world.last()).await?;
    running.stop().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_snapshot_is_passed_over_for_the_one_before_and_its_deltas() -> Result<()> {
    let Some(mut world) = World::new().await? else {
        return Ok(());
    };
    let store = Arc::new(Directory::new(&world.folder));
    two_snapshots(&mut world, &store).await?;
    let listing = world.reader(&*store).list().await?;
    let newest = listing.newest_full().unwrap();
    let part = objects(&world.folder)
        .into_iter()
        .find(|(name, _)| name.contains(&format!("{newest}/000000")))
        .unwrap()
        .1;
    let mut bytes = std::fs::read(&part)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&part, bytes)?;

    let found = restore::find(&world.reader(&*store), At::Latest).await?;
    assert!(found.full < newest);
    let (revision, restored, _member) = world.restore(&*store, At::Latest, "restored").await?;
    assert_eq!(revision, world.last());
    assert!(restored == world.history[&revision]);

    // With a delta missing too, nothing leads to the end any more: that is said, and nothing skipped.
    let gone = newest.next - 1;
    assert!(
        gone > listing.fulls.iter().rev().nth(1).unwrap().next,
        "{listing:?}"
    );
    let key = format!("p/{}delta/{gone:020}", world.scope.folder());
    store.delete(&key).await?;
    let refused = restore::find(&world.reader(&*store), At::Latest)
        .await
        .unwrap_err();
    let said = refused.to_string();
    let NotFound::Holes { nearest, .. } = refused else {
        panic!("{said}");
    };
    assert!(
        said.contains(&format!("deltas {gone} to {gone} are missing")),
        "{said}"
    );
    assert!(
        said.contains("its bytes are not those that were written"),
        "{said}"
    );
    // What it offers instead can be had.
    let (nearest, _) = nearest.unwrap();
    let at = At::Revision(nearest);
    let (revision, restored, _member) = world.restore(&*store, at, "nearest").await?;
    assert_eq!(revision, nearest);
    assert!(restored == world.history[&revision]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_compacted_before_it_was_backed_up_is_a_hole_and_a_snapshot_follows() -> Result<()>
{
    let Some(mut world) = World::new().await? else {
        return Ok(());
    };
    let store = Arc::new(Directory::new(&world.folder));
    let start =
        |world: &World| Running::start(store.clone(), &world.etcd, world.options(quick(), "a"));
    let mut running = start(&world);
    world.write_many(10).await?;
    running.durable(world.last()).await?;
    running.stop().await?;
    let before = world.last();
    world.write_many(30).await?;
    world.site.compact(&world.member, world.last() - 5)?;
    let mut running = start(&world);
    running
        .until(|progress| progress.full.is_some_and(|full| full.revision > before))
        .await?;
    world.write_many(10).await?;
    running.durable(world.last()).await?;
    running.stop().await?;

    let reader = world.reader(&*store);
    let lost = restore::find(&reader, At::Revision(before + 3))
        .await
        .unwrap_err();
    let said = lost.to_string();
    assert!(
        said.contains(&format!("between revisions {before} and")),
        "{said}"
    );
    assert!(
        said.contains(&format!("nearest that can be had is revision {before}")),
        "{said}"
    );
    let at = At::Revision(before);
    let (revision, restored, _member) = world.restore(&*store, at, "before").await?;
    assert!(revision == before && restored == world.history[&before]);
    let (revision, restored, _member) = world.restore(&*store, At::Latest, "latest").await?;
    assert!(revision == world.last() && restored == world.history[&revision]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delta_that_is_damaged_at_the_end_is_followed_by_a_snapshot() -> Result<()> {
    let Some(mut world) = World::new().await? else {
        return Ok(());
    };
    let store = Arc::new(Directory::new(&world.folder));
    let start =
        |world: &World| Running::start(store.clone(), &world.etcd, world.options(quick(), "a"));
    let mut running = start(&world);
    world.write_many(10).await?;
    running.durable(world.last()).await?;
    running.stop().await?;
    let newest = objects(&world.folder)
        .into_iter()
        .rfind(|(name, _)| name.contains("/delta/"));
    std::fs::write(newest.unwrap().1, "cut off by a power failure")?;
    let before = world.reader(&*store).list().await?.fulls.len();
    let mut running = start(&world);
    world.write_many(10).await?;
    running.durable(world.last()).await?;
    let first = running.progress.borrow().full.unwrap();
    running
        .until(|progress| progress.verified.is_some_and(|full| full >= first))
        .await?;
    running.stop().await?;
    let listing = world.reader(&*store).list().await?;
    assert!(listing.fulls.len() > before);
    let (revision, restored, _member) = world.restore(&*store, At::Latest, "latest").await?;
    assert!(revision == world.last() && restored == world.history[&revision]);
    Ok(())
}
