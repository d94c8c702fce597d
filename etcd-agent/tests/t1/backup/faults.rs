//! A store that answers 503, loses answers, cuts off what is written and what is read, and is away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use anyhow::Result;
use backup::restore::choose::At;
use backup::store::directory::Directory;
use backup::store::{Call, Cause, Created, Page, Store, StoreError};
use bytes::Bytes;
use tokio::sync::watch;

use super::support::{Running, World, quick};

/// A directory behind a bad line.
pub(super) struct Faulty {
    inner: Directory,
    calls: AtomicU32,
    bad: AtomicBool,
    away: AtomicBool,
}

/// What happens to a call.
enum Fault {
    None,
    Refused,
    LostAnswer,
    CutOff,
}

impl Faulty {
    fn new(inner: Directory) -> Self {
        Self {
            inner,
            calls: AtomicU32::new(0),
            bad: AtomicBool::new(true),
            away: AtomicBool::new(false),
        }
    }

    /// Two of three calls go wrong, each kind at another time for each kind of call.
    fn fault(&self) -> Fault {
        if self.away.load(Ordering::SeqCst) {
            return Fault::Refused;
        }
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let mixed = mixed(call);
        match (self.bad.load(Ordering::SeqCst), mixed % 9) {
            (false, _) | (true, 0..=2) => Fault::None,
            (true, 3 | 4) => Fault::Refused,
            (true, 5 | 6) => Fault::LostAnswer,
            (true, _) => Fault::CutOff,
        }
    }
}

/// Neighbours have nothing to do with each other (the end of SplitMix64).
fn mixed(number: u32) -> u64 {
    let mut mixed = (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn failed(call: Call, key: &str, what: &str) -> StoreError {
    StoreError::new(call, key, Cause::Busy, what)
}

impl Store for Faulty {
    async fn create(&self, key: &str, bytes: Bytes) -> Result<Created, StoreError> {
        match self.fault() {
            Fault::None => self.inner.create(key, bytes).await,
            Fault::Refused => Err(failed(Call::Create, key, "503")),
            Fault::LostAnswer => {
                self.inner.create(key, bytes).await?;
                Err(failed(Call::Create, key, "the answer was lost"))
            }
            Fault::CutOff => {
                let half = bytes.slice(..bytes.len() / 2);
                self.inner.create(key, half).await
            }
        }
    }

    async fn get(&self, key: &str, most: usize) -> Result<Bytes, StoreError> {
        match self.fault() {
            Fault::None | Fault::CutOff => self.inner.get(key, most).await,
            Fault::Refused | Fault::LostAnswer => Err(failed(Call::Get, key, "503")),
        }
    }

    async fn list(&self, folder: &str, after: Option<&str>) -> Result<Page, StoreError> {
        match self.fault() {
            Fault::None | Fault::CutOff => self.inner.list(folder, after).await,
            Fault::Refused | Fault::LostAnswer => Err(failed(Call::List, folder, "503")),
        }
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        match self.fault() {
            Fault::None | Fault::CutOff => self.inner.delete(key).await,
            Fault::Refused => Err(failed(Call::Delete, key, "503")),
            Fault::LostAnswer => {
                self.inner.delete(key).await?;
                Err(failed(Call::Delete, key, "the answer was lost"))
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_two_of_three_calls_gets_a_whole_backup() -> Result<()> {
    let Some(mut world) = World::new().await? else {
        return Ok(());
    };
    let clean = Directory::new(&world.folder);
    let store = Arc::new(Faulty::new(clean.clone()));
    let identity = world.sealed(1_000, b"the keys")?;
    let name = identity.name();
    let mut options = world.options(quick(), "a");
    let (_told, of_it) = watch::channel(Some(identity));
    options.identity = of_it;
    let mut running = Running::start(store.clone(), &world.etcd, options);
    // Each has to be written before the next, so that there are many objects.
    for _ in 0..8 {
        world.write_many(15).await?;
        running.durable(world.last()).await?;
        // What is said to be durable is: it is read past the faults.
        let reader = world.reader(&clean);
        let listing = reader.list().await?;
        let full = running.progress.borrow().full.unwrap();
        assert_eq!(reader.verify(full, &listing).await?.revision, world.last());
    }
    running
        .until(|progress| progress.identity == Some(name))
        .await?;
    let reader = world.reader(&clean);
    let document = reader.open_identity(name, &world.recovery).await?;
    assert_eq!(document, b"the keys");
    store.bad.store(false, Ordering::SeqCst);
    world.write_many(15).await?;
    running.durable(world.last()).await?;
    running.stop().await?;
    let (revision, restored, _member) = world.restore(&clean, At::Latest, "restored").await?;
    assert_eq!(revision, world.last());
    assert!(restored == world.history[&revision]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_durable_while_the_store_is_away_and_all_of_it_is_when_it_is_back() -> Result<()>
{
    let Some(mut world) = World::new().await? else {
        return Ok(());
    };
    let clean = Directory::new(&world.folder);
    let store = Arc::new(Faulty::new(clean.clone()));
    store.bad.store(false, Ordering::SeqCst);
    let mut running = Running::start(store.clone(), &world.etcd, world.options(quick(), "a"));
    world.write_many(10).await?;
    running.durable(world.last()).await?;
    let before = world.last();
    store.away.store(true, Ordering::SeqCst);
    world.write_many(200).await?;
    // A second backup gets as far as it can: whatever the first one does meanwhile, it is not that.
    assert_eq!(running.progress.borrow().durable, before);
    store.away.store(false, Ordering::SeqCst);
    running.durable(world.last()).await?;
    running.stop().await?;
    let reader = world.reader(&clean);
    let listing = reader.list().await?;
    let oldest = *listing.fulls.first().unwrap();
    // No gap came of it, and no second snapshot.
    assert_eq!(listing.fulls.len(), 1);
    assert_eq!(
        reader.verify(oldest, &listing).await?.revision,
        world.last()
    );
    Ok(())
}
