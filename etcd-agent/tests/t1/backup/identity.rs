//! The tenant cluster's identity beside its backup.

use std::sync::Arc;

use anyhow::Result;
use backup::reader::ReadError;
use backup::store::Store;
use backup::store::directory::Directory;
use backup_format::{IdentityName, Name, SealedIdentity};
use tokio::sync::watch;

use super::support::{Running, World, objects, quick};

type Told = watch::Sender<Option<Arc<SealedIdentity>>>;

fn start<S: Store>(world: &World, store: &Arc<S>, writer: &str) -> (Running, Told) {
    let (told, identity) = watch::channel(None);
    let mut options = world.options(quick(), writer);
    options.identity = identity;
    (Running::start(store.clone(), &world.etcd, options), told)
}

async fn opened<S: Store>(
    world: &World,
    store: &S,
    name: IdentityName,
) -> Result<Vec<u8>, ReadError> {
    world
        .reader(store)
        .open_identity(name, &world.recovery)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn identity_is_kept_beside_the_one_before_and_the_recovery_key_alone_opens_both() -> Result<()>
{
    let Some(world) = World::new().await? else {
        return Ok(());
    };
    let store = Arc::new(Directory::new(&world.folder));
    let (mut running, told) = start(&world, &store, "a");
    running
        .until(|progress| progress.verified.is_some())
        .await?;
    assert_eq!(running.progress.borrow().identity, None);
    let mut names = vec![];
    for (sealed_ms, document) in [(1_000, b"the keys"), (2_000, b"new keys")] {
        let sealed = world.sealed(sealed_ms, document)?;
        names.push(sealed.name());
        told.send_replace(Some(sealed));
        running
            .until(|progress| progress.identity == names.last().copied())
            .await?;
    }
    running.stop().await?;
    let listing = world.reader(&*store).list().await?;
    assert_eq!(Vec::from_iter(listing.identities), names);
    assert_eq!(opened(&world, &*store, names[0]).await?, b"the keys");
    assert_eq!(opened(&world, &*store, names[1]).await?, b"new keys");
    // The process that copied it, and who has all that it has, cannot read it.
    for (name, path) in objects(&world.folder) {
        let bytes = std::fs::read(path)?;
        assert!(!bytes.windows(4).any(|four| four == b"keys"), "{name}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn identity_that_is_damaged_or_deleted_comes_back_and_one_of_another_process_is_as_good()
-> Result<()> {
    let Some(world) = World::new().await? else {
        return Ok(());
    };
    let store = Arc::new(Directory::new(&world.folder));
    let sealed = world.sealed(1_000, b"the keys")?;
    let key = format!(
        "p/{}{}",
        world.scope.folder(),
        Name::Identity(sealed.name())
    );
    let path = world.folder.join(&key);
    type Way = fn(&std::path::Path) -> std::io::Result<()>;
    let ways: [(&str, Way); 4] = [
        ("cut off", |path| std::fs::write(path, b"COVEYBK\n")),
        ("another's", |path| {
            let mut bytes = std::fs::read(path)?;
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            std::fs::write(path, bytes)
        }),
        ("deleted", |path| std::fs::remove_file(path)),
        ("as it was", |_| Ok(())),
    ];
    for (what, harm) in ways {
        let (mut running, told) = start(&world, &store, "a");
        told.send_replace(Some(sealed.clone()));
        running
            .until(|progress| progress.identity == Some(sealed.name()))
            .await?;
        running.stop().await?;
        assert_eq!(
            opened(&world, &*store, sealed.name()).await?,
            b"the keys",
            "{what}"
        );
        harm(&path)?;
    }
    // Two at once write the same, and neither ends for that.
    std::fs::remove_file(&path)?;
    let (mut one, told_one) = start(&world, &store, "one");
    let (mut other, told_other) = start(&world, &store, "other");
    told_one.send_replace(Some(sealed.clone()));
    told_other.send_replace(Some(sealed.clone()));
    one.until(|progress| progress.identity.is_some()).await?;
    other.until(|progress| progress.identity.is_some()).await?;
    one.stop().await?;
    other.stop().await?;
    assert_eq!(opened(&world, &*store, sealed.name()).await?, b"the keys");
    Ok(())
}
