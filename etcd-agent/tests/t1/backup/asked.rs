//! Full snapshots that somebody asks for.

use std::sync::Arc;

use anyhow::Result;
use backup::questions::{Answer, Question};
use backup::store::directory::Directory;
use backup_format::FullName;
use tokio::sync::oneshot;

use super::support::{Running, World, quick};

async fn of(running: &Running, full: FullName, keep_until_ms: Option<u64>) -> Result<Answer> {
    let (answer, said) = oneshot::channel();
    let question = Question::Of {
        full,
        keep_until_ms,
        answer,
    };
    running.questions.send(question).await?;
    Ok(said.await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshot_is_taken_once_however_often_it_is_asked_for_and_says_what_it_is() -> Result<()> {
    let Some(mut world) = World::new().await? else {
        return Ok(());
    };
    let store = Arc::new(Directory::new(&world.folder));
    let mut running = Running::start(store.clone(), &world.etcd, world.options(quick(), "a"));
    let progress = running.until(|progress| progress.full.is_some()).await?;
    assert_eq!(progress.cluster, world.scope.cluster);
    let first = progress.full.unwrap();
    world.write_many(10).await?;
    running.durable(world.last()).await?;

    let after = Some(first);
    for _ in 0..3 {
        running.questions.send(Question::Full { after }).await?;
    }
    let progress = running.until(|progress| progress.full != after).await?;
    let second = progress.full.unwrap();
    assert!(second.revision >= world.last(), "{second} {}", world.last());
    // Asked once more after it came, or for one that no snapshot could follow: nothing is done.
    running.questions.send(Question::Full { after }).await?;
    let never = FullName {
        revision: u64::MAX,
        ..second
    };
    let after = Some(never);
    running.questions.send(Question::Full { after }).await?;
    running
        .until(|progress| progress.verified == Some(second))
        .await?;
    assert_eq!(world.reader(&*store).list().await?.fulls.len(), 2);

    let Answer::Is(said) = of(&running, second, Some(9_000_000_000_000)).await? else {
        panic!("it is there");
    };
    assert!(
        said.key.ends_with(&format!("full/{second}/head")),
        "{said:?}"
    );
    assert!(said.bytes > 0 && said.is_verified, "{said:?}");
    assert_eq!(said.kept_until_ms, Some(9_000_000_000_000));
    assert_eq!(of(&running, never, None).await?, Answer::Gone);
    running.stop().await?;

    // What was said to be kept is in the store alone.
    let running = &mut Running::start(store.clone(), &world.etcd, world.options(quick(), "b"));
    running.until(|progress| progress.looked).await?;
    let Answer::Is(said) = of(running, second, Some(1)).await? else {
        panic!("it is there");
    };
    assert_eq!(said.kept_until_ms, Some(9_000_000_000_000));
    Ok(())
}
