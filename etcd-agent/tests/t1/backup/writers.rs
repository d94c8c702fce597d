//! Two backups of one tenant cluster at once.

use std::sync::Arc;

use anyhow::Result;
use backup::engine::Ended;
use backup::restore::choose::At;
use backup::store::directory::Directory;

use super::support::{Running, World, quick};

#[tokio::test(flavor = "multi_thread")]
async fn of_two_backups_one_ends_and_there_is_one_chain() -> Result<()> {
    let Some(mut world) = World::new().await? else {
        return Ok(());
    };
    let store = Arc::new(Directory::new(&world.folder));
    let start = |world: &World, name: &str| {
        Running::start(store.clone(), &world.etcd, world.options(quick(), name))
    };
    let mut first = start(&world, "first");
    world.write_many(20).await?;
    first.durable(world.last()).await?;
    // A partition is over, or a pod was made anew before the old one was gone.
    let second = start(&world, "second");
    let mut ended = [Some(first), Some(second)];
    let mut alive = loop {
        world.write_many(10).await?;
        let progress = ended
            .iter()
            .flatten()
            .map(|running| running.progress.clone());
        let mut progress: Vec<_> = progress.collect();
        // One of them has it, and the other one has met it or will.
        let last = world.last();
        let all = progress
            .iter_mut()
            .map(|p| Box::pin(p.wait_for(move |p| p.durable >= last)));
        let (_, _, _) = futures::future::select_all(all).await;
        let over = ended
            .iter()
            .position(|r| r.as_ref().is_some_and(Running::is_over));
        if let Some(over) = over {
            let loser = ended[over].take().unwrap();
            assert!(matches!(loser.ended().await, Err(Ended::Another)));
            break ended.into_iter().flatten().next().unwrap();
        }
    };
    world.write_many(20).await?;
    alive.durable(world.last()).await?;
    alive.stop().await?;

    let reader = world.reader(&*store);
    let listing = reader.list().await?;
    let numbers: Vec<_> = listing.deltas.keys().copied().collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    let oldest = *listing.fulls.first().unwrap();
    let reach = reader.verify(oldest, &listing).await?;
    assert_eq!(reach.revision, world.last());
    let (revision, restored, _member) = world.restore(&*store, At::Latest, "restored").await?;
    assert_eq!(revision, world.last());
    assert!(restored == world.history[&revision]);
    Ok(())
}
