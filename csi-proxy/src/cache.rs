//! Cache of watched claims, virtual machines, instances and snapshots.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`objects`] | pure: what is remembered of each of them |
//! | [`state`] | pure: all of them, and the questions that are asked |
//! | [`watches`] | the table of watches |
//!
//! Invariant: nothing is decided here. What an API answered is believed until a watch tells something
//! newer, and not at all once a watch has told of a later time: an answer that was on its way while its
//! object was deleted brings nothing back. Nothing is read from here before every watch has been
//! through once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::foreign::kubevirt::{VirtualMachine, VirtualMachineInstance};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::DynamicObject;
use tokio::sync::watch;

use self::objects::{Instance, Machine, Snapshot, Version, Volume};
use self::state::State;

pub mod objects;
pub mod state;
pub mod watches;

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Claims.
    Volume,
    /// Virtual machines.
    Machine,
    /// Their instances.
    Instance,
    /// VolumeSnapshots.
    Snapshot,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Volume, Self::Machine, Self::Instance, Self::Snapshot];
}

/// An object as the API writes it.
#[derive(Clone, Debug)]
pub enum Object {
    /// A claim.
    Claim(Box<PersistentVolumeClaim>),
    /// A virtual machine.
    Vm(Box<VirtualMachine>),
    /// An instance.
    Vmi(Box<VirtualMachineInstance>),
    /// A VolumeSnapshot.
    Snapshot(Box<DynamicObject>),
}

/// What a watch tells.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    /// It begins to list a kind anew.
    Init(Kind),
    /// An object is there, or changed.
    Applied(Object),
    /// An object of this name is there and cannot be read: what was known of it holds.
    Unreadable(Kind, String),
    /// An object is gone.
    Deleted(Object),
    /// An object of this name is gone that could not be read.
    DeletedUnread(Kind, String),
    /// It has listed a kind; what it did not name is gone.
    InitDone(Kind),
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    /// Watches that began anew and have not been through.
    listing: BTreeMap<Kind, Listing>,
    /// Up to which version a watch has told everything (KEP-5504: versions of one resource are ordered,
    /// and those of events only grow).
    told: BTreeMap<Kind, u64>,
    synced: BTreeSet<Kind>,
}

/// What a watch named since it began anew.
#[derive(Debug, Default)]
struct Listing {
    names: BTreeSet<String>,
    /// The newest version among them: a list has no order, so it tells nothing before its end.
    newest: u64,
}

impl Inner {
    /// A watch told of this version.
    fn tell(&mut self, kind: Kind, version: u64) {
        let newest = match self.listing.get_mut(&kind) {
            Some(listing) => &mut listing.newest,
            None => self.told.entry(kind).or_default(),
        };
        *newest = version.max(*newest);
    }
}

/// Shared by watches, calls and controllers.
#[derive(Debug)]
pub struct Cache {
    cluster_uid: String,
    inner: Mutex<Inner>,
    changes: watch::Sender<u64>,
}

impl Cache {
    /// Nothing seen yet, of the tenant cluster with this UID.
    #[must_use]
    pub fn new(cluster_uid: &str) -> Self {
        Self {
            cluster_uid: cluster_uid.to_owned(),
            inner: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    /// What is not listed yet.
    #[must_use]
    pub fn missing(&self) -> Vec<Kind> {
        let inner = self.lock();
        Kind::ALL
            .into_iter()
            .filter(|kind| !inner.synced.contains(kind))
            .collect()
    }

    /// Waits until everything has been listed once.
    pub async fn listed(&self) {
        let mut changes = self.changes.subscribe();
        // The sender is ours, so waiting cannot fail.
        let _ = changes.wait_for(|_| self.missing().is_empty()).await;
    }

    /// Reads what there is.
    pub fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.lock().state)
    }

    /// Reads now and after every change, until there is a result or patience ends.
    pub async fn wait<T>(
        &self,
        patience: Duration,
        mut read: impl FnMut(&State) -> Option<T>,
    ) -> Option<T> {
        let mut changes = self.changes.subscribe();
        let found = async {
            loop {
                changes.mark_unchanged();
                if let Some(found) = self.read(&mut read) {
                    return found;
                }
                // The sender is ours, so waiting cannot fail.
                let _ = changes.changed().await;
            }
        };
        tokio::time::timeout(patience, found).await.ok()
    }

    /// Told after every change.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Takes in what a watch tells.
    pub fn observe(&self, event: &WatchEvent) {
        match event {
            WatchEvent::Init(kind) => self.begin(*kind),
            WatchEvent::Applied(object) => self.apply(object, Source::Watch),
            WatchEvent::Unreadable(kind, name) => self.unreadable(*kind, name),
            WatchEvent::Deleted(object) => self.delete(object),
            WatchEvent::DeletedUnread(kind, name) => self.forget(*kind, name),
            WatchEvent::InitDone(kind) => self.end(*kind),
        }
    }

    /// Takes in what the API answered to a request of ours; a watch tells it later, or has told already
    /// what became of it.
    pub fn observe_answer(&self, object: &Object) {
        self.apply(object, Source::Answer);
    }

    fn begin(&self, kind: Kind) {
        self.lock().listing.insert(kind, Listing::default());
    }

    fn unreadable(&self, kind: Kind, name: &str) {
        if let Some(listed) = self.lock().listing.get_mut(&kind) {
            listed.names.insert(name.to_owned());
        }
    }

    fn end(&self, kind: Kind) {
        let mut inner = self.lock();
        let listed = inner.listing.remove(&kind).unwrap_or_default();
        inner.synced.insert(kind);
        inner.tell(kind, listed.newest);
        retain(&mut inner.state, kind, |name| listed.names.contains(name));
        drop(inner);
        self.notify();
    }

    fn forget(&self, kind: Kind, name: &str) {
        retain(&mut self.lock().state, kind, |known| known != name);
        self.notify();
    }

    fn apply(&self, object: &Object, source: Source) {
        let Some((kind, known)) = Known::read(object, &self.cluster_uid) else {
            return;
        };
        let mut inner = self.lock();
        let version = known.version().number;
        match source {
            Source::Watch => inner.tell(kind, version),
            Source::Answer if inner.told.get(&kind).is_some_and(|told| version <= *told) => return,
            Source::Answer => {}
        }
        let Inner { state, listing, .. } = &mut *inner;
        let name = match known {
            Known::Volume(volume) => put(&mut state.volumes, volume.id.clone(), volume),
            Known::Machine(machine) => put(&mut state.machines, machine.name.clone(), machine),
            Known::Instance(instance) => put(&mut state.instances, instance.name.clone(), instance),
            Known::Snapshot(snapshot) => put(&mut state.snapshots, snapshot.id.clone(), snapshot),
        };
        if let Some(listed) = listing.get_mut(&kind) {
            listed.names.insert(name);
        }
        drop(inner);
        self.notify();
    }

    fn delete(&self, object: &Object) {
        let Some((kind, gone)) = Known::read(object, &self.cluster_uid) else {
            return;
        };
        let mut inner = self.lock();
        inner.tell(kind, gone.version().number);
        let state = &mut inner.state;
        match &gone {
            Known::Volume(volume) => take(&mut state.volumes, &volume.id, volume),
            Known::Machine(machine) => take(&mut state.machines, &machine.name, machine),
            Known::Instance(instance) => take(&mut state.instances, &instance.name, instance),
            Known::Snapshot(snapshot) => take(&mut state.snapshots, &snapshot.id, snapshot),
        }
        drop(inner);
        self.notify();
    }

    fn notify(&self) {
        self.changes
            .send_modify(|number| *number = number.wrapping_add(1));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets all others of a kind.
fn retain(state: &mut State, kind: Kind, stays: impl Fn(&str) -> bool) {
    match kind {
        Kind::Volume => state.volumes.retain(|name, _| stays(name)),
        Kind::Machine => state.machines.retain(|name, _| stays(name)),
        Kind::Instance => state.instances.retain(|name, _| stays(name)),
        Kind::Snapshot => state.snapshots.retain(|name, _| stays(name)),
    }
}

/// Who says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Watch,
    Answer,
}

/// What is remembered of an object.
enum Known {
    Volume(Volume),
    Machine(Machine),
    Instance(Instance),
    Snapshot(Snapshot),
}

impl Known {
    /// None: it is none of ours.
    fn read(object: &Object, cluster_uid: &str) -> Option<(Kind, Self)> {
        Some(match object {
            Object::Claim(claim) => {
                let volume = Volume::read(claim, cluster_uid)?;
                (Kind::Volume, Self::Volume(volume))
            }
            Object::Vm(vm) => (Kind::Machine, Self::Machine(Machine::read(vm))),
            Object::Vmi(vmi) => (Kind::Instance, Self::Instance(Instance::read(vmi))),
            Object::Snapshot(object) => {
                let snapshot = Snapshot::read(object, cluster_uid)?;
                (Kind::Snapshot, Self::Snapshot(snapshot))
            }
        })
    }

    const fn version(&self) -> &Version {
        match self {
            Self::Volume(volume) => &volume.version,
            Self::Machine(machine) => &machine.version,
            Self::Instance(instance) => &instance.version,
            Self::Snapshot(snapshot) => &snapshot.version,
        }
    }
}

trait Versioned {
    fn version(&self) -> &Version;
}

macro_rules! versioned {
    ($($kind:ty),*) => {
        $(impl Versioned for $kind {
            fn version(&self) -> &Version {
                &self.version
            }
        })*
    };
}

versioned!(Volume, Machine, Instance, Snapshot);

/// Keeps the newer of two; the name is given back.
fn put<T: Versioned>(all: &mut BTreeMap<String, T>, name: String, new: T) -> String {
    let newer = |old: &T| old.version().number <= new.version().number;
    if all.get(&name).is_none_or(newer) {
        all.insert(name.clone(), new);
    }
    name
}

/// Takes away what is gone, unless one of the same name is there already.
fn take<T: Versioned>(all: &mut BTreeMap<String, T>, name: &str, gone: &T) {
    if all
        .get(name)
        .is_some_and(|old| old.version().uid == gone.version().uid)
    {
        all.remove(name);
    }
}

#[cfg(test)]
mod tests;
